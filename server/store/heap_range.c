#include "server/store/heap_range.h"

#include "server/store/owners.h"
#include "server/store/pages.h"
#include "shared/base/error.h"

/* Of the heap, after one of which the next range is looked at. */
#define SHARES 16u

int okv_heap_keep_owners(struct okv_heap *heap)
{
    heap->owners = okv_owners_create(heap->pages->end);
    return heap->owners ? 0 : OKV_ENOMEM;
}

static uint64_t slab_of(const struct okv_heap *heap, uint64_t offset)
{
    uint64_t page = offset / OKV_PAGE;

    while (page > heap->pages->first && okv_pages_kind(heap->pages, page) == OKV_PAGE_SLAB_REST)
        page--;
    return page;
}

void okv_heap_set_owner(struct okv_heap *heap, uint64_t offset, uint64_t size, uint32_t owner)
{
    if (!heap->owners)
        return;
    if (okv_heap_is_long(size)) {
        okv_owners_set_run(heap->owners, offset / OKV_PAGE, owner);
        return;
    }
    uint64_t page = slab_of(heap, offset);
    if (okv_pages_kind(heap->pages, page) != OKV_PAGE_SLAB)
        return;
    const struct okv_owners_slot slot = {
        .offset = offset - page * OKV_PAGE,
        .length = okv_heap_size(size),
        .slab_length = okv_pages_count(heap->pages, page) * OKV_PAGE,
    };
    okv_owners_set_slot(heap->owners, page, &slot, owner);
}

/* The first page from `page` on at which no allocation or slab goes on. */
static uint64_t to_head(const struct okv_pages *pages, uint64_t page)
{
    while (page < pages->end && okv_pages_is_rest(okv_pages_kind(pages, page)))
        page++;
    return page;
}

uint64_t okv_heap_close(struct okv_heap *heap, uint64_t length, unsigned candidates, uint64_t *from,
                        uint64_t *end)
{
    const struct okv_pages *pages = heap->pages;
    uint64_t count = okv_pages_of(length), span = pages->end - pages->first;
    uint64_t best = 0, best_end = 0, most_free = 0;

    for (unsigned i = 0; i < candidates; i++) {
        uint64_t first = to_head(pages, pages->first + *from % span);
        *from += span / SHARES + count;
        uint64_t last = first + count < pages->end ? to_head(pages, first + count) : pages->end;
        uint64_t taken = 0;
        if (first + count <= last)
            taken = okv_pages_count_movable(pages, first, last - first);
        if (taken > 0 && taken != UINT64_MAX && (!best || last - first - taken > most_free)) {
            best = first;
            best_end = last;
            most_free = last - first - taken;
        }
    }
    if (!best)
        return 0;
    okv_pages_close(heap->pages, best, best_end - best);
    atomic_store(&heap->closed, best * OKV_PAGE);
    atomic_store(&heap->closed_end, best_end * OKV_PAGE);
    *end = best_end * OKV_PAGE;
    return best * OKV_PAGE;
}

bool okv_heap_release_held(struct okv_heap *heap, size_t most)
{
    while (most-- > 0) {
        pthread_mutex_lock(&heap->lock);
        uint64_t offset = heap->held_count > 0 ? heap->held[--heap->held_count] : 0;
        pthread_mutex_unlock(&heap->lock);
        if (!offset)
            return true;
        dallocx(heap->base + offset, okv_heap_flags(heap));
    }
    return false;
}

bool okv_heap_closed_is_free(const struct okv_heap *heap)
{
    uint64_t first = atomic_load(&heap->closed) / OKV_PAGE;
    uint64_t count = atomic_load(&heap->closed_end) / OKV_PAGE - first;

    return okv_pages_count_movable(heap->pages, first, count) == 0;
}

bool okv_heap_open(struct okv_heap *heap)
{
    bool is_free = okv_heap_closed_is_free(heap);

    atomic_store(&heap->closed_end, 0);
    atomic_store(&heap->closed, 0);
    while (!okv_heap_release_held(heap, SIZE_MAX))
        continue;
    okv_pages_open(heap->pages);
    return is_free;
}

/* The slots of a slab follow each other from its first page on. The arena is not asked for their
 * length: the slab may go meanwhile, and the arena looks at what it has of it without a check. */
static bool has_owner(const struct okv_heap *heap, struct okv_heap_slot *slot)
{
    uint64_t page = slot->offset / OKV_PAGE;
    enum okv_page_kind kind = okv_pages_kind(heap->pages, page);

    if (!okv_pages_is_rest(kind) && slot->offset % OKV_PAGE == 0) {
        slot->slab = page;
        slot->length = kind == OKV_PAGE_RUN    ? okv_pages_count(heap->pages, page) * OKV_PAGE
                       : kind == OKV_PAGE_SLAB ? okv_owners_slot_length(heap->owners, page)
                                               : 0;
    }
    if (slot->length == 0)
        return false;
    slot->owner =
        okv_pages_kind(heap->pages, slot->slab) == OKV_PAGE_SLAB
            ? okv_owners_get_slot(heap->owners, slot->slab, slot->offset - slot->slab * OKV_PAGE)
            : okv_owners_get_run(heap->owners, page);
    return true;
}

bool okv_heap_next_slot(const struct okv_heap *heap, struct okv_heap_slot *slot, uint64_t end)
{
    while (slot->offset < end && !has_owner(heap, slot)) {
        slot->length = 0;
        slot->offset = (slot->offset / OKV_PAGE + 1) * OKV_PAGE;
    }
    return slot->offset < end;
}
