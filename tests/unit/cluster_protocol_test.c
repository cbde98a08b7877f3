/* The protocol of copies, one server at a time, on a clock that the test drives. */
#include "tests/support/protocol_fixture.h"

#include "tests/support/random.h"

TEST(a_log_is_cut_where_an_epoch_ends)
{
    struct okv_epochs epochs = {0};
    uint64_t cut;

    okv_epochs_add(&epochs, 1, 0);
    okv_epochs_add(&epochs, 3, 50);
    okv_epochs_add(&epochs, 4, 50);
    assert_true(okv_epochs_cut(&epochs, 1, 60, &cut) && cut == 50);
    assert_true(okv_epochs_cut(&epochs, 1, 40, &cut) && cut == 40);
    assert_true(okv_epochs_cut(&epochs, 3, 51, &cut) && cut == 50); /* it has no frame here */
    assert_true(okv_epochs_cut(&epochs, 4, 70, &cut) && cut == 70);
    assert_false(okv_epochs_cut(&epochs, 2, 60, &cut));
    assert_int_equal(okv_epochs_at(&epochs, 50), 1);
    assert_int_equal(okv_epochs_at(&epochs, 51), 4);
    okv_epochs_add(&epochs, 5, 40);
    assert_int_equal(epochs.count, 2);
    assert_true(okv_epochs_are_valid(&epochs, 5));
    assert_false(okv_epochs_are_valid(&epochs, 6));
    for (unsigned i = 0; i < OKV_EPOCHS_MAX; i++)
        okv_epochs_add(&epochs, 6 + i, 100 + i);
    assert_int_equal(epochs.count, OKV_EPOCHS_MAX);
    assert_false(okv_epochs_cut(&epochs, 1, 10, &cut)); /* forgotten */
    epochs.of[3].epoch = epochs.of[2].epoch;
    assert_false(okv_epochs_are_valid(&epochs, 5 + OKV_EPOCHS_MAX));
    epochs.count = OKV_EPOCHS_MAX + 1;
    assert_false(okv_epochs_are_valid(&epochs, 5 + OKV_EPOCHS_MAX));
}

/* Up to 9 may have been published in an earlier epoch. */
TEST(a_copy_is_not_added_before_the_epoch_is_published)
{
    lead(5, 9);
    reply(OKV_PEER_JOINED, now, 5);
    assert_false(protocol.peers[0].is_required);
    now += 2 * D;
    take_type(OKV_EVENT_TIMER);
    assert_int_equal(protocol.published, 10);
    assert_false(protocol.peers[0].is_required);
}

TEST(a_copy_is_required_before_it_is_added)
{
    uint64_t told;

    lead(0, 0);
    now += 2 * D;
    take_type(OKV_EVENT_TIMER);
    told = protocol.status.valid_until_us;
    assert_int_equal(told, now + D);
    reply(OKV_PEER_JOINED, protocol.peers[0].join_sent_us, 1); /* its grant is of long ago */
    assert_true(protocol.peers[0].is_required);
    assert_null(find(OKV_ACTION_CHANGE_KEY));
    seal(2);
    assert_int_equal(protocol.published, 1);
    assert_int_equal(protocol.status.valid_until_us, told);
}

TEST(a_silent_copy_is_removed_and_then_not_required)
{
    lead_two();
    seal(2);
    assert_int_equal(protocol.published, 1);
    for (unsigned i = 0; i < 7 && !find(OKV_ACTION_CHANGE_KEY); i++) {
        now += H;
        take_type(OKV_EVENT_TIMER);
    }
    assert_non_null(find(OKV_ACTION_STATUS));
    assert_true(protocol.status.is_changing);
    assert_int_equal(protocol.published, 1);
    take(&(struct okv_protocol_event){.type = OKV_EVENT_UNKNOWN, .request = protocol.request});
    now += H;
    take_type(OKV_EVENT_TIMER);
    answer_key(protocol.key, protocol.revision); /* it may still be done: it is sent again */
    assert_int_equal(protocol.published, 1);
    answer_changed();
    assert_int_equal(protocol.published, 2);
    assert_int_equal(protocol.key.isr_count, 1);
}

/* An administrator wants fewer copies, or another server. */
TEST(a_copy_that_is_not_wanted_is_removed)
{
    struct okv_shard_key key;

    lead_two();
    key = protocol.key;
    key.wanted_count = 1;
    seal(2);
    take_type(OKV_EVENT_HINT);
    answer_key(key, protocol.revision + 1);
    assert_int_equal(find(OKV_ACTION_CHANGE_KEY)->key.isr_count, 1);
    assert_int_equal(protocol.published, 1); /* it is required until then */
    answer_changed();
    assert_int_equal(protocol.published, 2);
    for (unsigned i = 0; i < 20; i++) {
        now += D;
        take_type(OKV_EVENT_TIMER);
        reply(OKV_PEER_ACK, now, 2);
        assert_null(find(OKV_ACTION_CHANGE_KEY)); /* nor is it added again */
    }
}

TEST(a_wiped_etcd_changes_nothing)
{
    struct okv_shard_key key;

    lead_two();
    key = protocol.key;
    take_type(OKV_EVENT_HINT);
    answer_key(first_key, protocol.revision + 1);
    assert_true(protocol.status.is_alarmed);
    assert_int_equal(protocol.key.isr_count, 2);
    for (unsigned i = 0; i < 15; i++) {
        now += H;
        take_type(OKV_EVENT_TIMER);
        assert_null(find(OKV_ACTION_CHANGE_KEY)); /* though the copy is silent */
    }
    answer_key(key, protocol.revision);
    assert_false(protocol.status.is_alarmed);
    assert_non_null(find(OKV_ACTION_CHANGE_KEY));
}

TEST(a_hand_over_waits_for_the_short_lease)
{
    bool is_draining = false;
    uint64_t released_us = 0, told_us = 0;

    lead_two();
    take_type(OKV_EVENT_HAND_OVER);
    for (unsigned i = 0; i < 200 && released_us == 0; i++) {
        now = okv_protocol_timer_us(&protocol);
        told_us = protocol.status.valid_until_us;
        take_type(OKV_EVENT_TIMER);
        is_draining |= find(OKV_ACTION_DRAIN) != NULL;
        if (find(OKV_ACTION_DRAIN))
            take_type(OKV_EVENT_DRAINED);
        if (find_message(OKV_PEER_RELEASED))
            released_us = now;
        else
            reply(OKV_PEER_ACK, now, 1);
        assert_true(!is_draining || !protocol.status.takes_writes);
    }
    assert_true(is_draining && released_us >= told_us && released_us < told_us + D / 20);
    assert_int_equal(protocol.role, OKV_ROLE_COPY);
    assert_int_equal(protocol.status.valid_until_us, 0);
}

/* Not while it may be the last one that has what was answered. */
TEST(a_copy_without_room_begins_anew_outside_the_set)
{
    lead_two();
    now = protocol.beat_at_us;
    take_type(OKV_EVENT_TIMER);
    reply_with(OKV_PEER_ACK, OKV_PEER_FULL | OKV_PEER_SPENT, now, 1);
    assert_non_null(find(OKV_ACTION_CHANGE_KEY));
    assert_null(find_message(OKV_PEER_JOIN));
    answer_changed();
    assert_int_equal(protocol.key.isr_count, 1);
    if (!find_message(OKV_PEER_JOIN)) {
        now = protocol.beat_at_us;
        take_type(OKV_EVENT_TIMER);
    }
    assert_int_equal(find_message(OKV_PEER_JOIN)->flags, OKV_PEER_SNAPSHOT);
}

/* What is published elsewhere, and not here, is what a reader of the copy would miss. */
TEST(a_copy_knows_what_it_lacks)
{
    struct okv_protocol_log log = {.end = 100, .published = 100};
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 1, 7, now,
                       &actions);
    join.message =
        (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 1, .to = 500, .published = 400};
    okv_epochs_add(&join.message.epochs, 1, 0);
    take(&join);
    assert_int_equal(protocol.published, 100);
    assert_int_equal(protocol.told, 400);
}

static void copy_has(uint64_t sealed, uint64_t applied)
{
    take(&(struct okv_protocol_event){
        .type = OKV_EVENT_LOG, .sealed = sealed, .durable = sealed, .applied = applied});
}

/* What it acknowledged it has to apply before it serves, should it take over. */
TEST(a_copy_that_lags_acknowledges_what_it_has_applied)
{
    struct okv_protocol_log log = {.end = 100, .published = 100};
    struct okv_protocol_event event = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 1, 7, now,
                       &actions);
    event.message = (struct okv_peer_message){
        .type = OKV_PEER_JOIN, .epoch = 1, .to = 3000, .published = 3000, .sent_us = now};
    okv_epochs_add(&event.message.epochs, 1, 0);
    take(&event);
    event.message = (struct okv_peer_message){.type = OKV_PEER_SHIP,
                                              .epoch = 1,
                                              .from = 100,
                                              .to = 3000,
                                              .published = 3000,
                                              .sent_us = now};
    take(&event);
    copy_has(3000, 100);
    assert_null(find_message(OKV_PEER_ACK));
    assert_int_equal(protocol.published, 3000);
    event.message.type = OKV_PEER_BEAT;
    take(&event);
    assert_int_equal(find_message(OKV_PEER_ACK)->to, 100);
    copy_has(3000, 1999);
    assert_null(find_message(OKV_PEER_ACK));
    copy_has(3000, 2000);
    assert_int_equal(find_message(OKV_PEER_ACK)->to, 3000);
}

/* Whatever the log has. */
TEST(a_copy_gives_up_its_log_where_it_is_told_to)
{
    struct okv_protocol_log log = {.end = 100, .published = 100};
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 1, 7, now,
                       &actions);
    take_type(OKV_EVENT_SPENT);
    join.message = (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 2, .to = 100};
    okv_epochs_add(&join.message.epochs, 1, 0);
    okv_epochs_add(&join.message.epochs, 2, 100);
    take(&join);
    assert_null(find(OKV_ACTION_LOAD));
    assert_int_equal(find_message(OKV_PEER_JOINED)->flags, OKV_PEER_SPENT);
    join.message.flags = OKV_PEER_SNAPSHOT;
    take(&join);
    assert_non_null(find(OKV_ACTION_INCARNATION));
    assert_non_null(find(OKV_ACTION_LOAD));
    assert_int_equal(find_message(OKV_PEER_JOINED)->flags, OKV_PEER_SNAPSHOT);
}

/* A client may count what it READs here until the last valid-until has passed. */
TEST(a_deposed_primary_keeps_what_it_served_while_that_is_trusted)
{
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = COPY};

    lead_two();
    uint64_t trusted = protocol.status.valid_until_us;
    assert_true(trusted > now);
    join.message = (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 4, .to = 9};
    okv_epochs_add(&join.message.epochs, 1, 0);
    okv_epochs_add(&join.message.epochs, 4, 0); /* the own epoch left nothing there */
    take(&join);
    assert_int_equal(protocol.role, OKV_ROLE_COPY);
    assert_null(find(OKV_ACTION_LOAD));
    assert_int_equal(find_message(OKV_PEER_JOINED)->flags, OKV_PEER_REFUSED);
    now = trusted;
    take(&join);
    assert_non_null(find(OKV_ACTION_LOAD));
}

/* The primary that had it died before anybody else joined its epoch. */
TEST(a_frame_of_an_epoch_that_is_lost_is_cut)
{
    struct okv_protocol_log log = {.end = 25, .published = 24};
    struct okv_protocol_event join = {.type = OKV_EVENT_MESSAGE, .server = 1};

    okv_epochs_add(&log.epochs, 2, 0);
    okv_epochs_add(&log.epochs, 3, 24);
    okv_protocol_start(&protocol, &options, (struct okv_member){COPY, 1}, &log, 3, 7, now,
                       &actions);
    join.message =
        (struct okv_peer_message){.type = OKV_PEER_JOIN, .epoch = 4, .to = 26, .published = 24};
    okv_epochs_add(&join.message.epochs, 2, 0);
    okv_epochs_add(&join.message.epochs, 4, 24);
    take(&join);
    assert_null(find(OKV_ACTION_LOAD));
    assert_int_equal(find(OKV_ACTION_TRUNCATE)->position, 24);
}

/* A reply is lost, and nothing else would ever be sent. */
TEST(a_copy_that_does_not_go_on_joins_again)
{
    lead_two();
    seal(2);
    assert_non_null(find_message(OKV_PEER_SHIP));
    unsigned joins = 0;
    for (unsigned i = 0; i < 80 && joins < 2; i++) {
        now += H;
        take_type(OKV_EVENT_TIMER);
        joins +=
            find_message(OKV_PEER_JOIN) != NULL; /* the second one: nobody answered the first */
        if (find(OKV_ACTION_CHANGE_KEY))
            answer_changed();
        if (joins == 0)
            reply(OKV_PEER_ACK, now, 1); /* it is there, without what was sent */
    }
    assert_int_equal(joins, 2);
}

/* All that were in the set are lost, and an administrator knows it. It waits as any other does. */
TEST(a_copy_outside_the_set_leads_when_it_is_told_to)
{
    struct okv_shard_key key = first_key;
    struct okv_protocol_log log = {.end = 5, .published = 5};

    key.isr[0] = key.primary = (struct okv_member){COPY, 1};
    okv_epochs_add(&log.epochs, 1, 0);
    okv_protocol_start(&protocol, &options, (struct okv_member){1, 7}, &log, 1, 7, now, &actions);
    take_type(OKV_EVENT_RECOVER);
    assert_null(find(OKV_ACTION_CHANGE_KEY)); /* it does not know the key */
    answer_key(key, 10);
    assert_null(find(OKV_ACTION_CHANGE_KEY));
    take_type(OKV_EVENT_RECOVER);
    const struct okv_shard_key *proposed = &find(OKV_ACTION_CHANGE_KEY)->key;
    assert_int_equal(proposed->epoch, 2);
    assert_true(okv_member_is(proposed->primary, protocol.self));
    assert_int_equal(proposed->isr_count, 1);
    assert_true(okv_key_has(proposed, protocol.self));
    uint64_t begun = now;
    answer_changed();
    assert_true(find(OKV_ACTION_LEAD)->is_recovery);
    assert_true(protocol.serve_at_us > begun + D);
}

static void be_full(bool is_full)
{
    take(&(struct okv_protocol_event){
        .type = OKV_EVENT_LOG, .sealed = 1, .durable = 1, .applied = 1, .is_full = is_full});
}

/* Until it proposes itself again, or `until`. */
static bool proposes_itself(uint64_t until)
{
    while (now < until) {
        now = okv_protocol_timer_us(&protocol);
        take_type(OKV_EVENT_TIMER);
        if (find(OKV_ACTION_READ_KEY))
            answer_key(protocol.key, protocol.revision);
        if (find(OKV_ACTION_CHANGE_KEY))
            return true;
    }
    return false;
}

/* Another copy takes over by its silence. If none does, it leads again. */
TEST(a_primary_that_takes_nothing_more_abdicates)
{
    lead_two();
    be_full(true);
    assert_non_null(find(OKV_ACTION_FOLLOW));
    assert_int_equal(protocol.role, OKV_ROLE_COPY);
    assert_int_equal(protocol.status.valid_until_us, 0);
    uint64_t begun = now;
    assert_false(proposes_itself(begun + 7 * options.suspect_us));
    assert_true(proposes_itself(begun + 11 * options.suspect_us));
    assert_int_equal(protocol.proposed.epoch, 3);
}

TEST(a_full_primary_goes_on_where_nobody_else_can_lead)
{
    lead_two();
    for (unsigned i = 0; i < 7 && !find(OKV_ACTION_CHANGE_KEY); i++) {
        now += H; /* the copy does not answer */
        take_type(OKV_EVENT_TIMER);
    }
    answer_changed();
    assert_int_equal(protocol.key.isr_count, 1);
    be_full(true);
    assert_int_equal(protocol.role, OKV_ROLE_PRIMARY);
}

static uint64_t any_number(uint64_t *random)
{
    static const uint64_t edges[] = {0, 1, 2, 3, 10, OKV_EPOCH_MAX, OKV_EPOCH_MAX + 1, UINT64_MAX};
    uint64_t choice = random_below(random, 10);

    return choice < 8    ? edges[choice]
           : choice == 8 ? now - random_below(random, D)
                         : random_next(random);
}

/* Whatever a peer says, nothing is published that is not here, and no lease is longer than D. */
TEST(messages_are_data)
{
    uint64_t random = random_seed();

    for (unsigned i = 0; i < 100000; i++) {
        struct okv_protocol_event event = {.type = OKV_EVENT_MESSAGE,
                                           .server = random_below(&random, 4)};
        struct okv_peer_message *message = &event.message;
        if (i % 100 == 0)
            lead_two();
        now += random_below(&random, H / 10);
        message->type = (enum okv_peer_message_type)random_below(&random, 7);
        message->flags = (uint32_t)random_below(&random, 8);
        message->epoch = random_below(&random, 2) ? protocol.epoch : any_number(&random);
        message->sent_us = any_number(&random);
        message->from = any_number(&random);
        message->to = any_number(&random);
        message->published = any_number(&random);
        message->incarnation = random_below(&random, 3);
        message->epochs.count = (unsigned)random_below(&random, 20);
        for (unsigned k = 0; k < OKV_EPOCHS_MAX; k++) {
            message->epochs.of[k].epoch = any_number(&random);
            message->epochs.of[k].begin = any_number(&random);
        }
        if (random_below(&random, 2)) {
            message->epochs.count = 1;
            message->epochs.of[0].epoch = message->epoch;
        }
        take(&event);
        assert_true(actions.count <= OKV_ACTIONS_MAX);
        assert_true(protocol.published <= protocol.sealed);
        assert_true(protocol.status.valid_until_us <= now + D);
    }
}
