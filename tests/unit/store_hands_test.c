/* The hands visit one bucket after the other, or items that they have just passed would be evicted.
 */
#include <stdio.h>

#include "server/store/evict.h"
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
