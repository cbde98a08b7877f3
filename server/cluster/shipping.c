#include "server/cluster/shipping.h"

#include <stddef.h>

#include "server/cluster/action.h"
#include "server/cluster/lease.h"

#define JOIN_IS_SENT UINT64_MAX
/* Leases until a copy that does not go on is asked to join again: a reply may be lost. */
#define LEASES_WITHOUT_REPLY 2

void okv_shipping_connected(struct okv_protocol *protocol, uint64_t server, uint64_t now_us)
{
    struct okv_peer *peer = okv_peer_enter(protocol, server, now_us);

    if (!peer)
        return;
    peer->is_connected = true;
    peer->is_joined = false;
    peer->join_at_us = now_us;
}

/* What it has granted and acknowledged stays so. */
void okv_shipping_lost(struct okv_protocol *protocol, uint64_t server)
{
    struct okv_peer *peer = okv_peer_find(protocol, server);

    if (!peer)
        return;
    peer->is_connected = false;
    peer->is_joined = false;
    peer->is_loading = false;
}

static void take_acknowledgement(struct okv_protocol *protocol, struct okv_peer *peer,
                                 const struct okv_peer_message *message, uint64_t now_us)
{
    uint64_t position = message->to < protocol->sealed ? message->to : protocol->sealed;
    uint64_t grant = message->sent_us + protocol->options.lease_us;

    if (grant > peer->grant_us)
        peer->grant_us = grant;
    if (message->sent_us > peer->heard_us)
        peer->heard_us = message->sent_us;
    if (message->copy_us > peer->copy_us)
        peer->copy_us = message->copy_us;
    if (position > peer->position) {
        peer->position = position;
        peer->moved_us = now_us;
    }
    if (peer->is_full && !(message->flags & OKV_PEER_FULL))
        peer->shipped = peer->position; /* it had no room for what was on its way */
    peer->is_full = message->flags & OKV_PEER_FULL;
    peer->is_spent = message->flags & OKV_PEER_SPENT;
    peer->is_part = message->flags & OKV_PEER_PART;
}

static void take_joined(struct okv_protocol *protocol, struct okv_peer *peer,
                        const struct okv_peer_message *message, uint64_t now_us)
{
    if (peer->is_joined || message->sent_us != peer->join_sent_us)
        return;
    if (message->incarnation != peer->member.incarnation) {
        peer->member.incarnation = message->incarnation;
        peer->grant_us = 0;
        peer->position = 0;
    }
    if (message->flags & OKV_PEER_SNAPSHOT)
        peer->position = 0;
    peer->is_joined = true;
    peer->copy_us = 0; /* its clock may have begun anew */
    take_acknowledgement(protocol, peer, message, now_us);
    peer->shipped = peer->position;
    peer->is_loading = message->flags & OKV_PEER_SNAPSHOT;
    if (peer->is_loading)
        okv_action_server(protocol, OKV_ACTION_SNAPSHOT, peer->member.server);
}

static void take_ack(struct okv_protocol *protocol, struct okv_peer *peer,
                     const struct okv_peer_message *message, uint64_t now_us)
{
    if (!peer->is_joined || message->incarnation != peer->member.incarnation)
        return;
    take_acknowledgement(protocol, peer, message, now_us);
    if (peer->is_loading && !(message->flags & OKV_PEER_SNAPSHOT)) {
        peer->is_loading = false;
        peer->shipped = peer->position;
    }
}

/* It follows another primary, or tries to become one, and has taken nothing of what was sent. */
static void take_refusal(struct okv_protocol *protocol, struct okv_peer *peer,
                         const struct okv_peer_message *message, uint64_t now_us)
{
    peer->is_joined = false;
    peer->join_at_us = now_us + protocol->options.beat_us;
    if (message->epoch > protocol->epoch)
        protocol->must_read = true;
}

void okv_shipping_reply(struct okv_protocol *protocol, uint64_t server,
                        const struct okv_peer_message *message, uint64_t now_us)
{
    struct okv_peer *peer = okv_peer_find(protocol, server);

    if (!peer || !peer->is_connected || protocol->role != OKV_ROLE_PRIMARY)
        return;
    if (message->sent_us < peer->join_sent_us || message->sent_us > now_us)
        return;
    if (message->flags & OKV_PEER_REFUSED)
        take_refusal(protocol, peer, message, now_us);
    else if (message->epoch != protocol->epoch)
        return;
    else if (message->type == OKV_PEER_JOINED)
        take_joined(protocol, peer, message, now_us);
    else
        take_ack(protocol, peer, message, now_us);
}

static struct okv_peer_message *send(struct okv_protocol *protocol, struct okv_peer *peer,
                                     enum okv_peer_message_type type, uint64_t now_us)
{
    struct okv_peer_message *message = okv_action_send(protocol, peer->member.server, type);

    message->sent_us = now_us;
    message->published = protocol->published;
    if (now_us < protocol->status.valid_until_us) /* else another primary may publish more */
        message->copy_us = peer->copy_us;
    return message;
}

/* It gives up a log that may be needed only where nobody may be about to add it to the set. */
static bool may_begin_anew(const struct okv_protocol *protocol, const struct okv_peer *peer)
{
    return peer->is_spent && !peer->is_required && !protocol->is_proposing &&
           !okv_key_has(&protocol->key, peer->member);
}

static void send_join(struct okv_protocol *protocol, struct okv_peer *peer, uint64_t now_us)
{
    struct okv_peer_message *join = send(protocol, peer, OKV_PEER_JOIN, now_us);

    join->flags = may_begin_anew(protocol, peer) ? OKV_PEER_SNAPSHOT : 0;
    join->from = protocol->begin;
    join->to = protocol->sealed;
    join->epochs = protocol->epochs;
    peer->join_at_us = JOIN_IS_SENT;
    peer->join_sent_us = now_us;
}

/* One piece at a time: frames of one batch, or all that a copy which catches up lacks. */
static void send_frames(struct okv_protocol *protocol, struct okv_peer *peer, uint64_t now_us)
{
    struct okv_peer_message *ship = send(protocol, peer, OKV_PEER_SHIP, now_us);

    ship->from = peer->position;
    ship->to = protocol->sealed;
    peer->shipped = protocol->sealed;
    peer->shipped_us = now_us;
}

void okv_protocol_shipped(struct okv_protocol *protocol, uint64_t server, uint64_t position)
{
    struct okv_peer *peer = okv_peer_find(protocol, server);

    if (peer)
        peer->shipped = position;
}

void okv_protocol_progressed(struct okv_protocol *protocol, uint64_t server, uint64_t now_us)
{
    struct okv_peer *peer = okv_peer_find(protocol, server);

    if (peer)
        peer->shipped_us = now_us;
}

static bool has_waited(const struct okv_protocol *protocol, uint64_t since_us, uint64_t now_us)
{
    return now_us > since_us &&
           now_us - since_us > LEASES_WITHOUT_REPLY * protocol->options.lease_us;
}

static void send_to(struct okv_protocol *protocol, struct okv_peer *peer, bool beat,
                    uint64_t now_us)
{
    bool is_behind = peer->position < protocol->sealed;
    bool is_stuck = peer->is_loading || peer->is_full;
    bool is_lost = peer->shipped > peer->position && has_waited(protocol, peer->shipped_us, now_us);

    if (!is_behind)
        peer->moved_us = now_us;
    if (!peer->is_joined) {
        if (now_us >= peer->join_at_us || has_waited(protocol, peer->join_sent_us, now_us))
            send_join(protocol, peer, now_us);
    } else if (may_begin_anew(protocol, peer)) {
        peer->is_joined = false;
        send_join(protocol, peer, now_us);
    } else if (is_behind && !is_stuck && (peer->position < protocol->begin || is_lost)) {
        peer->is_joined = false; /* where the log went on, to load a snapshot */
        send_join(protocol, peer, now_us);
    } else if (is_behind && !is_stuck && peer->shipped <= peer->position) {
        send_frames(protocol, peer, now_us);
    } else if (beat) {
        send(protocol, peer, OKV_PEER_BEAT, now_us);
    }
}

void okv_shipping_send(struct okv_protocol *protocol, bool beat, uint64_t now_us)
{
    for (unsigned i = 0; i < OKV_COPIES_MAX; i++)
        if (protocol->peers[i].is_connected)
            send_to(protocol, &protocol->peers[i], beat, now_us);
}
