/*
 * The heap: segments of the index, extents and overflow pages.
 *
 * Long allocations take pages of their own, short ones a slot in a slab of pages, which a jemalloc
 * arena manages. Its extent hooks take pages from the heap and give them back as soon as a slab is
 * empty, so that any size can use them. No page of the registered region is ever unmapped or
 * purged. The arena's metadata lies outside the region.
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

/* Bytes of the longest allocation that takes a slot: jemalloc has slots of no more where its pages
 * have 4 KiB. */
#define OKV_HEAP_SLOT_MAX (UINT64_C(14) << 10)

/* Bytes of the smallest allocation whose memory okv_heap_free() leaves to okv_heap_wipe(): it has
 * pages of its own. One change may free hundreds. */
#define OKV_HEAP_WIPED_LATER (UINT64_C(16) << 10)

struct okv_owners;
struct okv_pages;

/* Keeps an allocation from being reused: when it is freed, that waits for okv_heap_unpin(). The
 * caller's memory; zeros pin nothing. */
struct okv_heap_pin {
    uint64_t offset;
    bool is_freed;  /* it was freed meanwhile; of several pins of one allocation one says so */
    bool is_shared; /* okv_heap_pin_shared() */
    LIST_ENTRY(okv_heap_pin) in_pins;
};

/* Offsets count from `base`. Do not move it while the heap lives: the arena has its address. */
struct okv_heap {
    uint8_t *base;
    uint64_t floor, length; /* where it begins, and ends */
    struct okv_pages *pages;
    pthread_mutex_t lock; /* of the fields down to `unwiped_last` */
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
    /* A range that is being emptied, and slots in it that are free, and that nothing may get. */
    atomic_uint_fast64_t closed, closed_end;
    uint64_t *held; /* under `lock` */
    size_t held_count, held_capacity;
    struct okv_owners *owners; /* NULL: they are not known */
    atomic_uint_fast64_t used, peak;
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
/* The same for what is not to be moved, in whole pages, apart from all others. */
uint64_t okv_heap_alloc_fixed(struct okv_heap *heap, uint64_t size);
/* Whether an allocation would find room now. */
bool okv_heap_has_room(struct okv_heap *heap, uint64_t size);
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

/* For calls of jemalloc. */
static inline int okv_heap_flags(const struct okv_heap *heap)
{
    return MALLOCX_ARENA(heap->arena) | MALLOCX_TCACHE_NONE;
}

/* Whether an allocation has pages of its own, in a row. */
static inline bool okv_heap_is_long(uint64_t size)
{
    return size > OKV_HEAP_SLOT_MAX;
}
/* Bytes that an allocation of `size` takes, and those of the one at `offset`. */
uint64_t okv_heap_size(uint64_t size);
uint64_t okv_heap_size_at(const struct okv_heap *heap, uint64_t offset);

/* Whether the slab of this allocation is emptier than others of its size, so that a new allocation
 * of the same size would come from a fuller slab. */
bool okv_heap_is_sparse(const struct okv_heap *heap, uint64_t offset);

/* Whether `a` is nearer than `b` to the end that is filled first. */
static inline bool okv_heap_is_before(uint64_t a, uint64_t b)
{
    return a > b;
}

/* Bytes allocated now, rounded up to size classes. */
uint64_t okv_heap_used(const struct okv_heap *heap);
/* Bytes that are not taken, or will not be once they are wiped or their pins go. They may be in
 * pieces, some in slabs of other sizes. */
uint64_t okv_heap_unused(const struct okv_heap *heap);
/* The most bytes that were allocated at a time. */
uint64_t okv_heap_peak(const struct okv_heap *heap);
/* The most bytes that were taken in whole pages at a time. */
uint64_t okv_heap_reached(struct okv_heap *heap);

#endif
