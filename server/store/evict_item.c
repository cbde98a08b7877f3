#include "server/store/evict_item.h"

#include "server/store/bucket_image.h"
#include "server/store/bucket_layout.h"
#include "server/store/pending.h"

/* New items beyond this share of the bytes that may be evicted are the first choice. */
#define NEW_PERCENT 10
/* Of all evictions, those in buckets that are no reason for another bucket; and how many more are
 * one. Crowding counts in percent of an eviction. */
#define IN_BUCKET_PERCENT 10
#define CROWDED (8 * 100)
/* Items that are looked at to find room in a bucket: each eviction looks at all that are left. */
#define LOOKED_AT 2048u

static uint64_t get(const atomic_uint_fast64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

bool okv_store_may_evict(const struct okv_store *store)
{
    return get(&store->totals.heat_bytes) > 0 && !atomic_load(&store->eviction.is_of_another);
}

bool okv_store_evicts_new(const struct okv_store *store)
{
    uint64_t of_new = get(&store->totals.new_bytes), all = get(&store->totals.heat_bytes);

    return of_new * 100 > all * NEW_PERCENT;
}

uint64_t okv_store_reserve(const struct okv_store *store)
{
    return (store->heap.length - store->heap.floor) / 100 * OKV_EVICT_RESERVE_PERCENT;
}

uint64_t okv_store_unused(const struct okv_store *store)
{
    return okv_heap_unused(&store->heap) + okv_store_freed_later(&store->table);
}

bool okv_store_is_evictable(const struct okv_store *store, const struct okv_store_item *item)
{
    return store->eviction.mode == OKV_STORE_EVICT || item->entry.expiry_ms;
}

static uint64_t hash_of(const struct okv_table *table, const struct okv_store_item *item)
{
    return okv_hash_key(item->entry.key, item->entry.key_length, table->hash_seed);
}

void okv_store_note_gone(const struct okv_table *table, const struct okv_store_item *item)
{
    if (table->ages)
        okv_ages_note_gone(table->ages, hash_of(table, item));
}

void okv_store_evict_item(const struct okv_store *store, struct okv_store_bucket *bucket,
                          struct okv_store_item *item)
{
    bool is_new = okv_heat_is_new(item->heat);

    bucket->evicted.of_new += is_new;
    bucket->evicted.of_main += !is_new;
    bucket->evicted.bytes += item->entry.key_length + item->entry.value_length;
    okv_ages_note_eviction(store->table.ages, hash_of(&store->table, item), is_new);
    if (is_new)
        okv_heat_add_ghost(store->table.heat, bucket->heat, item->tag);
    okv_store_bucket_remove_logged(bucket, item);
}

bool okv_store_is_crowded(const struct okv_store *store)
{
    return atomic_load_explicit(&store->eviction.crowding, memory_order_relaxed) >= CROWDED;
}

/* It never is much, as the index may have to stay as it is. What another thread counts meanwhile
 * may be lost. */
static void add_crowding(struct okv_store *store, int64_t more)
{
    atomic_int_fast64_t *crowding = &store->eviction.crowding;
    int64_t sum = atomic_load_explicit(crowding, memory_order_relaxed) + more;

    sum = sum < 0 ? 0 : sum > 2 * CROWDED ? 2 * CROWDED : sum;
    atomic_store_explicit(crowding, sum, memory_order_relaxed);
}

void okv_store_count_crowding(struct okv_store *store, const struct okv_store_evicted *evicted)
{
    int64_t all = (int64_t)evicted->of_new + evicted->of_main;

    if (all > 0)
        add_crowding(store, (int64_t)evicted->in_bucket * 100 - all * IN_BUCKET_PERCENT);
}

void okv_store_count_relief(struct okv_store *store)
{
    add_crowding(store, -CROWDED);
}

/* Whether the index cannot have another segment: at once, or because that failed not long ago. */
static bool index_is_final(struct okv_store *store)
{
    uint64_t segment = (uint64_t)store->table.segment_buckets * store->table.bucket_size;

    if (get(&store->bucket_count) >= store->buckets_max ||
        okv_store_unused(store) < okv_store_reserve(store) + segment)
        return true;
    if (atomic_load_explicit(&store->growth_pause, memory_order_relaxed) <= 0)
        return false;
    atomic_fetch_sub_explicit(&store->growth_pause, 1, memory_order_relaxed);
    return true;
}

/* Whether gets of items of this bucket would take more READs than they should, or items in extents,
 * which are worth a place in the index, would share a cell. */
static bool is_too_long(struct okv_store_bucket *bucket, const struct okv_table *table)
{
    bool shares = bucket->item_count > table->heat->cells;

    if (okv_store_layout_plan(bucket, table) || bucket->pages > 1)
        return true;
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_store_item *item = &bucket->items[i];
        if (item->entry.is_reference && (shares || item->inline_size != UINT32_MAX))
            return true;
    }
    return false;
}

/* Lower goes first: new ones that were passed, new ones, main ones, by their counters. */
static unsigned rank_of(const struct okv_store_item *item)
{
    static const unsigned ranks[] = {
        [OKV_HEAT_NEW] = 1, [OKV_HEAT_PASSED] = 0, [OKV_HEAT_MAIN] = 2};
    unsigned counter = okv_heat_counter_of(item->heat);

    return ranks[okv_heat_kind_of(item->heat)] + (counter ? 2 + counter : 0);
}

/* Of two that are alike the older one: versions rise with each write of a bucket. */
static bool is_colder(const struct okv_store_item *item, const struct okv_store_item *other)
{
    unsigned a = rank_of(item), b = rank_of(other);

    return a != b ? a < b : item->entry.version < other->entry.version;
}

/* An item that was put, and not moved, has the next version. */
static struct okv_store_item *coldest(const struct okv_store *store,
                                      struct okv_store_bucket *bucket)
{
    struct okv_store_item *found = NULL;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (item->entry.version == bucket->next_version || !okv_store_is_evictable(store, item))
            continue;
        if (!found || is_colder(item, found))
            found = item;
    }
    return found;
}

/* What the hands would have done to the others until they met the victim without a use. */
static void cool(struct okv_store_bucket *bucket, unsigned uses)
{
    for (unsigned i = 0; i < bucket->item_count; i++) {
        uint8_t *heat = &bucket->items[i].heat;
        unsigned counter = okv_heat_counter_of(*heat);
        *heat = okv_heat_make(okv_heat_kind_of(*heat), counter > uses ? counter - uses : 0);
    }
}

void okv_store_evict_in_bucket(struct okv_store *store, struct okv_store_bucket *bucket,
                               bool insists)
{
    if (!store->table.heat || (!insists && !index_is_final(store)))
        return;
    unsigned looked_at = 0;
    while (looked_at < LOOKED_AT && is_too_long(bucket, &store->table)) {
        looked_at += bucket->item_count;
        struct okv_store_item *item = coldest(store, bucket);
        if (!item)
            break;
        cool(bucket, okv_heat_counter_of(item->heat));
        okv_store_evict_item(store, bucket, item);
        bucket->evicted.in_bucket++;
    }
    bucket->only_shrinks = false; /* it has items more */
}
