#include "server/store/pages.h"

#include <stdlib.h>

#define WORD 64u

/* Those that are so already stay. */
static void set_free(struct okv_pages *pages, uint64_t page, uint64_t count, bool is_free)
{
    uint64_t changed = 0;

    for (uint64_t i = page; i < page + count; i++) {
        const uint64_t bit = UINT64_C(1) << i % WORD;
        changed += is_free != ((pages->free[i / WORD] & bit) != 0);
        pages->free[i / WORD] =
            is_free ? pages->free[i / WORD] | bit : pages->free[i / WORD] & ~bit;
    }
    atomic_fetch_add_explicit(&pages->available, is_free ? changed : -changed,
                              memory_order_relaxed);
}

struct okv_pages *okv_pages_create(uint64_t first, uint64_t end)
{
    struct okv_pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return NULL;
    pages->first = pages->low = first;
    pages->end = pages->high = end;
    pages->free = calloc(end / WORD + 1, sizeof *pages->free);
    pages->kinds = calloc(end, sizeof *pages->kinds);
    pthread_mutex_init(&pages->lock, NULL);
    if (!pages->free || !pages->kinds) {
        okv_pages_destroy(pages);
        return NULL;
    }
    set_free(pages, first, end > first ? end - first : 0, true);
    return pages;
}

void okv_pages_destroy(struct okv_pages *pages)
{
    pthread_mutex_destroy(&pages->lock);
    free(pages->free);
    free(pages->kinds);
    free(pages);
}

/* The first page from `page` on that is free, or is not; or `end`. */
static uint64_t next_page(const struct okv_pages *pages, uint64_t page, bool is_free, uint64_t end)
{
    while (page < end) {
        uint64_t word = is_free ? pages->free[page / WORD] : ~pages->free[page / WORD];
        if (word >> page % WORD) {
            page += (uint64_t)__builtin_ctzll(word >> page % WORD);
            return page < end ? page : end;
        }
        page = (page / WORD + 1) * WORD;
    }
    return end;
}

/* One after the last page below `page` that is free, or is not; or `first`. */
static uint64_t page_before(const struct okv_pages *pages, uint64_t page, bool is_free,
                            uint64_t first)
{
    while (page > first) {
        uint64_t at = page - 1;
        uint64_t word = is_free ? pages->free[at / WORD] : ~pages->free[at / WORD];
        if (word << (WORD - 1 - at % WORD)) {
            page -= (uint64_t)__builtin_clzll(word << (WORD - 1 - at % WORD));
            return page > first ? page : first;
        }
        page = at / WORD * WORD;
    }
    return first;
}

/* The lowest run, or `end`. */
static uint64_t find_low(struct okv_pages *pages, uint64_t count)
{
    uint64_t page = pages->low = next_page(pages, pages->low, true, pages->end);

    while (pages->end - page >= count) {
        uint64_t taken = next_page(pages, page, false, page + count);
        if (taken == page + count)
            return page;
        page = next_page(pages, taken, true, pages->end);
    }
    return pages->end;
}

/* The highest run, or `end`. */
static uint64_t find_high(struct okv_pages *pages, uint64_t count)
{
    uint64_t top = pages->high = page_before(pages, pages->high, true, pages->first);

    while (top - pages->first >= count) {
        uint64_t taken = page_before(pages, top, false, top - count);
        if (taken == top - count)
            return taken;
        top = page_before(pages, taken, true, pages->first);
    }
    return pages->end;
}

static void set_kinds(struct okv_pages *pages, uint64_t page, uint64_t count,
                      enum okv_page_kind first, enum okv_page_kind others)
{
    for (uint64_t i = 0; i < count; i++)
        atomic_store_explicit(&pages->kinds[page + i], (uint8_t)(i == 0 ? first : others),
                              memory_order_relaxed);
}

uint64_t okv_pages_take(struct okv_pages *pages, uint64_t count, enum okv_page_kind kind)
{
    pthread_mutex_lock(&pages->lock);
    uint64_t page = kind == OKV_PAGE_FIXED ? find_low(pages, count) : find_high(pages, count);
    bool found = page < pages->end;
    if (found) {
        set_free(pages, page, count, false);
        set_kinds(pages, page, count, kind,
                  kind == OKV_PAGE_SLAB ? OKV_PAGE_SLAB_REST : OKV_PAGE_RUN_REST);
        pages->taken += count;
        if (pages->taken > pages->taken_most)
            pages->taken_most = pages->taken;
    }
    pthread_mutex_unlock(&pages->lock);
    return found ? page : 0;
}

/* These may be free now. */
static void widen(struct okv_pages *pages, uint64_t page, uint64_t count)
{
    if (pages->low > page)
        pages->low = page;
    if (pages->high < page + count)
        pages->high = page + count;
}

void okv_pages_give(struct okv_pages *pages, uint64_t page, uint64_t count)
{
    pthread_mutex_lock(&pages->lock);
    set_kinds(pages, page, count, OKV_PAGE_FREE, OKV_PAGE_FREE);
    for (uint64_t i = page; i < page + count; i++)
        if (i < pages->closed || i >= pages->closed_end)
            set_free(pages, i, 1, true);
    pages->taken -= count;
    widen(pages, page, count);
    pthread_mutex_unlock(&pages->lock);
}

enum okv_page_kind okv_pages_kind(const struct okv_pages *pages, uint64_t page)
{
    return atomic_load_explicit(&pages->kinds[page], memory_order_relaxed);
}

uint64_t okv_pages_count(const struct okv_pages *pages, uint64_t page)
{
    enum okv_page_kind rest =
        okv_pages_kind(pages, page) == OKV_PAGE_SLAB ? OKV_PAGE_SLAB_REST : OKV_PAGE_RUN_REST;
    uint64_t count = 1;

    while (page + count < pages->end && okv_pages_kind(pages, page + count) == rest)
        count++;
    return count;
}

void okv_pages_close(struct okv_pages *pages, uint64_t page, uint64_t count)
{
    pthread_mutex_lock(&pages->lock);
    pages->closed = page;
    pages->closed_end = page + count;
    set_free(pages, page, count, false);
    pthread_mutex_unlock(&pages->lock);
}

void okv_pages_open(struct okv_pages *pages)
{
    pthread_mutex_lock(&pages->lock);
    for (uint64_t page = pages->closed; page < pages->closed_end; page++)
        set_free(pages, page, 1, okv_pages_kind(pages, page) == OKV_PAGE_FREE);
    widen(pages, pages->closed, pages->closed_end - pages->closed);
    pages->closed = pages->closed_end = 0;
    pthread_mutex_unlock(&pages->lock);
}

uint64_t okv_pages_count_movable(const struct okv_pages *pages, uint64_t page, uint64_t count)
{
    uint64_t taken = 0;

    for (uint64_t i = page; i < page + count; i++) {
        enum okv_page_kind kind = okv_pages_kind(pages, i);
        if (kind == OKV_PAGE_FIXED)
            return UINT64_MAX;
        taken += kind != OKV_PAGE_FREE;
    }
    return taken;
}

uint64_t okv_pages_taken_most(struct okv_pages *pages)
{
    pthread_mutex_lock(&pages->lock);
    uint64_t most = pages->taken_most;
    pthread_mutex_unlock(&pages->lock);
    return most;
}
