/* The store, one call at a time: limits, conditions, numbers, values of rendezvous reads. */
#include <inttypes.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/linear.h"
#include "tests/support/store_region.h"

/* Not too small for a heap whose pages have 64 KiB: jemalloc of Debian, on Arm. */
#define REGION (4u << 20)
#define BUCKET 256u
#define HEAD 4u /* of an entry whose lengths and age need a byte each */
#define VALUE_MAX (64u << 10)

static const struct okv_store_params small = {.length = REGION, .bucket_size = BUCKET};

static uint8_t bytes[VALUE_MAX + 1];

static int put_size(struct store_region *region, const char *key, uint32_t size, uint64_t *version)
{
    return store_region_put(region, key, (uint32_t)strlen(key), bytes, size, version);
}

static uint64_t put_text(struct store_region *region, const char *key, const char *value)
{
    uint64_t version;

    assert_int_equal(store_region_put(region, key, (uint32_t)strlen(key), value,
                                      (uint32_t)strlen(value), &version),
                     0);
    return version;
}

static int remove_key(struct store_region *region, const char *key)
{
    return store_region_delete(region, key, (uint32_t)strlen(key));
}

static void expect_size(struct store_region *region, const char *key, uint32_t size,
                        uint64_t version)
{
    store_region_expect(region, key, (uint32_t)strlen(key), bytes, size, version);
}

static void expect_text(struct store_region *region, const char *key, const char *value,
                        uint64_t version)
{
    store_region_expect(region, key, (uint32_t)strlen(key), value,
                        value ? (uint32_t)strlen(value) : 0, version);
}

/* ---- the empty table ---- */

TEST(init_refuses_invalid_regions)
{
    static _Alignas(4096) uint8_t memory[256u << 10];
    const struct okv_store_params good = {
        .base = memory, .length = sizeof memory, .bucket_size = 512, .boot_id = 1};
    struct okv_store_params params = good;
    struct okv_store store;

    params.boot_id = 0;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.bucket_size = 500;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    for (uint64_t length = 0; length <= OKV_HEAP_OFFSET + 6 * 4096; length += 4096) {
        params = good;
        params.length = length; /* no room for a first segment and a page of heap */
        assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    }
    params = good;
    params.length--;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.base = memory + 1;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.max_value = OKV_VALUE_MAX + 1;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    assert_int_equal(okv_store_init(&store, &good), 0);
    okv_store_fini(&store);
}

TEST(the_first_pages_describe_the_table)
{
    struct store_region region;
    struct okv_superblock block;
    struct okv_table_status status;

    for (uint32_t size = OKV_BUCKET_SIZE_MIN; size <= OKV_BUCKET_SIZE_MAX; size *= 2) {
        store_region_open(&region,
                          &(struct okv_store_params){.length = 64u << 20, .bucket_size = size});
        assert_int_equal(okv_superblock_decode(region.base, region.length, &block), 0);
        assert_int_equal(block.region_length, region.length);
        assert_int_equal(block.bucket_size, size);
        assert_true((uint64_t)block.segment_buckets * size * OKV_DIRECTORY_ENTRIES >=
                    region.length);
        assert_int_equal(okv_status_decode(region.base + OKV_STATUS_OFFSET, block.boot_id, &status),
                         0);
        assert_int_equal(status.bucket_count, OKV_STORE_BUCKETS_MIN);
        assert_true(status.clock_ms >= 1);
        okv_store_set_clock(&region.store, 500, true);
        okv_store_set_clock(&region.store, 400, true);
        assert_int_equal(okv_status_decode(region.base + OKV_STATUS_OFFSET, block.boot_id, &status),
                         0);
        assert_int_equal(status.clock_ms, 500);
        store_region_expect_empty(&region, true);
        store_region_close(&region);
    }
}

/* ---- sizes ---- */

typedef int store_call(struct okv_store *store, struct okv_store_work *work,
                       const struct okv_store_write *write, struct okv_store_outcome *outcome);
static store_call *const calls[] = {okv_store_put, okv_store_append, okv_store_incr,
                                    okv_store_touch, okv_store_delete};

TEST(sizes_out_of_range_are_refused)
{
    struct store_region region;
    uint8_t key[OKV_KEY_MAX + 1] = {1};
    uint32_t length;
    uint64_t version;

    store_region_open(&region, &small);
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        for (uint32_t size = 0; size <= OKV_KEY_MAX + 1; size += OKV_KEY_MAX + 1) {
            struct okv_store_write write = {.key = key, .key_length = size, .value = "1"};
            struct okv_store_outcome outcome = {.version = 7};
            write.value_length = 1;
            assert_int_equal(calls[i](&region.store, &region.work, &write, &outcome), OKV_EKEYSIZE);
            assert_int_equal(outcome.version, 0);
            assert_int_equal(
                okv_store_get(&region.store, NULL, key, size, bytes, 1, &length, &version),
                OKV_EKEYSIZE);
        }
    for (size_t i = 0; i < 2; i++) { /* put, append */
        struct okv_store_write write = {.key = "k", .key_length = 1, .value = bytes};
        struct okv_store_outcome outcome = {.version = 7};
        write.value_length = VALUE_MAX + 1;
        assert_int_equal(calls[i](&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
        assert_int_equal(outcome.version, 0);
        write.value_length = UINT32_MAX;
        assert_int_equal(calls[i](&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
    }
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

static void expect_round_trip(struct store_region *region, const uint8_t *key, uint32_t key_length,
                              uint32_t size)
{
    uint64_t version, other;

    assert_int_equal(store_region_put(region, key, key_length, bytes, size, &version), 0);
    store_region_expect(region, key, key_length, bytes, size, version);
    assert_int_equal(store_region_put(region, key, key_length, bytes + 1, size, &other), 0);
    assert_true(other > version);
    store_region_expect(region, key, key_length, bytes + 1, size, other);
    assert_int_equal(store_region_delete(region, key, key_length), 0);
    store_region_expect(region, key, key_length, NULL, 0, 0);
}

/* Keys and values at every limit: of the entry's fields, of inline entries, of a message, of the
 * table. */
TEST(every_length_round_trips)
{
    static const uint32_t keys[] = {1, 2, 254, 255, 256, 1023, OKV_KEY_MAX};
    static const uint32_t values[] = {0,     1,     254,   255,   256,   15319,        15320,
                                      15321, 32768, 65534, 65535, 65536, VALUE_MAX - 1};
    uint8_t key[OKV_KEY_MAX];

    memset(key, 'k', sizeof key);
    for (uint32_t size = OKV_BUCKET_SIZE_MIN; size <= OKV_BUCKET_SIZE_MAX; size *= 2) {
        struct store_region region;
        store_region_open(&region,
                          &(struct okv_store_params){.length = 8u << 20, .bucket_size = size});
        uint32_t limit = region.store.table.inline_max;
        for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
            for (size_t j = 0; j < sizeof values / sizeof *values; j++)
                expect_round_trip(&region, key, keys[i], values[j]);
            for (uint32_t head = HEAD - 1; head <= HEAD + 3 && limit > keys[i] + head; head++)
                expect_round_trip(&region, key, keys[i], limit - keys[i] - head);
        }
        store_region_expect_empty(&region, true);
        store_region_close(&region);
    }
}

TEST(versions_only_increase)
{
    struct store_region region;
    uint64_t last = 0;

    store_region_open(&region, &small);
    assert_int_equal(remove_key(&region, "key"), OKV_ENOTFOUND);
    for (int i = 0; i < 1000; i++) {
        uint64_t version = put_text(&region, "key", "value");
        assert_true(version > last);
        expect_text(&region, "key", "value", version);
        last = version;
        if (i % 3 == 2) {
            assert_int_equal(remove_key(&region, "key"), 0);
            expect_text(&region, "key", NULL, 0);
            last++; /* the version of the removal */
        }
    }
    assert_int_equal(remove_key(&region, "key"), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

TEST(a_small_buffer_is_not_written)
{
    struct store_region region;
    uint8_t buffer[8] = "old";
    uint32_t length = 0;
    uint64_t version, put;

    store_region_open(&region, &small);
    put = put_text(&region, "key", "value");
    assert_int_equal(okv_store_get(&region.store, NULL, "key", 3, buffer, 4, &length, &version),
                     OKV_ETOOSMALL);
    assert_int_equal(length, 5);
    assert_int_equal(version, put);
    assert_string_equal(buffer, "old");
    assert_int_equal(okv_store_get(&region.store, NULL, "key", 3, buffer, 5, &length, &version), 0);
    store_region_close(&region);
}

/* ---- conditions ---- */

static int put_if(struct store_region *region, const char *value, bool absent,
                  const uint64_t *version, uint64_t *now)
{
    const struct okv_store_write write = {
        .key = "key",
        .key_length = 3,
        .value = value,
        .value_length = (uint32_t)strlen(value),
        .if_absent = absent,
        .if_version = version != NULL,
        .version = version ? *version : 0,
    };
    struct okv_store_outcome outcome = {.version = 99};
    int rc = okv_store_put(&region->store, &region->work, &write, &outcome);

    *now = outcome.version;
    return rc;
}

TEST(a_failed_condition_changes_nothing)
{
    struct store_region region;
    uint64_t version = 1, now, wrong;

    store_region_open(&region, &small);
    assert_int_equal(put_if(&region, "a", false, &version, &now), OKV_ENOTFOUND);
    assert_int_equal(now, 0);
    expect_text(&region, "key", NULL, 0);
    assert_int_equal(put_if(&region, "b", true, NULL, &version), 0);
    assert_int_equal(put_if(&region, "c", true, NULL, &now), OKV_EEXISTS);
    assert_int_equal(now, version);
    expect_text(&region, "key", "b", version);
    for (int step = -1; step <= 1; step += 2) {
        wrong = version + (uint64_t)step;
        assert_int_equal(put_if(&region, "d", false, &wrong, &now), OKV_ECONFLICT);
        assert_int_equal(now, version);
        struct okv_store_write write = {.key = "key", .key_length = 3, .if_version = true};
        struct okv_store_outcome outcome;
        write.version = wrong;
        assert_int_equal(okv_store_delete(&region.store, &region.work, &write, &outcome),
                         OKV_ECONFLICT);
        assert_int_equal(outcome.version, version);
        expect_text(&region, "key", "b", version);
    }
    assert_int_equal(put_if(&region, "e", false, &version, &now), 0);
    assert_true(now > version);
    assert_int_equal(put_if(&region, "f", false, &version, &wrong), OKV_ECONFLICT);
    expect_text(&region, "key", "e", now);
    struct okv_store_write write = {.key = "key", .key_length = 3, .if_version = true};
    struct okv_store_outcome outcome;
    write.version = now;
    assert_int_equal(okv_store_delete(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(okv_store_delete(&region.store, &region.work, &write, &outcome),
                     OKV_ENOTFOUND);
    expect_text(&region, "key", NULL, 0);
    store_region_close(&region);
}

/* ---- incr and append ---- */

static int incr(struct store_region *region, int64_t delta, struct okv_store_outcome *outcome)
{
    const struct okv_store_write write = {.key = "n", .key_length = 1, .delta = delta};

    return okv_store_incr(&region->store, &region->work, &write, outcome);
}

static const struct {
    const char *text; /* NULL: no such item */
    int64_t delta;
    int rc;
    const char *sum;
} sums[] = {
    {NULL, 5, 0, "5"},
    {NULL, INT64_MIN, 0, "-9223372036854775808"},
    {"0", 0, 0, "0"},
    {"41", 1, 0, "42"},
    {"-1", 1, 0, "0"},
    {"-10", 1, 0, "-9"},
    {"-9223372036854775808", 0, 0, "-9223372036854775808"},
    {"-9223372036854775808", INT64_MAX, 0, "-1"},
    {"-9223372036854775808", -1, OKV_EOVERFLOW, NULL},
    {"9223372036854775807", 0, 0, "9223372036854775807"},
    {"9223372036854775807", INT64_MIN, 0, "-1"},
    {"9223372036854775807", 1, OKV_EOVERFLOW, NULL},
    {"9223372036854775808", -1, OKV_ENUMBER, NULL},
    {"-9223372036854775809", 1, OKV_ENUMBER, NULL},
    {"9999999999999999999", 0, OKV_ENUMBER, NULL},
    {"-0", 1, OKV_ENUMBER, NULL},
    {"00", 1, OKV_ENUMBER, NULL},
    {"007", 1, OKV_ENUMBER, NULL},
    {"-007", 1, OKV_ENUMBER, NULL},
    {"0000000000000000007", 1, OKV_ENUMBER, NULL},
    {"00000000000000000007", 1, OKV_ENUMBER, NULL}, /* 20 digits */
    {"10000000000000000000", 1, OKV_ENUMBER, NULL},
    {"", 1, OKV_ENUMBER, NULL},
    {"-", 1, OKV_ENUMBER, NULL},
    {"--1", 1, OKV_ENUMBER, NULL},
    {"+1", 1, OKV_ENUMBER, NULL},
    {" 1", 1, OKV_ENUMBER, NULL},
    {"1 ", 1, OKV_ENUMBER, NULL},
    {"1\n", 1, OKV_ENUMBER, NULL},
    {"1.0", 1, OKV_ENUMBER, NULL},
    {"0x1", 1, OKV_ENUMBER, NULL},
    {"1e3", 1, OKV_ENUMBER, NULL},
    {"nan", 1, OKV_ENUMBER, NULL},
};

TEST(incr_parses_every_number)
{
    struct store_region region;

    store_region_open(&region, &small);
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) {
        struct okv_store_outcome outcome = {.version = 99};
        uint64_t before = sums[i].text ? put_text(&region, "n", sums[i].text) : 0;
        int rc = incr(&region, sums[i].delta, &outcome);
        if (rc != sums[i].rc)
            fail_msg("\"%s\" + %" PRId64 ": %d", sums[i].text, sums[i].delta, rc);
        if (rc) {
            assert_int_equal(outcome.version, 0);
            expect_text(&region, "n", sums[i].text, before);
        } else {
            char text[24];
            snprintf(text, sizeof text, "%" PRId64, outcome.number);
            assert_string_equal(text, sums[i].sum);
            assert_true(outcome.version > before);
            expect_text(&region, "n", sums[i].sum, outcome.version);
        }
        assert_int_equal(remove_key(&region, "n"), 0);
    }
    assert_int_equal(store_region_put(&region, "n", 1, "7\0", 2, NULL), 0);
    struct okv_store_outcome outcome;
    assert_int_equal(incr(&region, 1, &outcome), OKV_ENUMBER);
    assert_int_equal(put_size(&region, "n", VALUE_MAX, NULL), 0);
    assert_int_equal(incr(&region, 1, &outcome), OKV_ENUMBER);
    store_region_close(&region);
}

static int append(struct store_region *region, const uint8_t *value, uint32_t size,
                  struct okv_store_outcome *outcome)
{
    const struct okv_store_write write = {
        .key = "k", .key_length = 1, .value = value, .value_length = size};

    return store_region_append(region, &write, 1000, outcome);
}

/* Byte by byte past every limit of a small value, then in larger steps. */
TEST(append_grows_up_to_the_limit)
{
    struct store_region region;
    struct okv_store_outcome outcome;
    uint32_t length = 0;
    uint64_t version = 0;

    store_region_open(&region, &small);
    for (uint32_t step = 0; length < VALUE_MAX; step = length < 600 ? 1 : 1 + length / 3) {
        uint32_t size = step < VALUE_MAX - length ? step : VALUE_MAX - length;
        assert_int_equal(append(&region, bytes + length, size, &outcome), 0);
        length += size;
        assert_int_equal(outcome.length, length);
        assert_true(outcome.version > version);
        version = outcome.version;
        expect_size(&region, "k", length, version);
        assert_int_equal(append(&region, bytes, VALUE_MAX - length + 1, &outcome), OKV_EVALUESIZE);
        assert_int_equal(outcome.version, 0);
        expect_size(&region, "k", length, version);
    }
    assert_int_equal(append(&region, NULL, 0, &outcome), 0);
    expect_size(&region, "k", length, outcome.version);
    assert_int_equal(remove_key(&region, "k"), 0);
    assert_int_equal(append(&region, bytes, VALUE_MAX, &outcome), 0);
    assert_int_equal(outcome.length, VALUE_MAX);
    assert_int_equal(remove_key(&region, "k"), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

/* ---- values of rendezvous reads ---- */

TEST(a_reserved_extent_becomes_the_value)
{
    static const uint32_t sizes[] = {1, 40, 1000, 1024, 15321, VALUE_MAX};
    struct store_region region;
    struct okv_store_outcome outcome;

    store_region_open(&region, &small);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct okv_store_write write = {.key = "key", .key_length = 3, .value_length = sizes[i]};
        struct okv_store_long_value value;
        write.value = bytes;
        write.long_value = &value;
        assert_true(store_region_make_long(&region, &write, &value));
        assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
        assert_int_equal(value.extent, 0);
        expect_size(&region, "key", sizes[i], outcome.version);
        assert_true(store_region_make_long(&region, &write, &value));
        write.if_absent = true;
        assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), OKV_EEXISTS);
        expect_size(&region, "key", sizes[i], outcome.version);
        okv_store_long_release(&region.store, &value);
    }
    assert_int_equal(remove_key(&region, "key"), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

TEST(a_full_region_reserves_nothing)
{
    struct store_region region;
    struct okv_store_long_value values[64] = {{.extent = 0}};
    unsigned n = 0;

    store_region_open(&region, &small);
    while (okv_store_long_reserve(&region.store, &region.work, &values[n], 3, VALUE_MAX, false) ==
           0)
        assert_true(++n < 64);
    assert_true(n >= 8);
    while (n > 0)
        okv_store_long_release(&region.store, &values[--n]);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

TEST(no_value_exceeds_the_limit)
{
    const struct okv_store_params narrow = {.length = 4u << 20, .bucket_size = 512, .max_value = 4};
    struct okv_store_write write = {
        .key = "n", .key_length = 1, .value = "9999", .value_length = 4};
    struct store_region region;
    struct okv_store_outcome outcome;

    store_region_open(&region, &narrow);
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    write.delta = 1;
    assert_int_equal(okv_store_incr(&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
    store_region_expect(&region, "n", 1, "9999", 4, 1);
    write.delta = -1;
    assert_int_equal(okv_store_incr(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(outcome.number, 9998);
    write.value_length = 5;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
    store_region_close(&region);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + (i >> 8) + 1);
    return test_run();
}
