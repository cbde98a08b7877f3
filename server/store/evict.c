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
    return store->eviction.mode != OKV_STORE_REFUSE &&
           (is_short(store) || okv_store_clear_is_due(store)) && okv_store_may_evict(store);
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

static unsigned visit_locked(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                             meet *meets)
{
    struct okv_store_record evictions = {.kind = OKV_STORE_LOG_EVICTION};
    struct okv_store_bucket *bucket = &work->bucket;

    if (okv_store_transaction_load(store, work, number))
        return 0;
    evict_items(store, bucket, meets);
    unsigned removed = bucket->evicted.of_new + bucket->evicted.of_main + bucket->expired;
    if (removed == 0) {
        save_heat(store, bucket);
        return 0;
    }
    return okv_store_transaction_commit_logged(store, work, &evictions) ? 0 : removed;
}

static void begin_round(struct okv_store *store, struct okv_store_hand *hand)
{
    uint64_t now_ms = atomic_load(&store->clock_ms);
    uint64_t begun_ms = atomic_exchange(&hand->begun_ms, now_ms);

    atomic_store(&hand->round_ms, now_ms > begun_ms ? now_ms - begun_ms : 0);
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

static unsigned visit(struct okv_store *store, struct okv_store_work *work,
                      struct okv_store_hand *hand, meet *meets)
{
    uint64_t number = advance(hand, atomic_load(&store->bucket_count));

    if (number == 0)
        begin_round(store, hand);
    okv_store_lock(store, number);
    unsigned removed =
        number < atomic_load(&store->bucket_count) ? visit_locked(store, work, number, meets) : 0;
    okv_store_unlock(store, number);
    return removed;
}

static unsigned move_a_hand(struct okv_store *store, struct okv_store_work *work)
{
    struct okv_store_eviction *eviction = &store->eviction;

    if (okv_store_evicts_new(store))
        return visit(store, work, &eviction->new_hand, meet_new);
    return visit(store, work, &eviction->main_hand, meet_main);
}

/* Takes a step, unless `wanted` bytes are free. Returns the number of items that it removed. */
static unsigned move_hands(struct okv_store *store, struct okv_store_work *work, uint64_t wanted)
{
    const unsigned pages = work->loaded_pages;
    unsigned removed = 0;

    /* Keys can be chosen to make a bucket of many pages. */
    while (work->loaded_pages - pages < OKV_EVICT_PAGES && removed < OKV_EVICT_ITEMS &&
           okv_store_unused(store) < wanted && okv_store_may_evict(store))
        removed += move_a_hand(store, work);
    return removed;
}

unsigned okv_store_evict(struct okv_store *store, struct okv_store_work *work)
{
    if (okv_store_log_check(&store->table))
        return 0;
    if (is_short(store))
        return move_hands(store, work, okv_store_reserve(store));
    if (okv_store_evict_is_due(store))
        okv_store_clear(store, work, OKV_CLEAR_LEAST);
    return 0;
}

/* A first round finds new items only, which it passes. */
void okv_store_evict_at_start(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t steps = 3 * (get(&store->bucket_count) / OKV_EVICT_PAGES + 1);

    for (; steps > 0 && okv_store_evict_is_due(store); steps--)
        okv_store_evict(store, work);
}

/* Free memory is short, or in pieces that are too small. In the second case a range of it is
 * emptied, at least as long as a slab. */
bool okv_store_evict_for(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_effort *effort)
{
    uint64_t wanted = okv_store_reserve(store) + (effort->in_parts ? size : 0);
    unsigned cost;

    if (effort->evictions == 0 || !okv_store_may_evict(store) ||
        wanted > (store->heap.length - store->heap.floor) / 2 || okv_store_log_check(&store->table))
        return false;
    if (okv_store_unused(store) < wanted)
        cost = move_hands(store, work, wanted) ? 0 : 1;
    else
        cost = okv_store_clear(store, work, effort->in_parts ? 0 : size) ? 0 : CLEAR_EFFORT;
    effort->evictions -= cost < effort->evictions ? cost : effort->evictions;
    return true;
}

uint64_t okv_store_hand_ms(const struct okv_store *store, const struct okv_store_hand *hand)
{
    uint64_t begun_ms = atomic_load(&hand->begun_ms), now_ms = atomic_load(&store->clock_ms);
    uint64_t so_far_ms = begun_ms && now_ms > begun_ms ? now_ms - begun_ms : 0;
    uint64_t last_ms = atomic_load(&hand->round_ms);

    return so_far_ms > last_ms ? so_far_ms : last_ms;
}
