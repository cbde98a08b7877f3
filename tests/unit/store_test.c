/* The store: layout of a bucket, a full region, two writers, and a model. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "shared/error.h"
#include "shared/superblock.h"
#include "shared/wire.h"
#include "tests/support/store_model.h"
#include "tests/support/store_writers.h"

#define REGION (256u << 10)
#define BUCKET 256u
#define ROOM (BUCKET - (unsigned)sizeof(struct okv_wire_bucket))
#define HEADER ((unsigned)sizeof(struct okv_wire_entry))

static uint8_t bytes[STORE_REGION_VALUE_MAX + 1];

static int put_size(struct store_region *region, const char *key, uint32_t size, uint64_t *version)
{
    return okv_store_put(&region->store, &region->work, key, (uint32_t)strlen(key), bytes, size,
                         version);
}

static int remove_key(struct store_region *region, const char *key)
{
    return okv_store_delete(&region->store, &region->work, key, (uint32_t)strlen(key));
}

static void expect_size(struct store_region *region, const char *key, uint32_t size,
                        uint64_t version)
{
    store_region_expect(region, key, (uint32_t)strlen(key), bytes, size, version);
}

/* Offset of the key's extent; 0 when it is inline. */
static uint64_t extent_of(struct store_region *region, const char *key)
{
    uint64_t extent;
    unsigned part;

    assert_int_equal(store_reader_place(region->base, region->length, key, (uint32_t)strlen(key),
                                        &extent, &part),
                     0);
    return extent;
}

static void expect_empty(struct store_region *region)
{
    struct store_audit audit;

    store_region_audit(region, &audit);
    assert_int_equal(audit.items, 0);
    assert_int_equal(audit.heap_bytes, 0);
    assert_int_equal(audit.overflow_parts, 0);
    assert_int_equal(okv_heap_used(&region->store.heap), 0);
}

static void init_refuses_what_is_no_region(void **state)
{
    static _Alignas(4096) uint8_t memory[16384];
    const struct okv_store_params good = {
        .base = memory, .length = sizeof memory, .bucket_size = 512, .boot_id = 1};
    struct okv_store_params params = good;
    struct okv_store store;

    (void)state;
    params.boot_id = 0;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.bucket_size = 500;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.length = 8192; /* no room for a bucket beside superblock and a page of heap */
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.length--;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    params = good;
    params.base = memory + 1;
    assert_int_equal(okv_store_init(&store, &params), OKV_EINVAL);
    assert_int_equal(okv_store_init(&store, &good), 0);
    okv_store_fini(&store);
}

static void the_superblock_describes_the_table(void **state)
{
    struct store_region region;
    struct okv_superblock block;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    assert_int_equal(okv_superblock_decode(region.base, REGION, &block), 0);
    assert_int_equal(block.region_length, REGION);
    assert_int_equal(block.index_offset, OKV_SUPERBLOCK_SIZE);
    assert_int_equal(block.index_length, REGION / 2);
    assert_int_equal(block.index_length, okv_store_index_length(&region.store));
    assert_int_equal((uint64_t)BUCKET << block.depth, block.index_length);
    expect_empty(&region);
    store_region_close(&region);
}

static void sizes_out_of_range_are_refused(void **state)
{
    struct store_region region;
    uint8_t key[OKV_KEY_MAX + 1] = {1};
    uint32_t length;
    uint64_t version = 7;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (uint32_t size = 0; size <= OKV_KEY_MAX + 1; size += OKV_KEY_MAX + 1) {
        assert_int_equal(okv_store_put(&region.store, &region.work, key, size, "v", 1, &version),
                         OKV_EKEYSIZE);
        assert_int_equal(okv_store_get(&region.store, key, size, bytes, 1, &length, &version),
                         OKV_EKEYSIZE);
        assert_int_equal(okv_store_delete(&region.store, &region.work, key, size), OKV_EKEYSIZE);
    }
    assert_int_equal(put_size(&region, "k", STORE_REGION_VALUE_MAX + 1, &version), OKV_EVALUESIZE);
    assert_int_equal(version, 7);
    expect_empty(&region);
    assert_int_equal(okv_store_put(&region.store, &region.work, key, OKV_KEY_MAX, bytes,
                                   STORE_REGION_VALUE_MAX, &version),
                     0);
    store_region_expect(&region, key, OKV_KEY_MAX, bytes, STORE_REGION_VALUE_MAX, version);
    store_region_close(&region);
}

static void versions_only_rise(void **state)
{
    struct store_region region;
    uint64_t last = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    assert_int_equal(remove_key(&region, "key"), OKV_ENOTFOUND);
    for (int i = 0; i < 10; i++) {
        uint64_t version = store_region_put(&region, "key", "value");
        assert_true(version > last);
        store_region_expect(&region, "key", 3, "value", 5, version);
        last = version;
        if (i % 3 == 2) {
            assert_int_equal(remove_key(&region, "key"), 0);
            store_region_expect(&region, "key", 3, NULL, 0, 0);
            last++; /* the removal's own */
        }
    }
    assert_int_equal(remove_key(&region, "key"), 0);
    expect_empty(&region);
    store_region_close(&region);
}

static void a_buffer_that_is_too_small_is_left_alone(void **state)
{
    struct store_region region;
    uint8_t buffer[8] = "old";
    uint32_t length = 0;
    uint64_t version, put;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    put = store_region_put(&region, "key", "value");
    assert_int_equal(okv_store_get(&region.store, "key", 3, buffer, 4, &length, &version),
                     OKV_ETOOSMALL);
    assert_int_equal(length, 5);
    assert_int_equal(version, put);
    assert_string_equal(buffer, "old");
    assert_int_equal(okv_store_get(&region.store, "key", 3, buffer, 5, &length, &version), 0);
    store_region_close(&region);
}

/* ---- layout ---- */

static void large_entries_go_to_extents(void **state)
{
    struct store_region region;
    uint64_t version;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    uint32_t largest = ROOM / 2 - HEADER - 1;
    assert_int_equal(put_size(&region, "k", largest, &version), 0);
    assert_int_equal(extent_of(&region, "k"), 0);
    assert_int_equal(put_size(&region, "k", largest + 1, &version), 0);
    assert_int_not_equal(extent_of(&region, "k"), 0);
    expect_size(&region, "k", largest + 1, version);
    assert_int_equal(put_size(&region, "k", 0, &version), 0);
    assert_int_equal(extent_of(&region, "k"), 0);
    assert_int_equal(okv_heap_used(&region.store.heap), 0);
    expect_size(&region, "k", 0, version);
    store_region_close(&region);

    store_region_open(&region, REGION, BUCKET, 40);
    assert_int_equal(put_size(&region, "k", 40 - HEADER - 1, &version), 0);
    assert_int_equal(extent_of(&region, "k"), 0);
    assert_int_equal(put_size(&region, "k", 40 - HEADER, &version), 0);
    assert_int_not_equal(extent_of(&region, "k"), 0);
    store_region_close(&region);
}

/* Three entries of 70, 80 and 60 bytes fit 232; a fourth pushes out the largest. */
static void the_largest_is_spilled_first_and_comes_back(void **state)
{
    static const uint32_t sizes[] = {70, 80, 60, 50};
    struct store_region region;
    char keys[4][24];
    uint64_t versions[4], extent;
    unsigned number = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (unsigned i = 0; i < 4; i++) {
        store_region_key(&region, 1, &number, keys[i]);
        uint32_t size = sizes[i] - HEADER - (uint32_t)strlen(keys[i]);
        assert_int_equal(put_size(&region, keys[i], size, &versions[i]), 0);
        for (unsigned j = 0; j <= i; j++)
            assert_int_equal(extent_of(&region, keys[j]) != 0, i == 3 && j == 1);
    }
    extent = extent_of(&region, keys[1]);
    /* An extent stays where it is while others come and go. */
    assert_int_equal(
        put_size(&region, keys[2], 60 - HEADER - (uint32_t)strlen(keys[2]), &versions[2]), 0);
    assert_int_equal(extent_of(&region, keys[1]), extent);
    assert_int_equal(remove_key(&region, keys[3]), 0);
    for (unsigned j = 0; j < 3; j++) {
        assert_int_equal(extent_of(&region, keys[j]), 0);
        expect_size(&region, keys[j], sizes[j] - HEADER - (uint32_t)strlen(keys[j]), versions[j]);
    }
    assert_int_equal(okv_heap_used(&region.store.heap), 0);
    store_region_close(&region);
}

/* Of 232 bytes 210 are in use, with two entries of 110 and 100 spilled. Without
 * the one of 60 there is room for either of them, and not for both. */
static void the_smallest_comes_back_first(void **state)
{
    static const uint32_t sizes[] = {110, 100, 60, 50, 40};
    struct store_region region;
    char keys[5][24];
    uint64_t version;
    unsigned number = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (unsigned i = 0; i < 5; i++) {
        store_region_key(&region, 1, &number, keys[i]);
        uint32_t size = sizes[i] - HEADER - (uint32_t)strlen(keys[i]);
        assert_int_equal(put_size(&region, keys[i], size, &version), 0);
    }
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(extent_of(&region, keys[i]) != 0, i < 2);
    assert_int_equal(remove_key(&region, keys[2]), 0);
    assert_int_not_equal(extent_of(&region, keys[0]), 0);
    assert_int_equal(extent_of(&region, keys[1]), 0);
    store_region_close(&region);
}

/* 232 bytes hold seven references of 30. */
static void parts_are_chained_only_for_references(void **state)
{
    struct store_region region;
    struct store_audit audit;
    char keys[40][24];
    uint64_t versions[40];
    unsigned number = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (unsigned i = 0; i < 40; i++) {
        store_region_key(&region, 1, &number, keys[i]);
        assert_int_equal(put_size(&region, keys[i], 100 + i, &versions[i]), 0);
        store_region_audit(&region, &audit);
        assert_int_equal(audit.longest_chain, i / 7 + 1);
    }
    for (unsigned i = 0; i < 40; i++)
        expect_size(&region, keys[i], 100 + i, versions[i]);
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(remove_key(&region, keys[i]), 0);
        store_region_audit(&region, &audit);
        assert_int_equal(audit.items, 39 - i);
        assert_int_equal(audit.overflow_parts, (39 - i) ? (38 - i) / 7 : 0);
        for (unsigned j = i + 1; j < 40; j++)
            expect_size(&region, keys[j], 100 + j, versions[j]);
    }
    expect_empty(&region);
    store_region_close(&region);
}

/* A bucket ends at OKV_BUCKET_PARTS_MAX parts, wherever there still is room. */
static void a_bucket_has_an_end(void **state)
{
    struct store_region region;
    struct store_audit audit;
    char key[24];
    uint64_t version;
    unsigned n = 0, number = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (;; n++) {
        store_region_key(&region, 1, &number, key);
        int rc = put_size(&region, key, 25, &version); /* more than a reference */
        if (rc == OKV_EFULL)
            break;
        assert_int_equal(rc, 0);
    }
    assert_int_equal(n, OKV_BUCKET_PARTS_MAX * 7);
    store_region_audit(&region, &audit);
    assert_int_equal(audit.longest_chain, OKV_BUCKET_PARTS_MAX);
    assert_int_equal(audit.items, n);
    store_region_put(&region, "elsewhere", "fits");
    store_region_close(&region);
}

/* ---- a full region ---- */

/* Puts items of a size until the region is full; returns how many fitted. */
static unsigned fill(struct store_region *region, uint32_t size)
{
    uint64_t version;
    unsigned n = 0;
    int rc;

    for (;; n++) {
        char key[24];
        snprintf(key, sizeof key, "f%u", n);
        rc = put_size(region, key, size, &version);
        if (rc)
            break;
    }
    assert_int_equal(rc, OKV_EFULL);
    return n;
}

static void empty(struct store_region *region, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        char key[24];
        snprintf(key, sizeof key, "f%u", i);
        assert_int_equal(remove_key(region, key), 0);
    }
    expect_empty(region);
}

static void full_leaves_everything_as_it_was(void **state)
{
    struct store_region region;
    struct store_audit before, after;
    uint64_t kept, version = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    assert_int_equal(put_size(&region, "kept", 3000, &kept), 0);
    unsigned n = fill(&region, 500);
    uint64_t used = okv_heap_used(&region.store.heap);
    store_region_audit(&region, &before);
    for (int i = 0; i < 10; i++)
        assert_int_equal(put_size(&region, "kept", 14000, &version), OKV_EFULL);
    assert_int_equal(version, 0);
    expect_size(&region, "kept", 3000, kept);
    assert_int_equal(okv_heap_used(&region.store.heap), used);
    store_region_audit(&region, &after);
    assert_memory_equal(&before, &after, sizeof before);
    assert_int_equal(remove_key(&region, "kept"), 0);
    empty(&region, n);
    store_region_close(&region);
}

static void a_full_region_serves_other_sizes_afterwards(void **state)
{
    static const uint32_t sizes[] = {16, 90, 150, 700, 4000, 15000, 16, 400};
    struct store_region region;
    unsigned first = 0;

    (void)state;
    store_region_open(&region, REGION, BUCKET, 0);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        unsigned n = fill(&region, sizes[i]);
        if (i == 0)
            first = n;
        else if (sizes[i] == sizes[0])
            assert_true(n >= first / 10 * 9);
        if (sizes[i] > 150) /* half of the region is heap */
            assert_true((uint64_t)n * sizes[i] > REGION / 2 / 2);
        empty(&region, n);
    }
    store_region_close(&region);
}

/* ---- two writers, and a model ---- */

static void two_writers_agree(void **state)
{
    struct store_region region;
    struct store_audit audit;

    (void)state;
    store_region_open(&region, 48u << 10, 512, 0);
    store_writers_run(&region, 512);
    store_region_audit(&region, &audit);
    assert_true(audit.items > 0 && audit.references > 0);
    for (unsigned i = 0; i < WRITER_KEYS; i++) {
        char key[24];
        snprintf(key, sizeof key, "k%u", i);
        remove_key(&region, key);
    }
    expect_empty(&region);
    store_region_close(&region);
}

static void a_model_agrees_on_few_small_buckets(void **state)
{
    const struct store_model_params params = {192u << 10, 256, 0, 3, 1};
    struct store_model_seen seen;

    (void)state;
    store_model_run(&params, &seen);
    assert_true(seen.full > 0 && seen.spilled > 0 && seen.longest > 3);
}

static void a_model_agrees_when_all_may_be_inline(void **state)
{
    const struct store_model_params params = {256u << 10, 512, UINT32_MAX, 40, 2};
    struct store_model_seen seen;

    (void)state;
    store_model_run(&params, &seen);
    assert_true(seen.full > 0 && seen.spilled > 0);
}

static void a_model_agrees_when_all_is_in_extents(void **state)
{
    const struct store_model_params params = {1u << 20, 4096, 1, 2, 2};
    struct store_model_seen seen;

    (void)state;
    store_model_run(&params, &seen);
    assert_true(seen.spilled > 0 && seen.longest > 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(init_refuses_what_is_no_region),
        cmocka_unit_test(the_superblock_describes_the_table),
        cmocka_unit_test(sizes_out_of_range_are_refused),
        cmocka_unit_test(versions_only_rise),
        cmocka_unit_test(a_buffer_that_is_too_small_is_left_alone),
        cmocka_unit_test(large_entries_go_to_extents),
        cmocka_unit_test(the_largest_is_spilled_first_and_comes_back),
        cmocka_unit_test(the_smallest_comes_back_first),
        cmocka_unit_test(parts_are_chained_only_for_references),
        cmocka_unit_test(a_bucket_has_an_end),
        cmocka_unit_test(full_leaves_everything_as_it_was),
        cmocka_unit_test(a_full_region_serves_other_sizes_afterwards),
        cmocka_unit_test(two_writers_agree),
        cmocka_unit_test(a_model_agrees_on_few_small_buckets),
        cmocka_unit_test(a_model_agrees_when_all_may_be_inline),
        cmocka_unit_test(a_model_agrees_when_all_is_in_extents),
    };

    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 7 + 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
