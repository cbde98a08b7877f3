/* Percentiles stay within the promised distance of the samples they stand for. */
#include "tests/support/test.h"

#include "bench/load/histogram.h"

#define SAMPLES 100000
/* What the header promises. */
#define ERROR_ALLOWED 0.004

static int histogram_create(void **state)
{
    struct histogram *histogram = malloc(sizeof *histogram);
    if (!histogram)
        return -1;
    histogram_init(histogram);
    *state = histogram;
    return 0;
}

static int histogram_free(void **state)
{
    free(*state);
    return 0;
}

#define WITH_HISTOGRAM(name) TEST_WITH(name, histogram_create, histogram_free)

WITH_HISTOGRAM(nothing_recorded_gives_zeros)
{
    const struct histogram *histogram = *state;

    assert_int_equal(histogram_percentile(histogram, 50), 0);
    assert_int_equal(histogram_percentile(histogram, 100), 0);
    assert_true(histogram_mean(histogram) == 0.0);
}

WITH_HISTOGRAM(one_sample_is_every_percentile)
{
    static const uint64_t values[] = {0, 1, 255, 256, 257, 123456789, UINT64_MAX};
    static const double percents[] = {0, 0.1, 50, 99, 100};
    struct histogram *histogram = *state;

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        histogram_init(histogram);
        histogram_record(histogram, values[i]);
        for (size_t p = 0; p < sizeof percents / sizeof percents[0]; p++)
            assert_int_equal(histogram_percentile(histogram, percents[p]), values[i]);
    }
}

WITH_HISTOGRAM(small_values_are_exact)
{
    struct histogram *histogram = *state;

    for (uint64_t value = 1; value <= 200; value++)
        histogram_record(histogram, value);
    assert_int_equal(histogram_percentile(histogram, 0), 1);
    assert_int_equal(histogram_percentile(histogram, 0.5), 1);
    assert_int_equal(histogram_percentile(histogram, 50), 100);
    assert_int_equal(histogram_percentile(histogram, 99), 198);
    assert_int_equal(histogram_percentile(histogram, 99.9), 200);
    assert_int_equal(histogram_percentile(histogram, 100), 200);
    assert_true(histogram_mean(histogram) == 100.5);
}

/* Every power of two, its neighbours and what lies between: no bucket is out of
 * place. A sample is framed by others, as the extremes are exact anyway. */
WITH_HISTOGRAM(every_magnitude_is_within_the_error)
{
    struct histogram *histogram = *state;

    for (unsigned bits = 1; bits < 64; bits++) {
        uint64_t power = UINT64_C(1) << bits;
        const uint64_t values[] = {power - 1, power, power + 1, power + power / 3,
                                   power + (power - 1)};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
            histogram_init(histogram);
            histogram_record(histogram, 0);
            histogram_record(histogram, values[i]);
            histogram_record(histogram, UINT64_MAX);
            double got = (double)histogram_percentile(histogram, 50);
            double wanted = (double)values[i];
            if (got < wanted * (1 - ERROR_ALLOWED) || got > wanted * (1 + ERROR_ALLOWED))
                fail_msg("%.0f came back as %.0f", wanted, got);
        }
    }
}

static int compare(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a;
    uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

WITH_HISTOGRAM(percentiles_agree_with_sorting)
{
    static const double percents[] = {1, 10, 50, 90, 99, 99.9, 99.99, 100};
    struct histogram *histogram = *state;
    uint64_t *samples = test_malloc(SAMPLES * sizeof *samples);
    uint64_t random = 88172645463325252u;

    for (size_t i = 0; i < SAMPLES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        /* From nanoseconds to seconds, evenly over the magnitudes. */
        samples[i] = (random >> 30) >> (random % 30);
        histogram_record(histogram, samples[i]);
    }
    qsort(samples, SAMPLES, sizeof *samples, compare);
    for (size_t p = 0; p < sizeof percents / sizeof percents[0]; p++) {
        size_t rank = (size_t)(SAMPLES * percents[p] / 100.0 + 0.9999);
        double wanted = (double)samples[rank - 1];
        double got = (double)histogram_percentile(histogram, percents[p]);
        if (got < wanted * (1 - ERROR_ALLOWED) || got > wanted * (1 + ERROR_ALLOWED))
            fail_msg("p%g is %.0f, not %.0f", percents[p], wanted, got);
    }
    assert_int_equal(histogram->min, samples[0]);
    assert_int_equal(histogram->max, samples[SAMPLES - 1]);
    test_free(samples);
}

/* Every sample is met once, in order, and not above what is said of it. */
WITH_HISTOGRAM(steps_cover_all_samples)
{
    static const uint64_t samples[] = {0, 1, 255, 256, 257, 258, 70000, 70001, 1234567, UINT64_MAX};
    struct histogram *histogram = *state;
    struct histogram_step step;
    unsigned bucket = 0;
    size_t seen = 0;

    assert_false(histogram_next(histogram, &bucket, &step));
    for (size_t i = 0; i < sizeof samples / sizeof samples[0]; i++)
        histogram_record(histogram, samples[i]);
    bucket = 0;
    while (histogram_next(histogram, &bucket, &step)) {
        assert_true(step.count > 0);
        for (uint64_t i = 0; i < step.count; i++, seen++) {
            assert_true(samples[seen] <= step.upper);
            assert_true((double)samples[seen] >= (double)step.upper * (1 - 2 * ERROR_ALLOWED));
        }
    }
    assert_int_equal(seen, sizeof samples / sizeof samples[0]);
    assert_true(step.upper == UINT64_MAX);
    assert_false(histogram_next(histogram, &bucket, &step));

    histogram_init(histogram);
    histogram_record(histogram, 100000); /* the largest is exact */
    bucket = 0;
    assert_true(histogram_next(histogram, &bucket, &step));
    assert_int_equal(step.upper, 100000);
}

WITH_HISTOGRAM(merging_is_recording_both)
{
    struct histogram *both = *state;
    struct histogram *left = test_malloc(sizeof *left);
    struct histogram *right = test_malloc(sizeof *right);

    histogram_init(left);
    histogram_init(right);
    for (uint64_t value = 1; value < 5000; value++) {
        histogram_record(both, value * 37);
        histogram_record(value < 2000 ? left : right, value * 37);
    }
    histogram_merge(left, right);
    assert_memory_equal(left, both, sizeof *both);

    histogram_init(right);
    histogram_merge(left, right);
    assert_memory_equal(left, both, sizeof *both);
    histogram_merge(right, left);
    assert_memory_equal(right, both, sizeof *both);
    test_free(left);
    test_free(right);
}
