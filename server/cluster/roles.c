#include "server/cluster/roles.h"

#include <string.h>

#include "server/cluster/action.h"
#include "server/cluster/copy.h"
#include "server/cluster/lease.h"

/* A copy that takes nothing more leaves it to others, for so many times as long as a take-over
 * takes. */
#define OTHERS_FIRST 8u

/* Whether it may try to become primary, by the key as it was read. */
static bool may_lead(const struct okv_protocol *protocol, uint64_t now_us)
{
    const struct okv_shard_key *key = &protocol->key;
    uint64_t heard_us = protocol->promised_us > protocol->abdicated_us ? protocol->promised_us
                                                                       : protocol->abdicated_us;

    if (protocol->is_alarmed || key->epoch >= OKV_EPOCH_MAX || !okv_key_has(key, protocol->self))
        return false;
    if (protocol->is_full && (protocol->abdicated_us != 0 || key->isr_count > 1) &&
        now_us - heard_us < OTHERS_FIRST * protocol->options.suspect_us)
        return false;
    if (okv_member_is(key->primary, protocol->self) || protocol->released == key->epoch)
        return true;
    return protocol->options.takes_over &&
           now_us - protocol->promised_us >= protocol->options.suspect_us;
}

/* From here on it acknowledges nothing of the old epoch. A primary that released it stays in the
 * set: it has all that was published, and serves no more. */
static void propose_oneself(struct okv_protocol *protocol)
{
    struct okv_shard_key *proposed = &protocol->proposed;

    protocol->role = OKV_ROLE_CANDIDATE;
    *proposed = protocol->key;
    if (!okv_member_is(proposed->primary, protocol->self) &&
        protocol->released != protocol->key.epoch)
        okv_key_remove(proposed, proposed->primary);
    proposed->primary = protocol->self;
    proposed->epoch++;
    okv_change_propose(protocol);
}

void okv_roles_recover(struct okv_protocol *protocol)
{
    struct okv_shard_key *proposed = &protocol->proposed;

    if (protocol->role != OKV_ROLE_COPY || protocol->is_loading || protocol->whole_at != 0 ||
        protocol->is_proposing || protocol->is_alarmed || protocol->revision == 0 ||
        protocol->key.epoch >= OKV_EPOCH_MAX)
        return;
    propose_oneself(protocol);
    proposed->isr[0] = protocol->self;
    proposed->isr_count = 1;
    protocol->recovered = proposed->epoch;
}

/* Its own transaction is done. Others are heard from now on, and have granted nothing yet. */
static void lead(struct okv_protocol *protocol, uint64_t now_us)
{
    bool is_released = protocol->released + 1 == protocol->key.epoch;
    uint64_t wait_end = protocol->promised_us + okv_lease_wait_us(&protocol->options);

    protocol->role = OKV_ROLE_PRIMARY;
    protocol->epoch = protocol->key.epoch;
    protocol->first = protocol->sealed;
    protocol->owed = 0;
    protocol->serve_at_us = is_released || wait_end < now_us ? now_us : wait_end;
    protocol->beat_at_us = now_us;
    okv_epochs_add(&protocol->epochs, protocol->epoch, protocol->first);
    memset(protocol->peers, 0, sizeof protocol->peers);
    for (unsigned i = 0; i < protocol->key.isr_count; i++)
        okv_peer_enter(protocol, protocol->key.isr[i].server, now_us);
    struct okv_protocol_action *action = okv_action_add(protocol, OKV_ACTION_LEAD);
    action->epoch = protocol->epoch;
    action->is_recovery = protocol->recovered == protocol->epoch;
}

static void decide(struct okv_protocol *protocol, uint64_t now_us)
{
    protocol->is_suspecting = false;
    if (may_lead(protocol, now_us))
        propose_oneself(protocol);
    else
        protocol->suspect_at_us = now_us + protocol->options.suspect_us;
}

/* An epoch of this server that was begun in another run needs no suspicion to be ended. */
static void follow_key(struct okv_protocol *protocol, uint64_t now_us)
{
    okv_copy_follow(protocol, 0, protocol->key.epoch, now_us);
    if (okv_member_is(protocol->key.primary, protocol->self))
        decide(protocol, now_us);
}

void okv_roles_answered(struct okv_protocol *protocol, enum okv_change_outcome outcome,
                        uint64_t now_us)
{
    if (outcome == OKV_CHANGE_NOTHING)
        return;
    if (outcome == OKV_CHANGE_DONE && protocol->role == OKV_ROLE_CANDIDATE)
        lead(protocol, now_us);
    else if (protocol->key.epoch > protocol->epoch)
        follow_key(protocol, now_us);
    else if (outcome == OKV_CHANGE_DEAD && protocol->role == OKV_ROLE_CANDIDATE)
        okv_copy_follow(protocol, 0, protocol->epoch, now_us);
    else if (protocol->role == OKV_ROLE_COPY && protocol->is_suspecting)
        decide(protocol, now_us);
}

void okv_roles_suspect(struct okv_protocol *protocol, uint64_t now_us)
{
    if (protocol->role != OKV_ROLE_COPY || protocol->is_suspecting ||
        now_us < protocol->suspect_at_us)
        return;
    if (now_us - protocol->suspect_at_us > protocol->options.beat_us) {
        /* This server stood still, and what its primary sent meanwhile may come now. */
        protocol->suspect_at_us = now_us + protocol->options.beat_us;
        return;
    }
    protocol->is_suspecting = true;
    protocol->must_read = true;
}

/* The first frame of the epoch is applied after all before it, so the shard is then as whatever its
 * readers saw, or later. */
void okv_roles_publish(struct okv_protocol *protocol, uint64_t now_us)
{
    uint64_t position = okv_lease_position(protocol);

    if (protocol->role != OKV_ROLE_PRIMARY || now_us < protocol->serve_at_us)
        return;
    protocol->serve_at_us = 0;
    if (position > protocol->published) {
        protocol->published = position;
        okv_action_position(protocol, OKV_ACTION_PUBLISH, position);
    }
    if (protocol->applied > protocol->first)
        protocol->is_serving = true;
}
