/* The hands visit one bucket after the other, or items that they have just passed would be evicted;
 * what they find after a start, and in long buckets; and steps that empty a range. */
#include <stdio.h>

#include "server/store/bucket_image.h"
#include "server/store/clear.h"
#include "server/store/evict.h"
#include "server/store/heat.h"
#include "server/store/recover.h"
#include "server/store/resize.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define LENGTH 1000u

static void open_table(struct store_region *region, enum okv_store_full full)
{
    const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = full};

    store_region_open(region, &params);
}

static int put(struct store_region *region, unsigned number)
{
    static const uint8_t value[LENGTH];
    char key[16];
    int length = snprintf(key, sizeof key, "%u", number);

    return store_region_put(region, key, (uint32_t)length, value, sizeof value, NULL);
}

TEST(a_hand_goes_on_where_it_was_while_the_table_grows)
{
    struct store_region region;
    struct okv_store *store = &region.store;
    struct okv_store_hand *hand = &store->eviction.new_hand;
    unsigned number = 0, rounds = 0;

    open_table(&region, OKV_STORE_EVICT);
    uint64_t segment = okv_heap_alloc_fixed(&store->heap, (uint64_t)store->table.segment_buckets *
                                                              store->table.bucket_size);
    for (; number < 4 * REGION / LENGTH || okv_store_unused(store) >= okv_store_reserve(store);
         number++)
        assert_int_equal(put(&region, number), 0);
    const uint64_t begun = store->bucket_count;
    okv_heap_free_unwritten(&store->heap, segment); /* the table can grow */
    for (unsigned i = 0; i < 2000; i++) {
        assert_int_equal(put(&region, number++), 0);
        okv_store_grow(store, &region.work, store->bucket_count + 1);
        if (okv_store_unused(store) >= okv_store_reserve(store))
            continue;
        uint64_t next = hand->next;
        okv_store_work_take(&region.work);
        okv_store_evict(store, &region.work);
        rounds += hand->next < next;
        for (unsigned visits = region.work.loaded_pages; visits > 0; visits--)
            next = next < store->bucket_count ? next + 1 : 1;
        assert_int_equal(hand->next, next);
    }
    assert_true(rounds > 0);
    assert_true(store->bucket_count > begun + 10);
    store_region_close(&region);
}

static void recover(struct store_region *region, unsigned number)
{
    static const uint8_t value[LENGTH];
    char key[16];
    const struct okv_store_recovered recovered = {
        .key = key,
        .key_length = (uint32_t)snprintf(key, sizeof key, "%u", number),
        .value = value,
        .value_length = sizeof value,
        .version = number + 1};

    assert_int_equal(okv_store_recover(&region->store, &region->work, &recovered), 0);
}

/* New ones, and the sum of their versions. */
static unsigned count_new(struct store_region *region, uint64_t number, uint64_t *versions)
{
    struct okv_store_bucket *bucket = &region->work.bucket;
    unsigned count = 0;

    assert_int_equal(okv_store_bucket_load(bucket, &region->store.table, number), 0);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_store_item *item = &bucket->items[i];
        assert_int_equal(okv_heat_counter_of(item->heat), 0);
        count += okv_heat_is_new(item->heat);
        *versions += okv_heat_is_new(item->heat) ? item->entry.version : 0;
    }
    return count;
}

/* As in a cache that was full for long: some are new, most of them written last. */
TEST(items_of_a_start_are_new_and_main)
{
    enum { ITEMS = 3000 };
    struct store_region region;
    unsigned of_new = 0;
    uint64_t versions = 0;

    open_table(&region, OKV_STORE_EVICT);
    for (unsigned i = 0; i < ITEMS; i++)
        recover(&region, i);
    assert_int_equal(region.store.totals.items, ITEMS);
    for (uint64_t i = 0; i < region.store.bucket_count; i++)
        of_new += count_new(&region, i, &versions);
    print_message("%u of %u are new\n", of_new, ITEMS);
    assert_in_range(of_new, ITEMS / 10, ITEMS / 4);
    assert_true(versions / of_new > ITEMS * 3 / 4);
    store_region_close(&region);
}

/* So that a worker does not sleep while a range is closed. */
TEST(a_range_is_emptied_to_its_end)
{
    struct store_region region;
    struct okv_store *store = &region.store;
    unsigned steps = 0;

    open_table(&region, OKV_STORE_EVICT);
    for (unsigned number = 0; number < 4000; number++)
        assert_int_equal(put(&region, number % 2000), 0); /* the second is a use: it is moved */
    assert_int_equal(okv_store_clear(store, &region.work, REGION / 16), OKV_CLEAR_GOES_ON);
    for (; okv_store_clear_goes_on(store); steps++)
        assert_true(okv_store_evict(store, &region.work));
    assert_true(steps > 1);
    assert_false(okv_store_evict(store, &region.work));
    store_region_close(&region);
}

static int put_short(struct store_region *region, unsigned number, uint64_t ttl_ms)
{
    char key[16];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = key,
                                          .key_length =
                                              (uint32_t)snprintf(key, sizeof key, "%u", number),
                                          .value = "a value of 32 bytes, as most are",
                                          .value_length = 32,
                                          .ttl_ms = ttl_ms};
    int rc = okv_store_put(&region->store, &region->work, &write, &outcome);

    okv_store_evict(&region->store, &region->work);
    return rc;
}

/* Items that stay take overflow pages once the index cannot grow; those beside them still go. */
TEST(items_that_expire_go_from_long_buckets)
{
    struct store_region region;
    struct okv_store *store = &region.store;
    unsigned number = 0, kept;

    open_table(&region, OKV_STORE_EVICT_EXPIRING);
    while (put_short(&region, number, 0) == 0)
        number++;
    assert_true(store->totals.overflow_pages > 100);
    for (unsigned i = 0; i < number; i += 4) {
        char key[16];
        int length = snprintf(key, sizeof key, "%u", i);
        assert_int_equal(store_region_delete(&region, key, (uint32_t)length), 0);
    }
    kept = (unsigned)store->totals.items;
    const unsigned end = number + 200000 / STORE_TEST_SLOWNESS;
    for (; number < end; number++)
        assert_int_equal(put_short(&region, number, 1000000), 0);
    print_message("%u stay, and %u others; %u overflow pages\n", kept,
                  (unsigned)store->totals.expiring, (unsigned)store->totals.overflow_pages);
    assert_int_equal(store->totals.items - store->totals.expiring, kept);
    assert_in_range(store->totals.expiring, 1000, kept);
    store_region_close(&region);
}

TEST(a_table_that_refuses_has_no_heat)
{
    struct store_region region;
    unsigned number = 0;

    open_table(&region, OKV_STORE_REFUSE);
    assert_null(region.store.table.heat);
    while (put(&region, number) == 0)
        number++;
    assert_false(okv_store_evict(&region.store, &region.work));
    assert_int_equal(region.store.totals.items, number);
    assert_int_equal(region.store.eviction.refused, 0);
    store_region_close(&region);
}
