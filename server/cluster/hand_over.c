#include "server/cluster/hand_over.h"

#include "server/cluster/action.h"
#include "server/cluster/copy.h"
#include "server/cluster/members.h"

void okv_hand_over_begin(struct okv_protocol *protocol, uint64_t server)
{
    if (!protocol->is_serving || protocol->phase != OKV_HAND_OVER_NONE ||
        !okv_members_have(protocol, server))
        return;
    protocol->phase = OKV_HAND_OVER_SHORT;
    protocol->successor = server;
    protocol->phase_end_us = protocol->status.valid_until_us;
}

static void drain(struct okv_protocol *protocol, uint64_t now_us)
{
    protocol->phase = OKV_HAND_OVER_DRAIN;
    protocol->phase_end_us = now_us + protocol->options.lease_us;
    protocol->is_drained = false;
    okv_action_add(protocol, OKV_ACTION_DRAIN);
}

/* Nothing may be evaluated or told in this epoch any more. If the successor does not take over,
 * this server asks for the next epoch, as after a start. */
static void release(struct okv_protocol *protocol, uint64_t now_us)
{
    struct okv_peer_message *message =
        okv_action_send(protocol, protocol->successor, OKV_PEER_RELEASED);

    message->to = protocol->sealed;
    message->published = protocol->published;
    okv_copy_follow(protocol, 0, protocol->epoch, now_us);
}

void okv_hand_over_continue(struct okv_protocol *protocol, uint64_t now_us)
{
    bool has_successor = okv_members_have(protocol, protocol->successor);

    if (protocol->phase == OKV_HAND_OVER_NONE || now_us < protocol->phase_end_us) {
        /* The lease is still long, or the successor has time to acknowledge. */
    } else if (protocol->phase == OKV_HAND_OVER_SHORT && has_successor) {
        drain(protocol, now_us);
    } else {
        protocol->phase = OKV_HAND_OVER_NONE; /* and goes on as before */
    }
    if (protocol->phase == OKV_HAND_OVER_DRAIN && protocol->is_drained && has_successor &&
        now_us >= protocol->status.valid_until_us && protocol->published == protocol->sealed &&
        !protocol->is_proposing)
        release(protocol, now_us);
}

void okv_hand_over_abdicate(struct okv_protocol *protocol, uint64_t now_us)
{
    if (protocol->role != OKV_ROLE_PRIMARY || !protocol->is_full || protocol->is_proposing ||
        !okv_members_have_another(protocol, now_us))
        return;
    okv_copy_follow(protocol, 0, protocol->epoch, now_us);
    protocol->abdicated_us = now_us;
}
