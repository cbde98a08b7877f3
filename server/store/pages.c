#include "server/store/pages.h"

#include <stdlib.h>

/* Of free pages in a row, in a part of the region: at its begin, anywhere, and at its end. */
struct okv_page_runs {
    uint32_t first, longest, last;
};

/* Pages of a leaf of the tree, whose bits are one word. A node has twice as many as its children,
 * which follow each other in the region. */
#define LEAF 64u
#define NONE UINT64_MAX

static uint32_t longer(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static struct okv_page_runs runs_of(uint64_t word)
{
    struct okv_page_runs runs = {LEAF, LEAF, LEAF};

    if (word == UINT64_MAX)
        return runs;
    runs.first = (uint32_t)__builtin_ctzll(~word);
    runs.last = (uint32_t)__builtin_clzll(~word);
    for (runs.longest = 0; word; word &= word >> 1)
        runs.longest++;
    return runs;
}

/* Of two parts of `length` pages each. */
static struct okv_page_runs join(struct okv_page_runs a, struct okv_page_runs b, uint64_t length)
{
    return (struct okv_page_runs){
        .first = a.first == length ? a.first + b.first : a.first,
        .longest = longer(a.last + b.first, longer(a.longest, b.longest)),
        .last = b.last == length ? a.last + b.last : b.last,
    };
}

/* The pages from `page` up to `end`. Those that are so already stay. */
static void set_free(struct okv_pages *pages, uint64_t page, uint64_t end, bool is_free)
{
    uint64_t changed = 0, low = pages->leaves + page / LEAF, high = low;

    while (page < end) {
        uint64_t next = (page / LEAF + 1) * LEAF < end ? (page / LEAF + 1) * LEAF : end;
        uint64_t mask = UINT64_MAX >> (LEAF - (next - page)) << page % LEAF;
        uint64_t *word = &pages->free[page / LEAF];
        changed += (uint64_t)__builtin_popcountll(mask & (is_free ? ~*word : *word));
        *word = is_free ? *word | mask : *word & ~mask;
        high = pages->leaves + page / LEAF;
        pages->runs[high] = runs_of(*word);
        page = next;
    }
    for (uint64_t length = LEAF; changed && low > 1; length *= 2) {
        low /= 2;
        high /= 2;
        for (uint64_t i = low; i <= high; i++)
            pages->runs[i] = join(pages->runs[2 * i], pages->runs[2 * i + 1], length);
    }
    atomic_fetch_add_explicit(&pages->available, is_free ? changed : -changed,
                              memory_order_relaxed);
}

struct okv_pages *okv_pages_create(uint64_t first, uint64_t end)
{
    struct okv_pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return NULL;
    pages->first = first;
    pages->end = end;
    for (pages->leaves = 1; pages->leaves * LEAF < end; pages->leaves *= 2)
        continue;
    pages->free = calloc(pages->leaves, sizeof *pages->free);
    pages->runs = calloc(2 * pages->leaves, sizeof *pages->runs);
    pages->kinds = calloc(end, sizeof *pages->kinds);
    pthread_mutex_init(&pages->lock, NULL);
    if (!pages->free || !pages->runs || !pages->kinds) {
        okv_pages_destroy(pages);
        return NULL;
    }
    set_free(pages, first, end, true);
    return pages;
}

void okv_pages_destroy(struct okv_pages *pages)
{
    pthread_mutex_destroy(&pages->lock);
    free(pages->free);
    free(pages->runs);
    free(pages->kinds);
    free(pages);
}

/* In one word, which has it. */
static uint64_t find_in_leaf(uint64_t word, uint64_t count, bool is_low)
{
    for (uint64_t i = 1; i < count; i++)
        word &= word >> 1;
    return (uint64_t)(is_low ? __builtin_ctzll(word) : 63 - __builtin_clzll(word));
}

/* The lowest `count` pages in a row, or the highest; or NONE. */
static uint64_t find(const struct okv_pages *pages, uint64_t count, bool is_low)
{
    uint64_t node = 1, page = 0, half = pages->leaves * LEAF / 2;

    if (pages->runs[node].longest < count)
        return NONE;
    for (; node < pages->leaves; half /= 2) {
        const struct okv_page_runs *left = &pages->runs[2 * node], *right = left + 1;
        bool is_left = left->longest >= count, is_right = right->longest >= count;
        node *= 2;
        if (is_low ? is_left : is_right)
            node += !is_low;
        else if (left->last + right->first >= count)
            return page + half + (is_low ? -(uint64_t)left->last : right->first - count);
        else
            node += is_low;
        page += node % 2 * half;
    }
    return page + find_in_leaf(pages->free[page / LEAF], count, is_low);
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
    uint64_t page = find(pages, count, kind == OKV_PAGE_FIXED);
    if (page != NONE) {
        set_free(pages, page, page + count, false);
        set_kinds(pages, page, count, kind,
                  kind == OKV_PAGE_SLAB ? OKV_PAGE_SLAB_REST : OKV_PAGE_RUN_REST);
        pages->taken += count;
        if (pages->taken > pages->taken_most)
            pages->taken_most = pages->taken;
    }
    pthread_mutex_unlock(&pages->lock);
    return page != NONE ? page : 0;
}

void okv_pages_give(struct okv_pages *pages, uint64_t page, uint64_t count)
{
    uint64_t end = page + count;

    pthread_mutex_lock(&pages->lock);
    set_kinds(pages, page, count, OKV_PAGE_FREE, OKV_PAGE_FREE);
    set_free(pages, page, end < pages->closed ? end : pages->closed, true);
    set_free(pages, page > pages->closed_end ? page : pages->closed_end, end, true);
    pages->taken -= count;
    pthread_mutex_unlock(&pages->lock);
}

void okv_pages_set_kind(struct okv_pages *pages, uint64_t page, enum okv_page_kind kind)
{
    set_kinds(pages, page, 1, kind, kind);
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
    set_free(pages, page, page + count, false);
    pthread_mutex_unlock(&pages->lock);
}

void okv_pages_open(struct okv_pages *pages)
{
    pthread_mutex_lock(&pages->lock);
    for (uint64_t page = pages->closed, next; page < pages->closed_end; page = next) {
        bool is_free = okv_pages_kind(pages, page) == OKV_PAGE_FREE;
        for (next = page + 1; next < pages->closed_end; next++)
            if ((okv_pages_kind(pages, next) == OKV_PAGE_FREE) != is_free)
                break;
        set_free(pages, page, next, is_free);
    }
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
