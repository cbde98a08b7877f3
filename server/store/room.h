/*
 * Room for changes in a full heap.
 *
 * A worker does not stop to make room. A change that finds none takes one short step and returns
 * OKV_EAGAIN; its worker serves others and tries it again. The steps of all changes that wait are
 * one round, and room that a step makes is everyone's. A change that is taken and is as large as
 * the largest that waits begins the round anew. When all steps of a round were in vain, the change
 * is refused. When a round ends because nothing is left to be done, changes of that size are
 * refused at once until the table has changed.
 *
 * Without work->in_steps a change takes its own steps, one after the other.
 */
#ifndef OKV_SERVER_STORE_ROOM_H
#define OKV_SERVER_STORE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/state.h"

/* Of one call that makes a change. */
struct okv_store_search {
    struct okv_store_effort effort; /* without work->in_steps */
    unsigned own_steps, *steps;     /* that it may take now */
    bool can_wait, waits_for_log;
    bool is_over;
};

/* `steps`: as in okv_store_write. `waits_for_log`: the log makes room, between two batches. */
void okv_store_search_begin(struct okv_store_search *search, const struct okv_store_work *work,
                            unsigned *steps, bool waits_for_log);
/* The change found no room for `size` bytes. No bucket may be locked. Returns 0: try again at once;
 * OKV_EAGAIN: after others; OKV_EFULL: the change is refused. */
int okv_store_search_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          struct okv_store_search *search);
/* Whether freed memory is kept for a series of merges, so that the change has to wait. */
static inline bool okv_store_room_is_kept(const struct okv_store *store,
                                          const struct okv_store_work *work)
{
    return work->in_steps && atomic_load_explicit(&store->round.is_merging, memory_order_relaxed);
}
/* A change of `size` bytes was made. */
void okv_store_room_taken(struct okv_store *store, uint64_t size);

#endif
