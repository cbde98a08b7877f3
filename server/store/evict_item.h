/*
 * What may be evicted, and eviction in one bucket.
 *
 * An item in the page of its bucket gives no memory of the heap, but room in the index, which
 * shrinks while memory is short. When the index cannot grow, the items of a bucket make room for
 * each other.
 */
#ifndef OKV_SERVER_STORE_EVICT_ITEM_H
#define OKV_SERVER_STORE_EVICT_ITEM_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/ages.h"
#include "server/store/heat.h"
#include "server/store/state.h"
#include "shared/format/hash.h"

/* Of the heap, which is kept free. */
#define OKV_EVICT_RESERVE_PERCENT 3
/* Pages of buckets after which a step ends with the bucket. */
#define OKV_EVICT_PAGES 64

/* Whether there may be items that may be evicted. Any thread. */
bool okv_store_may_evict(const struct okv_store *store);
/* Whether new items, and not main ones, are to be evicted: they have more than their share. */
bool okv_store_evicts_new(const struct okv_store *store);
/* Bytes: of the reserve, and free, also those that a batch of the log is about to free. */
uint64_t okv_store_reserve(const struct okv_store *store);
uint64_t okv_store_unused(const struct okv_store *store);
/* Before a locked bucket is laid out with items that were put: removes others if they would take
 * overflow pages, or memory of the heap though they are small. Where the index cannot grow, or the
 * caller insists, since the heap had no room. */
void okv_store_evict_in_bucket(struct okv_store *store, struct okv_store_bucket *bucket,
                               bool insists);

/* Whether so many evictions were in buckets that the index is to have another one, which is counted
 * then: an eviction in a bucket chooses among few items. */
bool okv_store_is_crowded(const struct okv_store *store);
void okv_store_count_crowding(struct okv_store *store, const struct okv_store_evicted *evicted);
void okv_store_count_relief(struct okv_store *store);

/* An item was used, whose key has this hash. Where items are evicted. */
static inline void okv_store_note_use(const struct okv_table *table, uint64_t bucket, uint64_t hash)
{
    okv_heat_mark(table->heat, bucket, okv_hash_tag(hash));
    okv_ages_note_use(table->ages, hash);
}
/* An item is removed otherwise than by eviction. */
void okv_store_note_gone(const struct okv_table *table, const struct okv_store_item *item);

bool okv_store_is_evictable(const struct okv_store *store, const struct okv_store_item *item);
/* Removes an item of a loaded bucket. */
void okv_store_evict_item(const struct okv_store *store, struct okv_store_bucket *bucket,
                          struct okv_store_item *item);

#endif
