/* The protocol of copies: what a copy is worth that has loaded a snapshot, or hears late. */
#include "tests/support/protocol_fixture.h"

/* What was published after its walk began is in a snapshot in part. */
static void load_snapshot(void)
{
    struct okv_protocol_log log = {.end = 0};
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 1, 7, now,
                       &actions);
    answer_key(first_key, 10);
    join.message = (struct okv_peer_message){
        .type = OKV_PEER_JOIN, .epoch = 1, .from = 50, .to = 100, .published = 100};
    okv_epochs_add(&join.message.epochs, 1, 0);
    take(&join);
    assert_non_null(find(OKV_ACTION_LOAD));
    take(&(struct okv_protocol_event){.type = OKV_EVENT_LOADED, .sealed = 100, .whole = 150});
}

static void join_epoch_two(uint64_t begin)
{
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = 3};

    join.message = (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 2, .to = 200};
    okv_epochs_add(&join.message.epochs, 1, 0);
    okv_epochs_add(&join.message.epochs, 2, begin);
    take(&join);
}

TEST(a_part_of_a_snapshot_fits_to_no_other_log)
{
    load_snapshot();
    take_type(OKV_EVENT_RECOVER);
    assert_null(find(OKV_ACTION_CHANGE_KEY));
    join_epoch_two(120);
    assert_non_null(find(OKV_ACTION_LOAD));

    load_snapshot();
    join_epoch_two(150); /* it has all of it */
    assert_null(find(OKV_ACTION_LOAD));
    assert_int_equal(find_message(OKV_PEER_JOINED)->flags, OKV_PEER_PART);
    take_type(OKV_EVENT_WHOLE);
    join_epoch_two(150);
    assert_int_equal(find_message(OKV_PEER_JOINED)->flags, 0);
}

TEST(a_copy_with_a_part_of_a_snapshot_is_not_added)
{
    lead(0, 0);
    now += 2 * D;
    take_type(OKV_EVENT_TIMER);
    reply_with(OKV_PEER_JOINED, OKV_PEER_PART, protocol.peers[0].join_sent_us, 1);
    for (unsigned i = 0; i < 20; i++) {
        now = protocol.beat_at_us;
        take_type(OKV_EVENT_TIMER);
        reply_with(OKV_PEER_ACK, OKV_PEER_PART, now, 1);
        assert_false(protocol.is_proposing || protocol.peers[0].is_required);
    }
    for (unsigned i = 0; i < 20 && !protocol.is_proposing; i++) {
        now = protocol.beat_at_us;
        take_type(OKV_EVENT_TIMER);
        reply(OKV_PEER_ACK, now, 1);
    }
    assert_true(protocol.is_proposing);
}

/* A copy knows by it how old a message is, whenever that comes. */
TEST(a_message_has_the_clock_of_the_last_reply)
{
    struct okv_protocol_event ack = {.type = OKV_EVENT_MESSAGE, .server = COPY};

    lead_two();
    ack.message = (struct okv_peer_message){
        .type = OKV_PEER_ACK, .epoch = protocol.epoch, .incarnation = 1, .to = 1};
    ack.message.sent_us = now;
    ack.message.copy_us = 77;
    take(&ack);
    now = protocol.beat_at_us;
    take_type(OKV_EVENT_TIMER);
    assert_int_equal(find_message(OKV_PEER_BEAT)->copy_us, 77);
    now += 2 * D; /* another primary may publish now */
    take_type(OKV_EVENT_TIMER);
    assert_int_equal(find_message(OKV_PEER_BEAT)->copy_us, 0);
}

TEST(a_late_message_makes_no_copy_fresh)
{
    struct okv_protocol_log log = {.end = 100, .published = 100};
    struct okv_protocol_event event = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 1, 7, now,
                       &actions);
    event.message = (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 1, .to = 100};
    okv_epochs_add(&event.message.epochs, 1, 0);
    take(&event);
    assert_int_equal(find_message(OKV_PEER_JOINED)->copy_us, now);
    uint64_t joined_us = now;
    now += 5 * D;
    event.message = (struct okv_peer_message){
        .type = OKV_PEER_BEAT, .epoch = 1, .published = 100, .copy_us = joined_us};
    take(&event);
    assert_int_equal(protocol.echoed_us, joined_us);
    event.message.copy_us = 0;
    take(&event);
    assert_int_equal(protocol.echoed_us, joined_us);
}
