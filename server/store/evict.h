/*
 * Eviction: what a cache removes so that changes find room (docs/cache.md).
 *
 * Two hands pass over the buckets, each from where it stopped. The hand of new items removes those
 * that were not used since it passed them; the hand of main items takes one use from each, and
 * removes those without. So no list, ring or time of an item is kept. A worker moves the hands
 * after its replies, until the heap has a reserve; a change that finds no room all the same moves
 * them itself. Where memory is in pieces, a range of it is emptied (clear.h).
 */
#ifndef OKV_SERVER_STORE_EVICT_H
#define OKV_SERVER_STORE_EVICT_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/evict_item.h"

/* Items after which a step ends with the bucket. */
#define OKV_EVICT_ITEMS 64

/* Whether the reserve is used up, not counting what a batch of the log is about to free, or pages
 * are, or a range is being emptied. Any thread. */
bool okv_store_evict_is_due(const struct okv_store *store);
/* Takes a step, if one is due. No bucket may be locked; in a durable store, as a change of the open
 * batch. Returns whether to call it again at once: false: not before a change, or another batch. */
bool okv_store_evict(struct okv_store *store, struct okv_store_work *work);

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

#endif
