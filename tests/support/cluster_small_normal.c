/*
 * States that behave alike are made equal, or the search would visit each of them: numbers of which
 * only the equality or the order matters are given out anew, times that are over are cleared, and
 * so is what a role does not use.
 */
#include <stddef.h>
#include <string.h>

#include "tests/support/cluster_small.h"

#define REVISIONS (1 + 3 * SMALL_SERVERS)
#define OWN_BY(index) (16 * ((uint64_t)(index) + 1))

/* ---- numbers ---- */

static unsigned list_revisions(struct small_world *world, uint64_t *list[REVISIONS])
{
    unsigned count = 0;

    list[count++] = &world->revision;
    for (unsigned i = 0; i < world->left.servers; i++) {
        list[count++] = &world->servers[i].protocol.revision;
        list[count++] = &world->servers[i].request.revision;
        list[count++] = &world->servers[i].late.revision;
    }
    return count;
}

/* In their order; 0 is none. */
static void number_revisions(struct small_world *world)
{
    uint64_t *list[REVISIONS], ranks[REVISIONS];
    unsigned count = list_revisions(world, list);

    for (unsigned i = 0; i < count; i++) {
        ranks[i] = *list[i] > 0;
        for (unsigned k = 0; k < count; k++) {
            bool is_first = true;
            for (unsigned j = 0; j < k; j++)
                is_first &= *list[j] != *list[k];
            ranks[i] += is_first && *list[k] > 0 && *list[k] < *list[i];
        }
    }
    for (unsigned i = 0; i < count; i++)
        *list[i] = ranks[i];
}

/* A value is known again by its sender only, and only while that one asks for it. */
static uint64_t name_of(const uint64_t asked[SMALL_SERVERS], uint64_t by)
{
    for (unsigned i = 0; i < SMALL_SERVERS; i++)
        if (asked[i] != 0 && asked[i] == by)
            return OWN_BY(i);
    return 0;
}

static void name_changes(struct small_world *world)
{
    uint64_t asked[SMALL_SERVERS] = {0};

    for (unsigned i = 0; i < world->left.servers; i++)
        if (world->servers[i].protocol.is_proposing)
            asked[i] = world->servers[i].protocol.proposed.by;
    world->key.by = name_of(asked, world->key.by);
    for (unsigned i = 0; i < world->left.servers; i++) {
        struct small_server *server = &world->servers[i];
        server->request.key.by = name_of(asked, server->request.key.by);
        server->late.key.by = name_of(asked, server->late.key.by);
        server->protocol.key.by = 0;
        server->protocol.proposed.by = asked[i] ? OWN_BY(i) : 0;
        server->protocol.nonce = server->is_up ? OWN_BY(i) : 0;
    }
}

/* ---- a server ---- */

static void clear_past(uint64_t *time_us, uint64_t now_us)
{
    if (*time_us <= now_us)
        *time_us = 0;
}

static void raise_to(uint64_t *time_us, uint64_t least_us)
{
    if (*time_us < least_us)
        *time_us = least_us;
}

static void clear_peer(struct okv_peer *peer, uint64_t valid_until_us, uint64_t now_us)
{
    const size_t hole = offsetof(struct okv_peer, is_required) + sizeof peer->is_required;

    memset((char *)peer + hole, 0, offsetof(struct okv_peer, join_at_us) - hole);
    clear_past(&peer->join_at_us, now_us);
    clear_past(&peer->not_before_us, now_us);
    peer->added_us = 0;
    if (peer->grant_us < valid_until_us) /* it neither covers nor raises what was told */
        peer->grant_us = 0;
}

static void clear_primary(struct okv_protocol *protocol, uint64_t now_us)
{
    protocol->leader = 0;
    protocol->suspect_at_us = 0;
    protocol->owed_us = protocol->owed = 0;
    protocol->is_suspecting = false;
    clear_past(&protocol->phase_end_us, now_us);
    if (protocol->phase == OKV_HAND_OVER_NONE)
        protocol->successor = protocol->phase_end_us = 0;
    if (protocol->phase != OKV_HAND_OVER_DRAIN)
        protocol->is_drained = false;
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (protocol->peers[i].member.server != 0)
            clear_peer(&protocol->peers[i], protocol->status.valid_until_us, now_us);
}

static void clear_copy(struct okv_protocol *protocol, uint64_t now_us)
{
    memset(protocol->peers, 0, sizeof protocol->peers);
    protocol->first = protocol->serve_at_us = protocol->beat_at_us = 0;
    protocol->successor = protocol->phase_end_us = 0;
    protocol->is_drained = false;
    if (protocol->owed == 0)
        protocol->owed_us = 0;
    if (protocol->role == OKV_ROLE_CANDIDATE || protocol->is_suspecting)
        protocol->suspect_at_us = 0;
    else /* it is as late as can be */
        raise_to(&protocol->suspect_at_us, now_us - protocol->options.beat_us - 1);
}

static void clear_protocol(struct okv_protocol *protocol, uint64_t now_us)
{
    uint64_t longest = protocol->options.suspect_us;

    if (longest < protocol->options.lease_us)
        longest = protocol->options.lease_us;
    if (protocol->role == OKV_ROLE_PRIMARY)
        clear_primary(protocol, now_us);
    else
        clear_copy(protocol, now_us);
    if (protocol->role != OKV_ROLE_COPY || protocol->told <= protocol->published)
        protocol->told = 0;
    clear_past(&protocol->trusted_us, now_us);
    protocol->joined_us = 0; /* messages come in order */
    raise_to(&protocol->promised_us, now_us - longest);
    clear_past(&protocol->retry_us, now_us);
    if (protocol->released < protocol->epoch || protocol->role == OKV_ROLE_PRIMARY)
        protocol->released = 0;
    if (!protocol->is_proposing)
        memset(&protocol->proposed, 0, sizeof protocol->proposed);
}

/* ---- the world ---- */

static void clear_requests(struct small_world *world, unsigned index)
{
    struct small_server *server = &world->servers[index];

    if (!server->protocol.is_asking || server->request.request != server->protocol.request)
        small_etcd_forget(world, index);
    if (server->late.state != SMALL_REQUEST_NONE && server->late.revision != world->revision)
        memset(&server->late, 0, sizeof server->late);
    server->late.request = 0;
    server->request.request = server->request.state != SMALL_REQUEST_NONE;
    server->protocol.request = server->is_up;
}

static void clear_links(struct small_world *world, unsigned index)
{
    const struct small_server *server = &world->servers[index];

    for (unsigned i = 0; i < world->left.servers; i++) {
        struct small_link *link = &world->links[index][i];
        if (server->is_up && server->protocol.role == OKV_ROLE_PRIMARY)
            continue;
        if (link->down_count == 0) {
            memset(link, 0, sizeof *link);
            continue;
        }
        memset(link->up, 0, sizeof link->up); /* it listens to no copy */
        link->up_count = 0;
    }
}

void small_normalise(struct small_world *world)
{
    for (unsigned i = 0; i < world->left.servers; i++) {
        struct small_server *server = &world->servers[i];
        clear_requests(world, i);
        clear_links(world, i);
        if (!server->is_up)
            continue;
        clear_protocol(&server->protocol, world->now);
        if (server->protocol.is_serving || small_options.is_blind)
            continue;
        server->is_stale &= small_options.is_careless;
        if (server->told_us <= world->now)
            server->told_us = server->told_epoch = 0;
    }
    number_revisions(world);
    name_changes(world);
}
