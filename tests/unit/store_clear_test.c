/* Ranges of the heap are emptied in short steps. */
#include <stdio.h>

#include "server/store/clear.h"
#include "server/store/evict.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define LONG 200000u
#define SHORT 300u

/* Full of short items. */
static void open_full(struct store_region *region)
{
    const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = OKV_STORE_EVICT};
    static const uint8_t value[SHORT];
    char key[16];

    store_region_open(region, &params);
    for (unsigned i = 0; i < REGION / SHORT; i++) {
        int length = snprintf(key, sizeof key, "%u", i);
        assert_int_equal(store_region_put(region, key, (uint32_t)length, value, sizeof value, NULL),
                         0);
        while (okv_store_evict_is_due(&region->store))
            okv_store_evict(&region->store, &region->work);
    }
}

/* Steps until a range is free or given up. Returns what the last one does. */
static int clear(struct store_region *region)
{
    struct okv_store *store = &region->store;
    unsigned steps = 0;
    int rc;

    do {
        uint64_t items = store->totals.items;
        okv_store_work_take(&region->work);
        rc = okv_store_clear(store, &region->work, LONG);
        assert_in_range(region->work.loaded_pages, 0, OKV_EVICT_PAGES + OKV_BUCKET_PAGES_MAX);
        assert_in_range(region->work.bytes, 0, (64u << 10) + SHORT);
        assert_true(items - store->totals.items <= OKV_EVICT_PAGES + OKV_BUCKET_PAGES_MAX);
        steps++;
    } while (rc && okv_store_clear_is_due(store));
    assert_true(steps > LONG / SHORT / OKV_EVICT_PAGES / 2);
    return rc;
}

TEST(a_range_is_emptied_in_short_steps)
{
    struct store_region region;
    struct store_audit audit;

    open_full(&region);
    assert_int_equal(okv_heap_alloc(&region.store.heap, LONG), 0);
    assert_int_equal(clear(&region), 1);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_true(okv_heap_alloc(&region.store.heap, LONG) > 0);
    store_region_close(&region);
}
