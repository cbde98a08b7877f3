#include "server/store/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/owners.h"
#include "server/store/pages.h"
#include "shared/base/error.h"

/* jemalloc's largest slabs, about. It asks for more only to have pages in advance. */
#define SLAB_MAX (UINT64_C(1) << 20)

/* Slots of a closed range that one allocation may have to put aside. */
#define HELD_TRIES 4096u

/* Room for "arena.4294967295.dirty_decay_ms". */
#define CONTROL_NAME 48

static struct okv_heap *heap_of(extent_hooks_t *hooks)
{
    return (struct okv_heap *)((char *)hooks - offsetof(struct okv_heap, hooks));
}

uint64_t okv_heap_size(uint64_t size)
{
    return okv_heap_is_long(size) ? okv_pages_of(size) * OKV_PAGE : nallocx(size, 0);
}

/* Takes pages at an address with this alignment, by taking more. Returns the first, or 0. */
static uint64_t take_aligned(struct okv_heap *heap, uint64_t count, size_t alignment)
{
    uint64_t more = alignment / OKV_PAGE - 1;
    uint64_t page = okv_pages_take(heap->pages, count + more, OKV_PAGE_SLAB);

    if (!page || more == 0)
        return page;
    uintptr_t address = (uintptr_t)heap->base + page * OKV_PAGE;
    uint64_t before = (-address & (alignment - 1)) / OKV_PAGE;
    okv_pages_give(heap->pages, page + before + count, more - before);
    okv_pages_give(heap->pages, page, before);
    okv_pages_set_kind(heap->pages, page + before, OKV_PAGE_SLAB);
    return page + before;
}

static void *hook_alloc(extent_hooks_t *hooks, void *wanted, size_t size, size_t alignment,
                        bool *zero, bool *commit, unsigned arena)
{
    struct okv_heap *heap = heap_of(hooks);

    (void)arena;
    if (wanted || size > SLAB_MAX || alignment > SLAB_MAX)
        return NULL;
    uint64_t page = take_aligned(heap, okv_pages_of(size), alignment);
    if (!page)
        return NULL;
    uint8_t *memory = heap->base + page * OKV_PAGE;
    if (*zero)
        memset(memory, 0, size);
    *commit = true;
    return memory;
}

static uint64_t page_at(const struct okv_heap *heap, const void *address)
{
    return (uint64_t)((const uint8_t *)address - heap->base) / OKV_PAGE;
}

/* No slab begins here any more, or another one. */
static void drop_owners(struct okv_heap *heap, uint64_t page)
{
    if (heap->owners)
        okv_owners_drop_slab(heap->owners, page);
}

static bool hook_dalloc(extent_hooks_t *hooks, void *address, size_t size, bool committed,
                        unsigned arena)
{
    struct okv_heap *heap = heap_of(hooks);

    (void)committed, (void)arena;
    uint64_t page = page_at(heap, address);
    drop_owners(heap, page);
    okv_pages_give(heap->pages, page, okv_pages_of(size));
    return false;
}

/* A hook that returns true refuses. */
static bool hook_refuse_purge(extent_hooks_t *hooks, void *address, size_t size, size_t offset,
                              size_t length, unsigned arena)
{
    (void)hooks, (void)address, (void)size, (void)offset, (void)length, (void)arena;
    return true;
}

/* Of memory that no slab has now. */
static bool hook_split(extent_hooks_t *hooks, void *address, size_t size, size_t size_a,
                       size_t size_b, bool committed, unsigned arena)
{
    struct okv_heap *heap = heap_of(hooks);

    (void)size, (void)size_b, (void)committed, (void)arena;
    drop_owners(heap, page_at(heap, address));
    okv_pages_set_kind(heap->pages, page_at(heap, (uint8_t *)address + size_a), OKV_PAGE_SLAB);
    return false;
}

static bool hook_merge(extent_hooks_t *hooks, void *address_a, size_t size_a, void *address_b,
                       size_t size_b, bool committed, unsigned arena)
{
    struct okv_heap *heap = heap_of(hooks);

    (void)size_a, (void)size_b, (void)committed, (void)arena;
    drop_owners(heap, page_at(heap, address_a));
    drop_owners(heap, page_at(heap, address_b));
    okv_pages_set_kind(heap->pages, page_at(heap, address_b), OKV_PAGE_SLAB_REST);
    return false;
}

/* Only with a decay of 0 does the arena give slabs back as soon as they are empty. */
static int set_decay(unsigned arena, const char *which)
{
    char name[CONTROL_NAME];
    ssize_t now = 0;

    snprintf(name, sizeof name, "arena.%u.%s", arena, which);
    return mallctl(name, NULL, NULL, &now, sizeof now);
}

static void destroy_arena(unsigned arena)
{
    char name[CONTROL_NAME];

    snprintf(name, sizeof name, "arena.%u.destroy", arena);
    mallctl(name, NULL, NULL, NULL, 0);
}

int okv_heap_init(struct okv_heap *heap, void *base, uint64_t floor, uint64_t length)
{
    if (floor == 0 || length < OKV_PAGE || floor > length - OKV_PAGE ||
        ((uintptr_t)base + length) % OKV_PAGE != 0)
        return OKV_EINVAL;
    *heap = (struct okv_heap){
        .base = base,
        .floor = floor,
        .length = length,
        .hooks =
            {
                .alloc = hook_alloc,
                .dalloc = hook_dalloc,
                .purge_lazy = hook_refuse_purge,
                .purge_forced = hook_refuse_purge,
                .split = hook_split,
                .merge = hook_merge,
            },
    };
    heap->pages = okv_pages_create(okv_pages_of(floor), length / OKV_PAGE);
    if (!heap->pages)
        return OKV_ENOMEM;
    atomic_init(&heap->used, 0);
    atomic_init(&heap->peak, 0);
    atomic_init(&heap->closed, 0);
    atomic_init(&heap->closed_end, 0);
    atomic_init(&heap->pin_count, 0);
    atomic_init(&heap->pinned_freed, 0);
    atomic_init(&heap->unwiped_count, 0);
    atomic_init(&heap->unwiped_size, 0);
    LIST_INIT(&heap->pins);
    heap->query_length = sizeof heap->query / sizeof *heap->query;
    if (mallctlnametomib("experimental.utilization.query", heap->query, &heap->query_length))
        heap->query_length = 0;
    pthread_mutex_init(&heap->lock, NULL);

    struct arena_config_s {
        extent_hooks_t *hooks;
        bool metadata_use_hooks;
    } config = {.hooks = &heap->hooks, .metadata_use_hooks = false};
    size_t size = sizeof heap->arena;
    if (mallctl("experimental.arenas_create_ext", &heap->arena, &size, &config, sizeof config))
        goto fini_pages;
    if (set_decay(heap->arena, "dirty_decay_ms") || set_decay(heap->arena, "muzzy_decay_ms"))
        goto destroy_arena;
    return 0;
destroy_arena:
    destroy_arena(heap->arena);
fini_pages:
    pthread_mutex_destroy(&heap->lock);
    okv_pages_destroy(heap->pages);
    return OKV_ENOMEM;
}

void okv_heap_fini(struct okv_heap *heap)
{
    destroy_arena(heap->arena);
    pthread_mutex_destroy(&heap->lock);
    okv_pages_destroy(heap->pages);
    okv_owners_destroy(heap->owners);
    free(heap->held);
}

static void count(struct okv_heap *heap, uint64_t size)
{
    uint64_t used = atomic_fetch_add_explicit(&heap->used, size, memory_order_relaxed) + size;
    uint64_t peak = atomic_load_explicit(&heap->peak, memory_order_relaxed);

    while (peak < used && !atomic_compare_exchange_weak_explicit(
                              &heap->peak, &peak, used, memory_order_relaxed, memory_order_relaxed))
        continue;
}

static uint64_t take_run(struct okv_heap *heap, uint64_t size, enum okv_page_kind kind)
{
    uint64_t page = okv_pages_take(heap->pages, okv_pages_of(size), kind);

    if (page)
        count(heap, okv_pages_of(size) * OKV_PAGE);
    return page * OKV_PAGE;
}

static bool is_closed(const struct okv_heap *heap, uint64_t offset)
{
    return offset < atomic_load_explicit(&heap->closed_end, memory_order_relaxed) &&
           offset >= atomic_load_explicit(&heap->closed, memory_order_relaxed);
}

/* Keeps a free slot from use. False: there is no memory for the list. */
static bool hold(struct okv_heap *heap, uint64_t offset)
{
    pthread_mutex_lock(&heap->lock);
    if (heap->held_count == heap->held_capacity) {
        size_t capacity = heap->held_capacity ? 2 * heap->held_capacity : 1024;
        uint64_t *larger = realloc(heap->held, capacity * sizeof *larger);
        if (larger) {
            heap->held = larger;
            heap->held_capacity = capacity;
        }
    }
    bool has_room = heap->held_count < heap->held_capacity;
    if (has_room)
        heap->held[heap->held_count++] = offset;
    pthread_mutex_unlock(&heap->lock);
    return has_room;
}

/* The arena prefers slabs that have room, as those of a closed range do. */
static uint64_t take_slot(struct okv_heap *heap, uint64_t size)
{
    for (unsigned tries = 0; tries < HELD_TRIES; tries++) {
        uint8_t *memory = mallocx(size, okv_heap_flags(heap));
        if (!memory)
            return 0;
        uint64_t offset = (uint64_t)(memory - heap->base);
        if (!is_closed(heap, offset))
            return offset;
        if (!hold(heap, offset)) {
            dallocx(memory, okv_heap_flags(heap));
            return 0;
        }
    }
    return 0;
}

uint64_t okv_heap_alloc(struct okv_heap *heap, uint64_t size)
{
    if (size == 0 || size > heap->length)
        return 0;
    if (okv_heap_is_long(size))
        return take_run(heap, size, OKV_PAGE_RUN);
    uint64_t offset = take_slot(heap, size);
    if (offset)
        count(heap, okv_heap_size(size));
    return offset;
}

uint64_t okv_heap_alloc_fixed(struct okv_heap *heap, uint64_t size)
{
    return take_run(heap, size, OKV_PAGE_FIXED);
}

static bool is_run_at(const struct okv_heap *heap, uint64_t offset)
{
    enum okv_page_kind kind = okv_pages_kind(heap->pages, offset / OKV_PAGE);

    return offset % OKV_PAGE == 0 && (kind == OKV_PAGE_RUN || kind == OKV_PAGE_FIXED);
}

uint64_t okv_heap_size_at(const struct okv_heap *heap, uint64_t offset)
{
    return is_run_at(heap, offset) ? okv_pages_count(heap->pages, offset / OKV_PAGE) * OKV_PAGE
                                   : sallocx(heap->base + offset, okv_heap_flags(heap));
}

/* The lock is held. A pin of the allocation, or NULL; without `shares` one that is not shared. */
static struct okv_heap_pin *find_pin(const struct okv_heap *heap, uint64_t offset, bool shares)
{
    struct okv_heap_pin *pin;

    LIST_FOREACH(pin, &heap->pins, in_pins)
    {
        if (pin->offset == offset && (shares || !pin->is_shared))
            break;
    }
    return pin;
}

static void add_pin(struct okv_heap *heap, struct okv_heap_pin *pin)
{
    LIST_INSERT_HEAD(&heap->pins, pin, in_pins);
    atomic_fetch_add_explicit(&heap->pin_count, 1, memory_order_relaxed);
}

bool okv_heap_pin(struct okv_heap *heap, uint64_t offset, struct okv_heap_pin *pin)
{
    pthread_mutex_lock(&heap->lock);
    bool is_first = !find_pin(heap, offset, false);
    if (is_first) {
        *pin = (struct okv_heap_pin){.offset = offset};
        add_pin(heap, pin);
    }
    pthread_mutex_unlock(&heap->lock);
    return is_first;
}

void okv_heap_pin_shared(struct okv_heap *heap, uint64_t offset, struct okv_heap_pin *pin)
{
    *pin = (struct okv_heap_pin){.offset = offset, .is_shared = true};
    pthread_mutex_lock(&heap->lock);
    add_pin(heap, pin);
    pthread_mutex_unlock(&heap->lock);
}

void okv_heap_unpin(struct okv_heap *heap, struct okv_heap_pin *pin)
{
    if (pin->offset == 0)
        return;
    pthread_mutex_lock(&heap->lock);
    LIST_REMOVE(pin, in_pins);
    atomic_fetch_sub_explicit(&heap->pin_count, 1, memory_order_relaxed);
    bool is_freed = pin->is_freed;
    struct okv_heap_pin *other = is_freed ? find_pin(heap, pin->offset, true) : NULL;
    if (other)
        other->is_freed = true;
    pthread_mutex_unlock(&heap->lock);
    if (is_freed && !other) {
        uint64_t size = okv_heap_size_at(heap, pin->offset);
        okv_heap_free(heap, pin->offset);
        atomic_fetch_sub(&heap->pinned_freed, size);
    }
    pin->offset = 0;
}

bool okv_heap_is_pinned(struct okv_heap *heap, uint64_t offset)
{
    if (atomic_load_explicit(&heap->pin_count, memory_order_relaxed) == 0)
        return false;
    pthread_mutex_lock(&heap->lock);
    bool is_pinned = find_pin(heap, offset, true) != NULL;
    pthread_mutex_unlock(&heap->lock);
    return is_pinned;
}

static bool leave_to_pin(struct okv_heap *heap, uint64_t offset, uint64_t size)
{
    pthread_mutex_lock(&heap->lock);
    struct okv_heap_pin *pin = find_pin(heap, offset, true);
    if (pin) {
        pin->is_freed = true;
        atomic_fetch_add(&heap->pinned_freed, size);
    }
    pthread_mutex_unlock(&heap->lock);
    return pin != NULL;
}

static void release(struct okv_heap *heap, uint64_t offset, uint64_t size)
{
    atomic_fetch_sub_explicit(&heap->used, size, memory_order_relaxed);
    if (is_run_at(heap, offset))
        okv_pages_give(heap->pages, offset / OKV_PAGE, size / OKV_PAGE);
    else if (!is_closed(heap, offset) || !hold(heap, offset))
        dallocx(heap->base + offset, okv_heap_flags(heap));
}

bool okv_heap_frees_later(const struct okv_heap *heap, uint64_t size)
{
    uint64_t pinned = atomic_load(&heap->pinned_freed); /* is still in use */

    return okv_heap_has_unwiped(heap) ||
           (pinned > 0 && pinned + heap->length - heap->floor - okv_heap_used(heap) >= size);
}

/* At the beginning of freed memory, which is wiped from its end. */
struct unwiped {
    uint64_t next;
    uint64_t left; /* bytes to wipe */
};

static struct unwiped *unwiped_at(const struct okv_heap *heap, uint64_t offset)
{
    return (struct unwiped *)(heap->base + offset);
}

static void list_unwiped(struct okv_heap *heap, uint64_t offset, uint64_t size)
{
    atomic_fetch_add_explicit(&heap->unwiped_count, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&heap->unwiped_size, size, memory_order_relaxed);
    pthread_mutex_lock(&heap->lock);
    *unwiped_at(heap, offset) = (struct unwiped){.next = 0, .left = size};
    if (heap->unwiped)
        unwiped_at(heap, heap->unwiped_last)->next = offset;
    else
        heap->unwiped = offset;
    heap->unwiped_last = offset;
    pthread_mutex_unlock(&heap->lock);
}

/* The next call goes on with it. */
static void relist_unwiped(struct okv_heap *heap, uint64_t offset, uint64_t left)
{
    pthread_mutex_lock(&heap->lock);
    *unwiped_at(heap, offset) = (struct unwiped){.next = heap->unwiped, .left = left};
    if (!heap->unwiped)
        heap->unwiped_last = offset;
    heap->unwiped = offset;
    pthread_mutex_unlock(&heap->lock);
}

uint64_t okv_heap_wipe(struct okv_heap *heap, uint64_t most)
{
    uint64_t left = 0;

    pthread_mutex_lock(&heap->lock);
    uint64_t offset = heap->unwiped;
    if (offset) {
        left = unwiped_at(heap, offset)->left;
        heap->unwiped = unwiped_at(heap, offset)->next;
    }
    pthread_mutex_unlock(&heap->lock);
    if (!offset)
        return 0;
    uint8_t *memory = heap->base + offset;
    uint64_t length = most > OKV_PAGE ? most / OKV_PAGE * OKV_PAGE : OKV_PAGE;
    if (length > left)
        length = left;
    explicit_bzero(memory + left - length, length);
    if (length < left) {
        relist_unwiped(heap, offset, left - length);
        return length;
    }
    uint64_t size = okv_heap_size_at(heap, offset);
    release(heap, offset, size);
    atomic_fetch_sub_explicit(&heap->unwiped_size, size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&heap->unwiped_count, 1, memory_order_relaxed);
    return length;
}

void okv_heap_free(struct okv_heap *heap, uint64_t offset)
{
    uint64_t size = okv_heap_size_at(heap, offset);

    if (size >= OKV_HEAP_PINNED_MIN &&
        atomic_load_explicit(&heap->pin_count, memory_order_relaxed) > 0 &&
        leave_to_pin(heap, offset, size))
        return;
    if (heap->wipes && size >= OKV_HEAP_WIPED_LATER) {
        list_unwiped(heap, offset, size);
        return;
    }
    if (heap->wipes)
        explicit_bzero(heap->base + offset, size);
    release(heap, offset, size);
}

void okv_heap_free_unwritten(struct okv_heap *heap, uint64_t offset)
{
    release(heap, offset, okv_heap_size_at(heap, offset));
}

bool okv_heap_has_room(struct okv_heap *heap, uint64_t size)
{
    uint64_t offset = okv_heap_alloc(heap, size);

    if (offset)
        okv_heap_free_unwritten(heap, offset);
    return offset != 0;
}

/* jemalloc offers this query to programs that move their allocations to defragment. */
struct utilization {
    void *slab_in_use;
    size_t slab_free, slab_regions, slab_size;
    size_t bin_free, bin_regions;
};

static bool query(const struct okv_heap *heap, uint64_t offset, struct utilization *figures)
{
    size_t size = sizeof *figures;
    void *memory = heap->base + offset;

    return heap->query_length > 0 && mallctlbymib(heap->query, heap->query_length, figures, &size,
                                                  &memory, sizeof memory) == 0;
}

bool okv_heap_is_sparse(const struct okv_heap *heap, uint64_t offset)
{
    struct utilization figures;

    if (is_run_at(heap, offset) || !query(heap, offset, &figures))
        return false;
    uintptr_t in_use = (uintptr_t)figures.slab_in_use, address = (uintptr_t)heap->base + offset;
    bool is_in_use =
        figures.slab_in_use && address >= in_use && address < in_use + figures.slab_size;
    return figures.slab_regions > 1 && !is_in_use &&
           figures.slab_free * figures.bin_regions > figures.bin_free * figures.slab_regions;
}

uint64_t okv_heap_used(const struct okv_heap *heap)
{
    return atomic_load_explicit(&heap->used, memory_order_relaxed);
}

uint64_t okv_heap_unused(const struct okv_heap *heap)
{
    uint64_t length = heap->length - heap->floor, used = okv_heap_used(heap);
    uint64_t freed = atomic_load_explicit(&heap->unwiped_size, memory_order_relaxed) +
                     atomic_load_explicit(&heap->pinned_freed, memory_order_relaxed);

    return length + freed > used ? length + freed - used : 0;
}

uint64_t okv_heap_peak(const struct okv_heap *heap)
{
    return atomic_load_explicit(&heap->peak, memory_order_relaxed);
}

uint64_t okv_heap_reached(struct okv_heap *heap)
{
    return okv_pages_taken_most(heap->pages) * OKV_PAGE;
}
