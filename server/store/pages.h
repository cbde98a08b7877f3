/*
 * The pages of a heap: which are taken, by what, and runs of free ones.
 *
 * Runs that are not moved, the segments of the index, are taken from the begin of the region, all
 * others from its end. A range may be closed while it is emptied: no pages of it are taken then.
 *
 * A tree over the pages has the longest free run of each part. So a run is found and taken in steps
 * that grow with the logarithm of the region.
 *
 * Threads. Any, but for create and destroy.
 */
#ifndef OKV_SERVER_STORE_PAGES_H
#define OKV_SERVER_STORE_PAGES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define OKV_PAGE 4096u

static inline uint64_t okv_pages_of(uint64_t size)
{
    return (size + OKV_PAGE - 1) / OKV_PAGE;
}

/* What has a page. */
enum okv_page_kind {
    OKV_PAGE_FREE,
    OKV_PAGE_SLAB,      /* the first page of allocations of one size, or of none */
    OKV_PAGE_RUN,       /* the first page of one allocation */
    OKV_PAGE_FIXED,     /* likewise, of one that is not to be moved */
    OKV_PAGE_SLAB_REST, /* a further page of a slab */
    OKV_PAGE_RUN_REST,
};

struct okv_page_runs;

/* Pages are numbered from the begin of the region. */
struct okv_pages {
    uint64_t first, end;         /* those that may be taken */
    pthread_mutex_t lock;        /* of what follows */
    uint64_t closed, closed_end; /* a range; empty: none */
    uint64_t *free;              /* a bit for each page: it is free, and not closed */
    struct okv_page_runs *runs;  /* the tree: its root is 1, the children of i are 2 i, 2 i + 1 */
    uint64_t leaves;             /* of the tree: its second half */
    uint64_t taken, taken_most;  /* pages now, and ever */
    atomic_uint_fast64_t available; /* pages that are free and not closed */
    _Atomic uint8_t *kinds;         /* enum okv_page_kind; read without the lock */
};

/* NULL: there is no memory. */
struct okv_pages *okv_pages_create(uint64_t first, uint64_t end);
void okv_pages_destroy(struct okv_pages *pages);

/* Takes `count` pages, at least 1, in a row. Returns the first, or 0. */
uint64_t okv_pages_take(struct okv_pages *pages, uint64_t count, enum okv_page_kind kind);
/* Gives back pages that were taken: a run, or any part of it. */
void okv_pages_give(struct okv_pages *pages, uint64_t page, uint64_t count);
/* Of one that is taken: a slab begins here, or goes on. */
void okv_pages_set_kind(struct okv_pages *pages, uint64_t page, enum okv_page_kind kind);
/* Pages of the run or slab that begins here. */
uint64_t okv_pages_count(const struct okv_pages *pages, uint64_t page);
enum okv_page_kind okv_pages_kind(const struct okv_pages *pages, uint64_t page);
/* Closes `count` pages, until they are opened. One range at a time. */
void okv_pages_close(struct okv_pages *pages, uint64_t page, uint64_t count);
void okv_pages_open(struct okv_pages *pages);
/* The number of these that are taken; UINT64_MAX if one is OKV_PAGE_FIXED. */
uint64_t okv_pages_count_movable(const struct okv_pages *pages, uint64_t page, uint64_t count);
/* Pages that may be taken. Without the lock. */
static inline uint64_t okv_pages_available(const struct okv_pages *pages)
{
    return atomic_load_explicit(&pages->available, memory_order_relaxed);
}
/* Whether an allocation or a slab may go on here. */
static inline bool okv_pages_is_rest(enum okv_page_kind kind)
{
    return kind == OKV_PAGE_SLAB_REST || kind == OKV_PAGE_RUN_REST;
}
uint64_t okv_pages_taken_most(struct okv_pages *pages);

#endif
