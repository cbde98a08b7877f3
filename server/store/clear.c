#include "server/store/clear.h"

#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/evict_item.h"
#include "server/store/heap_range.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "server/store/move.h"
#include "server/store/pending.h"
#include "shared/base/error.h"

/* Slots that a step looks at, and those that it frees at the end of a round. */
#define SLOTS_STEP 512u
#define RELEASED_STEP 4096u
/* With more copied bytes than this share of the evicted ones, all cold items are evicted. */
#define COPIED_PERCENT 100
/* A step ends with the item that exceeds this number of copied bytes. */
#define COPIED_STEP (64u << 10)
/* Passes over a range: the first may meet values that are put. */
#define ROUNDS_MAX 3u

/* Ranges of which one is chosen. */
#define CANDIDATES 16u

struct okv_store_clearing {
    pthread_mutex_t lock;       /* acquired before a bucket's lock */
    atomic_uint_fast64_t first; /* of the range that is emptied; 0: none */
    uint64_t end;
    struct okv_heap_slot slot; /* that comes next */
    uint64_t from;             /* where the next range is looked for */
    unsigned rounds;
    bool has_failed; /* with the last range */
    bool only_moves; /* at a start */
    bool waits;      /* until this batch of the log is published */
    uint64_t batch;
};

struct okv_store_clearing *okv_store_clearing_create(void)
{
    struct okv_store_clearing *clearing = calloc(1, sizeof *clearing);

    if (clearing)
        pthread_mutex_init(&clearing->lock, NULL);
    return clearing;
}

void okv_store_clearing_destroy(struct okv_store_clearing *clearing)
{
    if (clearing)
        pthread_mutex_destroy(&clearing->lock);
    free(clearing);
}

bool okv_store_clear_goes_on(const struct okv_store *store)
{
    return atomic_load_explicit(&store->eviction.clearing->first, memory_order_relaxed) != 0;
}

/* Whether the bucket has a page here, or an item its extent. Adds its pages after the first one,
 * which keys can be chosen to make many. */
static bool refers_to(const struct okv_table *table, uint64_t number, uint64_t where,
                      unsigned *further)
{
    uint64_t offset = okv_table_bucket_offset(table, number);

    while (offset) {
        const uint8_t *image = table->base + offset;
        uint32_t position = 0;
        struct okv_entry entry;
        while (okv_bucket_next(image, &position, &entry) == 1)
            if (entry.is_reference && entry.extent == where)
                return true;
        offset = okv_bucket_chain(image);
        if (offset == where)
            return true;
        *further += offset != 0;
    }
    return false;
}

static struct okv_store_item *find_extent(struct okv_store_bucket *bucket, uint64_t extent)
{
    for (unsigned i = 0; i < bucket->item_count; i++)
        if (bucket->items[i].entry.extent == extent)
            return &bucket->items[i];
    return NULL;
}

static bool has_page(const struct okv_store_bucket *bucket, uint64_t where)
{
    unsigned page = 1;

    while (page < bucket->published_pages && bucket->published_offset[page] != where)
        page++;
    return page < bucket->published_pages;
}

/* Whether cold items may be moved, too: not if much was copied. */
static bool may_copy(const struct okv_store *store)
{
    const struct okv_store_eviction *eviction = &store->eviction;

    return atomic_load_explicit(&eviction->copied_bytes, memory_order_relaxed) * 100 <
           atomic_load_explicit(&eviction->evicted_bytes, memory_order_relaxed) * COPIED_PERCENT;
}

/* As by a hand: a use is taken from an item, and of those without either new ones go or others. */
static bool is_cold(const struct okv_store *store, struct okv_store_item *item)
{
    if (okv_heat_counter_of(item->heat) > 0) {
        item->heat--;
        return false;
    }
    return okv_heat_is_new(item->heat) == okv_store_evicts_new(store) || !may_copy(store);
}

/* Returns the bytes that were copied. */
static uint64_t clear_item(struct okv_store *store, struct okv_store_bucket *bucket,
                           struct okv_store_item *item)
{
    bool may_go = !store->eviction.clearing->only_moves && okv_store_is_evictable(store, item);
    uint64_t copied =
        may_go && is_cold(store, item) ? 0 : okv_store_move_extent(store, bucket, item);

    if (!copied && may_go)
        okv_store_evict_item(store, bucket, item);
    return copied;
}

/* A page of a bucket goes with items that do not fit its first one. What was published there may
 * have expired, or been replaced in this batch. */
static int clear_in_bucket(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                           uint64_t where)
{
    struct okv_store_record evictions = {.kind = OKV_STORE_LOG_EVICTION};
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t copied = 0;
    int rc = okv_store_transaction_load(store, work, number);

    if (rc)
        return rc;
    struct okv_store_item *item = find_extent(bucket, where);
    if (item)
        copied = clear_item(store, bucket, item);
    else if (has_page(bucket, where) && !store->eviction.clearing->only_moves)
        okv_store_evict_in_bucket(store, bucket, true);
    if (!copied && !bucket->gone && !bucket->expired)
        return 0;
    rc = okv_store_transaction_commit_logged(store, work, &evictions);
    if (rc)
        return rc;
    atomic_fetch_add_explicit(&store->eviction.copied_bytes, copied, memory_order_relaxed);
    work->bytes += copied;
    return 0;
}

/* Returns OKV_EAGAIN if the log has no room before its next batch. */
static int clear_slot(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_heap_slot *slot)
{
    uint64_t number = okv_store_lock_hash(store, slot->owner);
    int rc = refers_to(&store->table, number, slot->offset, &work->loaded_pages)
                 ? clear_in_bucket(store, work, number, slot->offset)
                 : 0;

    okv_store_unlock(store, number);
    return rc;
}

static void begin_round(struct okv_store_clearing *clearing)
{
    clearing->slot = (struct okv_heap_slot){.offset = clearing->first};
    clearing->waits = false;
}

/* What a batch of the log evicts and moves is free when it is published. One that only moves has
 * no record, and would not end by itself. */
static bool waits_for_batch(const struct okv_store *store, struct okv_store_clearing *clearing)
{
    struct okv_store_pending *pending = store->table.pending;

    if (!okv_store_is_collecting(&store->table))
        return false;
    uint64_t batch = atomic_load(&pending->batches);
    if (clearing->waits)
        return clearing->batch == batch;
    clearing->batch = batch;
    clearing->waits = true;
    pending->log.wake(pending->log.user);
    return true;
}

/* After a range that could not be emptied comes the next one, whichever it is: the one with the
 * most free pages may be the same again. */
static bool begin(struct okv_store *store, struct okv_store_clearing *clearing, uint64_t size)
{
    clearing->first =
        okv_heap_close(&store->heap, size < OKV_CLEAR_LEAST ? OKV_CLEAR_LEAST : size,
                       clearing->has_failed ? 1 : CANDIDATES, &clearing->from, &clearing->end);
    clearing->rounds = 0;
    begin_round(clearing);
    return clearing->first != 0;
}

static enum okv_clear end_round(struct okv_store *store, struct okv_store_clearing *clearing)
{
    if (!okv_heap_release_held(&store->heap, RELEASED_STEP))
        return OKV_CLEAR_GOES_ON;
    bool is_free = okv_heap_closed_is_free(&store->heap);
    if (!is_free && waits_for_batch(store, clearing))
        return OKV_CLEAR_WAITS;
    clearing->rounds++;
    if (!is_free && clearing->rounds < ROUNDS_MAX) {
        begin_round(clearing);
        return OKV_CLEAR_GOES_ON;
    }
    clearing->first = 0;
    return okv_heap_open(&store->heap) ? OKV_CLEAR_ENDS : OKV_CLEAR_FAILED;
}

static enum okv_clear clear_locked(struct okv_store *store, struct okv_store_work *work,
                                   uint64_t size)
{
    struct okv_store_clearing *clearing = store->eviction.clearing;
    const unsigned pages = work->loaded_pages;
    const uint64_t bytes = work->bytes;

    if (!clearing->first && !begin(store, clearing, size))
        return OKV_CLEAR_FAILED;
    for (unsigned i = 0; i < SLOTS_STEP && work->loaded_pages - pages < OKV_EVICT_PAGES &&
                         work->bytes - bytes < COPIED_STEP;
         i++) {
        if (!okv_heap_next_slot(&store->heap, &clearing->slot, clearing->end))
            return end_round(store, clearing);
        if (clear_slot(store, work, &clearing->slot) == OKV_EAGAIN)
            return OKV_CLEAR_WAITS;
        clearing->slot.offset += clearing->slot.length;
    }
    return OKV_CLEAR_GOES_ON;
}

enum okv_clear okv_store_clear(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    struct okv_store_clearing *clearing = store->eviction.clearing;

    pthread_mutex_lock(&clearing->lock);
    enum okv_clear did = clear_locked(store, work, size);
    clearing->has_failed = did == OKV_CLEAR_FAILED;
    pthread_mutex_unlock(&clearing->lock);
    return did;
}

void okv_store_clear_by_moves(struct okv_store *store, struct okv_store_work *work, uint64_t size)
{
    struct okv_store_clearing *clearing = store->eviction.clearing;

    clearing->only_moves = true;
    do
        okv_store_clear(store, work, size);
    while (clearing->first);
    clearing->only_moves = false;
}
