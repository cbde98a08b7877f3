/*
 * Room for changes in a full heap.
 *
 * A worker does not stop to make room. A change that finds none takes one short step and returns
 * OKV_EAGAIN; its worker serves others and tries it again. Each request has a number of steps, its
 * effort, after which it is refused. Where a search ends because nothing is left to be done,
 * changes of that size are refused at once until the table has changed.
 *
 * A segment of the index is given up in a series of merges. Until its end, changes that can wait
 * do: they would take the memory that the next merge needs. Each takes a step of the series.
 *
 * Without work->in_steps a change takes its steps one after the other.
 */
#ifndef OKV_SERVER_STORE_ROOM_H
#define OKV_SERVER_STORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "server/core/turn.h"
#include "server/store/state.h"

struct okv_store_room_terms {
    unsigned *steps;    /* as in okv_store_write */
    bool cannot_wait;   /* likewise */
    bool waits_for_log; /* the log makes room, between two batches */
    bool in_parts;      /* it is for several items */
    bool has_no_batch;  /* the caller is in none, so nothing can be evicted */
};

/* Of one call that makes a change. */
struct okv_store_search {
    struct okv_store_room_terms terms;
    struct okv_effort own_effort, *effort;
    unsigned own_steps, *steps; /* that it may take now */
    bool is_over;               /* the next attempt is the last one */
};

void okv_store_search_begin(struct okv_store_search *search, const struct okv_store *store,
                            const struct okv_store_work *work,
                            const struct okv_store_room_terms *terms);
/* The change found no room for `size` bytes. No bucket may be locked. Returns 0: try again at once;
 * OKV_EAGAIN: after others; OKV_EFULL: the change is refused. */
int okv_store_search_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          struct okv_store_search *search);
/* Before several changes with keys and values of `size` bytes in all, which wait for nothing once
 * they have begun. Returns whether they may begin: there is room in a row, or nothing is evicted
 * for it. Else it has taken a step, or memory is about to be free. No bucket may be locked. */
bool okv_store_room_is_ahead(struct okv_store *store, struct okv_store_work *work, uint64_t size);
/* The steps of compaction after which a change of a cache is refused. */
unsigned okv_store_compactions(const struct okv_store *store, bool is_short);
/* Whether a series of merges is under way, for which a change waits. */
static inline bool okv_store_room_is_kept(const struct okv_store *store,
                                          const struct okv_store_work *work)
{
    return work->in_steps && atomic_load_explicit(&store->room.is_merging, memory_order_relaxed);
}

#endif
