/* Records that cannot fit are refused, with what would fit; others are not. */
#include "tests/support/test.h"
#include <okv.h>

#include "bench/load/room.h"

#define MEBIBYTE (UINT64_C(1) << 20)

static const struct workload_values fixed = {WORKLOAD_SIZES_FIXED, 3000, 3000};

static struct room_wanted wanted_of(const struct workload_values *values, uint64_t records)
{
    return (struct room_wanted){
        .values = values, .key_size = 16, .bucket_bytes = 512, .records = records};
}

/* Fails unless `got` is within a hundredth of `wanted`. */
static void assert_near(double got, double wanted)
{
    if (got < wanted * 0.99 || got > wanted * 1.01)
        fail_msg("%g is not within 1 %% of %g", got, wanted);
}

static double sum_of(const struct room_wanted *wanted)
{
    double sum = 0;

    for (uint64_t record = 0; record < wanted->records; record++)
        sum += wanted->key_size + workload_value_size(wanted->values, record);
    return sum;
}

TEST(bytes_are_those_of_all_keys_and_values)
{
    static const struct workload_values uniform = {WORKLOAD_SIZES_UNIFORM, 16, 4096};
    static const struct workload_values trace = {WORKLOAD_SIZES_TRACE, 16, 65536};
    static const uint64_t counts[] = {1, 7, 1000};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        struct room_wanted wanted = wanted_of(&fixed, counts[i]);
        assert_true(room_bytes(&wanted) == sum_of(&wanted));
        wanted.values = &uniform;
        assert_near(room_bytes(&wanted), sum_of(&wanted));
    }
    /* Of these not each is looked at. */
    struct room_wanted many = wanted_of(&uniform, 1000000);
    assert_near(room_bytes(&many), sum_of(&many));
    many.values = &trace;
    assert_near(room_bytes(&many), sum_of(&many));
}

TEST(a_table_as_large_as_keys_and_values_may_do)
{
    struct room_wanted wanted = wanted_of(&fixed, 1000);
    char why[512] = "as before";

    assert_int_equal(room_check(&wanted, 3016000, why, sizeof why), 0);
    assert_string_equal(why, "as before");
    assert_int_equal(room_check(&wanted, 3015999, why, sizeof why), OKV_EFULL);
}

/* The least size of docs/capacity.md for 100 million of 16 + 32 bytes is 7611M. */
TEST(a_table_of_a_fifth_less_than_the_formula_says_may_do)
{
    static const struct workload_values small = {WORKLOAD_SIZES_FIXED, 32, 32};
    struct room_wanted wanted = wanted_of(&small, 100000000);
    char why[512];

    assert_int_equal(room_check(&wanted, 6342 * MEBIBYTE, why, sizeof why), 0);
    assert_int_equal(room_check(&wanted, 6341 * MEBIBYTE, why, sizeof why), OKV_EFULL);
    assert_non_null(strstr(why, " need --memory 7611M at least, and the table has "));
    assert_non_null(strstr(why, "start okv-server with --memory 15325M, for quick gets, "));
}

TEST(a_refusal_says_how_many_and_how_much)
{
    static const struct workload_values uniform = {WORKLOAD_SIZES_UNIFORM, 16, 4096};
    struct room_wanted wanted = wanted_of(&fixed, 1000000);
    char why[512];

    assert_int_equal(room_check(&wanted, 64 * MEBIBYTE, why, sizeof why), OKV_EFULL);
    assert_string_equal(
        why, "1000000 records of 3016 bytes, key and value, need --memory 3025M at least, and the "
             "table has 64 MiB: start okv-server with --memory 3025M, for quick gets, or give "
             "--records 20502 or a smaller --value-size");
    wanted.values = &uniform;
    assert_int_equal(room_check(&wanted, 64 * MEBIBYTE, why, sizeof why), OKV_EFULL);
    assert_non_null(strstr(why, " bytes on average, key and value, need --memory 2"));
}

/* Both pieces of advice are followed: the one of the memory and the one of the records. */
TEST(what_a_refusal_says_is_not_refused)
{
    static const uint64_t tables[] = {MEBIBYTE, 64 * MEBIBYTE, 1000 * MEBIBYTE};
    static const uint32_t sizes[] = {16, 32, 100, 3000, 65536};
    char why[512];

    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++) {
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            struct workload_values values = {WORKLOAD_SIZES_FIXED, sizes[s], sizes[s]};
            struct room_wanted wanted = wanted_of(&values, 100000000);
            unsigned long long records, mebibytes;
            assert_int_equal(room_check(&wanted, tables[t], why, sizeof why), OKV_EFULL);
            assert_int_equal(
                sscanf(strstr(why, "with --memory "), "with --memory %lluM", &mebibytes), 1);
            assert_int_equal(room_check(&wanted, mebibytes * MEBIBYTE, why, sizeof why), 0);
            assert_int_equal(sscanf(strstr(why, "--records "), "--records %llu", &records), 1);
            wanted.records = records;
            assert_true(records > 0);
            assert_int_equal(room_check(&wanted, tables[t], why, sizeof why), 0);
        }
    }
}

TEST(no_number_of_records_is_advised_where_one_is_too_large)
{
    static const struct workload_values huge = {WORKLOAD_SIZES_FIXED, 1 << 30, 1 << 30};
    struct room_wanted wanted = wanted_of(&huge, UINT64_C(1) << 40);
    char why[512];

    assert_int_equal(room_check(&wanted, MEBIBYTE, why, sizeof why), OKV_EFULL);
    assert_null(strstr(why, "--records"));
    assert_non_null(strstr(why, ", or give a smaller --value-size"));
}
