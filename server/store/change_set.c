#include "server/store/change_set.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/turn.h"
#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/evict.h"
#include "server/store/fullness.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "server/store/pending.h"
#include "server/store/publish.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "shared/base/error.h"

/* A bucket whose next images are prepared. */
struct prepared {
    struct prepared *next;
    uint64_t number;
    struct okv_store_tally published, changed;
    unsigned expired, pages;
    struct okv_store_evicted evicted;
    unsigned fresh_count, freed_count;
    uint64_t page_offset[OKV_BUCKET_PAGES_MAX];
    uint8_t heat[OKV_HEAT_RECORD_MAX]; /* where items are evicted */
    uint64_t *offsets; /* that were allocated, then those that the old images alone refer to */
    uint8_t images[];  /* [pages], then the offsets */
};

/* One attempt. */
struct attempt {
    struct okv_store *store;
    struct okv_store_work *work;
    const struct okv_store_set *set;
    uint64_t clock_ms;
    struct prepared *prepared;
    struct okv_store_record *records; /* for the log: first of what its buckets evict */
    size_t record_count, record_capacity;
};

/* ---- locks ---- */

/* As locking.h has it: of the bucket of this hash, however many there are. */
static uint64_t lock_of(uint64_t hash)
{
    return okv_linear_bucket(hash, OKV_STORE_LOCKS);
}

static int by_lock(const void *a, const void *b)
{
    uint64_t left = lock_of(((const struct okv_store_set_change *)a)->hash);
    uint64_t right = lock_of(((const struct okv_store_set_change *)b)->hash);

    return (left > right) - (left < right);
}

/* By bucket; in one bucket what needs no room comes first. */
static int by_bucket(const void *a, const void *b)
{
    const struct okv_store_set_change *left = a, *right = b;

    if (left->bucket != right->bucket)
        return left->bucket > right->bucket ? 1 : -1;
    return (left->kind > right->kind) - (left->kind < right->kind);
}

static bool is_first_of_lock(const struct okv_store_set *set, uint32_t i)
{
    return i == 0 || lock_of(set->changes[i].hash) != lock_of(set->changes[i - 1].hash);
}

/* In one order for all sets. Then no split or merge moves a key of the set. */
static void lock_all(struct okv_store *store, const struct okv_store_set *set)
{
    uint64_t count;

    for (uint32_t i = 0; i < set->count; i++)
        if (is_first_of_lock(set, i))
            okv_store_lock(store, lock_of(set->changes[i].hash));
    count = atomic_load(&store->bucket_count);
    for (uint32_t i = 0; i < set->count; i++)
        set->changes[i].bucket = okv_linear_bucket(set->changes[i].hash, count);
}

static void unlock_all(struct okv_store *store, const struct okv_store_set *set)
{
    for (uint32_t i = 0; i < set->count; i++)
        if (is_first_of_lock(set, i))
            okv_store_unlock(store, lock_of(set->changes[i].hash));
}

/* ---- the images of a bucket ---- */

static int change_item(struct attempt *attempt, struct okv_store_set_change *change)
{
    struct okv_store_bucket *bucket = &attempt->work->bucket;
    struct okv_store_item *item = okv_store_bucket_find(bucket, change->key, change->key_length);
    const struct okv_entry entry = {
        .key = change->key,
        .key_length = change->key_length,
        .value = change->value,
        .value_length = change->value_length,
        .expiry_ms = change->expiry_ms,
    };

    if (attempt->set->compares && (item ? item->entry.version : 0) != change->version)
        return OKV_ECONFLICT;
    if (change->kind == OKV_STORE_SET_REMOVE && item) {
        okv_store_note_gone(&attempt->store->table, item);
        okv_store_bucket_remove(bucket, item);
    }
    if (change->kind != OKV_STORE_SET_PUT)
        return 0;
    attempt->work->bytes += change->value_length;
    return okv_store_bucket_put(bucket, &attempt->store->table, item, &entry);
}

static int make_space(struct attempt *attempt, size_t count)
{
    size_t needed = attempt->record_count + count;
    size_t capacity = 2 * attempt->record_capacity > needed ? 2 * attempt->record_capacity : needed;

    if (needed <= attempt->record_capacity)
        return 0;
    struct okv_store_record *larger = realloc(attempt->records, capacity * sizeof *larger);
    if (!larger)
        return OKV_ENOMEM;
    attempt->records = larger;
    attempt->record_capacity = capacity;
    return 0;
}

/* Keeps what the working copy has prepared. OKV_ENOMEM: it is cancelled. */
static int keep(struct attempt *attempt)
{
    const struct okv_table *table = &attempt->store->table;
    struct okv_store_bucket *bucket = &attempt->work->bucket;
    size_t bytes = (size_t)bucket->pages * table->bucket_size;
    size_t offsets = okv_store_bucket_fresh(bucket, NULL) + okv_store_bucket_freed(bucket, NULL);
    struct prepared *prepared =
        malloc(sizeof *prepared + bytes + offsets * sizeof *prepared->offsets);

    if (!prepared || make_space(attempt, bucket->gone)) {
        free(prepared);
        okv_store_bucket_cancel(bucket, table);
        return OKV_ENOMEM;
    }
    if (bucket->gone > 0)
        okv_store_bucket_gone(bucket, OKV_STORE_LOG_EVICTION,
                              attempt->records + attempt->record_count);
    attempt->record_count += bucket->gone;
    *prepared = (struct prepared){.next = attempt->prepared,
                                  .number = bucket->number,
                                  .published = bucket->published,
                                  .changed = bucket->changed,
                                  .expired = bucket->expired,
                                  .evicted = bucket->evicted,
                                  .pages = bucket->pages};
    prepared->offsets = (uint64_t *)(prepared->images + bytes); /* pages are of 64 bytes each */
    prepared->fresh_count = okv_store_bucket_fresh(bucket, prepared->offsets);
    prepared->freed_count =
        okv_store_bucket_freed(bucket, prepared->offsets + prepared->fresh_count);
    memcpy(prepared->page_offset, bucket->offset, bucket->pages * sizeof *bucket->offset);
    memcpy(prepared->images, bucket->images, bytes);
    memcpy(prepared->heat, bucket->heat, sizeof prepared->heat);
    attempt->prepared = prepared;
    return 0;
}

/* The changes of one bucket, from `first` on. */
static int prepare_bucket(struct attempt *attempt, uint32_t first, uint32_t end)
{
    struct okv_store_set_change *changes = attempt->set->changes;
    bool has_writes = false, has_puts = false;
    int rc = okv_store_transaction_load_at(attempt->store, attempt->work, changes[first].bucket,
                                           attempt->clock_ms);

    for (uint32_t i = first; i < end && rc == 0; i++) {
        rc = change_item(attempt, &changes[i]);
        has_writes = has_writes || changes[i].kind != OKV_STORE_SET_READ;
        has_puts = has_puts || changes[i].kind == OKV_STORE_SET_PUT;
    }
    if (rc || !has_writes)
        return rc;
    if (has_puts) /* after all that the set compares */
        okv_store_evict_in_bucket(attempt->store, &attempt->work->bucket, false);
    rc = okv_store_bucket_prepare(&attempt->work->bucket, &attempt->store->table);
    for (uint32_t i = first; i < end; i++)
        if (changes[i].kind != OKV_STORE_SET_READ)
            changes[i].next_version = attempt->work->bucket.next_version;
    return rc ? rc : keep(attempt);
}

static int prepare_all(struct attempt *attempt)
{
    const struct okv_store_set *set = attempt->set;
    uint32_t end;
    int rc = 0;

    for (uint32_t first = 0; first < set->count && rc == 0; first = end) {
        for (end = first + 1; end < set->count; end++)
            if (set->changes[end].bucket != set->changes[first].bucket)
                break;
        rc = prepare_bucket(attempt, first, end);
    }
    return rc;
}

static void cancel_all(struct attempt *attempt)
{
    struct prepared *prepared;

    while ((prepared = attempt->prepared)) {
        attempt->prepared = prepared->next;
        for (unsigned i = 0; i < prepared->fresh_count; i++)
            okv_heap_free(&attempt->store->heap, prepared->offsets[i]);
        free(prepared);
    }
}

static void publish_all(struct attempt *attempt)
{
    const struct okv_table *table = &attempt->store->table;
    struct prepared *prepared;

    while ((prepared = attempt->prepared)) {
        const struct okv_store_images images = {.number = prepared->number,
                                                .pages = prepared->pages,
                                                .bytes = prepared->images,
                                                .offset = prepared->page_offset,
                                                .primary_lines = table->bucket_size};
        attempt->prepared = prepared->next;
        okv_store_publish_or_stage(table, &images);
        if (table->heat)
            okv_heat_store(table->heat, prepared->heat, prepared->number);
        for (unsigned i = 0; i < prepared->freed_count; i++)
            okv_store_free(table, prepared->offsets[prepared->fresh_count + i]);
        okv_store_count_difference(attempt->store, &prepared->published, &prepared->changed);
        atomic_fetch_add(&attempt->store->totals.expired, prepared->expired);
        okv_store_count_evicted(attempt->store, &prepared->evicted);
        free(prepared);
    }
}

/* ---- the log ---- */

static struct okv_store_record record_of(const struct okv_store_set_change *change)
{
    struct okv_store_record record = {.kind = OKV_STORE_LOG_SET,
                                      .key = change->key,
                                      .key_length = change->key_length,
                                      .version = change->next_version};

    if (change->kind != OKV_STORE_SET_PUT)
        return record;
    record.value = change->value_length ? change->value : "";
    record.value_length = change->value_length;
    record.expiry_ms = change->expiry_ms;
    return record;
}

static int log_all(struct attempt *attempt)
{
    const struct okv_store_set *set = attempt->set;

    if (!attempt->store->table.pending || !attempt->prepared)
        return 0;
    if (make_space(attempt, set->count))
        return OKV_ENOMEM;
    for (uint32_t i = 0; i < set->count; i++) {
        if (set->changes[i].kind == OKV_STORE_SET_READ)
            continue;
        struct okv_store_record record = record_of(&set->changes[i]);
        attempt->records[attempt->record_count++] = record;
        attempt->work->bytes += record.value_length;
    }
    return okv_store_log_add(&attempt->store->table, attempt->records, attempt->record_count);
}

/* ---- the call ---- */

static uint32_t count_writes(const struct okv_store_set *set)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < set->count; i++)
        count += set->changes[i].kind != OKV_STORE_SET_READ;
    return count;
}

static int try_once(struct okv_store *store, struct okv_store_work *work,
                    const struct okv_store_set *set)
{
    struct attempt attempt = {.store = store, .work = work, .set = set};
    int rc;

    lock_all(store, set);
    attempt.clock_ms = atomic_load(&store->clock_ms);
    qsort(set->changes, set->count, sizeof *set->changes, by_bucket);
    rc = prepare_all(&attempt);
    if (rc == 0)
        rc = log_all(&attempt);
    if (rc)
        cancel_all(&attempt);
    else
        publish_all(&attempt);
    free(attempt.records);
    qsort(set->changes, set->count, sizeof *set->changes, by_lock);
    unlock_all(store, set);
    return rc;
}

/* As if each value had an extent. */
static uint64_t bytes_of(const struct okv_store_set *set)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < set->count; i++)
        if (set->changes[i].kind == OKV_STORE_SET_PUT)
            bytes +=
                okv_heap_size(set->changes[i].key_length + (uint64_t)set->changes[i].value_length);
    return bytes;
}

/* As a single change finds room (commands.c). */
static int try_with_room(struct okv_store *store, struct okv_store_work *work,
                         const struct okv_store_set *set)
{
    const struct okv_store_room_terms terms = {
        set->steps, .waits_for_log = okv_store_is_collecting(&store->table), .in_parts = true};
    struct okv_store_search search;
    const uint64_t bytes = bytes_of(set);
    int rc = okv_store_room_is_kept(store, work) ? OKV_EFULL : try_once(store, work, set);

    if (rc == OKV_EFULL)
        okv_store_search_begin(&search, store, work, &terms);
    while (rc == OKV_EFULL) {
        rc = okv_store_search_room(store, work, bytes, &search);
        if (rc)
            return rc;
        bool goes_on = okv_store_room_is_kept(store, work) || okv_store_evict_lacks(store, bytes);
        rc = goes_on && !search.is_over ? OKV_EFULL : try_once(store, work, set);
    }
    return rc;
}

int okv_store_change_set(struct okv_store *store, struct okv_store_work *work,
                         const struct okv_store_set *set)
{
    uint32_t writes = count_writes(set);
    int rc;

    for (uint32_t i = 0; i < set->count; i++)
        set->changes[i].hash =
            okv_hash_key(set->changes[i].key, set->changes[i].key_length, store->table.hash_seed);
    qsort(set->changes, set->count, sizeof *set->changes, by_lock);
    rc = try_with_room(store, work, set);
    if (rc || writes == 0)
        return rc;
    okv_store_note_taken(store);
    atomic_fetch_add_explicit(&store->totals.changes, writes, memory_order_relaxed);
    for (uint32_t i = 0; i < writes; i++)
        okv_store_resize(store, work);
    return 0;
}
