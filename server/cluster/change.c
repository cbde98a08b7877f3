#include "server/cluster/change.h"

#include "server/cluster/action.h"
#include "server/cluster/lease.h"

void okv_change_propose(struct okv_protocol *protocol)
{
    protocol->proposed.by = ++protocol->nonce;
    protocol->is_proposing = true;
}

void okv_change_abandon(struct okv_protocol *protocol)
{
    protocol->request++;
    protocol->is_asking = false;
    protocol->is_proposing = false;
}

/* The status says that a change may be under way before one is. */
static void send_change(struct okv_protocol *protocol)
{
    struct okv_protocol_action *action;

    okv_status_update(protocol);
    action = okv_action_add(protocol, OKV_ACTION_CHANGE_KEY);
    action->request = protocol->request;
    action->key = protocol->proposed;
    action->revision = protocol->revision;
}

void okv_change_ask(struct okv_protocol *protocol, uint64_t now_us)
{
    if (protocol->is_asking || now_us < protocol->retry_us ||
        !(protocol->must_read || protocol->is_proposing))
        return;
    protocol->request++;
    protocol->is_asking = true;
    if (!protocol->must_read) {
        send_change(protocol);
        return;
    }
    protocol->must_read = false;
    okv_action_add(protocol, OKV_ACTION_READ_KEY)->request = protocol->request;
}

/* etcd lost what it had, or is another one: revisions and epochs never fall. */
static enum okv_change_outcome raise_alarm(struct okv_protocol *protocol, uint64_t now_us)
{
    protocol->is_alarmed = true;
    protocol->must_read = true;
    protocol->retry_us = now_us + protocol->options.lease_us;
    return OKV_CHANGE_NOTHING;
}

static enum okv_change_outcome settle(struct okv_protocol *protocol,
                                      const struct okv_shard_key *key, uint64_t revision)
{
    bool was_proposing = protocol->is_proposing;
    bool is_same = revision == protocol->revision;

    protocol->key = *key;
    protocol->revision = revision;
    protocol->is_alarmed = false;
    if (!was_proposing || is_same) /* it may still be done */
        return OKV_CHANGE_READ;
    protocol->is_proposing = false;
    return key->by == protocol->proposed.by ? OKV_CHANGE_DONE : OKV_CHANGE_DEAD;
}

enum okv_change_outcome okv_change_answer(struct okv_protocol *protocol,
                                          const struct okv_protocol_event *event, uint64_t now_us)
{
    if (!protocol->is_asking || event->request != protocol->request)
        return OKV_CHANGE_NOTHING;
    protocol->is_asking = false;
    if (event->type == OKV_EVENT_FOREIGN)
        return raise_alarm(protocol, now_us);
    if (event->type == OKV_EVENT_CHANGED)
        return settle(protocol, &protocol->proposed, event->revision);
    if (event->type == OKV_EVENT_KEY) {
        if (event->revision < protocol->revision || event->key.epoch < protocol->epoch ||
            event->key.epoch > OKV_EPOCH_MAX)
            return raise_alarm(protocol, now_us);
        return settle(protocol, &event->key, event->revision);
    }
    protocol->must_read = true; /* one's own change may be what refused it */
    if (event->type == OKV_EVENT_UNKNOWN)
        protocol->retry_us = now_us + protocol->options.beat_us;
    return OKV_CHANGE_NOTHING;
}
