#include "server/wal/snapshot/saver.h"

#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/blob/blobs.h"
#include "shared/base/error.h"
#include "shared/format/linear.h"

#define WAITING_MAX OKV_SNAPSHOT_WAITING_MAX
/* A value of this share of the length of a blob is written from the region. */
#define PINNED_SHARE 16u

/* ---- records ---- */

static bool add_chunk(struct okv_snapshot *snapshot, uint64_t size, bool is_to_be_filled)
{
    if (okv_snapshot_buffer_add_chunk(&snapshot->buffer, size, is_to_be_filled))
        return true;
    snapshot->failure = OKV_ENOMEM;
    return false;
}

void okv_snapshot_add(void *user, const struct okv_wal_record *record)
{
    struct okv_snapshot *snapshot = user;
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    if (okv_snapshot_buffer_has_room(&snapshot->buffer, size) || add_chunk(snapshot, size, true))
        okv_snapshot_buffer_append(&snapshot->buffer, record);
}

/* ---- buckets ---- */

typedef void each_bucket(void *user, uint64_t number, uint64_t of);

/* Calls `each` with the buckets of a table of `now` buckets that hold keys of bucket `number` of a
 * table of `count` buckets. */
static void each_now(uint64_t number, uint64_t count, uint64_t now, each_bucket *each, void *user)
{
    uint64_t step = UINT64_C(1) << okv_linear_depth(number, count);

    if (number >= now) {
        each(user, okv_linear_bucket(number, now), number);
        return;
    }
    for (uint64_t other = number; other < now; other += step)
        each(user, other, number);
}

/* Ensures that the last chunk has room for a record of this bucket. */
static bool make_room(struct okv_snapshot *snapshot, uint64_t size, bool is_to_be_filled,
                      const struct okv_wal_record *bucket)
{
    if (okv_snapshot_buffer_has_room(&snapshot->buffer, size))
        return true;
    if (!add_chunk(snapshot, okv_wal_record_size(0, 0) + size, is_to_be_filled))
        return false;
    okv_snapshot_buffer_append(&snapshot->buffer, bucket);
    return true;
}

/* Whether it has a blob file, or else is written from the region, where a pin keeps it. */
static bool is_long(const struct okv_snapshot *snapshot, const struct okv_entry *entry)
{
    uint64_t least = snapshot->blobs ? snapshot->blobs->min_length / PINNED_SHARE : UINT64_MAX;

    return entry->is_reference && entry->value_length >= OKV_HEAP_PINNED_MIN &&
           entry->value_length >= least;
}

/* Replaces the value of a put by a reference to its blob file. A self-contained snapshot does not,
 * but keeps the file for later ones. */
static bool refer(struct okv_snapshot *snapshot, struct okv_wal_record *record,
                  uint8_t place[OKV_WAL_LONG_SIZE])
{
    struct okv_wal_long at;

    if (!okv_blobs_find(snapshot->blobs, record->key, record->key_length, record->version, &at) ||
        snapshot->is_self_contained)
        return false;
    okv_wal_long_encode(&at, place);
    record->kind = OKV_WAL_LONG;
    record->value = place;
    record->value_length = OKV_WAL_LONG_SIZE;
    return true;
}

/* The value stays in the region. False: an append pins it. Nobody frees it now, as the published
 * image refers to it. */
static bool save_pinned(struct okv_snapshot *snapshot, const struct okv_wal_record *record,
                        uint64_t extent, const struct okv_wal_record *bucket)
{
    return make_room(snapshot, okv_wal_record_size(record->key_length, 0), false, bucket) &&
           okv_snapshot_buffer_append_pinned(&snapshot->buffer, record, extent);
}

static void save_item(struct okv_snapshot *snapshot, const struct okv_entry *entry,
                      const struct okv_wal_record *bucket)
{
    uint8_t place[OKV_WAL_LONG_SIZE];
    struct okv_wal_record record = {
        .kind = OKV_WAL_PUT,
        .key = entry->key,
        .key_length = entry->key_length,
        .value = entry->value,
        .value_length = entry->value_length,
        .version = entry->version,
        .expiry_ms = entry->expiry_ms,
    };

    snapshot->items++;
    if (is_long(snapshot, entry) && !refer(snapshot, &record, place) &&
        save_pinned(snapshot, &record, entry->extent, bucket))
        return;
    uint64_t size = okv_wal_record_size(record.key_length, record.value_length);
    if (make_room(snapshot, size, true, bucket))
        okv_snapshot_buffer_append(&snapshot->buffer, &record);
}

/* Saves the items of bucket `number` that were in bucket `of`. */
static void save_part(void *user, uint64_t number, uint64_t of)
{
    struct okv_snapshot *snapshot = user;
    struct okv_store_bucket *bucket = &snapshot->bucket;
    const struct okv_table *table = &snapshot->store->table;
    int rc = okv_store_bucket_load_published(bucket, table, number);

    if (rc) {
        snapshot->failure = rc;
        return;
    }
    const struct okv_wal_record record = {
        .kind = OKV_WAL_BUCKET, .version = bucket->version, .bucket = of};
    okv_snapshot_add(snapshot, &record);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        const struct okv_entry *entry = &bucket->items[i].entry;
        uint64_t hash = okv_hash_key(entry->key, entry->key_length, table->hash_seed);
        if (okv_linear_bucket(hash, snapshot->header.bucket_count) == of)
            save_item(snapshot, entry, &record);
    }
}

static bool is_saved(struct okv_snapshot *snapshot, uint64_t number)
{
    return atomic_load(&snapshot->saved[number / 64]) >> number % 64 & 1;
}

void okv_snapshot_save_bucket(struct okv_snapshot *snapshot, uint64_t number)
{
    if (snapshot->failure || is_saved(snapshot, number))
        return;
    each_now(number, snapshot->header.bucket_count, atomic_load(&snapshot->store->bucket_count),
             save_part, snapshot);
    atomic_fetch_or(&snapshot->saved[number / 64], UINT64_C(1) << number % 64);
}

static void save_then(void *user, uint64_t number, uint64_t of)
{
    (void)of;
    okv_snapshot_save_bucket(user, number);
}

/* Bucket `number` of the current table is about to change. */
static void save_before(struct okv_snapshot *snapshot, uint64_t number)
{
    each_now(number, atomic_load(&snapshot->store->bucket_count), snapshot->header.bucket_count,
             save_then, snapshot);
}

/* Waits until at most `most` bytes are to be written, or the snapshot has ended. */
static void await_waiting(struct okv_snapshot *snapshot, uint64_t most)
{
    while (snapshot->is_active && !snapshot->failure && snapshot->buffer.weight > most)
        pthread_cond_wait(&snapshot->changed, &snapshot->lock);
}

void okv_snapshot_before_publication(void *user, uint64_t number)
{
    struct okv_snapshot *snapshot = user;

    if (!snapshot->is_active || number >= atomic_load(&snapshot->store->bucket_count))
        return;
    await_waiting(snapshot, WAITING_MAX);
    if (snapshot->is_active)
        save_before(snapshot, number);
}

/* ---- changes that are published at once ---- */

struct search {
    struct okv_snapshot *snapshot;
    bool has_unsaved;
};

static void note_unsaved(void *user, uint64_t number, uint64_t of)
{
    struct search *search = user;

    (void)of;
    search->has_unsaved |= !is_saved(search->snapshot, number);
}

void okv_snapshot_before_change(struct okv_snapshot *snapshot, uint64_t number)
{
    struct search search = {.snapshot = snapshot};
    uint64_t now = atomic_load(&snapshot->store->bucket_count);

    if (!atomic_load(&snapshot->is_active) || number >= now)
        return;
    each_now(number, now, snapshot->header.bucket_count, note_unsaved, &search);
    if (!search.has_unsaved)
        return;
    pthread_mutex_lock(&snapshot->lock);
    await_waiting(snapshot, 2 * WAITING_MAX);
    if (snapshot->is_active)
        save_before(snapshot, number);
    atomic_store(&snapshot->is_throttled,
                 snapshot->is_active && snapshot->buffer.weight > WAITING_MAX);
    pthread_mutex_unlock(&snapshot->lock);
}

/* ---- the log's thread ---- */

void okv_snapshot_lock(struct okv_snapshot *snapshot)
{
    atomic_store(&snapshot->is_wanted, true);
    pthread_mutex_lock(&snapshot->lock);
    atomic_store(&snapshot->is_wanted, false);
    if (snapshot->is_active)
        okv_store_pending_each(snapshot->store, okv_snapshot_before_publication, snapshot);
}

void okv_snapshot_unlock(struct okv_snapshot *snapshot)
{
    pthread_mutex_unlock(&snapshot->lock);
}

int okv_snapshot_begin(struct okv_snapshot *snapshot, const struct okv_wal_header *header)
{
    uint64_t count = atomic_load(&snapshot->store->bucket_count);
    atomic_uint_fast64_t *saved = calloc((count + 63) / 64, sizeof *saved);

    snapshot->failure = saved ? 0 : OKV_ENOMEM;
    if (!saved)
        return OKV_ENOMEM;
    free(snapshot->saved); /* here, as no change is under way that looks into it */
    snapshot->header = *header;
    snapshot->header.bucket_count = count;
    snapshot->header.is_relaxed = snapshot->header.is_clean = false;
    snapshot->header.raise = 0;
    snapshot->header.bucket_size = snapshot->store->table.bucket_size;
    snapshot->clock_ms = atomic_load(&snapshot->store->clock_ms);
    snapshot->wall_ms = okv_store_clock_wall_ms(snapshot->store);
    snapshot->saved = saved;
    snapshot->next = snapshot->items = 0;
    snapshot->is_active = true;
    pthread_cond_broadcast(&snapshot->changed);
    return 0;
}

bool okv_snapshot_is_active(struct okv_snapshot *snapshot)
{
    return atomic_load(&snapshot->is_active);
}

int okv_snapshot_await(struct okv_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    while (snapshot->is_active)
        pthread_cond_wait(&snapshot->changed, &snapshot->lock);
    int rc = snapshot->failure;
    pthread_mutex_unlock(&snapshot->lock);
    return rc;
}

void okv_snapshot_note_end(struct okv_snapshot *snapshot, uint64_t number)
{
    uint64_t before = atomic_load(&snapshot->ended);

    while (before < number && !atomic_compare_exchange_weak(&snapshot->ended, &before, number))
        continue;
}
