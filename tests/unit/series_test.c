/* What ended in which second. */
#include "tests/support/test.h"

#include "bench/load/series.h"

#define START UINT64_C(5000000000)
#define SECOND UINT64_C(1000000000)

static void record(struct series *series, uint64_t end_ns, uint64_t latency_ns)
{
    uint64_t until_ns;
    struct histogram *histogram = series_at(series, end_ns, &until_ns);

    assert_non_null(histogram);
    assert_true(until_ns > end_ns && until_ns <= end_ns + SECOND);
    histogram_record(histogram, latency_ns);
}

TEST(seconds_have_their_own_histograms)
{
    struct series series;

    series_init(&series, START, 0);
    record(&series, START, 1);
    record(&series, START + SECOND - 1, 2);
    record(&series, START + SECOND, 3);
    record(&series, START + 4 * SECOND, 4);
    assert_int_equal(series.seconds, 5);
    assert_int_equal(series.latency[0]->count, 2);
    assert_int_equal(series.latency[0]->max, 2);
    assert_int_equal(series.latency[1]->min, 3);
    assert_null(series.latency[2]);
    assert_int_equal(series.latency[4]->count, 1);
    series_fini(&series);
}

TEST(the_last_second_has_all_later_results)
{
    struct series series;

    series_init(&series, START, 2);
    record(&series, START + 10 * SECOND - 1, 1);
    assert_int_equal(series.seconds, 2);
    assert_int_equal(series.latency[1]->count, 1);
    series_fini(&series);
    series_init(&series, START, 100000);
    record(&series, START + 100000 * SECOND, 1);
    assert_int_equal(series.seconds, SERIES_SECONDS_MAX);
    assert_int_equal(series.latency[SERIES_SECONDS_MAX - 1]->count, 1);
    series_fini(&series);
}

TEST(results_before_the_start_count_in_the_first_second)
{
    struct series series;
    uint64_t until_ns;

    series_init(&series, START, 0);
    struct histogram *histogram = series_at(&series, START - 1, &until_ns);
    assert_ptr_equal(histogram, series.latency[0]);
    assert_int_equal(until_ns, START + SECOND);
    series_fini(&series);
}

TEST(series_are_added_second_by_second)
{
    struct series into;
    struct series from;

    series_init(&into, 0, 0);
    series_init(&from, START, 0);
    record(&into, 0, 7);
    record(&from, START, 8);
    record(&from, START + 2 * SECOND, 9);
    series_merge(&into, &from);
    assert_int_equal(into.seconds, 3);
    assert_int_equal(into.latency[0]->count, 2);
    assert_null(into.latency[1]);
    assert_int_equal(into.latency[2]->max, 9);
    series_fini(&from);
    series_fini(&into);
}
