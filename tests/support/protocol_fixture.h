/* The protocol of one server, on a clock that the test drives: server 1, or the copy COPY. For a
 * test program that includes it once. */
#ifndef OKV_TESTS_PROTOCOL_FIXTURE_H
#define OKV_TESTS_PROTOCOL_FIXTURE_H

#include "tests/support/test.h"

#include "server/cluster/protocol.h"

#define D 1000000
#define H 100000
#define COPY 2

static struct okv_protocol protocol;
static struct okv_protocol_actions actions;
static uint64_t now;

static const struct okv_protocol_options options = {
    .lease_us = D,
    .beat_us = H,
    .silent_us = D / 2,
    .suspect_us = 1100000,
    .short_us = 50000,
    .short_beat_us = 15000,
    .again_us = 10 * D,
    .rho_ppm = 500,
    .lag_max = 1000,
    .copies_min = 1,
    .takes_over = true,
};

static const struct okv_shard_key first_key = {
    .epoch = 1,
    .primary = {1, 1},
    .isr = {{1, 1}},
    .isr_count = 1,
    .wanted = {1, COPY},
    .wanted_count = 2,
};

static inline const struct okv_protocol_action *find(enum okv_protocol_action_type type)
{
    for (unsigned i = 0; i < actions.count; i++)
        if (actions.of[i].type == type)
            return &actions.of[i];
    return NULL;
}

static inline const struct okv_peer_message *find_message(enum okv_peer_message_type type)
{
    for (unsigned i = 0; i < actions.count; i++)
        if (actions.of[i].type == OKV_ACTION_SEND && actions.of[i].message.type == type)
            return &actions.of[i].message;
    return NULL;
}

static inline void take(const struct okv_protocol_event *event)
{
    okv_protocol_step(&protocol, event, now, &actions);
}

static inline void take_type(enum okv_protocol_event_type type)
{
    take(&(struct okv_protocol_event){.type = type, .server = COPY});
}

static inline void seal(uint64_t position)
{
    take(&(struct okv_protocol_event){
        .type = OKV_EVENT_LOG, .sealed = position, .durable = position, .applied = position});
}

static inline void answer_key(struct okv_shard_key key, uint64_t revision)
{
    take(&(struct okv_protocol_event){
        .type = OKV_EVENT_KEY, .request = protocol.request, .key = key, .revision = revision});
}

static inline void answer_changed(void)
{
    assert_non_null(find(OKV_ACTION_CHANGE_KEY));
    take(&(struct okv_protocol_event){
        .type = OKV_EVENT_CHANGED, .request = protocol.request, .revision = protocol.revision + 1});
}

/* The copy's reply to what was sent at a time. */
static inline void reply_with(enum okv_peer_message_type type, uint32_t flags, uint64_t sent_us,
                              uint64_t position)
{
    struct okv_protocol_event event = {.type = OKV_EVENT_MESSAGE, .server = COPY};

    event.message.type = type;
    event.message.flags = flags;
    event.message.epoch = protocol.epoch;
    event.message.sent_us = sent_us;
    event.message.incarnation = 1;
    event.message.to = position;
    take(&event);
}

static inline void reply(enum okv_peer_message_type type, uint64_t sent_us, uint64_t position)
{
    reply_with(type, 0, sent_us, position);
}

/* Server 1 starts with a log of which `published` is known to be committed, and leads epoch 2; the
 * wait is not over. */
static inline void lead(uint64_t published, uint64_t end)
{
    struct okv_protocol_log log = {.end = end, .published = published};

    now = 5 * D;
    if (end > 0)
        okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){1, 1}, &log, 0, 7, now, &actions);
    assert_non_null(find(OKV_ACTION_READ_KEY));
    answer_key(first_key, 10);
    answer_changed();
    assert_false(find(OKV_ACTION_LEAD)->is_recovery);
    seal(end + 1);
    take_type(OKV_EVENT_CONNECTED);
    assert_non_null(find_message(OKV_PEER_JOIN));
}

/* It serves, and the copy is in sync. */
static inline void lead_two(void)
{
    lead(0, 0);
    now += 2 * D;
    take_type(OKV_EVENT_TIMER);
    assert_true(protocol.status.takes_writes);
    reply(OKV_PEER_JOINED, protocol.peers[0].join_sent_us, 1);
    now = protocol.beat_at_us; /* a lease that it gave itself may run now */
    take_type(OKV_EVENT_TIMER);
    reply(OKV_PEER_ACK, now, 1);
    answer_changed();
    assert_int_equal(protocol.key.isr_count, 2);
}

#endif
