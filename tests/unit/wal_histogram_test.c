/* Quantiles of the log's figures. */
#include "tests/support/test.h"

#include "server/wal/histogram.h"

TEST(an_empty_one_has_zeros)
{
    static struct okv_wal_histogram histogram;

    assert_int_equal(okv_wal_histogram_quantile(&histogram, 50), 0);
    assert_int_equal(okv_wal_histogram_quantile(&histogram, 99), 0);
}

TEST(small_values_are_exact)
{
    static struct okv_wal_histogram histogram;

    for (uint64_t value = 1; value <= 10; value++)
        okv_wal_histogram_add(&histogram, value);
    assert_int_equal(histogram.count, 10);
    assert_int_equal(histogram.sum, 55);
    assert_int_equal(histogram.max, 10);
    assert_int_equal(okv_wal_histogram_quantile(&histogram, 50), 5);
    assert_int_equal(okv_wal_histogram_quantile(&histogram, 99), 10);
}

/* Each value alone, beside a larger one: what half of the values are at most is that value, or up
 * to an eighth more. */
TEST(quantiles_are_rounded_up_by_an_eighth)
{
    static struct okv_wal_histogram histogram;

    for (unsigned bit = 0; bit < 63; bit++) {
        for (uint64_t part = 0; part < 40; part++) {
            uint64_t value = (UINT64_C(1) << bit) + part * ((UINT64_C(1) << bit) / 41);
            memset(&histogram, 0, sizeof histogram);
            okv_wal_histogram_add(&histogram, value);
            okv_wal_histogram_add(&histogram, UINT64_MAX);
            uint64_t half = okv_wal_histogram_quantile(&histogram, 50);
            assert_true(half >= value);
            assert_true(half - value <= value / 8);
            assert_true(okv_wal_histogram_quantile(&histogram, 99) == UINT64_MAX);
        }
    }
}

TEST(values_below_a_power_of_two_are_exact)
{
    static struct okv_wal_histogram histogram;

    for (unsigned bit = 3; bit < 63; bit++) {
        okv_wal_histogram_add(&histogram, (UINT64_C(1) << bit) - 1);
        okv_wal_histogram_add(&histogram, UINT64_C(1) << bit);
        assert_int_equal(okv_wal_histogram_below(&histogram, bit), 2 * (bit - 3) + 1);
        assert_int_equal(okv_wal_histogram_below(&histogram, bit + 1), 2 * (bit - 3) + 2);
    }
}

TEST(rare_values_are_above_a_quantile)
{
    static struct okv_wal_histogram histogram;

    for (unsigned i = 0; i < 1000; i++)
        okv_wal_histogram_add(&histogram, i < 990 ? 4 : 7);
    assert_int_equal(okv_wal_histogram_quantile(&histogram, 99), 4);
    okv_wal_histogram_add(&histogram, 7);
    assert_int_equal(okv_wal_histogram_quantile(&histogram, 99), 7);
}
