#include "server/cluster/members.h"

#include "server/cluster/change.h"
#include "server/cluster/lease.h"

#define AGAIN_TIMES_MAX 4

static bool is_late(uint64_t since_us, uint64_t limit_us, uint64_t now_us)
{
    return now_us > since_us && now_us - since_us > limit_us;
}

/* It is silent, slow or full. */
static bool holds_up(const struct okv_protocol *protocol, const struct okv_peer *peer,
                     uint64_t now_us)
{
    uint64_t limit = protocol->options.silent_us;

    return peer->is_full || is_late(peer->heard_us, limit, now_us) ||
           is_late(peer->moved_us, limit, now_us);
}

bool okv_members_have(const struct okv_protocol *protocol, uint64_t server)
{
    const struct okv_peer *peer = okv_protocol_peer(protocol, server);

    return peer && peer->is_joined && okv_key_has(&protocol->key, peer->member);
}

bool okv_members_have_another(const struct okv_protocol *protocol, uint64_t now_us)
{
    for (unsigned i = 0; i < protocol->key.isr_count; i++) {
        uint64_t server = protocol->key.isr[i].server;
        if (okv_members_have(protocol, server) &&
            !holds_up(protocol, okv_protocol_peer(protocol, server), now_us))
            return true;
    }
    return false;
}

/* It waits before it is added again, longer each time, unless it was in the set for longer than it
 * would wait now. */
static void put_off(struct okv_protocol *protocol, struct okv_peer *peer, uint64_t now_us)
{
    if (peer->added_us > peer->not_before_us && is_late(peer->added_us, peer->again_us, now_us))
        peer->again_us = protocol->options.again_us;
    peer->is_required = false;
    peer->not_before_us = now_us + peer->again_us;
    if (peer->again_us < AGAIN_TIMES_MAX * protocol->options.again_us)
        peer->again_us *= 2;
}

/* Whether this member of the set must leave it: its server is to have no copy any more, or holds up
 * the others. Another incarnation there has lost what it had acknowledged; it may be added at
 * once. */
static bool must_leave(struct okv_protocol *protocol, struct okv_member member, uint64_t now_us)
{
    struct okv_peer *peer = okv_peer_find(protocol, member.server);

    if (okv_member_is(member, protocol->self))
        return false;
    if (!peer || !okv_key_wants(&protocol->key, member.server) ||
        (peer->is_joined && !okv_member_is(peer->member, member)))
        return true;
    if (!holds_up(protocol, peer, now_us))
        return false;
    put_off(protocol, peer, now_us);
    return true;
}

static bool propose_removal(struct okv_protocol *protocol, uint64_t now_us)
{
    for (unsigned i = 0; i < protocol->key.isr_count; i++) {
        if (!must_leave(protocol, protocol->key.isr[i], now_us))
            continue;
        protocol->proposed = protocol->key;
        okv_key_remove(&protocol->proposed, protocol->key.isr[i]);
        okv_change_propose(protocol);
        return true;
    }
    return false;
}

/* Under load the newest frames are always on their way. */
static bool has_been_sent_all(const struct okv_protocol *protocol, const struct okv_peer *peer)
{
    return peer->position >= protocol->published || peer->shipped >= protocol->published;
}

/* Not before all of earlier epochs is published again: until then `published` is too low to say
 * what it must have. */
static bool can_join(const struct okv_protocol *protocol, const struct okv_peer *peer,
                     uint64_t now_us)
{
    return protocol->is_serving && peer->is_joined && !peer->is_loading && !peer->is_part &&
           now_us >= peer->not_before_us && has_been_sent_all(protocol, peer) &&
           !holds_up(protocol, peer, now_us) &&
           okv_key_wants(&protocol->key, peer->member.server) &&
           !okv_key_has_server(&protocol->key, peer->member.server);
}

/* It is required first. Nothing is published without it from then on, and it may become primary
 * once its grant covers what clients were told before. */
static bool propose_addition(struct okv_protocol *protocol, struct okv_peer *peer, uint64_t now_us)
{
    if (!peer->is_required) {
        peer->is_required = can_join(protocol, peer, now_us);
        return false;
    }
    if (!peer->is_joined || holds_up(protocol, peer, now_us)) {
        put_off(protocol, peer, now_us);
        return false;
    }
    if (peer->grant_us < protocol->status.valid_until_us || peer->position < protocol->published ||
        peer->is_part)
        return false;
    protocol->proposed = protocol->key;
    peer->added_us = now_us;
    okv_key_add(&protocol->proposed, peer->member);
    okv_change_propose(protocol);
    return true;
}

void okv_members_excuse(struct okv_protocol *protocol, uint64_t late_us)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++) {
        protocol->peers[i].heard_us += late_us;
        protocol->peers[i].moved_us += late_us;
    }
}

void okv_members_decide(struct okv_protocol *protocol, uint64_t now_us)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        protocol->peers[i].is_required &= !okv_key_has(&protocol->key, protocol->peers[i].member);
    if (protocol->is_proposing || protocol->is_alarmed || propose_removal(protocol, now_us) ||
        protocol->phase != OKV_HAND_OVER_NONE)
        return;
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (propose_addition(protocol, &protocol->peers[i], now_us))
            return;
}
