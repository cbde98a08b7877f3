/*
 * Ranges of a heap that are emptied, and whose its allocations are (clear.h).
 *
 * Threads. One at a time has a range. The owner of an allocation may be set by any.
 */
#ifndef OKV_SERVER_STORE_HEAP_RANGE_H
#define OKV_SERVER_STORE_HEAP_RANGE_H

#include "server/store/heap.h"

/* Has the heap know whose allocations are. Once, before the first. OKV_ENOMEM. */
int okv_heap_keep_owners(struct okv_heap *heap);
/* Of an allocation of `size` bytes. Nothing without okv_heap_keep_owners(). */
void okv_heap_set_owner(struct okv_heap *heap, uint64_t offset, uint64_t size, uint32_t owner);

/* What may be allocated: a slot of a slab, or a run of pages. */
struct okv_heap_slot {
    uint64_t offset, length; /* all that an allocation takes */
    uint64_t slab;           /* its first page */
    uint32_t owner;          /* of what is there, or was */
};
/* Closes a range of `length` bytes or more that is not free, of a few the one with the most free
 * pages; they are looked at from `*from` on, where the next call goes on. Allocations that are
 * freed in it are not reused, and no other begins in it, until okv_heap_open(). Returns its begin
 * and writes its end; or 0. */
uint64_t okv_heap_close(struct okv_heap *heap, uint64_t length, unsigned candidates, uint64_t *from,
                        uint64_t *end);
/* Frees up to `most` slots of the range that were kept back. Returns whether that were all. */
bool okv_heap_release_held(struct okv_heap *heap, size_t most);
bool okv_heap_closed_is_free(const struct okv_heap *heap);
/* Opens it. Returns whether it is free. */
bool okv_heap_open(struct okv_heap *heap);
/* Goes to the first slot with an owner from slot->offset on and before `end`. All else is of the
 * last one, to whose offset its length was added; or 0. False: there is none. */
bool okv_heap_next_slot(const struct okv_heap *heap, struct okv_heap_slot *slot, uint64_t end);

#endif
