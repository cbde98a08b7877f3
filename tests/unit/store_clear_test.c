/* Ranges of the heap are emptied in short steps. */
#include <stdio.h>

#include "server/core/turn.h"
#include "server/store/change_set.h"
#include "server/store/clear.h"
#include "server/store/evict.h"
#include "server/store/pages.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define LONG 200000u
#define SHORT 300u
#define RANGES 1000u

static int put(struct store_region *region, const char *key, uint32_t length, uint64_t ttl_ms)
{
    static const uint8_t value[SHORT];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = key,
                                          .key_length = (uint32_t)strlen(key),
                                          .value = value,
                                          .value_length = length,
                                          .ttl_ms = ttl_ms};

    return okv_store_put(&region->store, &region->work, &write, &outcome);
}

static void open_cache(struct store_region *region, enum okv_store_full full)
{
    const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = full};

    store_region_open(region, &params);
}

/* Full of short items. */
static void open_full(struct store_region *region)
{
    char key[16];

    open_cache(region, OKV_STORE_EVICT);
    for (unsigned i = 0; i < REGION / SHORT; i++) {
        snprintf(key, sizeof key, "%u", i);
        assert_int_equal(put(region, key, SHORT, 0), 0);
        while (okv_store_evict_is_due(&region->store))
            okv_store_evict(&region->store, &region->work);
    }
}

/* Steps until a range is free or given up. Returns what the last one does. */
static enum okv_clear clear(struct store_region *region)
{
    struct okv_store *store = &region->store;
    unsigned steps = 0;
    enum okv_clear did;

    do {
        uint64_t items = store->totals.items;
        okv_store_work_take(&region->work);
        did = okv_store_clear(store, &region->work, LONG);
        assert_in_range(region->work.loaded_pages, 0, OKV_EVICT_PAGES + OKV_BUCKET_PAGES_MAX);
        assert_in_range(region->work.bytes, 0, (64u << 10) + SHORT);
        assert_true(items - store->totals.items <= OKV_EVICT_PAGES + OKV_BUCKET_PAGES_MAX);
        steps++;
    } while (did == OKV_CLEAR_GOES_ON);
    assert_true(steps > LONG / SHORT / OKV_EVICT_PAGES / 2);
    return did;
}

TEST(a_range_is_emptied_in_short_steps)
{
    struct store_region region;
    struct store_audit audit;

    open_full(&region);
    assert_int_equal(okv_heap_alloc(&region.store.heap, LONG), 0);
    assert_int_equal(clear(&region), OKV_CLEAR_ENDS);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_true(okv_heap_alloc(&region.store.heap, LONG) > 0);
    store_region_close(&region);
}

/* Neither what was freed in it nor what was free is given out. */
TEST(nothing_comes_to_a_range_that_is_emptied)
{
    struct store_region region;
    uint64_t offset, count = 0;

    open_full(&region);
    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(okv_store_clear(&region.store, &region.work, LONG), OKV_CLEAR_GOES_ON);
    const struct okv_pages *pages = region.store.heap.pages;
    assert_true(pages->closed_end > pages->closed);
    for (; (offset = okv_heap_alloc(&region.store.heap, SHORT)); count++)
        assert_true(offset / OKV_PAGE < pages->closed || offset / OKV_PAGE >= pages->closed_end);
    assert_true(count > 0);
    store_region_close(&region);
}

/* As a worker does that nobody asks for anything: it sleeps when it is told that nothing is left.
 */
static void be_idle(struct store_region *region)
{
    while (okv_store_evict(&region->store, &region->work))
        continue;
    assert_false(okv_store_evict_is_due(&region->store));
    assert_int_equal(region->store.heap.closed_end, 0);
}

TEST(a_worker_does_not_sleep_before_a_range_is_open_again)
{
    struct store_region region;
    char key[16];

    open_full(&region);
    for (unsigned i = 0; i < REGION / SHORT; i += 8) {
        snprintf(key, sizeof key, "%u", i);
        store_region_delete(&region, key, (uint32_t)strlen(key));
    }
    assert_true(okv_store_unused(&region.store) > okv_store_reserve(&region.store));
    okv_store_clear(&region.store, &region.work, LONG);
    assert_true(region.store.heap.closed_end > 0);
    be_idle(&region);
    store_region_close(&region);
}

/* No memory stays closed because the last item that could be evicted has gone. */
TEST(a_range_opens_again_without_items_to_evict)
{
    struct store_region region;
    struct store_audit audit;
    char key[16];

    open_cache(&region, OKV_STORE_EVICT_EXPIRING);
    assert_int_equal(put(&region, "expires", SHORT, 1000000), 0);
    for (unsigned i = 0; i < 1000; i++) {
        snprintf(key, sizeof key, "%u", i);
        assert_int_equal(put(&region, key, SHORT, 0), 0);
    }
    for (unsigned i = 0; i < RANGES && !region.store.heap.closed_end; i++)
        okv_store_clear(&region.store, &region.work, LONG);
    assert_true(region.store.heap.closed_end > 0);
    assert_int_equal(store_region_delete(&region, "expires", 7), 0);
    be_idle(&region);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_int_equal(audit.items, 1000);
    store_region_close(&region);
}

/* Small items that found no room in their bucket are not in the way. */
TEST(an_item_that_expired_in_a_range_goes_alone)
{
    struct store_region region;
    unsigned number = 0;
    char key[24];

    open_cache(&region, OKV_STORE_EVICT);
    okv_heap_alloc(&region.store.heap, LONG); /* ranges reach what is below */
    for (unsigned i = 0; i < 16; i++) {
        store_region_key(&region, 14, &number, key);
        number++;
        assert_int_equal(put(&region, key, i == 0 ? SHORT : 60, i == 0 ? 1 : 0), 0);
    }
    assert_true(region.store.totals.references > 1);
    assert_int_equal(region.store.totals.overflow_pages, 0);
    okv_store_set_clock(&region.store, 1000, false);
    for (unsigned i = 0; i < RANGES && region.store.totals.expired == 0; i++)
        okv_store_clear(&region.store, &region.work, OKV_CLEAR_LEAST);
    assert_int_equal(region.store.totals.expired, 1);
    assert_int_equal(region.store.eviction.evicted_in_bucket, 0);
    store_region_close(&region);
}

/* They need more pages in a row than the shortest range has. A set that cannot have them ends. */
TEST(a_set_of_long_values_finds_room)
{
    enum { SET = 4, TRIES = 100000 };
    static uint8_t value[LONG];
    struct okv_store_set_change changes[SET];
    struct store_region region;
    struct store_audit audit;

    open_full(&region);
    region.work.in_steps = true;
    for (unsigned round = 0; round < 4; round++) {
        struct okv_effort effort = {.has_begun = false};
        int rc = OKV_EAGAIN;
        region.work.effort = &effort;
        for (unsigned i = 0; i < SET; i++)
            changes[i] = (struct okv_store_set_change){.kind = OKV_STORE_SET_PUT,
                                                       .key = &"abcd"[i],
                                                       .key_length = 1,
                                                       .value = value,
                                                       .value_length = LONG - i * 5000};
        const struct okv_store_set set = {.changes = changes, .count = SET};
        for (unsigned i = 0; i < TRIES && rc == OKV_EAGAIN; i++)
            rc = okv_store_change_set(&region.store, &region.work, &set);
        assert_int_equal(rc, 0);
        store_region_audit(&region, NULL, NULL, &audit);
    }
    store_region_close(&region);
}
