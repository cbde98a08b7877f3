#include "server/cluster/protocol.h"

#include <string.h>

#include "server/cluster/action.h"
#include "server/cluster/change.h"
#include "server/cluster/copy.h"
#include "server/cluster/hand_over.h"
#include "server/cluster/lease.h"
#include "server/cluster/members.h"
#include "server/cluster/roles.h"
#include "server/cluster/shipping.h"

static void lead_on(struct okv_protocol *protocol, uint64_t now_us)
{
    bool is_due = now_us >= protocol->beat_at_us;

    if (is_due && now_us - protocol->beat_at_us > protocol->options.beat_us)
        okv_members_excuse(protocol, now_us - protocol->beat_at_us);
    okv_members_decide(protocol, now_us);
    okv_roles_publish(protocol, now_us);
    okv_shipping_send(protocol, is_due, now_us);
    okv_hand_over_continue(protocol, now_us);
    okv_hand_over_abdicate(protocol, now_us);
    if (is_due)
        protocol->beat_at_us =
            now_us + (protocol->phase == OKV_HAND_OVER_NONE ? protocol->options.beat_us
                                                            : protocol->options.short_beat_us);
    okv_change_ask(protocol, now_us);
    okv_status_update(protocol);
    if (is_due || protocol->status.valid_until_us <= now_us)
        okv_status_renew(protocol, now_us);
}

/* What follows from the state, whichever event led to it. */
static void go_on(struct okv_protocol *protocol, uint64_t now_us)
{
    if (protocol->role == OKV_ROLE_PRIMARY) {
        lead_on(protocol, now_us);
        return;
    }
    okv_copy_acknowledge(protocol, now_us);
    okv_roles_suspect(protocol, now_us);
    okv_change_ask(protocol, now_us);
    okv_status_update(protocol);
}

static void take_message(struct okv_protocol *protocol, const struct okv_protocol_event *event,
                         uint64_t now_us)
{
    enum okv_peer_message_type type = event->message.type;

    if (type == OKV_PEER_JOINED || type == OKV_PEER_ACK)
        okv_shipping_reply(protocol, event->server, &event->message, now_us);
    else
        okv_copy_message(protocol, event->server, &event->message, now_us);
}

static void take_log(struct okv_protocol *protocol, const struct okv_protocol_event *event)
{
    protocol->is_full = event->is_full;
    if (protocol->is_loading) /* what the log has is of no more use */
        return;
    protocol->begin = event->begin;
    protocol->sealed = event->sealed;
    protocol->durable = event->durable;
    protocol->applied = event->applied;
}

static void take(struct okv_protocol *protocol, const struct okv_protocol_event *event,
                 uint64_t now_us)
{
    switch (event->type) {
    case OKV_EVENT_TIMER:
        break;
    case OKV_EVENT_CONNECTED:
        okv_shipping_connected(protocol, event->server, now_us);
        break;
    case OKV_EVENT_LOST:
        okv_shipping_lost(protocol, event->server);
        break;
    case OKV_EVENT_MESSAGE:
        take_message(protocol, event, now_us);
        break;
    case OKV_EVENT_LOG:
        take_log(protocol, event);
        break;
    case OKV_EVENT_HINT:
        protocol->must_read = true;
        break;
    case OKV_EVENT_HAND_OVER:
        okv_hand_over_begin(protocol, event->server);
        break;
    case OKV_EVENT_DRAINED:
        protocol->is_drained = true;
        break;
    case OKV_EVENT_LOADED:
        okv_copy_loaded(protocol, event->sealed, event->whole);
        break;
    case OKV_EVENT_WHOLE:
        protocol->whole_at = 0;
        break;
    case OKV_EVENT_SPENT:
        okv_copy_spend(protocol);
        break;
    case OKV_EVENT_RECOVER:
        okv_roles_recover(protocol);
        break;
    default: /* of etcd */
        okv_roles_answered(protocol, okv_change_answer(protocol, event, now_us), now_us);
    }
}

void okv_protocol_start(struct okv_protocol *protocol, const struct okv_protocol_options *options,
                        struct okv_member self, const struct okv_protocol_log *log, uint64_t epoch,
                        uint64_t nonce, uint64_t now_us, struct okv_protocol_actions *actions)
{
    uint64_t last = okv_epochs_at(&log->epochs, log->end);

    memset(protocol, 0, sizeof *protocol);
    protocol->options = *options;
    protocol->self = self;
    protocol->nonce = nonce;
    protocol->epoch = epoch > last ? epoch : last;
    protocol->epochs = log->epochs;
    protocol->begin = log->begin;
    protocol->sealed = protocol->durable = log->end;
    protocol->applied = protocol->published = log->published;
    protocol->promised_us = now_us; /* it may have acknowledged until now */
    protocol->suspect_at_us = now_us;
    protocol->out = actions;
    actions->count = 0;
    go_on(protocol, now_us);
    protocol->out = NULL;
}

void okv_protocol_step(struct okv_protocol *protocol, const struct okv_protocol_event *event,
                       uint64_t now_us, struct okv_protocol_actions *actions)
{
    protocol->out = actions;
    actions->count = 0;
    take(protocol, event, now_us);
    go_on(protocol, now_us);
    protocol->out = NULL;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t okv_protocol_timer_us(const struct okv_protocol *protocol)
{
    uint64_t due = UINT64_MAX;

    if (protocol->role == OKV_ROLE_PRIMARY) {
        due = protocol->beat_at_us;
        if (protocol->serve_at_us != 0)
            due = earlier(due, protocol->serve_at_us);
    } else if (protocol->role == OKV_ROLE_COPY && !protocol->is_suspecting) {
        due = protocol->suspect_at_us;
    }
    if (!protocol->is_asking && (protocol->must_read || protocol->is_proposing))
        due = earlier(due, protocol->retry_us);
    return due;
}

bool okv_protocol_may_answer(const struct okv_protocol *protocol, uint64_t now_us)
{
    return protocol->is_serving && now_us < protocol->status.valid_until_us;
}
