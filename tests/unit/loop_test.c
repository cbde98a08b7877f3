/* The loop keeps to its depth, its order and its clock, counts what it finds, and no operation
 * that was due is left out of the latencies because the server stood still. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/loop.h"
#include "tests/support/stub_target.h"

#define KEY_SIZE 16
#define RECORDS 100
#define SLOTS 256
#define TARGETS 3
#define MS UINT64_C(1000000)

/* A loop over stubs, and what it is told to do. */
struct fixture {
    struct stub_target *stubs[TARGETS];
    struct target *targets[TARGETS];
    struct workload_values values;
    struct inserts *inserts;
    struct loop *loop;
    struct loop_tally *tally;
    struct series *series;
    atomic_bool stop;
    atomic_ulong done;

    enum operation operation; /* of all orders, */
    uint64_t next;            /* on this record and those after it */
    uint64_t remaining;
    uint64_t distance_ns; /* open loop: orders are due one after the other */
    uint64_t due_ns;
};

static struct fixture *fixture_create(uint32_t targets, uint32_t value_size)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    assert_non_null(fixture);
    fixture->tally = calloc(1, sizeof *fixture->tally);
    fixture->inserts = calloc(1, sizeof *fixture->inserts);
    fixture->values = (struct workload_values){WORKLOAD_SIZES_FIXED, value_size, value_size};
    inserts_init(fixture->inserts, RECORDS);
    loop_tally_init(fixture->tally);
    for (uint32_t i = 0; i < targets; i++) {
        fixture->stubs[i] = malloc(sizeof *fixture->stubs[i]);
        stub_target_init(fixture->stubs[i]);
        fixture->targets[i] = &fixture->stubs[i]->base;
    }
    struct loop_config config = {.targets = fixture->targets,
                                 .target_count = targets,
                                 .stop = &fixture->stop,
                                 .done = &fixture->done,
                                 .slot_count = SLOTS,
                                 .key_size = KEY_SIZE,
                                 .values = &fixture->values,
                                 .inserts = fixture->inserts,
                                 .id = 1};
    assert_int_equal(loop_create(&config, &fixture->loop), OKV_OK);
    return fixture;
}

static void fixture_destroy(struct fixture *fixture)
{
    loop_destroy(fixture->loop);
    for (int i = 0; i < TARGETS; i++)
        free(fixture->stubs[i]);
    free(fixture->inserts);
    free(fixture->tally);
    free(fixture);
}

static bool next_order(void *user, struct loop_order *order)
{
    struct fixture *fixture = user;

    if (fixture->remaining == 0)
        return false;
    fixture->remaining--;
    *order = (struct loop_order){.operation = fixture->operation,
                                 .record = fixture->next++ % RECORDS,
                                 .due_ns = fixture->due_ns};
    fixture->due_ns += fixture->distance_ns;
    return true;
}

/* Runs `count` operations of a kind at a depth. */
static int run(struct fixture *fixture, enum operation operation, uint64_t count, uint32_t depth,
               uint64_t deadline_ns)
{
    struct loop_run_config config = {.next = next_order,
                                     .user = fixture,
                                     .depth = depth,
                                     .deadline_ns = deadline_ns,
                                     .tally = fixture->tally,
                                     .series = fixture->series};

    fixture->operation = operation;
    fixture->next = 0;
    fixture->remaining = count;
    fixture->due_ns = fixture->distance_ns > 0 ? stub_target_now() + fixture->distance_ns : 0;
    return loop_run(fixture->loop, &config);
}

static void load(struct fixture *fixture)
{
    assert_int_equal(run(fixture, OPERATION_PUT, RECORDS, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->latency[OPERATION_PUT].count, RECORDS);
    loop_tally_init(fixture->tally);
}

static const struct histogram *latency(const struct fixture *fixture, enum operation operation)
{
    return &fixture->tally->latency[operation];
}

/* Samples of a millisecond and more. */
static uint64_t slow(const struct histogram *histogram)
{
    for (double percent = 0; percent < 100; percent += 0.01) {
        if (histogram_percentile(histogram, percent) >= MS)
            return histogram->count - (uint64_t)((double)histogram->count * percent / 100);
    }
    return histogram->max >= MS ? 1 : 0;
}

/* ---- the closed loop ---------------------------------------------------- */

static void gets_find_what_was_put(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_GET, 1000, 4, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_GET)->count, 1000);
    assert_int_equal(fixture->stubs[0]->counts[OKV_GET], 1000);
    assert_int_equal(fixture->tally->missing + fixture->tally->wrong + fixture->tally->failed, 0);
    assert_int_equal(fixture->tally->key_bytes, 1000 * KEY_SIZE);
    assert_int_equal(fixture->tally->value_bytes, 1000 * 32);
    assert_int_equal(fixture->done, RECORDS + 1000);
    fixture_destroy(fixture);
}

static void times_are_from_submission_to_result(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_GET, 1000, 1, 0), OKV_OK);
    assert_true(latency(fixture, OPERATION_GET)->min >= 10000);
    assert_true(latency(fixture, OPERATION_GET)->max < 11000);
    fixture_destroy(fixture);
}

static void the_depth_is_kept_and_not_exceeded(void **state)
{
    (void)state;
    for (uint32_t depth = 1; depth <= SLOTS; depth *= 4) {
        struct fixture *fixture = fixture_create(TARGETS, 32);
        assert_int_equal(run(fixture, OPERATION_PUT, 5000, depth, 0), OKV_OK);
        for (int i = 0; i < TARGETS; i++) {
            assert_int_equal(fixture->stubs[i]->pending_max, depth);
            assert_in_range(fixture->stubs[i]->counts[OKV_PUT], 5000 / TARGETS - depth,
                            5000 / TARGETS + depth);
        }
        assert_int_equal(latency(fixture, OPERATION_PUT)->count, 5000);
        fixture_destroy(fixture);
    }
}

/* With one doorbell: as many submissions as there are times when something ended. */
static void what_there_is_room_for_is_submitted_together(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    assert_int_equal(run(fixture, OPERATION_PUT, 160, 16, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->submits, 10);
    fixture_destroy(fixture);
}

static void a_full_target_gets_the_rest_later(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->stubs[0]->room = 3;
    assert_int_equal(run(fixture, OPERATION_PUT, 100, 8, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_PUT)->count, 100);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 100);
    fixture->stubs[0]->room = 0;
    assert_int_equal(run(fixture, OPERATION_PUT, 1, 8, 0), OKV_EAGAIN);
    fixture_destroy(fixture);
}

static void nothing_is_begun_after_the_deadline(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);
    uint64_t start_ns = stub_target_now();

    (void)state;
    assert_int_equal(run(fixture, OPERATION_PUT, UINT64_MAX, 8, start_ns + 10 * MS), OKV_OK);
    assert_in_range(fixture->stubs[0]->last_ns, start_ns + 9 * MS, start_ns + 10 * MS);
    assert_int_equal(fixture->stubs[0]->pending, 0);
    assert_int_equal(latency(fixture, OPERATION_PUT)->count, fixture->stubs[0]->counts[OKV_PUT]);
    fixture_destroy(fixture);
}

/* What a loop without a schedule makes of a server that stands still: one slow operation. */
static void a_closed_loop_omits_what_it_did_not_ask(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);
    uint64_t start_ns = stub_target_now();

    (void)state;
    fixture->stubs[0]->still_from_ns = start_ns + 100 * MS;
    fixture->stubs[0]->still_until_ns = start_ns + 200 * MS;
    assert_int_equal(run(fixture, OPERATION_PUT, UINT64_MAX, 1, start_ns + 1000 * MS), OKV_OK);
    assert_int_equal(slow(latency(fixture, OPERATION_PUT)), 1);
    fixture_destroy(fixture);
}

/* ---- the open loop ------------------------------------------------------ */

/* 1000 operations per second, of which 100 are due while the server stands still: all of these
 * are slow, by what was left of it when they were due. So whether they wait in the server or, for
 * want of depth, here. */
static void all_that_were_due_meanwhile_are_slow(void **state)
{
    static const uint32_t depths[] = {1, 16, SLOTS};

    (void)state;
    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        struct fixture *fixture = fixture_create(1, 32);
        const struct histogram *puts = latency(fixture, OPERATION_PUT);
        uint64_t start_ns = stub_target_now();

        fixture->distance_ns = MS;
        fixture->stubs[0]->still_from_ns = start_ns + 100 * MS + MS / 2;
        fixture->stubs[0]->still_until_ns = start_ns + 200 * MS + MS / 2;
        assert_int_equal(run(fixture, OPERATION_PUT, 1000, depths[i], 0), OKV_OK);
        assert_int_equal(puts->count, 1000);
        assert_in_range(slow(puts), 99, 102);
        assert_in_range(puts->max, 99 * MS, 102 * MS);
        /* 0.5 + 1.5 + ... + 99.5 ms */
        assert_in_range((uint64_t)puts->sum, 4980 * MS, 5300 * MS);
        assert_true(histogram_percentile(puts, 95) > 45 * MS);
        assert_true(histogram_percentile(puts, 80) < MS);
        fixture_destroy(fixture);
    }
}

static void nothing_is_begun_before_it_is_due(void **state)
{
    (void)state;
    for (uint32_t targets = 1; targets <= TARGETS; targets++) {
        struct fixture *fixture = fixture_create(targets, 32);
        uint64_t start_ns = stub_target_now();

        fixture->distance_ns = 7 * MS / 2;
        assert_int_equal(run(fixture, OPERATION_PUT, 100, 16, 0), OKV_OK);
        assert_true(fixture->stubs[0]->first_ns >= start_ns + fixture->distance_ns);
        assert_true(fixture->stubs[(100 - 1) % targets]->last_ns >=
                    start_ns + 100 * fixture->distance_ns);
        /* Nor is it late when there is nothing in the way. */
        assert_true(latency(fixture, OPERATION_PUT)->max < 20000);
        assert_int_equal(latency(fixture, OPERATION_PUT)->count, 100);
        fixture_destroy(fixture);
    }
}

/* 100000 per second of a server that does them in 10 us at depth 1, and is asked for twice that. */
static void what_cannot_be_kept_up_with_shows(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->distance_ns = 5000;
    assert_int_equal(run(fixture, OPERATION_PUT, 10000, 1, 0), OKV_OK);
    assert_true(latency(fixture, OPERATION_PUT)->max > 50 * MS);
    assert_in_range(histogram_percentile(latency(fixture, OPERATION_PUT), 50), 24 * MS, 30 * MS);
    fixture_destroy(fixture);
}

static void an_order_that_was_given_is_done_after_the_deadline(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->distance_ns = 10 * MS;
    assert_int_equal(run(fixture, OPERATION_PUT, 10, 1, stub_target_now() + 25 * MS), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_PUT)->count, 10 - fixture->remaining);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 3);
    fixture_destroy(fixture);
}

/* ---- what operations do ------------------------------------------------- */

static void wrong_and_missing_values_are_counted(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    assert_int_equal(run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(latency(fixture, OPERATION_GET)->count, 10);
    load(fixture);
    fixture->stubs[0]->corrupts = true;
    assert_int_equal(run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 10);
    fixture->stubs[0]->corrupts = false;
    fixture->values.low = fixture->values.high = 24; /* not what was put */
    assert_int_equal(run(fixture, OPERATION_GET, 10, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 20);
    assert_int_equal(fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

/* A value that is whole but shorter than its record's. */
static void a_value_of_another_size_is_wrong(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    for (int i = 0; i < RECORDS; i++) {
        struct stub_item *item = &fixture->stubs[0]->items[i];
        workload_value_write((uint64_t)i, 1, item->value, 24);
        item->value_length = 24;
    }
    assert_int_equal(run(fixture, OPERATION_GET, RECORDS, 2, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, RECORDS);
    fixture_destroy(fixture);
}

static void rmw_is_a_get_and_a_put(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    uint64_t version = fixture->stubs[0]->items[0].version;
    assert_int_equal(run(fixture, OPERATION_RMW, RECORDS, 3, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_RMW)->count, RECORDS);
    assert_int_equal(fixture->stubs[0]->counts[OKV_GET], RECORDS);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 2 * RECORDS);
    assert_int_equal(fixture->stubs[0]->items[0].version, version + 1);
    /* timed as one: both take 10 us */
    assert_in_range(latency(fixture, OPERATION_RMW)->min, 20000, 22000);
    assert_int_equal(fixture->done, 2 * RECORDS);
    assert_int_equal(fixture->tally->value_bytes, 2 * RECORDS * 32);
    assert_int_equal(run(fixture, OPERATION_GET, RECORDS, 3, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong + fixture->tally->missing, 0);
    fixture_destroy(fixture);
}

static void rmw_puts_what_was_deleted(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    assert_int_equal(run(fixture, OPERATION_RMW, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 10);
    assert_int_equal(latency(fixture, OPERATION_RMW)->count, 10);
    fixture_destroy(fixture);
}

/* The put of an rmw whose get was before the deadline is after it. */
static void an_rmw_is_finished_after_the_deadline(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_RMW, 1000, 4, stub_target_now() + 15000), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_RMW)->count, 4);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], RECORDS + 4);
    fixture_destroy(fixture);
}

static void cas_puts_on_the_version_that_was_got(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_CAS, 50, 4, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_CAS)->count, 50);
    assert_int_equal(fixture->tally->conflicts, 0);
    fixture->stubs[0]->meddles = true;
    assert_int_equal(run(fixture, OPERATION_CAS, 50, 4, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_CAS)->count, 100);
    assert_int_equal(fixture->tally->conflicts, 50);
    assert_int_equal(fixture->tally->failed, 0);
    fixture_destroy(fixture);
}

static void cas_of_nothing_is_a_miss(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    assert_int_equal(run(fixture, OPERATION_CAS, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, 10);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 0);
    assert_int_equal(latency(fixture, OPERATION_CAS)->count, 10);
    fixture_destroy(fixture);
}

static void deletes_may_find_nothing(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_DELETE, 2 * RECORDS, 1, 0), OKV_OK);
    assert_int_equal(latency(fixture, OPERATION_DELETE)->count, 2 * RECORDS);
    assert_int_equal(fixture->tally->missing + fixture->tally->failed, 0);
    assert_int_equal(run(fixture, OPERATION_GET, RECORDS, 1, 0), OKV_OK);
    assert_int_equal(fixture->tally->missing, RECORDS);
    fixture_destroy(fixture);
}

static void numbers_have_keys_of_their_own(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);
    char key[KEY_SIZE];

    (void)state;
    load(fixture);
    assert_int_equal(run(fixture, OPERATION_INCR, 3 * RECORDS, 4, 0), OKV_OK);
    workload_number_key_write(7, key, sizeof key);
    assert_int_equal(stub_target_item(fixture->stubs[0], key, sizeof key)->number, 3);
    assert_int_equal(run(fixture, OPERATION_GET, RECORDS, 4, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong + fixture->tally->missing, 0);
    /* a sum below what was added */
    stub_target_item(fixture->stubs[0], key, sizeof key)->number = -5;
    assert_int_equal(run(fixture, OPERATION_INCR, RECORDS, 4, 0), OKV_OK);
    assert_int_equal(fixture->tally->wrong, 1);
    fixture_destroy(fixture);
}

static bool next_insert(void *user, struct loop_order *order)
{
    struct fixture *fixture = user;

    if (fixture->remaining == 0)
        return false;
    fixture->remaining--;
    *order = (struct loop_order){.operation = OPERATION_INSERT};
    return inserts_take(fixture->inserts, &order->record);
}

static void inserts_are_there_when_they_have_ended(void **state)
{
    struct fixture *fixture = fixture_create(2, 32);
    struct loop_run_config config = {
        .next = next_insert, .user = fixture, .depth = 8, .tally = fixture->tally};
    char key[KEY_SIZE];

    (void)state;
    fixture->remaining = 500;
    assert_int_equal(loop_run(fixture->loop, &config), OKV_OK);
    assert_int_equal(inserts_there(fixture->inserts), RECORDS + 500);
    assert_int_equal(latency(fixture, OPERATION_INSERT)->count, 500);
    workload_key_write(RECORDS + 499, key, sizeof key);
    assert_true(stub_target_item(fixture->stubs[0], key, sizeof key)->version ||
                stub_target_item(fixture->stubs[1], key, sizeof key)->version);
    fixture_destroy(fixture);
}

static void a_ping_has_no_payload(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    assert_int_equal(run(fixture, OPERATION_PING, 10, 1, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PING], 10);
    assert_int_equal(fixture->stubs[0]->last_value_length, 0);
    assert_int_equal(latency(fixture, OPERATION_PING)->count, 10);
    fixture_destroy(fixture);
}

/* ---- batches ------------------------------------------------------------ */

static void batches_are_of_gets(void **state)
{
    struct fixture *fixture = fixture_create(2, 32);
    struct loop_run_config config = {
        .next = next_order, .user = fixture, .depth = 32, .batches = true, .tally = fixture->tally};

    (void)state;
    assert_int_equal(run(fixture, OPERATION_PUT, 2 * RECORDS, 1, 0), OKV_OK);
    fixture->stubs[0]->submits = fixture->stubs[1]->submits = 0;
    fixture->next = 0;
    fixture->remaining = 100;
    assert_int_equal(loop_run(fixture->loop, &config), OKV_OK);
    assert_int_equal(fixture->stubs[0]->submits, 2); /* 32 and 32, and 32 and 4 */
    assert_int_equal(fixture->stubs[1]->submits, 2);
    assert_int_equal(latency(fixture, OPERATION_GET)->count, 100);
    assert_int_equal(fixture->tally->wrong, 0);
    fixture_destroy(fixture);
}

/* ---- ends --------------------------------------------------------------- */

static void a_final_code_ends_the_loop(void **state)
{
    struct fixture *fixture = fixture_create(2, 32);

    (void)state;
    fixture->stubs[1]->code = OKV_EFULL;
    assert_int_equal(run(fixture, OPERATION_PUT, 1000, 4, 0), OKV_EFULL);
    assert_true(fixture->stop);
    assert_int_equal(fixture->tally->code, OKV_EFULL);
    assert_string_equal(fixture->tally->why, okv_strerror(OKV_EFULL));
    assert_true(fixture->tally->failed >= 1 && fixture->tally->failed <= 4);
    fixture_destroy(fixture);
}

static void other_codes_are_counted(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->stubs[0]->code = OKV_ETIMEDOUT;
    assert_int_equal(run(fixture, OPERATION_PUT, 100, 4, 0), OKV_OK);
    assert_false(fixture->stop);
    assert_int_equal(fixture->tally->failed, 100);
    assert_int_equal(fixture->tally->code, OKV_ETIMEDOUT);
    assert_int_equal(latency(fixture, OPERATION_PUT)->count, 0);
    fixture_destroy(fixture);
}

static void a_broken_target_ends_the_loop(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->stubs[0]->poll_code = OKV_EDISCONNECTED;
    assert_int_equal(run(fixture, OPERATION_PUT, 100, 4, 0), OKV_EDISCONNECTED);
    assert_string_equal(fixture->tally->why, "the stub says so");
    fixture_destroy(fixture);
}

static void others_that_stop_end_the_loop(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);

    (void)state;
    fixture->stop = true;
    assert_int_equal(run(fixture, OPERATION_PUT, 100, 4, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 0);
    fixture_destroy(fixture);
}

/* ---- the series --------------------------------------------------------- */

static void each_second_has_its_operations(void **state)
{
    struct fixture *fixture = fixture_create(1, 32);
    struct series series;
    uint64_t start_ns = stub_target_now();

    (void)state;
    series_init(&series, start_ns, 0);
    fixture->series = &series;
    fixture->distance_ns = 10 * MS;
    fixture->stubs[0]->still_from_ns = start_ns + 1000 * MS;
    fixture->stubs[0]->still_until_ns = start_ns + 1500 * MS;
    assert_int_equal(run(fixture, OPERATION_PUT, 299, 16, 0), OKV_OK);
    assert_int_equal(series.seconds, 3);
    assert_int_equal(series.latency[0]->count, 99);
    assert_int_equal(series.latency[1]->count, 100);
    assert_int_equal(series.latency[2]->count, 100);
    assert_true(series.latency[1]->max > 400 * MS);
    assert_true(series.latency[2]->max < MS);
    series_fini(&series);
    fixture_destroy(fixture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gets_find_what_was_put),
        cmocka_unit_test(times_are_from_submission_to_result),
        cmocka_unit_test(the_depth_is_kept_and_not_exceeded),
        cmocka_unit_test(what_there_is_room_for_is_submitted_together),
        cmocka_unit_test(a_full_target_gets_the_rest_later),
        cmocka_unit_test(nothing_is_begun_after_the_deadline),
        cmocka_unit_test(a_closed_loop_omits_what_it_did_not_ask),
        cmocka_unit_test(all_that_were_due_meanwhile_are_slow),
        cmocka_unit_test(nothing_is_begun_before_it_is_due),
        cmocka_unit_test(what_cannot_be_kept_up_with_shows),
        cmocka_unit_test(an_order_that_was_given_is_done_after_the_deadline),
        cmocka_unit_test(wrong_and_missing_values_are_counted),
        cmocka_unit_test(a_value_of_another_size_is_wrong),
        cmocka_unit_test(rmw_is_a_get_and_a_put),
        cmocka_unit_test(rmw_puts_what_was_deleted),
        cmocka_unit_test(an_rmw_is_finished_after_the_deadline),
        cmocka_unit_test(cas_puts_on_the_version_that_was_got),
        cmocka_unit_test(cas_of_nothing_is_a_miss),
        cmocka_unit_test(deletes_may_find_nothing),
        cmocka_unit_test(numbers_have_keys_of_their_own),
        cmocka_unit_test(inserts_are_there_when_they_have_ended),
        cmocka_unit_test(a_ping_has_no_payload),
        cmocka_unit_test(batches_are_of_gets),
        cmocka_unit_test(a_final_code_ends_the_loop),
        cmocka_unit_test(other_codes_are_counted),
        cmocka_unit_test(a_broken_target_ends_the_loop),
        cmocka_unit_test(others_that_stop_end_the_loop),
        cmocka_unit_test(each_second_has_its_operations),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
