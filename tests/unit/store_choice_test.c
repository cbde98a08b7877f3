/* What a full cache evicts is chosen among all items, by their own uses. */
#include <stdio.h>

#include "server/store/bucket_image.h"
#include "server/store/evict.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define KEY_LENGTH 16
#define VALUE_MAX 2048u

/* Puts items with values of these lengths, `from` to `end`. */
static void fill(struct store_region *region, uint64_t from, uint64_t end, uint32_t least,
                 uint32_t most)
{
    static const uint8_t value[VALUE_MAX];
    char key[KEY_LENGTH + 1];

    for (uint64_t number = from; number < end; number++) {
        uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
        uint32_t length = least + (uint32_t)((hash >> 32) % (most - least + 1));
        snprintf(key, sizeof key, "%0*llu", KEY_LENGTH, (unsigned long long)number);
        assert_int_equal(store_region_put(region, key, KEY_LENGTH, value, length, NULL), 0);
        okv_store_evict(&region->store, &region->work);
    }
}

static void open_cache(struct store_region *region)
{
    const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = OKV_STORE_EVICT};

    store_region_open(region, &params);
}

static uint64_t evicted(const struct store_region *region)
{
    const struct okv_store_eviction *eviction = &region->store.eviction;

    return eviction->evicted_new + eviction->evicted_main;
}

/* Few are evicted for a lack of room in their bucket. */
TEST(the_index_grows_where_buckets_are_crowded)
{
    enum { PUTS = 40000 };
    struct store_region region;

    open_cache(&region);
    fill(&region, 0, PUTS, 1024, 1024);
    uint64_t before = evicted(&region), in_bucket = region.store.eviction.evicted_in_bucket;
    fill(&region, PUTS, 2 * PUTS, 1024, 1024);
    in_bucket = region.store.eviction.evicted_in_bucket - in_bucket;
    assert_true(in_bucket * 100 < (evicted(&region) - before) * 20);
    assert_true(okv_store_index_length(&region.store) < REGION / 8);
    store_region_close(&region);
}

/* What is not used would stay in the cell of what is. */
TEST(items_in_extents_share_no_cell)
{
    struct store_region region;
    struct okv_store *store = &region.store;

    open_cache(&region);
    fill(&region, 0, 100000, 200, 200);
    for (uint64_t i = 0; i < store->bucket_count; i++) {
        okv_store_lock(store, i);
        assert_int_equal(okv_store_bucket_load(&region.work.bucket, &store->table, i), 0);
        assert_in_range(region.work.bucket.item_count, 0, store->table.heat->cells);
        okv_store_unlock(store, i);
    }
    store_region_close(&region);
}

/* Sizes of all kinds: room is made by the hands, and rarely by emptying ranges. */
TEST(little_is_moved)
{
    struct store_region region;

    open_cache(&region);
    fill(&region, 0, 80000, 8, VALUE_MAX);
    const struct okv_store_eviction *eviction = &region.store.eviction;
    assert_true(eviction->copied_bytes * 2 < eviction->evicted_bytes);
    store_region_close(&region);
}
