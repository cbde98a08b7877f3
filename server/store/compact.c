/*
 * Deletes leave holes among extents of one size, which extents of another size cannot use. When the
 * heap has no room, extents are copied elsewhere. A first pass moves extents out of slabs that are
 * emptier than others of their size, so that whole slabs become free. When little is left of those,
 * a second pass moves every extent for which the allocator offers an earlier position
 * (okv_heap_is_before), so that free memory gathers at the end.
 *
 * Extents are immutable, and one bucket refers to each. So a move is an ordinary change of that
 * bucket, whose version rises, as readers of parts of a value rely on; no item gets a new version.
 */
#include "server/store/compact.h"

#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/expire.h"
#include "server/store/locking.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "shared/base/error.h"

/* A step ends after STEP_PAGES pages of buckets or STEP_BYTES bytes, in about a millisecond. */
#define STEP_PAGES 1024
#define STEP_BYTES (UINT64_C(2) << 20)
/* Longer extents are not moved, nor is the source of an append that is under way. */
#define MOVE_MAX (UINT64_C(1) << 20)
/* Buckets swept in one step. */
#define SWEEP_STEP 2048
/* After a pass that moved little, the next one waits for this many changes per bucket. */
#define CHANGES_PER_BUCKET 1

/* Copies an item's extent to a better position, if the allocator has one. */
static bool move_extent(struct okv_store *store, struct okv_store_bucket *bucket,
                        struct okv_store_item *item)
{
    uint64_t length = okv_entry_extent_length(&item->entry);
    uint64_t from = item->entry.extent;
    bool sparse = okv_heap_is_sparse(&store->heap, from);

    if ((!sparse && !store->compaction.downwards) || length > MOVE_MAX ||
        okv_heap_is_pinned(&store->heap, from))
        return false;
    uint64_t to = okv_heap_alloc(&store->heap, length);
    if (!to)
        return false;
    if (!sparse && !okv_heap_is_before(&store->heap, to, from)) {
        okv_heap_free(&store->heap, to);
        return false;
    }
    memcpy(store->table.base + to, store->table.base + from, length);
    okv_store_bucket_drop_extent(bucket, item);
    item->entry.extent = to;
    item->fresh_extent = true;
    store->compaction.bytes += length;
    return true;
}

static unsigned move_extents(struct okv_store *store, struct okv_store_bucket *bucket)
{
    unsigned moved = 0;

    for (unsigned i = 0; i < bucket->item_count; i++)
        if (bucket->items[i].entry.extent)
            moved += move_extent(store, bucket, &bucket->items[i]);
    return moved;
}

static unsigned compact_bucket(struct okv_store *store, struct okv_store_work *work,
                               uint64_t number)
{
    struct okv_store_bucket *bucket = &work->bucket;
    unsigned moved = 0;

    okv_store_lock(store, number);
    if (okv_store_transaction_load(store, work, number) == 0) {
        moved = move_extents(store, bucket);
        if (moved)
            bucket->only_shrinks = false;
        if ((moved || bucket->expired) && okv_store_transaction_commit(store, work))
            moved = 0;
    }
    okv_store_unlock(store, number);
    return moved;
}

uint64_t okv_store_count_changes(const struct okv_store *store)
{
    return atomic_load(&store->totals.changes) + atomic_load(&store->totals.expired);
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
    goes_on = okv_store_count_changes(store) >= pass->not_before;
    uint64_t count = goes_on ? atomic_load(&store->bucket_count) : 0;
    pass->bytes = 0;
    for (; pass->next < count && work->loaded_pages - before < STEP_PAGES &&
           okv_store_step_goes_on(work, before) && pass->bytes < STEP_BYTES / parts;
         pass->next++)
        pass->moved += compact_bucket(store, work, pass->next);
    work->bytes += pass->bytes;
    if (goes_on && pass->next >= count) {
        bool done = pass->moved < count / 64 + 1;
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
