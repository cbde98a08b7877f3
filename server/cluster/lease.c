#include "server/cluster/lease.h"

#include <string.h>

#include "server/cluster/action.h"

#define REQUIRED_MAX (3 * OKV_COPIES_MAX)

static struct okv_member nobody;

const struct okv_peer *okv_protocol_peer(const struct okv_protocol *protocol, uint64_t server)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (protocol->peers[i].member.server == server)
            return &protocol->peers[i];
    return NULL;
}

struct okv_peer *okv_peer_find(struct okv_protocol *protocol, uint64_t server)
{
    return (struct okv_peer *)okv_protocol_peer(protocol, server);
}

static bool is_needed(const struct okv_protocol *protocol, uint64_t server)
{
    return okv_key_wants(&protocol->key, server) || okv_key_has_server(&protocol->key, server) ||
           (protocol->is_proposing && okv_key_has_server(&protocol->proposed, server));
}

struct okv_peer *okv_peer_enter(struct okv_protocol *protocol, uint64_t server, uint64_t now_us)
{
    struct okv_peer *peer = okv_peer_find(protocol, server);

    if (peer || server == protocol->self.server || server == nobody.server)
        return peer;
    for (unsigned i = 0; i < OKV_COPIES_MAX && !peer; i++)
        if (!is_needed(protocol, protocol->peers[i].member.server))
            peer = &protocol->peers[i];
    if (!peer)
        return NULL;
    *peer = (struct okv_peer){
        .member.server = server,
        .join_at_us = now_us,
        .heard_us = now_us,
        .moved_us = now_us,
        .again_us = protocol->options.again_us,
    };
    return peer;
}

static unsigned add_members(const struct okv_protocol *protocol, const struct okv_shard_key *key,
                            struct okv_member *list, unsigned count)
{
    for (unsigned i = 0; i < key->isr_count; i++)
        if (!okv_member_is(key->isr[i], protocol->self))
            list[count++] = key->isr[i];
    return count;
}

/* All that may become primary of the next epoch; some may be there twice. */
static unsigned list_required(const struct okv_protocol *protocol,
                              struct okv_member list[REQUIRED_MAX])
{
    unsigned count = add_members(protocol, &protocol->key, list, 0);

    if (protocol->is_proposing)
        count = add_members(protocol, &protocol->proposed, list, count);
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (protocol->peers[i].is_required)
            list[count++] = protocol->peers[i].member;
    return count;
}

/* As it is known; NULL: nothing is known of this incarnation. */
static const struct okv_peer *find_member(const struct okv_protocol *protocol,
                                          struct okv_member member)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (okv_member_is(protocol->peers[i].member, member))
            return &protocol->peers[i];
    return NULL;
}

uint64_t okv_lease_end_us(const struct okv_protocol *protocol, uint64_t now_us)
{
    struct okv_member required[REQUIRED_MAX];
    unsigned count = list_required(protocol, required);
    uint64_t end = now_us + protocol->options.lease_us;

    for (unsigned i = 0; i < count; i++) {
        const struct okv_peer *peer = find_member(protocol, required[i]);
        uint64_t grant = peer ? peer->grant_us : 0;
        if (grant < end)
            end = grant;
    }
    return end;
}

uint64_t okv_lease_position(const struct okv_protocol *protocol)
{
    struct okv_member required[REQUIRED_MAX];
    unsigned count = list_required(protocol, required);
    uint64_t position = protocol->options.acks_disk ? protocol->durable : protocol->sealed;

    for (unsigned i = 0; i < count; i++) {
        const struct okv_peer *peer = find_member(protocol, required[i]);
        uint64_t acknowledged = peer ? peer->position : 0;
        if (acknowledged < position)
            position = acknowledged;
    }
    return position;
}

uint64_t okv_lease_wait_us(const struct okv_protocol_options *options)
{
    return options->lease_us + (options->lease_us * 3 * options->rho_ppm + 999999) / 1000000;
}

static bool takes_writes(const struct okv_protocol *protocol)
{
    unsigned copies = protocol->key.isr_count;

    if (protocol->is_proposing && protocol->proposed.isr_count < copies)
        copies = protocol->proposed.isr_count;
    return protocol->is_serving && protocol->phase != OKV_HAND_OVER_DRAIN &&
           copies >= protocol->options.copies_min;
}

void okv_status_update(struct okv_protocol *protocol)
{
    struct okv_protocol_status *told = &protocol->status;
    struct okv_protocol_status status = *told;

    status.epoch = protocol->epoch;
    status.role = protocol->role;
    status.is_changing = protocol->is_proposing;
    status.takes_writes = takes_writes(protocol);
    status.is_alarmed = protocol->is_alarmed;
    if (!protocol->is_serving)
        status.valid_until_us = 0;
    if (status.epoch == told->epoch && status.role == told->role &&
        status.is_changing == told->is_changing && status.takes_writes == told->takes_writes &&
        status.is_alarmed == told->is_alarmed && status.valid_until_us == told->valid_until_us)
        return;
    *told = status;
    okv_action_add(protocol, OKV_ACTION_STATUS);
}

void okv_status_renew(struct okv_protocol *protocol, uint64_t now_us)
{
    uint64_t end = okv_lease_end_us(protocol, now_us);

    if (!protocol->is_serving || protocol->phase == OKV_HAND_OVER_DRAIN)
        return;
    if (protocol->phase == OKV_HAND_OVER_SHORT && now_us + protocol->options.short_us < end)
        end = now_us + protocol->options.short_us;
    if (end > protocol->status.valid_until_us) {
        protocol->status.valid_until_us = end;
        okv_action_add(protocol, OKV_ACTION_STATUS);
    }
}
