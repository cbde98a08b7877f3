#include "server/store/evict.h"

#include "server/core/turn.h"
#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/clear.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "shared/base/error.h"

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static bool is_short(const struct okv_store *store)
{
    return okv_store_unused(store) < okv_store_reserve(store);
}

bool okv_store_evict_lacks(const struct okv_store *store, uint64_t size)
{
    return okv_store_may_evict(store) && okv_store_unused(store) < size;
}

bool okv_store_evict_is_due(const struct okv_store *store)
{
    if (store->eviction.mode == OKV_STORE_REFUSE)
        return false;
    return okv_store_clear_goes_on(store) || (is_short(store) && okv_store_may_evict(store));
}

bool okv_store_evict_is_ahead(const struct okv_store *store, uint64_t size)
{
    uint64_t later = okv_store_freed_later(&store->table);

    return later >= size && later >= okv_store_reserve(store) / 2;
}

/* ---- the hands ---- */

/* A hand meets an item: true if it is to go. */
typedef bool meet(struct okv_store_item *item);

static bool meet_new(struct okv_store_item *item)
{
    if (!okv_heat_is_new(item->heat))
        return false;
    if (okv_heat_counter_of(item->heat) > 0) {
        item->heat = okv_heat_make(OKV_HEAT_MAIN, 0);
        return false;
    }
    if (okv_heat_kind_of(item->heat) == OKV_HEAT_PASSED)
        return true;
    item->heat = okv_heat_make(OKV_HEAT_PASSED, 0);
    return false;
}

static bool meet_main(struct okv_store_item *item)
{
    if (okv_heat_is_new(item->heat))
        return false;
    if (okv_heat_counter_of(item->heat) == 0)
        return true;
    item->heat--;
    return false;
}

/* The bucket stays as it is. */
static void save_heat(struct okv_store *store, struct okv_store_bucket *bucket)
{
    const struct okv_table *table = &store->table;
    struct okv_store_tally after = bucket->published;

    after.heat_bytes = after.new_bytes = 0;
    okv_store_bucket_record(bucket, table, &after);
    okv_heat_store(table->heat, bucket->heat, bucket->number);
    okv_store_count_difference(store, &bucket->published, &after);
}

/* Efforts that a range which could not be emptied counts as. */
#define CLEAR_EFFORT 32u

static void evict_items(const struct okv_store *store, struct okv_store_bucket *bucket, meet *meets)
{
    for (unsigned i = bucket->item_count; i-- > 0;) {
        struct okv_store_item *item = &bucket->items[i];
        if (okv_store_is_evictable(store, item) && meets(item))
            okv_store_evict_item(store, bucket, item);
    }
}

/* Adds the items that it removed. */
static int visit_locked(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                        meet *meets, unsigned *removed)
{
    struct okv_store_record evictions = {.kind = OKV_STORE_LOG_EVICTION};
    struct okv_store_bucket *bucket = &work->bucket;

    int rc = okv_store_transaction_load(store, work, number);

    if (rc)
        return rc;
    evict_items(store, bucket, meets);
    unsigned going = bucket->evicted.of_new + bucket->evicted.of_main + bucket->expired;
    if (going == 0) {
        save_heat(store, bucket);
        return 0;
    }
    rc = okv_store_transaction_commit_logged(store, work, &evictions);
    *removed += rc ? 0 : going;
    return rc;
}

/* Of `count` buckets the one that the hand has come to. It moves on by one, also while the table
 * grows or shrinks. */
static uint64_t advance(struct okv_store_hand *hand, uint64_t count)
{
    uint64_t at = atomic_load(&hand->next), number;

    do
        number = at < count ? at : 0;
    while (!atomic_compare_exchange_weak(&hand->next, &at, number + 1));
    return number;
}

static int visit(struct okv_store *store, struct okv_store_work *work, struct okv_store_hand *hand,
                 meet *meets, unsigned *removed)
{
    uint64_t number = advance(hand, atomic_load(&store->bucket_count));

    okv_store_lock(store, number);
    int rc = number < atomic_load(&store->bucket_count)
                 ? visit_locked(store, work, number, meets, removed)
                 : 0;
    okv_store_unlock(store, number);
    return rc;
}

static int move_a_hand(struct okv_store *store, struct okv_store_work *work, unsigned *removed)
{
    struct okv_store_eviction *eviction = &store->eviction;

    if (okv_store_evicts_new(store))
        return visit(store, work, &eviction->new_hand, meet_new, removed);
    return visit(store, work, &eviction->main_hand, meet_main, removed);
}

/* Takes a step, unless `wanted` bytes are free. Writes the number of items that it removed. An
 * error ends it: as a rule the log takes no more before its next batch. */
static int move_hands(struct okv_store *store, struct okv_store_work *work, uint64_t wanted,
                      unsigned *removed)
{
    const unsigned pages = work->loaded_pages;
    int rc = 0;

    *removed = 0;
    /* Keys can be chosen to make a bucket of many pages. */
    while (rc == 0 && work->loaded_pages - pages < OKV_EVICT_PAGES && *removed < OKV_EVICT_ITEMS &&
           okv_store_unused(store) < wanted && okv_store_may_evict(store))
        rc = move_a_hand(store, work, removed);
    return rc;
}

bool okv_store_evict(struct okv_store *store, struct okv_store_work *work)
{
    unsigned removed;

    if (!okv_store_evict_is_due(store) || okv_store_log_check(&store->table))
        return false;
    if (is_short(store) && okv_store_may_evict(store))
        return move_hands(store, work, okv_store_reserve(store), &removed) == 0;
    enum okv_clear did = okv_store_clear(store, work, OKV_CLEAR_LEAST);
    return did == OKV_CLEAR_GOES_ON || did == OKV_CLEAR_ENDS;
}

/* A first round finds new items only, which it passes. */
void okv_store_evict_at_start(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t steps = 3 * (get(&store->bucket_count) / OKV_EVICT_PAGES + 1);

    while (steps-- > 0 && okv_store_evict(store, work))
        continue;
}

/* Empties a range as long as the longest allocation that may be wanted. Returns the efforts that it
 * counts as: each range as one at least, so that this comes to an end. */
static unsigned clear_for(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    uint64_t longest = (uint64_t)store->max_value + OKV_KEY_MAX;

    switch (okv_store_clear(store, work, size < longest ? size : longest)) {
    case OKV_CLEAR_FAILED:
        return CLEAR_EFFORT;
    case OKV_CLEAR_ENDS:
        return 1;
    default:
        return 0;
    }
}

/* Free memory is short, or in pieces that are too small. */
bool okv_store_evict_for(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_effort *effort)
{
    uint64_t wanted = okv_store_reserve(store) + (effort->in_parts ? size : 0);
    unsigned cost, removed;

    if (effort->evictions == 0 || !okv_store_may_evict(store) ||
        wanted > (store->heap.length - store->heap.floor) / 2 || okv_store_log_check(&store->table))
        return false;
    if (okv_store_unused(store) < wanted) {
        move_hands(store, work, wanted, &removed);
        cost = removed == 0;
    } else {
        cost = clear_for(store, work, size);
    }
    effort->evictions -= cost < effort->evictions ? cost : effort->evictions;
    return true;
}
