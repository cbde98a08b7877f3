/*
 * Wiped memory: the region holds the bytes of the values that are in the table, once each, and none
 * of a value that is gone.
 */
#include <limits.h>

#include "tests/support/test.h"

#include "server/store/compact.h"
#include "server/store/expire.h"
#include "server/store/flush.h"
#include "server/store/resize.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define MARK 0xa9
/* So many marks in a row are of a value: by chance they come once in 2^48 places. */
#define RUN_MIN 6u
#define VALUE_MAX (64u << 10)
#define SWEEP 100000u
#define STEPS 32u

static const struct okv_store_params params = {
    .length = 4u << 20, .bucket_size = 512, .max_value = VALUE_MAX, .wipe = true};
/* Inline, in extents of several classes, with the key in the extent, with pages of their own. */
static const uint32_t lengths[] = {8, 40, 130, 300, 1000, 4096, 20000, VALUE_MAX};
#define LENGTHS (sizeof lengths / sizeof *lengths)

/* Zeros around the marks keep two values apart. */
static const uint8_t *marked(uint32_t length)
{
    static uint8_t value[VALUE_MAX];

    memset(value, MARK, length);
    value[0] = value[length - 1] = 0;
    return value;
}

/* Runs of marks in the region once all is wiped: one for each value in the table. */
static uint64_t count_values(struct store_region *region)
{
    uint64_t runs = 0;
    unsigned run = 0;

    while (okv_heap_wipe(&region->store.heap, UINT64_MAX) > 0)
        ;
    for (uint64_t at = 0; at < region->length; at++) {
        run = region->base[at] == MARK ? run + 1 : 0;
        runs += run == RUN_MIN;
    }
    return runs;
}

static void expect_values(struct store_region *region)
{
    assert_int_equal(count_values(region), atomic_load(&region->store.totals.items));
}

static int put(struct store_region *region, const char *key, uint32_t length)
{
    return store_region_put(region, key, (uint32_t)strlen(key), marked(length), length, NULL);
}

static int put_number(struct store_region *region, unsigned number, uint32_t length)
{
    char key[24];

    snprintf(key, sizeof key, "key %u", number);
    return put(region, key, length);
}

static void delete_number(struct store_region *region, unsigned number)
{
    char key[24];
    int length = snprintf(key, sizeof key, "key %u", number);

    assert_int_equal(store_region_delete(region, key, (uint32_t)length), 0);
}

TEST(deleted_values_are_gone)
{
    struct store_region region;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < LENGTHS; i++)
        assert_int_equal(put_number(&region, i, lengths[i]), 0);
    assert_int_equal(count_values(&region), LENGTHS);
    for (unsigned i = 0; i < LENGTHS; i++) {
        delete_number(&region, i);
        expect_values(&region);
    }
    store_region_close(&region);
}

/* Each length by each other: in place or not, shorter and longer, inline and in an extent. */
TEST(replaced_values_are_gone)
{
    static const uint8_t zeros[VALUE_MAX];
    struct store_region region;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < LENGTHS; i++)
        for (unsigned j = 0; j < LENGTHS; j++) {
            assert_int_equal(put(&region, "key", lengths[i]), 0);
            assert_int_equal(count_values(&region), 1);
            assert_int_equal(put(&region, "key", lengths[j]), 0);
            assert_int_equal(count_values(&region), 1);
            assert_int_equal(store_region_put(&region, "key", 3, zeros, lengths[i], NULL), 0);
            assert_int_equal(count_values(&region), 0);
        }
    store_region_close(&region);
}

TEST(expired_values_are_gone)
{
    struct store_region region;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < LENGTHS; i++) {
        const struct okv_store_write write = {.key = &lengths[i],
                                              .key_length = sizeof lengths[i],
                                              .value = marked(lengths[i]),
                                              .value_length = lengths[i],
                                              .ttl_ms = 10};
        struct okv_store_outcome outcome;
        assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    }
    assert_int_equal(count_values(&region), LENGTHS);
    okv_store_set_clock(&region.store, 100, false);
    okv_store_sweep(&region.store, &region.work, SWEEP);
    assert_int_equal(count_values(&region), 0);
    store_region_close(&region);
}

TEST(flushed_values_are_gone)
{
    struct store_region region;
    uint64_t next = 0, splits = 0;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < 1000; i++)
        assert_int_equal(put_number(&region, i, lengths[i % 5]), 0);
    expect_values(&region);
    do
        assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
    while (next);
    assert_int_equal(count_values(&region), 0);
    store_region_close(&region);
}

/* Splits copy items from bucket to bucket, merges copy them back. */
TEST(growth_and_shrinking_leave_no_copies)
{
    const unsigned items = 8000 / STORE_TEST_SLOWNESS;
    struct store_region region;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < items; i++) {
        assert_int_equal(put_number(&region, i, lengths[i % 4]), 0);
        if (i % 500 == 0)
            expect_values(&region);
    }
    assert_true(atomic_load(&region.store.totals.splits) > 0);
    expect_values(&region);
    for (unsigned i = 0; i < items; i++) {
        delete_number(&region, i);
        if (i % 500 == 0)
            expect_values(&region);
    }
    assert_true(atomic_load(&region.store.totals.merges) > 0);
    assert_int_equal(count_values(&region), 0);
    store_region_close(&region);
}

/* Keys of one bucket, which no split divides. */
TEST(overflow_pages_leave_no_copies)
{
    struct store_region region;
    char keys[100][24];
    unsigned number = 0;

    store_region_open(&region, &params);
    for (unsigned i = 0; i < 100; i++) {
        store_region_key(&region, 16, &number, keys[i]);
        assert_int_equal(put(&region, keys[i], 300), 0);
    }
    assert_true(atomic_load(&region.store.totals.overflow_pages) > 0);
    expect_values(&region);
    for (unsigned i = 0; i < 100; i++) {
        assert_int_equal(store_region_delete(&region, keys[i], (uint32_t)strlen(keys[i])), 0);
        expect_values(&region);
    }
    store_region_close(&region);
}

/* A full region with holes: puts that find no room give back what they took, and extents move. */
TEST(compaction_leaves_no_copies)
{
    struct store_region region;
    unsigned items = 0;

    store_region_open(&region, &params);
    while (put_number(&region, items, 300) == 0)
        items++;
    expect_values(&region);
    for (unsigned i = 0; i < items; i++)
        if (i % 4)
            delete_number(&region, i);
    expect_values(&region);
    uint64_t moved = 0;
    for (unsigned i = 0; i < STEPS; i++) {
        struct okv_effort effort = {.compactions = 1};
        okv_store_make_room(&region.store, &region.work, VALUE_MAX, &effort);
        moved += region.store.compaction.bytes;
        expect_values(&region);
    }
    assert_true(moved > 0);
    store_region_close(&region);
}

TEST(a_value_that_no_put_used_is_gone)
{
    struct store_region region;
    struct okv_store_long_value value = {.extent = 0};

    store_region_open(&region, &params);
    assert_int_equal(okv_store_long_reserve(&region.store, &region.work, &value, 3, 20000, false),
                     0);
    memcpy(region.base + okv_store_long_offset(&value), marked(20000), 20000);
    assert_int_equal(count_values(&region), 1);
    okv_store_long_release(&region.store, &value);
    assert_int_equal(count_values(&region), 0);
    store_region_close(&region);
}

/* A merge may need memory, and has none but the reserve, which holds nothing to wipe. */
TEST(the_reserve_is_there_for_merges)
{
    struct store_region region;
    struct okv_store *store = &region.store;
    unsigned count = 0, merges = 1024;

    store_region_open(&region, &params);
    while (!store->reserve)
        assert_int_equal(put_number(&region, count++, 40), 0);
    uint64_t segments = store->index_length;
    while (store->index_length == segments)
        assert_int_equal(put_number(&region, count++, 40), 0);
    for (uint64_t size = SWEEP; size > 0; size /= 2)
        while (okv_heap_alloc(&store->heap, size))
            ;
    store->shrink_pause = INT_MAX;
    while (count > 0)
        delete_number(&region, --count);
    assert_true(okv_store_free_segment(store, &region.work, 1, &merges));
    assert_true(store->reserve != 0);
    store_region_close(&region);
}

/* What the others would see. */
TEST(without_it_values_stay)
{
    struct okv_store_params unwiped = params;
    struct store_region region;

    unwiped.wipe = false;
    store_region_open(&region, &unwiped);
    assert_int_equal(put(&region, "key", 20000), 0);
    assert_int_equal(store_region_delete(&region, "key", 3), 0);
    assert_int_equal(count_values(&region), 1);
    store_region_close(&region);
}
