/*
 * The heap: segments of the index, extents and overflow pages, from the region's end downwards.
 *
 * It is a jemalloc arena whose extent hooks hand out pieces of the region, each below the one
 * before, down to a floor. The hooks take nothing back, so no page of the registered region is ever
 * unmapped or purged. Freed memory stays in the arena, which coalesces and reuses it. The arena's
 * metadata lies outside the region.
 *
 * jemalloc never joins two pieces. When its usual sizes no longer fit, it asks for single pages,
 * and that memory could then serve small items only, for ever. So the hook refuses small requests,
 * and the heap makes the arena grow by the largest pieces that are left.
 *
 * Threads. Init and fini exclude every other call. The others may be called from any thread.
 */
#ifndef OKV_SERVER_STORE_HEAP_H
#define OKV_SERVER_STORE_HEAP_H

#include <jemalloc/jemalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

/* What a change does that finds no room in it. */
enum okv_store_full {
    OKV_STORE_REFUSE,
    OKV_STORE_EVICT,
    OKV_STORE_EVICT_EXPIRING, /* items with an expiry alone */
};

/* Bytes of the smallest allocation that may be pinned. */
#define OKV_HEAP_PINNED_MIN 4096u

/* Bytes of the smallest allocation whose memory okv_heap_free() leaves to okv_heap_wipe():
 * jemalloc's smallest size class of whole pages. One change may free hundreds. */
#define OKV_HEAP_WIPED_LATER (UINT64_C(16) << 10)

/* Keeps an allocation from being reused: when it is freed, that waits for okv_heap_unpin(). The
 * caller's memory; zeros pin nothing. */
struct okv_heap_pin {
    uint64_t offset;
    bool is_freed;  /* it was freed meanwhile; of several pins of one allocation one says so */
    bool is_shared; /* okv_heap_pin_shared() */
    LIST_ENTRY(okv_heap_pin) in_pins;
};

/* Pieces that are recorded. Each is about half of what is left, so there are few. */
#define OKV_HEAP_PIECES 128

/* Offsets count from `base`. Do not move it while the heap lives: the arena has its address. */
struct okv_heap {
    uint8_t *base;
    uint64_t floor;                   /* where it ends, downwards */
    uint64_t length;                  /* where it begins */
    pthread_mutex_t growing;          /* one thread at a time */
    pthread_mutex_t lock;             /* of the fields down to `unwiped_last` */
    uint64_t frontier;                /* lowest offset that the arena got */
    uint64_t pieces[OKV_HEAP_PIECES]; /* their offsets, in the order of growth */
    unsigned piece_count;
    uint64_t least; /* bytes of the smallest request that the hook grants */
    LIST_HEAD(, okv_heap_pin) pins;
    uint64_t unwiped, unwiped_last;    /* a list of freed memory that is to be wiped; 0: none */
    atomic_uint unwiped_count;         /* of the list, and those that a thread wipes now */
    atomic_uint_fast64_t unwiped_size; /* bytes of these, which `used` has, too */
    atomic_uint pin_count;             /* of the list */
    atomic_uint_fast64_t pinned_freed; /* bytes that were freed and are pinned */
    extent_hooks_t hooks;
    size_t query[3]; /* the control of jemalloc for okv_heap_is_sparse(), as a MIB */
    size_t query_length;
    unsigned arena;
    bool wipes; /* what is freed is zeroed; set it after okv_heap_init() */
    atomic_uint_fast64_t used, peak;
    atomic_uint_fast64_t large; /* allocations of whole pages, each of which takes a page more */
};

/*
 * Makes a heap in base[floor..length), which holds zeros. The memory is borrowed until
 * okv_heap_fini(). `base + length` is page-aligned. OKV_EINVAL: less than a page, not aligned, or
 * `floor` is 0. OKV_ENOMEM: no further arena.
 */
int okv_heap_init(struct okv_heap *heap, void *base, uint64_t floor, uint64_t length);
/* Ends the heap with everything that is still allocated in it. */
void okv_heap_fini(struct okv_heap *heap);

/* Allocates `size` bytes, at least 1. Returns their offset, or 0 without room. */
uint64_t okv_heap_alloc(struct okv_heap *heap, uint64_t size);
/* Frees an allocation. Unless it is pinned, its bytes may be zeroed and reused at once. */
void okv_heap_free(struct okv_heap *heap, uint64_t offset);
/* Frees an allocation that nothing was written to, so that there is nothing to wipe. It is not
 * pinned. */
void okv_heap_free_unwritten(struct okv_heap *heap, uint64_t offset);

/* Zeroes up to `most` bytes, at least a page, of the memory that was freed first; once all of it is
 * zero, it can be allocated. Returns the bytes zeroed; 0: there was nothing to wipe. */
uint64_t okv_heap_wipe(struct okv_heap *heap, uint64_t most);
/* Whether okv_heap_wipe() will make memory available. */
static inline bool okv_heap_has_unwiped(const struct okv_heap *heap)
{
    return atomic_load_explicit(&heap->unwiped_count, memory_order_relaxed) > 0;
}

/* Whether memory that was freed may make room for `size` bytes, together with what is free: when
 * it is wiped, or when its pins go. */
bool okv_heap_frees_later(const struct okv_heap *heap, uint64_t size);

/* Pins an allocation of at least OKV_HEAP_PINNED_MIN bytes. False: another pin has it that is not
 * shared. The caller ensures that no thread frees it meanwhile. */
bool okv_heap_pin(struct okv_heap *heap, uint64_t offset, struct okv_heap_pin *pin);
/* The same beside any number of other pins. */
void okv_heap_pin_shared(struct okv_heap *heap, uint64_t offset, struct okv_heap_pin *pin);
/* Frees the allocation if it was freed meanwhile. Accepts a pin that pins nothing. */
void okv_heap_unpin(struct okv_heap *heap, struct okv_heap_pin *pin);
bool okv_heap_is_pinned(struct okv_heap *heap, uint64_t offset);

/* Bytes that an allocation of `size` takes, and those of the one at `offset`. */
uint64_t okv_heap_size(uint64_t size);
uint64_t okv_heap_size_at(const struct okv_heap *heap, uint64_t offset);

/* Whether the slab of this allocation is emptier than others of its size, so that a new allocation
 * of the same size would come from a fuller slab. */
bool okv_heap_is_sparse(const struct okv_heap *heap, uint64_t offset);

/* Whether `a` lies in an older piece than `b`, or lower in the same piece. The arena fills memory
 * in this order. */
bool okv_heap_is_before(struct okv_heap *heap, uint64_t a, uint64_t b);

/* Bytes allocated now, rounded up to size classes. */
uint64_t okv_heap_used(const struct okv_heap *heap);
/* Bytes that are not taken, or will not be once they are wiped or their pins go. They may be in
 * pieces, some in slabs of other sizes. */
uint64_t okv_heap_unused(const struct okv_heap *heap);
/* The most bytes that were allocated at a time. */
uint64_t okv_heap_peak(const struct okv_heap *heap);
/* Bytes that the arena has got so far. Never decreases. */
uint64_t okv_heap_reached(struct okv_heap *heap);

#endif
