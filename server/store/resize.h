/* The index: its segments, and how it grows and shrinks. */
#ifndef OKV_SERVER_STORE_RESIZE_H
#define OKV_SERVER_STORE_RESIZE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/state.h"

/* Makes the first segment with its buckets. OKV_EINVAL: no room. */
int okv_store_index_create(struct okv_store *store);
/* Splits until there are `count` buckets. No bucket may be locked. OKV_EFULL. */
int okv_store_grow(struct okv_store *store, struct okv_store_work *work, uint64_t count);
/* Allocates or frees the memory of one segment that is kept for merges, as far as the heap has
 * room. The caller holds the lock of resizing, or is the only thread to change the table. */
void okv_store_reserve_allocate(struct okv_store *store);
void okv_store_reserve_release(struct okv_store *store);
/* Splits or merges a few buckets if the table is too full or too empty. No bucket may be locked. */
void okv_store_resize(struct okv_store *store, struct okv_store_work *work);
/* Merges up to `most` buckets while the table is too empty. No bucket may be locked. */
void okv_store_shrink(struct okv_store *store, struct okv_store_work *work, unsigned most);
/* Tries to free a segment of the index for an allocation of `size` bytes, with at most *merges
 * merges, which it counts down, and takes one short step of that with work->in_steps. Returns true
 * if one was freed. *merges is 0 after a merge found no room. No bucket may be locked. */
bool okv_store_free_segment(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                            unsigned *merges);

#endif
