/* A log that has a copy: what is seen and answered, and what becomes of a batch when another copy
 * leads. */
#include "tests/support/test.h"

#include <sched.h>
#include <time.h>

#include "server/store/status.h"
#include "server/wal/append.h"
#include "server/wal/copies/tail.h"
#include "shared/base/error.h"
#include "tests/support/wal_pair.h"

/* Both of a pair, of which the first one leads. */
static struct wal_pair *lead(struct wal_copy **primary, struct wal_copy **copy)
{
    struct wal_pair *pair = wal_pair_begin();

    *primary = &pair->of[0];
    *copy = &pair->of[1];
    wal_pair_lead(pair, 0);
    return pair;
}

/* Something else may run for so long. It is a chance to be wrong, and no limit. */
static void let_run(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static uint64_t used(struct wal_copy *copy)
{
    return okv_heap_used(&copy->machine.store.heap);
}

/* ---- a batch ---- */

TEST(changes_begin_when_the_first_frame_is_published)
{
    struct wal_pair *pair = wal_pair_begin();
    struct wal_copy *primary = &pair->of[0];

    assert_int_equal(wal_copy_state(primary).sealed, WAL_PAIR_BEGIN);
    assert_false(okv_wal_is_batch_open(primary->machine.wal));
    assert_int_equal(okv_wal_copies_lead(primary->machine.wal, 1, 0), 0);
    wal_copy_await_durable(primary);
    wal_pair_ship(pair, 0);
    let_run();
    assert_false(okv_wal_is_batch_open(primary->machine.wal));
    assert_false(wal_copy_state(primary).takes_changes);
    assert_int_equal(wal_copy_state(primary).epoch, 1);
    assert_int_equal(wal_copy_state(primary).applied, WAL_PAIR_BEGIN);
    wal_pair_publish(pair, 0);
    wal_copy_await_open(primary, true);
    wal_machine_enter(&primary->machine);
    okv_wal_end_change(primary->machine.wal);
    wal_copy_await_applied(&pair->of[1]);
    assert_false(okv_wal_is_batch_open(pair->of[1].machine.wal));
    assert_int_equal(wal_copy_state(&pair->of[1]).epoch, 1);
    wal_pair_end(pair);
}

TEST(a_batch_is_seen_and_answered_when_it_is_published)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);

    for (uint32_t number = 1; number <= 50; number++) {
        uint64_t before = wal_copy_state(primary).sealed;
        uint64_t batch = wal_copy_begin_batch(primary, 1, number);
        while (wal_copy_state(primary).sealed == before)
            sched_yield();
        wal_copy_await_durable(primary);
        wal_pair_ship(pair, 0);
        wal_copy_await_durable(copy);
        if (number == 1)
            let_run();
        okv_wal_copies_publish(primary->machine.wal, before);
        assert_false(wal_copy_has_ended(primary, batch));
        assert_int_equal(wal_copy_number(primary, 1), number - 1);
        assert_int_equal(wal_copy_number(copy, 1), number - 1);
        wal_pair_publish(pair, 0);
        assert_int_equal(wal_copy_await_batch(primary, batch), 0);
        assert_int_equal(wal_copy_number(primary, 1), number);
        wal_copy_await_applied(copy);
        assert_int_equal(wal_copy_number(copy, 1), number);
    }
    assert_true(atomic_load(&primary->changes) > 50);
    assert_int_equal(wal_pair_expect_equal(pair), 1);
    wal_pair_end(pair);
}

/* A batch that both have. */
static void commit(struct wal_pair *pair, unsigned leader, unsigned key, uint32_t number)
{
    struct wal_copy *primary = &pair->of[leader];
    uint64_t batch = wal_copy_begin_batch(primary, key, number);

    while (!wal_copy_has_ended(primary, batch)) {
        wal_pair_ship(pair, leader);
        wal_pair_publish(pair, leader);
        sched_yield();
    }
    assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    wal_copy_await_applied(&pair->of[!leader]);
}

/* ---- a primary that follows ---- */

TEST(an_open_batch_is_dropped)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    uint64_t before, size;

    commit(pair, 0, 1, 1);
    before = wal_copy_state(primary).sealed;
    size = used(primary);
    wal_machine_enter(&primary->machine);
    assert_int_equal(wal_copy_put(primary, 1, 2, 0), 0);
    assert_int_equal(wal_copy_put(primary, 2, 2, 0), 0);
    uint64_t batch = okv_wal_request_commit(primary->machine.wal);
    okv_wal_copies_follow(primary->machine.wal);
    okv_wal_end_change(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    wal_copy_await_open(primary, false);
    assert_int_equal(wal_copy_state(primary).sealed, before);
    assert_int_equal(wal_copy_number(primary, 1), 1);
    assert_int_equal(wal_copy_number(primary, 2), 0);
    assert_int_equal(used(primary), size);
    assert_int_equal(wal_pair_expect_equal(pair), 1);
    wal_pair_end(pair);
}

/* The first copy has sealed a batch that nobody published, and follows. */
static uint64_t depose(struct wal_pair *pair, bool is_shipped)
{
    struct wal_copy *primary = &pair->of[0];
    uint64_t before = wal_copy_state(primary).sealed;
    uint64_t batch = wal_copy_begin_batch(primary, 1, 2);

    while (wal_copy_state(primary).sealed == before)
        sched_yield();
    if (is_shipped)
        wal_pair_ship(pair, 0);
    okv_wal_copies_follow(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    wal_copy_await_open(primary, false);
    assert_int_equal(wal_copy_number(primary, 1), 1);
    assert_true(wal_copy_state(primary).sealed > before);
    return before;
}

TEST(a_sealed_batch_may_be_published_all_the_same)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);

    commit(pair, 0, 1, 1);
    depose(pair, true);
    assert_int_equal(wal_copy_number(copy, 1), 1);
    wal_pair_lead(pair, 1);
    assert_int_equal(wal_copy_number(copy, 1), 2);
    wal_copy_await_applied(primary);
    assert_int_equal(wal_copy_number(primary, 1), 2);
    commit(pair, 1, 1, 3);
    wal_copy_await_applied(primary);
    assert_int_equal(wal_copy_number(primary, 1), 3);
    assert_int_equal(wal_pair_expect_equal(pair), 1);
    assert_int_equal(used(primary), used(copy));
    wal_pair_end(pair);
}

TEST(a_sealed_batch_is_cut_off)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);

    commit(pair, 0, 1, 1);
    uint64_t cut = depose(pair, false);
    wal_copy_await_durable(primary);
    assert_int_equal(okv_wal_copies_lead(copy->machine.wal, ++pair->epoch, 0), 0);
    okv_wal_copies_cut(primary->machine.wal, cut);
    assert_int_equal(wal_copy_state(primary).sealed, cut);
    assert_int_equal(wal_copy_state(primary).durable, cut);
    assert_int_equal(wal_copy_state(primary).epoch, 1);
    wal_pair_ship(pair, 1);
    wal_pair_publish(pair, 1);
    wal_copy_await_open(copy, true);
    commit(pair, 1, 3, 3);
    wal_copy_await_applied(primary);
    wal_copy_await_durable(primary);
    assert_int_equal(wal_copy_number(primary, 1), 1);
    assert_int_equal(wal_pair_expect_equal(pair), 2);
    assert_int_equal(used(primary), used(copy));
    wal_pair_end(pair);
}

/* A worker may look late, when others were dropped or published. */
TEST(a_dropped_batch_stays_unknown)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    uint64_t dropped[3], committed[3];

    commit(pair, 0, 1, 1);
    for (unsigned i = 0; i < 3; i++) {
        dropped[i] = wal_copy_begin_batch(primary, 1, 2);
        okv_wal_copies_follow(primary->machine.wal);
        wal_copy_await_open(primary, false);
        wal_pair_lead(pair, 0);
        for (unsigned k = 0; k <= i; k++)
            assert_int_equal(wal_copy_await_batch(primary, dropped[k]), OKV_EUNKNOWN);
        for (unsigned k = 0; k < i; k++)
            assert_int_equal(wal_copy_await_batch(primary, committed[k]), 0);
        commit(pair, 0, 2, i);
        committed[i] = primary->machine.wal->awaited;
    }
    for (unsigned i = 0; i < 100; i++)
        commit(pair, 0, 2, i);
    okv_wal_copies_follow(primary->machine.wal);
    wal_copy_await_open(primary, false);
    assert_int_equal(wal_copy_await_batch(primary, dropped[0]), OKV_EUNKNOWN);
    wal_pair_end(pair);
}

/* ---- drained ---- */

static void await_drained(struct wal_copy *copy)
{
    while (!wal_copy_state(copy).is_drained)
        sched_yield();
}

TEST(a_drained_log_has_published_its_batch)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    struct okv_wal *wal = primary->machine.wal;
    uint64_t before = wal_copy_state(primary).sealed;

    wal_machine_enter(&primary->machine);
    assert_int_equal(wal_copy_put(primary, 1, 1, 0), 0);
    uint64_t batch = okv_wal_request_commit(wal);
    okv_wal_copies_drain(wal, true);
    okv_wal_end_change(wal);
    while (wal_copy_state(primary).sealed == before)
        sched_yield();
    let_run();
    assert_false(wal_copy_state(primary).is_drained);
    assert_false(wal_copy_has_ended(primary, batch));
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    await_drained(primary);
    assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    assert_false(okv_wal_is_batch_open(wal));
    assert_int_equal(wal_copy_state(primary).applied, wal_copy_state(primary).sealed);
    okv_wal_copies_drain(wal, false);
    wal_copy_await_open(primary, true);
    assert_false(wal_copy_state(primary).is_drained);
    commit(pair, 0, 1, 2);
    wal_pair_end(pair);
}

/* The log's thread does not come to the end of a batch in between. */
TEST(a_log_that_takes_no_changes_is_drained)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    struct okv_wal *wal = primary->machine.wal;

    okv_wal_copies_follow(wal);
    wal_copy_await_open(primary, false);
    assert_int_equal(okv_wal_copies_lead(wal, ++pair->epoch, 0), 0);
    wal_copy_await_durable(primary);
    for (unsigned i = 0; i < 3; i++) {
        okv_wal_copies_drain(wal, false);
        let_run();
        unsigned before = atomic_load(&primary->changes);
        okv_wal_copies_drain(wal, true);
        while (atomic_load(&primary->changes) == before)
            sched_yield();
        await_drained(primary);
    }
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    wal_copy_await_applied(primary);
    assert_false(okv_wal_is_batch_open(wal));
    okv_wal_copies_follow(wal);
    okv_wal_copies_drain(wal, true);
    let_run();
    assert_false(wal_copy_state(primary).is_drained); /* another one leads */
    wal_pair_lead(pair, 0);
    commit(pair, 0, 1, 1);
    wal_pair_end(pair);
}

/* ---- refusals, and batches without a record ---- */

TEST(changes_are_refused_with_a_code)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    uint64_t before = wal_copy_state(primary).sealed;

    okv_wal_copies_refuse(primary->machine.wal, OKV_EFEWCOPIES);
    wal_machine_enter(&primary->machine);
    assert_int_equal(wal_copy_put(primary, 1, 1, 0), OKV_EFEWCOPIES);
    assert_int_equal(wal_machine_leave(&primary->machine), 0);
    assert_int_equal(wal_copy_number(primary, 1), 0);
    assert_int_equal(wal_copy_state(primary).sealed, before);
    okv_wal_copies_refuse(primary->machine.wal, 0);
    commit(pair, 0, 1, 1);
    assert_int_equal(wal_copy_number(primary, 1), 1);
    wal_pair_end(pair);
}

static void set_lease(struct wal_copy *copy, bool holds, uint32_t longest_ms)
{
    const struct okv_store_lease lease = {
        .table = {.valid_until_us = holds ? UINT64_MAX / 2 : 1, .flags = OKV_LEASE_MEMBER},
        .longest_ms = longest_ms,
    };

    okv_store_set_lease(&copy->machine.store, &lease);
}

/* An answer waits for it. */
static uint64_t begin_empty(struct wal_copy *copy)
{
    wal_machine_enter(&copy->machine);
    uint64_t batch = okv_wal_request_commit(copy->machine.wal);
    okv_wal_end_change(copy->machine.wal);
    return batch;
}

#define HOUR_MS 3600000

TEST(a_batch_without_a_record_waits_for_a_lease)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    uint64_t before = wal_copy_state(primary).sealed;

    assert_int_equal(wal_copy_await_batch(primary, begin_empty(primary)), 0); /* a server alone */
    for (unsigned i = 0; i < 3; i++) {
        set_lease(primary, false, HOUR_MS);
        uint64_t batch = begin_empty(primary);
        while (okv_wal_is_batch_open(primary->machine.wal))
            sched_yield();
        let_run();
        assert_false(wal_copy_has_ended(primary, batch));
        set_lease(primary, true, HOUR_MS);
        assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    }
    assert_int_equal(wal_copy_state(primary).sealed, before);
    set_lease(primary, false, 1); /* it does not come */
    assert_int_equal(wal_copy_await_batch(primary, begin_empty(primary)), OKV_EUNKNOWN);
    set_lease(primary, false, HOUR_MS);
    commit(pair, 0, 1, 1); /* what is published needs none */
    wal_pair_end(pair);
}

TEST(a_batch_that_nobody_waits_for_needs_no_lease)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);

    set_lease(primary, false, HOUR_MS);
    wal_machine_enter(&primary->machine);
    uint64_t batch = primary->machine.wal->batch;
    okv_wal_end_change(primary->machine.wal);
    okv_wal_wake(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    wal_pair_end(pair);
}

TEST(a_batch_without_a_record_of_one_that_leads_no_more)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);

    set_lease(primary, false, HOUR_MS);
    uint64_t batch = begin_empty(primary);
    okv_wal_copies_follow(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    wal_copy_await_open(primary, false);
    wal_pair_lead(pair, 0);
    batch = begin_empty(primary);
    okv_wal_copies_drain(primary->machine.wal, true);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    await_drained(primary);
    okv_wal_copies_drain(primary->machine.wal, false);
    wal_copy_await_open(primary, true);
    commit(pair, 0, 1, 1);
    wal_pair_end(pair);
}

/* ---- frames ---- */

TEST(frames_are_read_and_appended)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    struct okv_wal *source = primary->machine.wal, *target = copy->machine.wal;
    uint64_t begin = wal_copy_state(primary).sealed, ends[4] = {begin};
    uint8_t bytes[4096];
    size_t length;

    for (unsigned i = 1; i < 4; i++) {
        uint64_t batch = wal_copy_begin_batch(primary, i, i);
        while ((ends[i] = wal_copy_state(primary).sealed) == ends[i - 1])
            sched_yield();
        okv_wal_copies_publish(source, ends[i]);
        assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    }
    size_t all = ends[3] - begin, one = ends[1] - begin;
    assert_int_equal(okv_wal_copies_read(source, begin, ends[3], bytes, all, &length), 0);
    assert_int_equal(length, all);
    assert_int_equal(okv_wal_copies_read(source, begin, ends[3], bytes, all - 1, &length), 0);
    assert_int_equal(length, ends[2] - begin);
    assert_int_equal(okv_wal_copies_read(source, begin, ends[3] - 1, bytes, all, &length), 0);
    assert_int_equal(length, ends[2] - begin);
    assert_int_equal(okv_wal_copies_read(source, begin, ends[3], bytes, one - 1, &length),
                     OKV_EVALUESIZE);
    assert_int_equal(length, one);
    assert_int_equal(okv_wal_copies_read(source, begin + 8, ends[3], bytes, all, &length),
                     OKV_ENOTFOUND);
    assert_int_equal(okv_wal_copies_read(source, ends[3], ends[3], bytes, all, &length),
                     OKV_ENOTFOUND);

    assert_int_equal(okv_wal_copies_read(source, begin, ends[3], bytes, all, &length), 0);
    assert_int_equal(okv_wal_copies_append(target, bytes + one, all - one), OKV_EPROTO);
    assert_int_equal(wal_copy_state(copy).sealed, begin);
    bytes[ends[2] - begin + 60] ^= 1;
    assert_int_equal(okv_wal_copies_append(target, bytes, all), OKV_EPROTO);
    assert_int_equal(wal_copy_state(copy).sealed, ends[2]);
    bytes[ends[2] - begin + 60] ^= 1;
    assert_int_equal(okv_wal_copies_append(target, bytes, all - 1), OKV_EPROTO);
    assert_int_equal(okv_wal_copies_append(target, bytes, all), 0); /* some are there */
    assert_int_equal(okv_wal_copies_append(target, bytes, all), 0);
    assert_int_equal(wal_copy_state(copy).sealed, ends[3]);
    assert_int_equal(okv_wal_copies_append(source, bytes, all), 0); /* it leads, and has them */
    okv_wal_copies_publish(target, ends[3]);
    wal_copy_await_applied(copy);
    assert_int_equal(wal_pair_expect_equal(pair), 3);
    wal_pair_end(pair);
}

TEST(a_primary_takes_no_frames)
{
    struct wal_copy *primary, *copy;
    struct wal_pair *pair = lead(&primary, &copy);
    uint64_t end = wal_copy_state(primary).sealed;
    uint8_t record[24];
    const struct okv_wal_record begins = {.kind = OKV_WAL_EPOCH, .version = 9};
    const struct okv_wal_frame header = {.length = 80, .position = end, .epoch = 9};

    okv_wal_record_encode(&begins, record);
    struct okv_wal_tail_frame *frame = okv_wal_tail_frame_create(&header, record);
    assert_non_null(frame);
    assert_int_equal(okv_wal_copies_append(primary->machine.wal, frame->bytes, 80), OKV_EPROTO);
    assert_int_equal(wal_copy_state(primary).sealed, end);
    assert_int_equal(okv_wal_copies_append(copy->machine.wal, frame->bytes, 80), 0);
    assert_int_equal(wal_copy_state(copy).epoch, 9);
    okv_wal_tail_frame_drop(frame);
    wal_pair_end(pair);
}

/* What neither this copy nor its files need is kept as far as it is asked to be. */
TEST(memory_keeps_the_latest_frames)
{
    struct wal_pair *pair = calloc(1, sizeof *pair);

    for (unsigned i = 0; i < 2; i++) {
        wal_copy_init(&pair->of[i], true);
        pair->of[i].machine.keep = 500;
        wal_copy_start(&pair->of[i]);
    }
    wal_pair_lead(pair, 0);
    for (uint32_t number = 1; number <= 100; number++)
        commit(pair, 0, 1, number);
    for (unsigned i = 0; i < 2; i++) {
        wal_copy_await_durable(&pair->of[i]);
        wal_copy_await_applied(&pair->of[i]);
        struct okv_wal_copies_state log = wal_copy_state(&pair->of[i]);
        assert_in_range(log.sealed - log.begin, 500, 700);
    }
    wal_pair_end(pair);
}
