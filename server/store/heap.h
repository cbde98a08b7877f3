/*
 * The heap: segments of the index, extents and overflow buckets, from the region's end downwards.
 *
 * A jemalloc arena whose memory comes from extent hooks: they hand out space
 * below what was handed out before, down to a floor, and take nothing back, so
 * no page of a registered region is ever unmapped or purged. What is freed
 * stays in the arena, which joins it again and serves any size from it. The
 * arena's own records are kept outside of the region.
 *
 * jemalloc never joins two pieces that it got separately. Left alone it asks
 * for single pages once its usual steps do not fit any more, and that part of
 * the region then serves small items only, for ever. So the hook grants no small
 * request: the heap makes the arena take the largest pieces that there are.
 *
 * Threads: alloc, free and used may be called from any thread; init and fini
 * from one, with no other call under way.
 */
#ifndef OKV_SERVER_STORE_HEAP_H
#define OKV_SERVER_STORE_HEAP_H

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Pieces that are told from each other; the arena takes halves of what is left. */
#define OKV_HEAP_PIECES 128

/* Offsets count from `base`. The arena keeps the address of this structure:
 * do not move it while the heap lives. */
struct okv_heap {
    uint8_t *base;
    uint64_t floor;                   /* the heap takes nothing below */
    uint64_t length;                  /* where it begins */
    pthread_mutex_t growing;          /* one thread at a time */
    pthread_mutex_t lock;             /* of the next two, which the hooks use */
    uint64_t frontier;                /* lowest offset that the arena has */
    uint64_t pieces[OKV_HEAP_PIECES]; /* their offsets, in the order in which they were taken */
    unsigned piece_count;
    uint64_t least; /* bytes that a request must have to be granted */
    extent_hooks_t hooks;
    size_t query[3]; /* the arena's control for okv_heap_is_sparse(), by number */
    size_t query_length;
    unsigned arena;
    atomic_uint_fast64_t used;
};

/*
 * A heap in base[floor..length). The memory is borrowed, stays mapped and
 * untouched by others until okv_heap_fini(), and is filled with zeros.
 * `base + length` is the end of a page. OKV_EINVAL: no page between the two,
 * `length` not at the end of one, or `floor` 0. OKV_ENOMEM: no further arena.
 */
int okv_heap_init(struct okv_heap *heap, void *base, uint64_t floor, uint64_t length);
/* Ends the heap with everything that is still allocated in it. */
void okv_heap_fini(struct okv_heap *heap);

/* Offset of `size` bytes (from 1), or 0 when there is no room for them. */
uint64_t okv_heap_alloc(struct okv_heap *heap, uint64_t size);
/* Gives back what okv_heap_alloc() returned; its bytes may be used again at once. */
void okv_heap_free(struct okv_heap *heap, uint64_t offset);

/* Bytes that an allocation of `size` takes. */
uint64_t okv_heap_size(uint64_t size);

/* Whether the slab that this allocation is in is emptier than the others of its size, so
 * that the same bytes, allocated anew, would lie in a fuller one. */
bool okv_heap_is_sparse(const struct okv_heap *heap, uint64_t offset);

/* Whether `a` lies in a piece that was taken before that of `b`, or lower in the same. The
 * arena fills pieces in this order. */
bool okv_heap_is_before(struct okv_heap *heap, uint64_t a, uint64_t b);

/* Bytes allocated now, each allocation with what its size class adds to it. */
uint64_t okv_heap_used(const struct okv_heap *heap);
/* Bytes from the end that the arena has ever taken; never falls. */
uint64_t okv_heap_reached(struct okv_heap *heap);

#endif
