/*
 * Eviction: what a cache removes so that changes find room (docs/cache.md).
 *
 * Two hands pass over the buckets, each from where it stopped. The hand of new items removes those
 * that were not used since it passed them; the hand of main items takes one use from each, and
 * removes those without. So no list, ring or time of an item is kept. A worker moves the hands
 * after its replies, until the heap has a reserve; a change that finds no room all the same moves
 * them itself, and at last removes items whose memory its own can have.
 *
 * An item in the page of its bucket gives no memory of the heap, but room in the index, which
 * shrinks while memory is short. When the index cannot grow, the items of a bucket make room for
 * each other.
 */
#ifndef OKV_SERVER_STORE_EVICT_H
#define OKV_SERVER_STORE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/state.h"

/* Of the heap, which the hands keep free. */
#define OKV_EVICT_RESERVE_PERCENT 3
/* Pages of buckets after which a step ends with the bucket, and items. */
#define OKV_EVICT_PAGES 64
#define OKV_EVICT_ITEMS 64

/* Whether there may be items that may be evicted. Any thread. */
bool okv_store_may_evict(const struct okv_store *store);
/* Whether the reserve is used up, not counting what a batch of the log is about to free. Any
 * thread. */
bool okv_store_evict_is_due(const struct okv_store *store);
/* Takes a step, unless the reserve is there. No bucket may be locked; in a durable store, as a
 * change of the open batch. Returns the number of items that it removed. */
unsigned okv_store_evict(struct okv_store *store, struct okv_store_work *work);
/* How long a round of a hand takes, in ms: the last one, or this one if it takes longer. An item
 * was not used for about as long when it is evicted. */
uint64_t okv_store_hand_ms(const struct okv_store *store, const struct okv_store_hand *hand);

/* ---- for the files of the store ---- */

/* Takes a step for a change that found no room for `size` bytes. Returns whether another attempt,
 * or another step, is worthwhile. */
bool okv_store_evict_for(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_effort *effort);
/* Whether steps are needed before another attempt is: less than `size` bytes are free. */
bool okv_store_evict_lacks(const struct okv_store *store, uint64_t size);
/* Whether what the open batch frees is so much that a change waits for it, rather than evict. */
bool okv_store_evict_is_ahead(const struct okv_store *store, uint64_t size);
/* At a start that found no room by other means: evicts until the reserve is there. */
void okv_store_evict_at_start(struct okv_store *store, struct okv_store_work *work);
/* Before a locked bucket is laid out with items that were put: removes others if they would take
 * overflow pages, or memory of the heap though they are small. Where the index cannot grow, or the
 * caller insists, since the heap had no room. */
void okv_store_evict_in_bucket(struct okv_store *store, struct okv_store_bucket *bucket,
                               bool insists);

bool okv_store_is_evictable(const struct okv_store *store, const struct okv_store_item *item);
/* Removes an item of a loaded bucket. */
void okv_store_evict_item(const struct okv_store *store, struct okv_store_bucket *bucket,
                          struct okv_store_item *item);

#endif
