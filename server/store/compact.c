/*
 * Deletes leave holes among extents of one size, which extents of another size cannot use. When the
 * heap has no room, extents are copied elsewhere. A first pass moves extents out of slabs that are
 * emptier than others of their size, so that whole slabs become free. When little is left of those,
 * one pass moves every extent for which the allocator offers a better position
 * (okv_heap_is_before), so that free memory gathers. The allocator has an order of its own: another
 * pass would find better positions again.
 */
#include "server/store/compact.h"

#include "server/store/bucket_transaction.h"
#include "server/store/evict.h"
#include "server/store/expire.h"
#include "server/store/locking.h"
#include "server/store/move.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "shared/base/error.h"

/* A step ends after OKV_STORE_LONG_STEP_PAGES pages of buckets or STEP_BYTES bytes. */
#define STEP_BYTES (UINT64_C(2) << 20)
/* Buckets swept in one step. */
#define SWEEP_STEP 2048
/* After a pass that moved little, the next one waits for this many changes per bucket. */
#define CHANGES_PER_BUCKET 1

static unsigned compact_bucket(struct okv_store *store, struct okv_store_work *work,
                               uint64_t number)
{
    struct okv_store_bucket *bucket = &work->bucket;
    unsigned moved = 0;

    okv_store_lock(store, number);
    if (okv_store_transaction_load(store, work, number) == 0) {
        moved = okv_store_move_extents(store, bucket, store->compaction.downwards,
                                       &store->compaction.bytes);
        if ((moved || bucket->expired) && okv_store_transaction_commit(store, work))
            moved = 0;
    }
    okv_store_unlock(store, number);
    return moved;
}

/* A step of a series is short if others are served between two. */
static unsigned parts_of_step(const struct okv_store_work *work)
{
    return work->in_steps ? OKV_STORE_SHORT_STEPS : 1;
}

static bool compact(struct okv_store *store, struct okv_store_work *work)
{
    struct okv_store_compaction *pass = &store->compaction;
    unsigned parts = parts_of_step(work), before = work->loaded_pages;
    bool goes_on;

    pthread_mutex_lock(&store->resizing);
    goes_on = okv_store_may_evict(store) || okv_store_count_changes(store) >= pass->not_before;
    uint64_t count = goes_on ? atomic_load(&store->bucket_count) : 0;
    pass->bytes = 0;
    for (; pass->next < count && work->loaded_pages - before < OKV_STORE_LONG_STEP_PAGES &&
           okv_store_step_goes_on(work, before) && pass->bytes < STEP_BYTES / parts;
         pass->next++)
        pass->moved += compact_bucket(store, work, pass->next);
    work->bytes += pass->bytes;
    if (goes_on && pass->next >= count) {
        bool done = pass->downwards || pass->moved < count / 64 + 1;
        if (done && pass->downwards)
            pass->not_before = okv_store_count_changes(store) + 1 + CHANGES_PER_BUCKET * count;
        pass->downwards = done && !pass->downwards;
        pass->next = 0;
        pass->moved = 0;
    }
    pthread_mutex_unlock(&store->resizing);
    return goes_on;
}

void okv_store_compact_again(struct okv_store *store)
{
    pthread_mutex_lock(&store->resizing);
    store->compaction.not_before = 0;
    pthread_mutex_unlock(&store->resizing);
}

bool okv_store_make_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_effort *effort)
{
    work->room_steps++;
    if (okv_store_evict_for(store, work, size, effort))
        return true;
    if (effort->sweeps > 0 && atomic_load(&store->totals.expiring) > 0 &&
        !okv_store_room_is_kept(store, work)) {
        uint64_t expired = atomic_load(&store->totals.expired);
        effort->sweeps--;
        okv_store_sweep(store, work, SWEEP_STEP / parts_of_step(work));
        if (work->in_steps || atomic_load(&store->totals.expired) != expired)
            return true;
    }
    unsigned merges = effort->merges;
    if (okv_store_free_segment(store, work, size, &effort->merges) ||
        (work->in_steps && effort->merges > 0 && effort->merges < merges))
        return true;
    if (effort->compactions == 0)
        return false;
    effort->compactions--;
    return compact(store, work);
}
