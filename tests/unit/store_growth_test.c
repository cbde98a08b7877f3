/*
 * The index grows and shrinks with its data, while other threads read: a thousand items to many.
 * $OKV_LONG=1: to five million, in a region of 1 GiB.
 */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/store_watch.h"

#define FEW 1000u
#define KEY 16u
#define VALUE 32u
#define LARGE (48u << 10)

static unsigned many(void)
{
    return store_test_is_long() ? 5000000u : 300000u / STORE_TEST_SLOWNESS;
}

static uint64_t region_length(void)
{
    return store_test_is_long() ? 1024u << 20 : 64u << 20;
}

/* Gets all items and counts READs, without the store's own counters. At most `most` per get. */
static double expect_reads_per_get(struct store_region *region, unsigned items, double most)
{
    struct store_audit audit;

    store_region_audit(region, NULL, NULL, &audit);
    assert_int_equal(audit.items, items);
    double reads = 1 + store_audit_extra(&audit);
    print_message("%8u items: %7llu buckets, %4.1f %% of their bytes in use, %.4f READs a get\n",
                  items, (unsigned long long)audit.buckets,
                  100.0 * (double)audit.entry_bytes /
                      ((double)audit.buckets * region->store.table.bucket_size),
                  reads);
    assert_true(reads <= most);
    return reads;
}

/* Each new item is followed by a change of an old one. */
static void grow(struct store_watch *watch, unsigned to)
{
    struct store_region *region = watch->region;
    struct store_random random = {.state = to};
    uint8_t value[VALUE];
    double next = FEW;
    uint64_t buckets = 0;

    for (unsigned i = 0; i < to; i++) {
        assert_int_equal(store_watch_put(watch, &region->work, value, i, VALUE), 0);
        atomic_store(&watch->known, i + 1);
        unsigned old = store_random_below(&random, i + 1);
        if (i % 4 == 0)
            assert_int_equal(store_watch_put(watch, &region->work, value, old, VALUE), 0);
        uint64_t count = atomic_load(&region->store.bucket_count);
        assert_true(count >= buckets);
        buckets = count;
        if (i + 1 >= (unsigned)next || i + 1 == to) {
            expect_reads_per_get(region, i + 1, 1.03);
            next *= 1.189207115;
        }
    }
    assert_true(buckets * region->store.table.bucket_size < (uint64_t)to * (KEY + VALUE) * 4);
}

static void shrink(struct store_watch *watch, unsigned from)
{
    struct store_region *region = watch->region;
    uint64_t buckets = atomic_load(&region->store.bucket_count);

    for (unsigned i = from; i-- > FEW;)
        assert_int_equal(store_watch_delete(watch, &region->work, i), 0);
    expect_reads_per_get(region, FEW, 1.01);
    assert_true(atomic_load(&region->store.bucket_count) < buckets / 10);
}

/* Fills what the index freed with large values; returns their number. */
static unsigned fill_with_large(struct store_region *region)
{
    static uint8_t value[LARGE];
    unsigned n = 0;

    while (store_region_put(region, &n, sizeof n, value, LARGE, NULL) == 0)
        n++;
    return n;
}

TEST(the_index_follows_its_data)
{
    const struct okv_store_params params = {.length = region_length(), .bucket_size = 512};
    struct store_region region;
    struct store_watch watch;
    struct store_watcher watcher;

    store_region_open(&region, &params);
    store_watch_open(&watch, &region, many(), KEY, VALUE);
    atomic_store(&watch.known, 0);
    store_watch_start(&watch, &watcher, 1);
    grow(&watch, many());
    uint64_t index = okv_store_index_length(&region.store);
    shrink(&watch, many());
    store_watch_join(&watch, &watcher, 1);
    assert_true(okv_store_index_length(&region.store) < index / 10);
    unsigned n = fill_with_large(&region);
    print_message("afterwards %u values of %u KiB take %.1f %% of the region\n", n, LARGE >> 10,
                  100.0 * n * LARGE / (double)region.length);
    /* 48 KiB is a size class. Only fragments beside segments of the index may be lost. */
    assert_true((double)n * LARGE > 0.85 * (double)region.length);
    for (unsigned i = 0; i < FEW; i++)
        assert_true(store_watch_check(&watch, &region.reader, i));
    while (n-- > 0)
        assert_int_equal(store_region_delete(&region, &n, sizeof n), 0);
    for (unsigned i = 0; i < FEW; i++)
        assert_int_equal(store_watch_delete(&watch, &region.work, i), 0);
    store_region_expect_empty(&region, true);
    store_watch_close(&watch);
    store_region_close(&region);
}

/* The same with buckets and items of other sizes, up to a quarter of a bucket. For larger items two
 * new buckets per change would be too slow. */
TEST(other_buckets_grow_as_well)
{
    static const struct {
        uint32_t bucket, value;
    } cases[] = {{256, 16},   {256, 35},   {1024, 32}, {1024, 200},
                 {4096, 100}, {4096, 900}, {512, 90}};
    unsigned items = 30000 / STORE_TEST_SLOWNESS;

    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        struct store_region region;
        struct store_watch watch;
        uint8_t value[1500];
        store_region_open(&region, &(struct okv_store_params){.length = 256u << 20,
                                                              .bucket_size = cases[c].bucket});
        store_watch_open(&watch, &region, items, KEY, sizeof value);
        for (unsigned i = 0; i < items; i++)
            assert_int_equal(store_watch_put(&watch, &region.work, value, i, cases[c].value), 0);
        expect_reads_per_get(&region, items, 1.02);
        for (unsigned i = 0; i < items; i++)
            assert_int_equal(store_watch_delete(&watch, &region.work, i), 0);
        store_region_expect_empty(&region, true);
        store_watch_close(&watch);
        store_region_close(&region);
    }
}

/* Two of these items fill a bucket, and a few are too few for shares of 1000. */
TEST(a_few_items_settle)
{
    struct store_region region;
    struct store_watch watch;
    uint8_t value[160];
    unsigned items = 150;

    store_region_open(&region, &(struct okv_store_params){.length = 16u << 20, .bucket_size = 512});
    store_watch_open(&watch, &region, items, KEY, sizeof value);
    uint64_t resized = 0;
    for (unsigned round = 0; round < 100; round++) {
        for (unsigned i = 0; i < items; i++)
            assert_int_equal(store_watch_put(&watch, &region.work, value, i, 140), 0);
        if (round == 50)
            resized =
                atomic_load(&region.store.totals.splits) + atomic_load(&region.store.totals.merges);
    }
    assert_int_equal(atomic_load(&region.store.totals.splits) +
                         atomic_load(&region.store.totals.merges),
                     resized);
    store_watch_close(&watch);
    store_region_close(&region);
}

/* While memory is plentiful, extra READs are rarer. */
TEST(spare_memory_saves_reads)
{
    unsigned items = 40000 / STORE_TEST_SLOWNESS, most = 0;
    struct store_region region;
    struct store_watch watch;
    struct store_audit audit;
    uint8_t value[VALUE];

    store_region_open(
        &region, &(struct okv_store_params){.length = (uint64_t)items * 4096, .bucket_size = 512});
    store_watch_open(&watch, &region, 20 * items, KEY, VALUE);
    while (most < items)
        assert_int_equal(store_watch_put(&watch, &region.work, value, most++, VALUE), 0);
    expect_reads_per_get(&region, most, 1.007);
    while (most < 20 * items)
        assert_int_equal(store_watch_put(&watch, &region.work, value, most++, VALUE), 0);
    store_region_audit(&region, NULL, NULL, &audit);
    double reads = 1 + store_audit_extra(&audit);
    print_message("%u items in %u: %.4f READs a get\n", most, items, reads);
    assert_in_range(1000 * reads, 1020, 1035);
    store_watch_close(&watch);
    store_region_close(&region);
}

/* Images lead a reader with an old bucket count to the right bucket. */
TEST(a_reader_with_an_old_count_finds_its_way)
{
    struct store_region region;
    struct store_watch watch;
    uint8_t value[VALUE];
    unsigned items = 20000;

    store_region_open(&region, &(struct okv_store_params){.length = 16u << 20, .bucket_size = 512});
    store_watch_open(&watch, &region, items, KEY, VALUE);
    for (unsigned i = 0; i < items; i++)
        assert_int_equal(store_watch_put(&watch, &region.work, value, i, VALUE), 0);
    uint64_t count = atomic_load(&region.store.bucket_count);
    for (uint64_t old = 1; old <= 4 * count; old += 1 + old / 7) {
        unsigned i = (unsigned)(old * 7919 % items);
        assert_true(store_watch_check(&watch, &region.reader, i)); /* for the directory */
        uint64_t led_on = region.reader.led_on, rejected = region.reader.rejected;
        region.reader.count = old;
        assert_true(store_watch_check(&watch, &region.reader, i));
        /* One step fixes the level, another one the split pointer. */
        assert_true(region.reader.led_on <= led_on + 2 ||
                    old > count); /* past the last segment nothing can be read */
        assert_true(region.reader.rejected <= rejected + 1);
    }
    assert_false(atomic_load(&watch.failed));
    store_watch_close(&watch);
    store_region_close(&region);
}
