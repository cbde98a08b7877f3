/* The load has the shape that is asked for, and values prove what they are. */
#include <math.h>

#include "tests/support/test.h"

#include "bench/load/workload.h"

#define DRAWS 1000000
#define RECORDS 1000

/* Fails unless `got` is within `share` of `wanted`. */
static void assert_near(double got, double wanted, double share)
{
    if (got < wanted * (1 - share) || got > wanted * (1 + share))
        fail_msg("%g is not within %g %% of %g", got, share * 100, wanted);
}

static struct workload_chooser chooser_of(enum workload_distribution distribution, uint64_t records,
                                          double theta)
{
    struct workload_choice choice = {.distribution = distribution,
                                     .records = records,
                                     .theta = theta,
                                     .hot_records = 0.2,
                                     .hot_operations = 0.8};
    struct workload_chooser chooser;

    workload_chooser_init(&chooser, &choice);
    return chooser;
}

/* ---- random numbers ----------------------------------------------------- */

TEST(equal_seeds_give_equal_numbers)
{
    struct workload_random a = {.state = 7};
    struct workload_random b = {.state = 7};
    struct workload_random c = {.state = 8};

    uint64_t first = workload_random_next(&a);
    assert_true(first == workload_random_next(&b));
    assert_true(first != workload_random_next(&c));
}

TEST(random_numbers_keep_their_bounds)
{
    static const uint64_t bounds[] = {1, 2, 3, 100, UINT64_C(1) << 40};
    struct workload_random random = {.state = 1};
    double sum = 0;

    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        for (int n = 0; n < 1000; n++)
            assert_true(workload_random_below(&random, bounds[i]) < bounds[i]);
    }
    for (int n = 0; n < DRAWS; n++) {
        double unit = workload_random_unit(&random);
        assert_true(unit >= 0 && unit < 1);
        sum += unit;
    }
    assert_near(sum / DRAWS, 0.5, 0.01);
}

/* ---- distributions ------------------------------------------------------ */

TEST(uniform_draws_every_record_alike)
{
    static uint32_t counts[RECORDS];
    struct workload_random random = {.state = 42};
    struct workload_chooser chooser;

    memset(counts, 0, sizeof counts);
    chooser = chooser_of(WORKLOAD_UNIFORM, RECORDS, 0);
    for (int i = 0; i < DRAWS; i++)
        counts[workload_chooser_next(&chooser, &random, chooser.records)]++;
    /* 1000 expected, standard deviation 32: 20 % is over six of them. */
    for (int i = 0; i < RECORDS; i++)
        assert_near(counts[i], (double)DRAWS / RECORDS, 0.2);
}

static double zeta(uint64_t n, double theta)
{
    double sum = 0;

    for (uint64_t i = 1; i <= n; i++)
        sum += pow((double)i, -theta);
    return sum;
}

/* The method is exact for the first two ranks and an approximation of the
 * cumulative distribution for the others. */
TEST(zipfian_ranks_follow_the_law)
{
    static const double thetas[] = {0.5, 0.9, 0.99};
    static uint32_t counts[RECORDS];

    for (size_t t = 0; t < sizeof thetas / sizeof thetas[0]; t++) {
        struct workload_random random = {.state = 42 + t};
        struct workload_chooser chooser;
        double total = zeta(RECORDS, thetas[t]);

        memset(counts, 0, sizeof counts);
        chooser = chooser_of(WORKLOAD_ZIPFIAN, RECORDS, thetas[t]);
        for (int i = 0; i < DRAWS; i++) {
            uint64_t rank = workload_chooser_rank(&chooser, &random);
            assert_true(rank < RECORDS);
            counts[rank]++;
        }
        assert_near(counts[0], DRAWS / total, 0.05);
        assert_near(counts[1], DRAWS * pow(2, -thetas[t]) / total, 0.05);
        double seen = 0;
        uint64_t rank = 0;
        for (uint64_t upto = 10; upto <= RECORDS; upto *= 10) {
            for (; rank < upto; rank++)
                seen += counts[rank];
            assert_near(seen, DRAWS * zeta(upto, thetas[t]) / total, 0.1);
        }
    }
}

/* Beyond a million terms the sum is not added up term by term. */
TEST(zeta_of_many_records_is_close)
{
    struct workload_chooser chooser;

    chooser = chooser_of(WORKLOAD_ZIPFIAN, 3000000, 0.99);
    assert_near(chooser.zeta, zeta(3000000, 0.99), 1e-9);
    chooser = chooser_of(WORKLOAD_ZIPFIAN, UINT64_C(10000000000), 0.99);
    /* YCSB's constant for ten thousand million items. */
    assert_near(chooser.zeta, 26.46902820178302, 1e-6);
}

TEST(scattering_is_a_permutation)
{
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 7, 8, 100, 1000, 4096, 4097};
    static uint8_t seen[4097];

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        struct workload_chooser chooser;
        chooser = chooser_of(WORKLOAD_ZIPFIAN, sizes[i], 0.99);
        memset(seen, 0, sizeof seen);
        for (uint64_t rank = 0; rank < sizes[i]; rank++) {
            uint64_t record = workload_chooser_scatter(&chooser, rank);
            assert_true(record < sizes[i]);
            assert_int_equal(seen[record], 0);
            seen[record] = 1;
        }
    }
}

/* The hottest records are not each other's neighbours. */
TEST(scattering_separates_neighbours)
{
    struct workload_chooser chooser;
    int close = 0;

    chooser = chooser_of(WORKLOAD_ZIPFIAN, 1000000, 0.99);
    for (uint64_t rank = 0; rank < 1000; rank++) {
        uint64_t a = workload_chooser_scatter(&chooser, rank);
        uint64_t b = workload_chooser_scatter(&chooser, rank + 1);
        close += (a > b ? a - b : b - a) < 1000;
    }
    assert_true(close < 20);
}

TEST(few_records_are_all_drawn)
{
    for (uint64_t records = 1; records <= 4; records++) {
        struct workload_random random = {.state = records};
        struct workload_chooser chooser;
        unsigned seen = 0;
        chooser = chooser_of(WORKLOAD_ZIPFIAN, records, 0.99);
        for (int i = 0; i < 10000; i++) {
            uint64_t record = workload_chooser_next(&chooser, &random, chooser.records);
            assert_true(record < records);
            seen |= 1u << record;
        }
        assert_int_equal(seen, (1u << records) - 1);
    }
}

/* The newest record is the most popular, as the first one of Zipf's law; with more of them the
 * popular ones move on. */
TEST(latest_follows_inserts)
{
    static uint32_t counts[RECORDS + 500];
    struct workload_random random = {.state = 42};
    struct workload_chooser chooser = chooser_of(WORKLOAD_LATEST, RECORDS, 0.99);
    double total = zeta(RECORDS, 0.99);

    for (uint64_t inserted = RECORDS; inserted <= RECORDS + 500; inserted += 500) {
        memset(counts, 0, sizeof counts);
        for (int i = 0; i < DRAWS; i++) {
            uint64_t record = workload_chooser_next(&chooser, &random, inserted);
            assert_true(record < inserted);
            counts[record]++;
        }
        assert_near(counts[inserted - 1], DRAWS / total, 0.05);
        assert_near(counts[inserted - 2], DRAWS * pow(2, -0.99) / total, 0.05);
        double recent = 0;
        for (uint64_t i = 0; i < 100; i++)
            recent += counts[inserted - 1 - i];
        assert_near(recent, DRAWS * zeta(100, 0.99) / total, 0.1);
    }
}

/* A fifth of the records gets four fifths of the operations, alike within both parts. */
TEST(a_hotspot_gets_its_share)
{
    static uint32_t counts[RECORDS];
    struct workload_random random = {.state = 42};
    struct workload_chooser chooser = chooser_of(WORKLOAD_HOTSPOT, RECORDS, 0);
    double hot = 0;
    int hot_records = 0;

    memset(counts, 0, sizeof counts);
    for (int i = 0; i < DRAWS; i++)
        counts[workload_chooser_next(&chooser, &random, RECORDS)]++;
    for (int i = 0; i < RECORDS; i++) {
        /* 4000 and 250 are expected. */
        bool is_hot = counts[i] > 1500;
        hot += is_hot ? counts[i] : 0;
        hot_records += is_hot;
        assert_near(counts[i], is_hot ? 4000 : 250, is_hot ? 0.12 : 0.4);
    }
    assert_int_equal(hot_records, RECORDS / 5);
    assert_near(hot, DRAWS * 0.8, 0.01);
}

TEST(a_hotspot_may_be_small)
{
    for (uint64_t records = 1; records <= 6; records++) {
        struct workload_random random = {.state = records};
        struct workload_chooser chooser = chooser_of(WORKLOAD_HOTSPOT, records, 0);
        unsigned seen = 0;
        for (int i = 0; i < 1000; i++)
            seen |= 1u << workload_chooser_next(&chooser, &random, records);
        assert_int_equal(seen, (1u << records) - 1);
    }
}

/* ---- sizes -------------------------------------------------------------- */

TEST(a_record_keeps_its_size)
{
    static const struct workload_values kinds[] = {{WORKLOAD_SIZES_FIXED, 32, 32},
                                                   {WORKLOAD_SIZES_UNIFORM, 16, 4096},
                                                   {WORKLOAD_SIZES_UNIFORM, 100, 100},
                                                   {WORKLOAD_SIZES_TRACE, 16, 1000}};

    for (size_t kind = 0; kind < sizeof kinds / sizeof *kinds; kind++) {
        for (uint64_t record = 0; record < 10000; record++) {
            uint32_t size = workload_value_size(&kinds[kind], record);
            assert_int_equal(size, workload_value_size(&kinds[kind], record));
            assert_true(size >= kinds[kind].low && size <= kinds[kind].high);
        }
    }
}

TEST(uniform_sizes_are_spread_evenly)
{
    static const struct workload_values values = {WORKLOAD_SIZES_UNIFORM, 16, 25};
    uint32_t counts[10] = {0};

    for (uint64_t record = 0; record < DRAWS; record++)
        counts[workload_value_size(&values, record) - 16]++;
    for (int i = 0; i < 10; i++)
        assert_near(counts[i], DRAWS / 10.0, 0.03);
}

/* The share of values below x is 1 - (1 + shape * x / scale)^(-1 / shape). */
TEST(trace_sizes_follow_the_fitted_law)
{
    static const struct workload_values values = {WORKLOAD_SIZES_TRACE, 16, 65536};
    static const uint32_t limits[] = {17, 50, 100, 214, 500, 1000, 4000, 10000};
    uint32_t below[sizeof limits / sizeof *limits] = {0};

    for (uint64_t record = 0; record < DRAWS; record++) {
        uint32_t size = workload_value_size(&values, record);
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
            below[i] += size < limits[i];
    }
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        double share = 1 - pow(1 + 0.348238 * limits[i] / 214.476, -1 / 0.348238);
        assert_near(below[i], DRAWS * share, 0.02);
    }
}

TEST(trace_sizes_end_at_the_largest)
{
    static const struct workload_values values = {WORKLOAD_SIZES_TRACE, 16, 300};
    uint32_t largest = 0;

    for (uint64_t record = 0; record < 10000; record++)
        largest += workload_value_size(&values, record) == 300;
    assert_near(largest, 10000 * pow(1 + 0.348238 * 300 / 214.476, -1 / 0.348238), 0.1);
}

/* ---- keys and values ---------------------------------------------------- */

TEST(keys_are_numbers_in_hexadecimal)
{
    char key[20];

    workload_key_write(0xbeef, key, 6);
    assert_memory_equal(key, "00beef", 6);
    workload_key_write(UINT64_MAX, key, sizeof key);
    assert_memory_equal(key, "0000ffffffffffffffff", 20);
    workload_key_write(5, key, 1);
    assert_memory_equal(key, "5", 1);
}

TEST(keys_of_numbers_are_no_records)
{
    char key[20];
    char number[20];

    workload_number_key_write(0xbeef, number, 6);
    assert_memory_equal(number, "n0beef", 6);
    for (uint64_t record = 0; record < 1000; record++) {
        workload_key_write(record, key, sizeof key);
        workload_number_key_write(record, number, sizeof number);
        assert_int_equal(number[0], 'n');
        assert_true(key[0] != 'n');
        assert_memory_equal(number + 1, key + 1, sizeof key - 1);
    }
}

/* Every digit at every place, for keys that are shorter and longer than a number. */
TEST(keys_are_written_digit_by_digit)
{
    struct workload_random random = {.state = 3};

    for (int i = 0; i < 100000; i++) {
        uint64_t record = workload_random_next(&random) >> (i % 64);
        size_t size = 1 + (size_t)(i % 24);
        char key[24 + 1];
        char expected[24 + 17];
        key[size] = '!';
        snprintf(expected, sizeof expected, "%024d%016lx", 0, (unsigned long)record);
        workload_key_write(record, key, size);
        assert_memory_equal(key, expected + strlen(expected) - size, size);
        assert_int_equal(key[size], '!');
    }
}

TEST(keys_fit_when_they_can_differ)
{
    assert_true(workload_key_fits(16, 1));
    assert_false(workload_key_fits(17, 1));
    assert_true(workload_key_fits(UINT64_C(1) << 60, 15));
    assert_false(workload_key_fits((UINT64_C(1) << 60) + 1, 15));
    assert_true(workload_key_fits(UINT64_MAX, 16));
    assert_true(workload_key_fits(UINT64_MAX, 1024));
}

TEST(values_are_checked_to_the_last_byte)
{
    static const size_t sizes[] = {16, 17, 23, 24, 32, 100, 1000};
    char value[1000];

    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        size_t size = sizes[i];
        workload_value_write(12, 34, value, size);
        assert_true(workload_value_check(12, value, size));
        assert_false(workload_value_check(13, value, size));
        assert_false(workload_value_check(12, value, size - 1));
        for (size_t at = 0; at < size; at++) {
            value[at] ^= 1;
            assert_false(workload_value_check(12, value, size));
            value[at] ^= 1;
        }
    }
}

/* The same where bytes are too many to be changed one by one: at the end, every
 * 4095 bytes, and where a short piece was taken from another value. */
TEST(large_values_are_checked_everywhere)
{
    size_t size = (1u << 20) + 13;
    char *value = malloc(size);
    char *other = malloc(size);

    assert_non_null(value);
    assert_non_null(other);
    workload_value_write(12, 34, value, size);
    workload_value_write(12, 35, other, size);
    assert_true(workload_value_check(12, value, size));
    assert_false(workload_value_check(12, value, size - 1));
    value[size - 1] ^= 1;
    assert_false(workload_value_check(12, value, size));
    value[size - 1] ^= 1;
    for (size_t at = 0; at < size; at += 4095) {
        value[at] ^= 1;
        assert_false(workload_value_check(12, value, size));
        value[at] ^= 1;
    }
    assert_true(workload_value_check(12, value, size));
    memcpy(value + 65536, other + 65536, 64);
    assert_false(workload_value_check(12, value, size));
    free(other);
    free(value);
}

/* What a torn read would bring: the front of one value, the rest of the next. */
TEST(halves_of_two_values_are_no_value)
{
    char first[64];
    char second[64];

    for (size_t cut = 1; cut < sizeof first; cut++) {
        workload_value_write(1, 100, first, sizeof first);
        workload_value_write(1, 101, second, sizeof second);
        memcpy(first, second, cut);
        if (memcmp(first, second, sizeof first) != 0)
            assert_false(workload_value_check(1, first, sizeof first));
    }
}

TEST(short_values_fail_the_check)
{
    char value[WORKLOAD_VALUE_MIN] = {0};

    assert_false(workload_value_check(0, value, 0));
    assert_false(workload_value_check(0, value, WORKLOAD_VALUE_MIN - 1));
}
