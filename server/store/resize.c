/*
 * The index grows and shrinks by one bucket at a time (shared/format/linear.h).
 *
 * A split publishes the new bucket, then the bucket whose items it divides. For a moment an item is
 * in both images, but never in none. A merge publishes the lower bucket with the items of both,
 * then an empty image as the upper one; its depth sends readers to the lower bucket. The count
 * changes last, under the one lock of both buckets. A reader needs neither count nor order: each
 * image says which keys it answers for.
 *
 * The directory, index_percent and the heap limit the number of buckets, and so does the number of
 * bytes in them. At the limit, more items go to extents and overflow pages.
 */
#include "server/store/resize.h"

#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/evict.h"
#include "server/store/locking.h"
#include "server/store/pending.h"
#include "server/store/publish.h"
#include "server/store/status.h"
#include "shared/base/error.h"

/* Resizing steps after one change. More than one, so that resizing keeps up with changes; more
 * merges, because nearly empty buckets are cheap to merge. */
#define SPLITS_PER_CHANGE 4
#define MERGES_PER_CHANGE 8
/* Changes without another attempt after a split or a merge found no room: each costs two buckets'
 * work in vain. */
#define PAUSE 1024
/* Changes without growth after the index gave up a segment, which it would otherwise allocate again
 * at once. */
#define GROWTH_PAUSE_FULL 65536
/* Of the region: with more free memory than this share growth goes on sooner. */
#define ROOMY_SHARE 8
/* tolerance() counts the used part of the region in such shares, and assumes at least the
 * minimum. */
#define SHARES 256u
#define SHARES_MIN (SHARES / 8)
/* Extra READs that are always tolerated, summed over all items. Without slack a table of few items
 * would grow and shrink over a single one. */
#define SLACK 2u
/* When the heap has no room, the index may be filled up to FULL_PERCENT. Below EMPTY_PERCENT it
 * shrinks; growth with the least tolerance leaves small buckets 15 % full, so the two do not
 * alternate. Growth ends at SPARSE_PERCENT: the extra READs that are left there are of keys chosen
 * to collide, which no split parts. */
#define FULL_PERCENT 75
#define EMPTY_PERCENT 12
/* The same where items are evicted and memory is short. */
#define EMPTY_PERCENT_SHORT 40
#define SPARSE_PERCENT 5

static uint64_t segment_length(const struct okv_table *table)
{
    return (uint64_t)table->segment_buckets * table->bucket_size;
}

void okv_store_reserve_allocate(struct okv_store *store)
{
    if (!store->reserve && store->table.segments[1])
        store->reserve = okv_heap_alloc_fixed(&store->heap, segment_length(&store->table));
}

void okv_store_reserve_release(struct okv_store *store)
{
    if (store->reserve)
        okv_heap_free_unwritten(&store->heap, store->reserve);
    store->reserve = 0;
}

/* Ensures that the segment of the next bucket, `number`, exists. */
static int segment_allocate(struct okv_store *store, uint64_t number)
{
    struct okv_table *table = &store->table;
    uint64_t segment = number / table->segment_buckets;

    if (number >= store->buckets_max)
        return OKV_EFULL;
    if (table->segments[segment])
        return 0;
    uint64_t offset = okv_heap_alloc_fixed(&store->heap, segment_length(table));
    if (!offset)
        return OKV_EFULL;
    atomic_fetch_add(&store->index_length, okv_heap_size(segment_length(table)));
    okv_store_publish_segment(table, segment, offset);
    okv_store_reserve_allocate(store);
    return 0;
}

/* Frees the segment of bucket `number`, the last one, if it was the only one there. */
static void segment_release(struct okv_store *store, uint64_t number)
{
    struct okv_table *table = &store->table;
    uint64_t segment = number / table->segment_buckets;
    uint64_t offset = table->segments[segment];

    if (number % table->segment_buckets != 0)
        return;
    okv_store_publish_segment(table, segment, 0);
    okv_heap_free(&store->heap, offset);
    if (segment == 1)
        okv_store_reserve_release(store);
    atomic_fetch_sub(&store->index_length, okv_heap_size(segment_length(table)));
}

int okv_store_index_create(struct okv_store *store)
{
    if (segment_allocate(store, 0))
        return OKV_EINVAL;
    for (uint64_t bucket = 0; bucket < OKV_STORE_BUCKETS_MIN; bucket++)
        okv_store_publish_empty(&store->table, bucket,
                                okv_linear_depth(bucket, OKV_STORE_BUCKETS_MIN), 0);
    atomic_store(&store->bucket_count, OKV_STORE_BUCKETS_MIN);
    return 0;
}

static void set_count(struct okv_store *store, uint64_t count)
{
    atomic_store(&store->bucket_count, count);
    okv_store_publish_status(store);
}

/* Moves the items of work->bucket that belong to work->sibling at its depth. */
static int divide(struct okv_store *store, struct okv_store_work *work)
{
    struct okv_store_bucket *from = &work->bucket;
    int rc = 0;

    for (unsigned i = from->item_count; i-- > 0 && !rc;) {
        struct okv_store_item *item = &from->items[i];
        uint64_t hash =
            okv_hash_key(item->entry.key, item->entry.key_length, store->table.hash_seed);
        if (okv_hash_bucket(hash, work->sibling.depth) == work->sibling.number)
            rc = okv_store_bucket_move(from, item, &work->sibling);
    }
    return rc;
}

/* Prepares both working copies or none. */
static int prepare_both(struct okv_store *store, struct okv_store_work *work)
{
    int rc = okv_store_bucket_prepare(&work->sibling, &store->table);

    if (rc)
        return rc;
    rc = okv_store_bucket_prepare(&work->bucket, &store->table);
    if (rc)
        okv_store_bucket_cancel(&work->sibling, &store->table);
    return rc;
}

static int split_locked(struct okv_store *store, struct okv_store_work *work, uint64_t from,
                        uint64_t to)
{
    struct okv_table *table = &store->table;
    int rc = okv_store_transaction_load(store, work, from);

    if (rc)
        return rc;
    work->bucket.depth++;
    okv_store_bucket_begin(&work->sibling, table, to, work->bucket.depth, work->bucket.version);
    memcpy(work->sibling.heat, work->bucket.heat, sizeof work->sibling.heat); /* its ghosts */
    rc = divide(store, work);
    /* The depth changes: readers must not mix pages from before and after. */
    work->bucket.only_shrinks = false;
    if (!rc)
        rc = prepare_both(store, work);
    if (rc)
        return rc;
    okv_store_bucket_publish(&work->sibling, table); /* of which nobody knows yet */
    okv_store_bucket_publish(&work->bucket, table);
    set_count(store, to + 1);
    okv_store_bucket_finish(&work->sibling, table);
    okv_store_bucket_finish(&work->bucket, table);
    okv_store_count_change(store, &work->sibling);
    okv_store_count_change(store, &work->bucket);
    return 0;
}

static int split(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t to = atomic_load(&store->bucket_count);
    uint64_t from = okv_hash_bucket(to, okv_linear_level(to));
    int rc = segment_allocate(store, to);

    if (rc)
        return rc;
    okv_store_lock(store, from);
    rc = split_locked(store, work, from, to);
    okv_store_unlock(store, from);
    if (rc)
        segment_release(store, to);
    else
        atomic_fetch_add(&store->totals.splits, 1);
    if (!rc && okv_store_is_crowded(store))
        okv_store_count_relief(store);
    return rc;
}

static int merge_locked(struct okv_store *store, struct okv_store_work *work, uint64_t from,
                        uint64_t into)
{
    struct okv_table *table = &store->table;
    struct okv_store_bucket *gone = &work->sibling;
    struct okv_store_bucket *bucket = &work->bucket;
    int rc = okv_store_transaction_load(store, work, into);

    if (!rc)
        rc = okv_store_bucket_load(gone, table, from);
    if (rc)
        return rc;
    work->loaded_pages += gone->published_pages;
    bucket->depth--;
    if (bucket->next_version <= gone->version)
        bucket->next_version = gone->version + 1;
    while (gone->item_count > 0 && !rc)
        rc = okv_store_bucket_move(gone, &gone->items[gone->item_count - 1], bucket);
    bucket->only_shrinks = false;
    if (!rc)
        rc = okv_store_bucket_prepare(bucket, table);
    if (rc)
        return rc;
    okv_store_before_change(table, from); /* a snapshot may still have to save it */
    okv_store_bucket_publish(bucket, table);
    okv_store_publish_empty(table, from, bucket->depth, bucket->next_version);
    set_count(store, from);
    okv_store_bucket_finish(bucket, table);
    /* Its primary page belongs to the segment. */
    gone->pages = 0;
    for (unsigned page = 1; page < gone->published_pages; page++)
        okv_heap_free(table->heap, gone->published_offset[page]);
    gone->changed = (struct okv_store_tally){0};
    okv_store_count_change(store, gone);
    okv_store_count_change(store, bucket);
    return 0;
}

static int merge(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t from = atomic_load(&store->bucket_count) - 1;
    uint64_t into = okv_hash_bucket(from, okv_linear_level(from));

    okv_store_lock(store, into);
    int rc = merge_locked(store, work, from, into);
    okv_store_unlock(store, into);
    if (rc)
        return rc;
    segment_release(store, from);
    atomic_fetch_add(&store->totals.merges, 1);
    return 0;
}

/* Extra READs to tolerate in SHARES * 1000 gets. Without a parameter, fewer while memory is
 * plentiful. */
static uint64_t tolerance(const struct okv_store *store)
{
    if (store->extra_reads > 0)
        return (uint64_t)store->extra_reads * SHARES;
    uint64_t shares = okv_heap_used(store->table.heap) * SHARES / store->length;
    return OKV_EXTRA_READS_FULL * (shares > SHARES_MIN ? shares : SHARES_MIN);
}

/* Whether entries fill less than this share of the index. */
static bool is_sparse(struct okv_store *store, unsigned percent)
{
    uint64_t count = atomic_load_explicit(&store->bucket_count, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&store->totals.entry_bytes, memory_order_relaxed);

    return count > OKV_STORE_BUCKETS_MIN &&
           bytes * 100 < count * store->table.bucket_size * percent;
}

static bool is_too_full(struct okv_store *store)
{
    uint64_t extra = atomic_load_explicit(&store->totals.extra_reads, memory_order_relaxed);
    uint64_t items = atomic_load_explicit(&store->totals.items, memory_order_relaxed);

    return (extra * (SHARES * 1000) > items * tolerance(store) + SLACK * SHARES * 1000 ||
            okv_store_is_crowded(store)) &&
           !is_sparse(store, SPARSE_PERCENT);
}

/* Merging adds extra READs. It stops at half of those at which splitting begins: buckets may be
 * nearly empty because no two items fit one. */
static bool is_too_empty(struct okv_store *store)
{
    uint64_t extra = atomic_load_explicit(&store->totals.extra_reads, memory_order_relaxed);
    uint64_t items = atomic_load_explicit(&store->totals.items, memory_order_relaxed);

    unsigned percent = okv_store_evict_is_due(store) ? EMPTY_PERCENT_SHORT : EMPTY_PERCENT;

    return is_sparse(store, percent) && !okv_store_is_crowded(store) &&
           extra * (SHARES * 2000) <= items * tolerance(store);
}

/* Whether to let this change pass. */
static bool pauses(atomic_int *pause)
{
    if (atomic_load_explicit(pause, memory_order_relaxed) <= 0)
        return false;
    atomic_fetch_sub_explicit(pause, 1, memory_order_relaxed);
    return true;
}

void okv_store_shrink(struct okv_store *store, struct okv_store_work *work, unsigned most)
{
    if (okv_store_is_collecting(&store->table))
        return;
    if (!is_too_empty(store) || pauses(&store->shrink_pause))
        return;
    unsigned pages = work->loaded_pages;
    pthread_mutex_lock(&store->resizing);
    for (unsigned i = 0; i < most && is_too_empty(store) && okv_store_step_goes_on(work, pages) &&
                         !okv_store_is_throttled(&store->table);
         i++)
        if (merge(store, work)) {
            atomic_store_explicit(&store->shrink_pause, PAUSE, memory_order_relaxed);
            break;
        }
    pthread_mutex_unlock(&store->resizing);
}

/* The most that merging can free. */
static uint64_t spare_length(struct okv_store *store)
{
    uint64_t index = atomic_load(&store->index_length);
    uint64_t needed = atomic_load(&store->totals.entry_bytes) * 100 / FULL_PERCENT;

    return index > needed ? index - needed : 0;
}

/* A merge may need extents and overflow pages before it frees a segment. They come from the
 * reserve, which is allocated again as far as there is room. What is left of it between short steps
 * is kept by room.is_merging. */
bool okv_store_free_segment(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                            unsigned *merges)
{
    unsigned pages = work->loaded_pages;

    if (*merges == 0 || size > spare_length(store))
        return false;
    pthread_mutex_lock(&store->resizing);
    uint64_t before = atomic_load(&store->index_length);
    bool goes_on = is_sparse(store, FULL_PERCENT), has_failed = false;
    okv_store_reserve_release(store);
    while (goes_on && !has_failed && *merges > 0 && okv_store_step_goes_on(work, pages)) {
        --*merges;
        has_failed = merge(store, work) != 0;
        goes_on = atomic_load(&store->index_length) == before && is_sparse(store, FULL_PERCENT);
    }
    if (has_failed)
        *merges = 0;
    okv_store_reserve_allocate(store);
    bool made = atomic_load(&store->index_length) < before;
    atomic_store(&store->room.is_merging, work->in_steps && goes_on && !has_failed);
    if (made || work->in_steps) /* splits would undo what this step began */
        atomic_store_explicit(&store->growth_pause, GROWTH_PAUSE_FULL, memory_order_relaxed);
    pthread_mutex_unlock(&store->resizing);
    return made;
}

int okv_store_grow(struct okv_store *store, struct okv_store_work *work, uint64_t count)
{
    int rc = 0;

    pthread_mutex_lock(&store->resizing);
    while (rc == 0 && atomic_load(&store->bucket_count) < count)
        rc = split(store, work);
    pthread_mutex_unlock(&store->resizing);
    return rc;
}

/* Items may have gone since. */
static void end_long_pause(struct okv_store *store)
{
    if (atomic_load_explicit(&store->growth_pause, memory_order_relaxed) > PAUSE &&
        okv_heap_unused(&store->heap) > store->length / ROOMY_SHARE)
        atomic_store_explicit(&store->growth_pause, 0, memory_order_relaxed);
}

static void grow(struct okv_store *store, struct okv_store_work *work)
{
    end_long_pause(store);
    if (pauses(&store->growth_pause))
        return;
    /* A thread that is splitting does this one's share as well. */
    if (pthread_mutex_trylock(&store->resizing))
        return;
    for (unsigned i = 0; i < SPLITS_PER_CHANGE && is_too_full(store); i++)
        if (split(store, work)) {
            atomic_store_explicit(&store->growth_pause, PAUSE, memory_order_relaxed);
            break;
        }
    pthread_mutex_unlock(&store->resizing);
}

void okv_store_resize(struct okv_store *store, struct okv_store_work *work)
{
    if (okv_store_is_collecting(&store->table))
        return;
    if (is_too_full(store))
        grow(store, work);
    else
        okv_store_shrink(store, work, MERGES_PER_CHANGE);
}
