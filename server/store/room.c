#include "server/store/room.h"

#include <limits.h>

#include "server/store/clear.h"
#include "server/store/compact.h"
#include "server/store/evict.h"
#include "server/store/fullness.h"
#include "server/store/pending.h"
#include "shared/base/error.h"

/* After a search that left nothing to be done, changes of the table before another one. */
#define PAUSE 64
#define PASSES_EVICTING 3
/* What an extent takes at most, of its length: slots and pages are not as fine. */
#define EXTENT_PERCENT 125

static const struct okv_effort at_once = OKV_EFFORT;
static const struct okv_effort in_short_steps = {.merges = 1024,
                                                 .sweeps = 4 * OKV_STORE_SHORT_STEPS,
                                                 .compactions = 4 * OKV_STORE_SHORT_STEPS,
                                                 .evictions = 256};

static bool waits_between_steps(const struct okv_store_work *work)
{
    return work->in_steps && work->effort;
}

/* Whether an earlier search for no more than this left nothing to be done. */
static bool is_in_vain(struct okv_store *store, uint64_t size)
{
    return okv_store_count_changes(store) < atomic_load(&store->room.not_before) &&
           size >= atomic_load(&store->room.refused);
}

/* Returns whether the change is worth another attempt. */
static bool take_step(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                      struct okv_effort *effort)
{
    if (waits_between_steps(work) && is_in_vain(store, size))
        return false;
    if (okv_store_make_room(store, work, size, effort))
        return true;
    if (effort->compactions > 0) {
        atomic_store(&store->room.refused, size);
        atomic_store(&store->room.not_before, okv_store_count_changes(store) + PAUSE);
    }
    return false;
}

/* A cache refuses nothing before passes over all buckets have put free memory together. */
unsigned okv_store_compactions(const struct okv_store *store, bool is_short)
{
    uint64_t pages = is_short ? OKV_STORE_STEP_PAGES : OKV_STORE_LONG_STEP_PAGES;

    return (unsigned)(PASSES_EVICTING * (atomic_load(&store->bucket_count) / pages + 1));
}

void okv_store_search_begin(struct okv_store_search *search, const struct okv_store *store,
                            const struct okv_store_work *work,
                            const struct okv_store_room_terms *terms)
{
    bool waits = waits_between_steps(work);

    search->terms = *terms;
    search->own_steps = waits ? 1 : UINT_MAX;
    search->own_effort = (struct okv_effort){.has_begun = false};
    search->steps = terms->steps ? terms->steps : &search->own_steps;
    search->effort = waits ? work->effort : &search->own_effort;
    search->is_over = false;
    if (search->effort->has_begun)
        return;
    *search->effort = waits ? in_short_steps : at_once;
    if (okv_store_may_evict(store))
        search->effort->compactions = okv_store_compactions(store, waits);
    search->effort->in_parts = terms->in_parts;
    search->effort->has_begun = true;
}

static int refuse(struct okv_store *store)
{
    if (store->table.heat)
        atomic_fetch_add_explicit(&store->eviction.refused, 1, memory_order_relaxed);
    okv_store_note_full(store);
    return OKV_EFULL;
}

/* The log frees what is evicted, and makes room by other means once that is in vain. */
static bool waits_for_log(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          struct okv_store_search *search)
{
    struct okv_store_pending *pending = store->table.pending;
    struct okv_effort *effort = search->effort;
    uint64_t batch = atomic_load(&pending->batches), before = okv_store_freed_later(&store->table);

    if (!okv_store_may_evict(store) || effort->evictions == 0)
        return okv_store_pending_waits_for_room(store, size);
    if (effort->batch != batch)
        effort->evicted = 0;
    effort->batch = batch;
    if (!search->terms.has_no_batch && effort->evicted < size &&
        !okv_store_evict_is_ahead(store, size)) {
        okv_store_evict_for(store, work, size, effort);
        effort->evicted += okv_store_freed_later(&store->table) - before;
    }
    pending->log.wake(pending->log.user);
    return true;
}

int okv_store_search_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          struct okv_store_search *search)
{
    const struct okv_store_room_terms *terms = &search->terms;

    if (search->is_over)
        return refuse(store);
    if (okv_heap_frees_later(&store->heap, size) ||
        (terms->waits_for_log && waits_for_log(store, work, size, search)))
        return OKV_EAGAIN;
    if (*search->steps == 0)
        return terms->cannot_wait ? refuse(store) : OKV_EAGAIN;
    --*search->steps;
    /* One more attempt in any case: a wipe or a pin may have ended since the last one. */
    search->is_over = terms->waits_for_log || !take_step(store, work, size, search->effort);
    return 0;
}

bool okv_store_room_is_ahead(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    const struct okv_store_room_terms terms = {.in_parts = true};
    const uint64_t taken = size * EXTENT_PERCENT / 100 + OKV_CLEAR_LEAST; /* with a slab */
    struct okv_store_search search;

    if (size == 0 || !okv_store_may_evict(store) || okv_store_is_collecting(&store->table) ||
        !waits_between_steps(work) || okv_heap_has_room(&store->heap, taken))
        return true;
    if (okv_heap_frees_later(&store->heap, taken))
        return false;
    okv_store_search_begin(&search, store, work, &terms);
    return !okv_store_evict_for(store, work, taken, search.effort);
}
