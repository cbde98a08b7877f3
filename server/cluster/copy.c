#include "server/cluster/copy.h"

#include "server/cluster/action.h"
#include "server/cluster/change.h"

void okv_copy_follow(struct okv_protocol *protocol, uint64_t leader, uint64_t epoch,
                     uint64_t now_us)
{
    okv_change_abandon(protocol);
    if (protocol->role != OKV_ROLE_COPY)
        okv_action_add(protocol, OKV_ACTION_FOLLOW);
    if (protocol->is_serving)
        protocol->trusted_us = protocol->status.valid_until_us;
    protocol->role = OKV_ROLE_COPY;
    protocol->epoch = epoch;
    protocol->leader = leader;
    protocol->is_serving = false;
    protocol->phase = OKV_HAND_OVER_NONE;
    protocol->owed = 0;
    protocol->told = UINT64_MAX;
    protocol->echoed_us = 0;
    protocol->is_suspecting = false;
    protocol->suspect_at_us = now_us + protocol->options.suspect_us;
}

/* What may be acknowledged: a take-over applies all of it before it serves, so what is published
 * and not applied stays little. */
static uint64_t safe_position(const struct okv_protocol *protocol)
{
    uint64_t safe = protocol->options.acks_disk ? protocol->durable : protocol->sealed;
    bool is_lagging = protocol->published > protocol->applied + protocol->options.lag_max;

    return is_lagging && protocol->applied < safe ? protocol->applied : safe;
}

/* A copy keeps its promise from here on: it does not serve before the grant has ended. */
static void reply(struct okv_protocol *protocol, enum okv_peer_message_type type, uint64_t sent_us,
                  uint64_t now_us)
{
    struct okv_peer_message *message = okv_action_send(protocol, protocol->leader, type);

    message->sent_us = sent_us;
    message->incarnation = protocol->self.incarnation;
    message->copy_us = now_us;
    message->to = protocol->is_loading ? 0 : safe_position(protocol);
    message->flags =
        (protocol->is_loading ? OKV_PEER_SNAPSHOT : 0) | (protocol->is_full ? OKV_PEER_FULL : 0) |
        (protocol->is_spent ? OKV_PEER_SPENT : 0) | (protocol->whole_at ? OKV_PEER_PART : 0);
    protocol->promised_us = now_us;
    protocol->suspect_at_us = now_us + protocol->options.suspect_us;
    protocol->is_suspecting = false;
}

static void refuse(struct okv_protocol *protocol, uint64_t server,
                   const struct okv_peer_message *message)
{
    struct okv_peer_message *refusal = okv_action_send(
        protocol, server, message->type == OKV_PEER_JOIN ? OKV_PEER_JOINED : OKV_PEER_ACK);

    refusal->flags = OKV_PEER_REFUSED;
    refusal->sent_us = message->sent_us;
}

/* What the primary says is published, as far as it is here. */
static void publish(struct okv_protocol *protocol, uint64_t position)
{
    if (protocol->told == UINT64_MAX || position > protocol->told) /* a long SHIP may come late */
        protocol->told = position;
    if (position > protocol->sealed)
        position = protocol->sealed;
    if (position <= protocol->published || protocol->is_loading)
        return;
    protocol->published = position;
    okv_action_position(protocol, OKV_ACTION_PUBLISH, position);
}

/* The latest of its own epochs that the primary has, too, says where they part. */
static bool find_common(const struct okv_protocol *protocol, const struct okv_epochs *others,
                        uint64_t *cut)
{
    const struct okv_epochs *own = &protocol->epochs;
    uint64_t end = protocol->sealed;

    for (unsigned i = own->count; i > 0; i--) {
        if (own->of[i - 1].begin >= end)
            continue;
        if (okv_epochs_cut(others, own->of[i - 1].epoch, end, cut))
            return true;
        end = own->of[i - 1].begin;
    }
    return false;
}

/* A snapshot has parts of what was published after the log's beginning. They fit to no log but one
 * that has all of that. */
static bool fits_snapshot(const struct okv_protocol *protocol, const struct okv_epochs *others)
{
    uint64_t whole = protocol->whole_at, cut;

    return whole == 0 || protocol->published >= whole ||
           (okv_epochs_cut(others, okv_epochs_at(&protocol->epochs, whole), whole, &cut) &&
            cut == whole);
}

/* Up to where the log can stay. False: nothing of it can be used. */
static bool find_cut(const struct okv_protocol *protocol, const struct okv_peer_message *join,
                     uint64_t *cut)
{
    if (protocol->is_loading || join->flags & OKV_PEER_SNAPSHOT ||
        !fits_snapshot(protocol, &join->epochs))
        return false;
    if (protocol->epochs.count == 0)
        *cut = protocol->sealed; /* where every log of the shard begins */
    else if (!find_common(protocol, &join->epochs, cut))
        return false;
    return *cut >= protocol->published && *cut >= join->from && *cut <= join->to;
}

/* As another incarnation: this one acknowledged what is given up. */
static void load(struct okv_protocol *protocol)
{
    if (!protocol->is_loading)
        okv_action_position(protocol, OKV_ACTION_INCARNATION, ++protocol->self.incarnation);
    protocol->is_loading = true;
    protocol->is_spent = false;
    protocol->whole_at = 0;
    protocol->begin = protocol->sealed = protocol->durable = 0;
    protocol->applied = protocol->published = 0;
    okv_action_server(protocol, OKV_ACTION_LOAD, protocol->leader);
}

static void cut_log(struct okv_protocol *protocol, uint64_t cut)
{
    if (cut == protocol->sealed)
        return;
    protocol->sealed = cut;
    if (protocol->durable > cut)
        protocol->durable = cut;
    okv_action_position(protocol, OKV_ACTION_TRUNCATE, cut);
}

/* Not while it may become the next primary, and not by a JOIN that a later one has overtaken. */
static bool may_join(const struct okv_protocol *protocol, uint64_t server, uint64_t sent_us)
{
    return protocol->role == OKV_ROLE_COPY &&
           (protocol->leader == 0 ||
            (protocol->leader == server && sent_us >= protocol->joined_us));
}

static void take_join(struct okv_protocol *protocol, uint64_t server,
                      const struct okv_peer_message *join, uint64_t now_us)
{
    uint64_t cut;

    if (join->epoch < protocol->epoch || join->epoch > OKV_EPOCH_MAX ||
        !okv_epochs_are_valid(&join->epochs, join->epoch) ||
        (join->epoch == protocol->epoch && !may_join(protocol, server, join->sent_us))) {
        refuse(protocol, server, join);
        return;
    }
    okv_copy_follow(protocol, server, join->epoch, now_us);
    protocol->joined_us = join->sent_us;
    bool can_cut = find_cut(protocol, join, &cut);
    if (!can_cut && now_us < protocol->trusted_us) { /* what it has served may not go yet */
        refuse(protocol, server, join);
        return;
    }
    if (can_cut)
        cut_log(protocol, cut);
    else
        load(protocol);
    protocol->epochs = join->epochs;
    reply(protocol, OKV_PEER_JOINED, join->sent_us, now_us);
    publish(protocol, join->published);
}

static void take_frames(struct okv_protocol *protocol, const struct okv_peer_message *ship)
{
    if (protocol->is_loading || ship->from > protocol->sealed)
        return;
    if (ship->to > protocol->sealed && !protocol->is_full)
        okv_action_position(protocol, OKV_ACTION_APPEND, ship->to);
    protocol->owed = ship->to;
    protocol->owed_us = ship->sent_us;
}

static void take_released(struct okv_protocol *protocol, const struct okv_peer_message *message,
                          uint64_t now_us)
{
    if (message->to != protocol->sealed || protocol->is_loading)
        return;
    protocol->released = message->epoch;
    protocol->suspect_at_us = now_us;
}

void okv_copy_message(struct okv_protocol *protocol, uint64_t server,
                      const struct okv_peer_message *message, uint64_t now_us)
{
    if (message->type == OKV_PEER_JOIN) {
        take_join(protocol, server, message, now_us);
        return;
    }
    if (message->epoch != protocol->epoch || protocol->role != OKV_ROLE_COPY ||
        server != protocol->leader) {
        refuse(protocol, server, message);
        return;
    }
    if (message->type == OKV_PEER_SHIP)
        take_frames(protocol, message);
    else if (message->type == OKV_PEER_BEAT)
        reply(protocol, OKV_PEER_ACK, message->sent_us, now_us);
    else
        take_released(protocol, message, now_us);
    publish(protocol, message->published);
    if (message->copy_us != 0)
        protocol->echoed_us = message->copy_us;
}

void okv_copy_spend(struct okv_protocol *protocol)
{
    protocol->is_spent = protocol->role == OKV_ROLE_COPY;
}

void okv_copy_loaded(struct okv_protocol *protocol, uint64_t position, uint64_t whole)
{
    protocol->is_loading = false;
    protocol->whole_at = whole;
    protocol->begin = protocol->sealed = protocol->durable = position;
    protocol->applied = protocol->published = position;
}

void okv_copy_acknowledge(struct okv_protocol *protocol, uint64_t now_us)
{
    if (protocol->role != OKV_ROLE_COPY)
        return;
    if (protocol->told != UINT64_MAX) /* frames came after they were published elsewhere */
        publish(protocol, protocol->told);
    if (protocol->owed == 0)
        return;
    if (safe_position(protocol) < protocol->owed && !protocol->is_full)
        return;
    protocol->owed = 0;
    reply(protocol, OKV_PEER_ACK, protocol->owed_us, now_us);
}
