/* The loop keeps to its depth, its order and its clock, counts what it finds, and no operation
 * that was due is left out of the latencies because the server stood still. */
#include "tests/support/test.h"

#include "tests/support/loop_fixture.h"

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

TEST(gets_find_put_values)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_GET, 1000, 4, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 1000);
    assert_int_equal(fixture->stubs[0]->counts[OKV_GET], 1000);
    assert_int_equal(fixture->tally->missing + fixture->tally->wrong + fixture->tally->failed, 0);
    assert_int_equal(fixture->tally->key_bytes, 1000 * KEY_SIZE);
    assert_int_equal(fixture->tally->value_bytes, 1000 * 32);
    assert_int_equal(fixture->done, RECORDS + 1000);
    fixture_destroy(fixture);
}

TEST(times_are_from_submission_to_result)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture_load(fixture);
    assert_int_equal(fixture_run(fixture, OPERATION_GET, 1000, 1, 0), OKV_OK);
    assert_true(fixture_latency(fixture, OPERATION_GET)->min >= 10000);
    assert_true(fixture_latency(fixture, OPERATION_GET)->max < 11000);
    fixture_destroy(fixture);
}

static unsigned gets_alone;

static void get_alone(struct target *target, const struct okv_command *command,
                      struct okv_result *result)
{
    size_t accepted;

    gets_alone++;
    assert_int_equal(target->ops->submit(target, command, 1, &accepted), OKV_OK);
    while (target->ops->poll(target, result, 1) == 0)
        ;
}

/* Gets of a target that takes one at a time go to it so where none is under way beside them. */
TEST(a_get_alone_is_made_by_get)
{
    struct target_ops ops;

    for (int targets = 1; targets <= 2; targets++) {
        struct fixture *fixture = fixture_create(targets, 32);
        for (int i = 0; i < targets; i++) {
            ops = *fixture->stubs[i]->base.ops;
            ops.get = get_alone;
            fixture->stubs[i]->base.ops = &ops;
        }
        fixture_load(fixture);
        gets_alone = 0;
        assert_int_equal(fixture_run(fixture, OPERATION_GET, 500, 1, 0), OKV_OK);
        assert_int_equal(gets_alone, targets == 1 ? 500 : 0);
        assert_int_equal(fixture_run(fixture, OPERATION_RMW, 500, 1, 0), OKV_OK);
        assert_int_equal(gets_alone, targets == 1 ? 1000 : 0);
        assert_int_equal(fixture_run(fixture, OPERATION_GET, 500, 4, 0), OKV_OK);
        assert_int_equal(gets_alone, targets == 1 ? 1000 : 0);
        assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 1000);
        assert_true(fixture_latency(fixture, OPERATION_GET)->min >= 10000);
        assert_int_equal(fixture->tally->wrong + fixture->tally->failed, 0);
        assert_true(targets == 2 || fixture->tally->missing == 0);
        fixture_destroy(fixture);
    }
}

TEST(the_depth_is_kept_and_not_exceeded)
{
    for (uint32_t depth = 1; depth <= SLOTS; depth *= 4) {
        struct fixture *fixture = fixture_create(TARGETS, 32);
        assert_int_equal(fixture_run(fixture, OPERATION_PUT, 5000, depth, 0), OKV_OK);
        for (int i = 0; i < TARGETS; i++) {
            assert_int_equal(fixture->stubs[i]->pending_max, depth);
            assert_in_range(fixture->stubs[i]->counts[OKV_PUT], 5000 / TARGETS - depth,
                            5000 / TARGETS + depth);
        }
        assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 5000);
        fixture_destroy(fixture);
    }
}

/* With one doorbell: as many submissions as there are times when something ended. */
TEST(orders_that_fit_are_submitted_together)
{
    struct fixture *fixture = fixture_create(1, 32);

    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 160, 16, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->submits, 10);
    fixture_destroy(fixture);
}

TEST(a_full_target_gets_the_rest_later)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->stubs[0]->room = 3;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 100, 8, 0), OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 100);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 100);
    fixture->stubs[0]->room = 0;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 1, 8, 0), OKV_EAGAIN);
    fixture_destroy(fixture);
}

TEST(nothing_is_begun_after_the_deadline)
{
    struct fixture *fixture = fixture_create(1, 32);
    uint64_t start_ns = stub_target_now();

    assert_int_equal(fixture_run(fixture, OPERATION_PUT, UINT64_MAX, 8, start_ns + 10 * MS),
                     OKV_OK);
    assert_in_range(fixture->stubs[0]->last_ns, start_ns + 9 * MS, start_ns + 10 * MS);
    assert_int_equal(fixture->stubs[0]->pending, 0);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count,
                     fixture->stubs[0]->counts[OKV_PUT]);
    fixture_destroy(fixture);
}

/* What a loop without a schedule makes of a server that stands still: one slow operation. */
TEST(a_closed_loop_omits_a_stall)
{
    struct fixture *fixture = fixture_create(1, 32);
    uint64_t start_ns = stub_target_now();

    fixture->stubs[0]->still_from_ns = start_ns + 100 * MS;
    fixture->stubs[0]->still_until_ns = start_ns + 200 * MS;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, UINT64_MAX, 1, start_ns + 1000 * MS),
                     OKV_OK);
    assert_int_equal(slow(fixture_latency(fixture, OPERATION_PUT)), 1);
    fixture_destroy(fixture);
}

/* ---- the open loop ------------------------------------------------------ */

/* 1000 operations per second, of which 100 are due while the server stands still: all of these
 * are slow, by what was left of it when they were due. So whether they wait in the server or, for
 * want of depth, here. */
TEST(an_open_loop_counts_a_stall)
{
    static const uint32_t depths[] = {1, 16, SLOTS};

    for (size_t i = 0; i < sizeof depths / sizeof *depths; i++) {
        struct fixture *fixture = fixture_create(1, 32);
        const struct histogram *puts = fixture_latency(fixture, OPERATION_PUT);
        uint64_t start_ns = stub_target_now();

        fixture->distance_ns = MS;
        fixture->stubs[0]->still_from_ns = start_ns + 100 * MS + MS / 2;
        fixture->stubs[0]->still_until_ns = start_ns + 200 * MS + MS / 2;
        assert_int_equal(fixture_run(fixture, OPERATION_PUT, 1000, depths[i], 0), OKV_OK);
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

TEST(nothing_is_begun_before_it_is_due)
{
    for (uint32_t targets = 1; targets <= TARGETS; targets++) {
        struct fixture *fixture = fixture_create(targets, 32);
        uint64_t start_ns = stub_target_now();

        fixture->distance_ns = 7 * MS / 2;
        assert_int_equal(fixture_run(fixture, OPERATION_PUT, 100, 16, 0), OKV_OK);
        assert_true(fixture->stubs[0]->first_ns >= start_ns + fixture->distance_ns);
        assert_true(fixture->stubs[(100 - 1) % targets]->last_ns >=
                    start_ns + 100 * fixture->distance_ns);
        /* Nor is it late when there is nothing in the way. */
        assert_true(fixture_latency(fixture, OPERATION_PUT)->max < 20000);
        assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 100);
        fixture_destroy(fixture);
    }
}

/* 100000 per second of a server that does them in 10 us at depth 1, and is asked for twice that. */
TEST(overload_shows_in_latencies)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->distance_ns = 5000;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 10000, 1, 0), OKV_OK);
    assert_true(fixture_latency(fixture, OPERATION_PUT)->max > 50 * MS);
    assert_in_range(histogram_percentile(fixture_latency(fixture, OPERATION_PUT), 50), 24 * MS,
                    30 * MS);
    fixture_destroy(fixture);
}

TEST(a_given_order_is_done_after_the_deadline)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->distance_ns = 10 * MS;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 10, 1, stub_target_now() + 25 * MS),
                     OKV_OK);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 10 - fixture->remaining);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 3);
    fixture_destroy(fixture);
}

/* ---- batches ------------------------------------------------------------ */

TEST(batches_are_of_gets)
{
    struct fixture *fixture = fixture_create(2, 32);
    struct loop_run_config config = {.next = fixture_next,
                                     .user = fixture,
                                     .depth = 32,
                                     .batches = true,
                                     .tally = fixture->tally};

    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 2 * RECORDS, 1, 0), OKV_OK);
    fixture->stubs[0]->submits = fixture->stubs[1]->submits = 0;
    fixture->next = 0;
    fixture->remaining = 100;
    assert_int_equal(loop_run(fixture->loop, &config), OKV_OK);
    assert_int_equal(fixture->stubs[0]->submits, 2); /* 32 and 32, and 32 and 4 */
    assert_int_equal(fixture->stubs[1]->submits, 2);
    assert_int_equal(fixture_latency(fixture, OPERATION_GET)->count, 100);
    assert_int_equal(fixture->tally->wrong, 0);
    fixture_destroy(fixture);
}

/* ---- ends --------------------------------------------------------------- */

TEST(a_final_code_ends_the_loop)
{
    struct fixture *fixture = fixture_create(2, 32);

    fixture->stubs[1]->code = OKV_EFULL;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 1000, 4, 0), OKV_EFULL);
    assert_true(fixture->stop);
    assert_int_equal(fixture->tally->code, OKV_EFULL);
    assert_string_equal(fixture->tally->why, okv_strerror(OKV_EFULL));
    assert_true(fixture->tally->failed >= 1 && fixture->tally->failed <= 4);
    fixture_destroy(fixture);
}

TEST(other_codes_are_counted)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->stubs[0]->code = OKV_ETIMEDOUT;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 100, 4, 0), OKV_OK);
    assert_false(fixture->stop);
    assert_int_equal(fixture->tally->failed, 100);
    assert_int_equal(fixture->tally->code, OKV_ETIMEDOUT);
    assert_int_equal(fixture_latency(fixture, OPERATION_PUT)->count, 0);
    fixture_destroy(fixture);
}

TEST(a_broken_target_ends_the_loop)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->stubs[0]->poll_code = OKV_EDISCONNECTED;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 100, 4, 0), OKV_EDISCONNECTED);
    assert_string_equal(fixture->tally->why, "the stub says so");
    fixture_destroy(fixture);
}

TEST(another_loop_may_stop_this_one)
{
    struct fixture *fixture = fixture_create(1, 32);

    fixture->stop = true;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 100, 4, 0), OKV_OK);
    assert_int_equal(fixture->stubs[0]->counts[OKV_PUT], 0);
    fixture_destroy(fixture);
}

/* ---- the series --------------------------------------------------------- */

TEST(each_second_has_its_operations)
{
    struct fixture *fixture = fixture_create(1, 32);
    struct series series;
    uint64_t start_ns = stub_target_now();

    series_init(&series, start_ns, 0);
    fixture->series = &series;
    fixture->distance_ns = 10 * MS;
    fixture->stubs[0]->still_from_ns = start_ns + 1000 * MS;
    fixture->stubs[0]->still_until_ns = start_ns + 1500 * MS;
    assert_int_equal(fixture_run(fixture, OPERATION_PUT, 299, 16, 0), OKV_OK);
    assert_int_equal(series.seconds, 3);
    assert_int_equal(series.latency[0]->count, 99);
    assert_int_equal(series.latency[1]->count, 100);
    assert_int_equal(series.latency[2]->count, 100);
    assert_true(series.latency[1]->max > 400 * MS);
    assert_true(series.latency[2]->max < MS);
    series_fini(&series);
    fixture_destroy(fixture);
}
