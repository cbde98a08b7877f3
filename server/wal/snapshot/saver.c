#include "server/wal/snapshot/saver.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/pending.h"
#include "server/wal/background.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/listing.h"
#include "server/wal/preallocate.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/linear.h"

/* Chunks that wait or are being written hold up the log beyond so many bytes, and beyond twice as
 * many what is under way already. */
#define WAITING_MAX (UINT64_C(8) << 20)
/* A value is written from the region from this share on of the length that gets it a file. */
#define PINNED_SHARE 16u
/* Buckets that are saved before the log's thread may have the lock. */
#define BUCKETS_PER_TURN 16

/* ---- records ---- */

static bool begin_chunk(struct okv_snapshot *snapshot, uint64_t size, bool is_to_be_filled)
{
    if (okv_chunks_begin(&snapshot->chunks, size, is_to_be_filled))
        return true;
    snapshot->failure = OKV_ENOMEM;
    return false;
}

static void append(struct okv_snapshot *snapshot, const struct okv_wal_record *record)
{
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    if (okv_chunks_have_room(&snapshot->chunks, size) || begin_chunk(snapshot, size, true))
        okv_chunks_append(&snapshot->chunks, record);
}

/* ---- buckets ---- */

typedef void each_bucket(void *user, uint64_t number, uint64_t of);

/* Calls `each` with the buckets that hold keys of bucket `number` of a table of `count` buckets,
 * after the table got `now`. */
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
    if (okv_chunks_have_room(&snapshot->chunks, size))
        return true;
    if (!begin_chunk(snapshot, okv_wal_record_size(0, 0) + size, is_to_be_filled))
        return false;
    okv_chunks_append(&snapshot->chunks, bucket);
    return true;
}

/* Whether it has a file, or else is written from the region, where a pin keeps it. */
static bool is_long(const struct okv_snapshot *snapshot, const struct okv_entry *entry)
{
    uint64_t least = snapshot->values ? snapshot->values->least / PINNED_SHARE : UINT64_MAX;

    return entry->is_reference && entry->value_length >= OKV_HEAP_PINNED_MIN &&
           entry->value_length >= least;
}

/* Makes a put one of the value's file. A whole snapshot leaves the file to those behind it. */
static bool refer(struct okv_snapshot *snapshot, struct okv_wal_record *record,
                  uint8_t place[OKV_WAL_LONG_SIZE])
{
    struct okv_wal_long at;

    if (!okv_values_find(snapshot->values, record->key, record->key_length, record->version, &at) ||
        snapshot->is_whole)
        return false;
    okv_wal_long_encode(&at, place);
    record->kind = OKV_WAL_LONG;
    record->value = place;
    record->value_length = OKV_WAL_LONG_SIZE;
    return true;
}

/* The value stays where it is. False: an append pins it. Nobody frees it now, as the published
 * image refers to it. */
static bool save_pinned(struct okv_snapshot *snapshot, const struct okv_wal_record *record,
                        uint64_t extent, const struct okv_wal_record *bucket)
{
    return make_room(snapshot, okv_wal_record_size(record->key_length, 0), false, bucket) &&
           okv_chunks_append_pinned(&snapshot->chunks, record, extent);
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
        okv_chunks_append(&snapshot->chunks, &record);
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
    append(snapshot, &record);
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

static void save(struct okv_snapshot *snapshot, uint64_t number)
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
    save(user, number);
}

/* Bucket `number` of the table of now is about to change. */
static void save_before(struct okv_snapshot *snapshot, uint64_t number)
{
    each_now(number, atomic_load(&snapshot->store->bucket_count), snapshot->header.bucket_count,
             save_then, snapshot);
}

/* Waits until so many bytes at most are to be written, or the snapshot has ended. */
static void await_waiting(struct okv_snapshot *snapshot, uint64_t most)
{
    while (snapshot->is_active && !snapshot->failure && snapshot->chunks.weight > most)
        pthread_cond_wait(&snapshot->changed, &snapshot->lock);
}

static void save_pending(void *user, uint64_t number)
{
    struct okv_snapshot *snapshot = user;

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

void okv_snapshot_before(struct okv_snapshot *snapshot, uint64_t number)
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
    atomic_store(&snapshot->is_crowded,
                 snapshot->is_active && snapshot->chunks.weight > WAITING_MAX);
    pthread_mutex_unlock(&snapshot->lock);
}

/* ---- the log's thread ---- */

void okv_snapshot_lock(struct okv_snapshot *snapshot)
{
    atomic_store(&snapshot->is_wanted, true);
    pthread_mutex_lock(&snapshot->lock);
    atomic_store(&snapshot->is_wanted, false);
    if (snapshot->is_active)
        okv_store_pending_each(snapshot->store, save_pending, snapshot);
}

void okv_snapshot_unlock(struct okv_snapshot *snapshot)
{
    pthread_mutex_unlock(&snapshot->lock);
}

int okv_snapshot_begin(struct okv_snapshot *snapshot, const struct okv_wal_header *header,
                       uint64_t wall_ms)
{
    uint64_t count = atomic_load(&snapshot->store->bucket_count);
    atomic_uint_fast64_t *saved = calloc((count + 63) / 64, sizeof *saved);

    snapshot->failure = saved ? 0 : OKV_ENOMEM;
    if (!saved)
        return OKV_ENOMEM;
    free(snapshot->saved); /* here, as no change is under way that looks into it */
    snapshot->header = *header;
    snapshot->header.bucket_count = count;
    snapshot->header.is_relaxed = false;
    snapshot->header.bucket_size = snapshot->store->table.bucket_size;
    snapshot->clock_ms = atomic_load(&snapshot->store->clock_ms);
    snapshot->wall_ms = wall_ms;
    snapshot->saved = saved;
    snapshot->next = snapshot->items = 0;
    snapshot->is_active = true;
    pthread_cond_broadcast(&snapshot->changed);
    return 0;
}

void okv_snapshot_add(void *snapshot, const struct okv_wal_record *record)
{
    append(snapshot, record);
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

/* ---- the snapshot's thread ---- */

/* The file that is written. */
struct output {
    struct okv_file *file;
    uint64_t position; /* of the next frame */
};

static int write_header(struct okv_snapshot *snapshot, struct output *output)
{
    uint8_t *bytes = calloc(1, OKV_WAL_HEADER_SIZE);
    struct iovec vector = {bytes, OKV_WAL_HEADER_SIZE};

    if (!bytes)
        return -ENOMEM;
    okv_wal_header_encode(&snapshot->header, bytes);
    int rc = snapshot->files->ops->write(output->file, &vector, 1, 0);
    free(bytes);
    return rc;
}

static int write_chunk(struct okv_snapshot *snapshot, struct output *output,
                       struct okv_chunk *chunk)
{
    struct okv_wal_frame frame = {
        .position = output->position,
        .durable = output->position,
        .clock_ms = snapshot->clock_ms,
        .wall_ms = snapshot->wall_ms,
    };
    int rc = okv_chunk_write(chunk, snapshot->files, output->file, &frame, snapshot->header.number,
                             OKV_WAL_HEADER_SIZE + output->position, snapshot->is_last);

    output->position += chunk->length;
    return rc;
}

/* It holds up nobody any more. */
static void end_chunk(struct okv_snapshot *snapshot, struct okv_chunk *chunk)
{
    pthread_mutex_lock(&snapshot->lock);
    snapshot->chunks.weight -= chunk->weight;
    bool was_crowded =
        snapshot->chunks.weight <= WAITING_MAX && atomic_exchange(&snapshot->is_crowded, false);
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
    okv_chunk_free(chunk, &snapshot->store->heap);
    if (was_crowded)
        snapshot->notify(snapshot->user);
}

static int write_chunks(struct okv_snapshot *snapshot, struct output *output,
                        struct okv_chunk *chunk)
{
    int rc = 0;

    while (chunk) {
        struct okv_chunk *next = chunk->next;
        if (rc == 0)
            rc = write_chunk(snapshot, output, chunk);
        end_chunk(snapshot, chunk);
        chunk = next;
    }
    return rc;
}

/* Saves buckets until there is a whole chunk, or nothing more to save. False: nothing is left. */
static bool collect(struct okv_snapshot *snapshot, struct okv_chunk **chunks)
{
    uint64_t count = snapshot->header.bucket_count;
    bool is_last = false;

    do {
        while (atomic_load(&snapshot->is_wanted))
            sched_yield();
        pthread_mutex_lock(&snapshot->lock);
        for (unsigned i = 0; i < BUCKETS_PER_TURN && snapshot->next < count &&
                             snapshot->chunks.weight <= WAITING_MAX;
             i++)
            save(snapshot, snapshot->next++);
        is_last = snapshot->next == count;
        if (is_last || okv_chunks_has_whole(&snapshot->chunks) || snapshot->failure)
            break;
        pthread_mutex_unlock(&snapshot->lock);
    } while (true);
    if (is_last) {
        const struct okv_wal_record end = {.kind = OKV_WAL_END, .version = snapshot->items};
        append(snapshot, &end);
    }
    *chunks = okv_chunks_take(&snapshot->chunks);
    bool goes_on = !is_last && !snapshot->failure;
    pthread_mutex_unlock(&snapshot->lock);
    return goes_on;
}

static int failure_of(struct okv_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    int rc = snapshot->failure;
    pthread_mutex_unlock(&snapshot->lock);
    return rc ? -EIO : 0;
}

static int write_all(struct okv_snapshot *snapshot, struct output *output)
{
    struct okv_chunk *chunks;
    bool goes_on = true;
    int rc = write_header(snapshot, output);

    while (rc == 0 && goes_on) {
        goes_on = collect(snapshot, &chunks);
        rc = write_chunks(snapshot, output, chunks);
        if (rc == 0)
            rc = failure_of(snapshot);
    }
    return rc ? rc : snapshot->files->ops->sync(output->file);
}

/* The file gets its name when it is whole and durable. Only then what it replaces is removed. */
static int make(struct okv_snapshot *snapshot, uint64_t *bytes)
{
    struct okv_files *files = snapshot->files;
    struct output output = {0};
    char name[OKV_WAL_NAME_SIZE];

    files->ops->remove(files, OKV_WAL_PART); /* of one that failed */
    int rc = files->ops->create(files, OKV_WAL_PART, &output.file);
    if (rc)
        return rc;
    rc = write_all(snapshot, &output);
    files->ops->close(output.file);
    okv_wal_name(OKV_WAL_SNAPSHOT, snapshot->header.number, name);
    if (rc == 0)
        rc = files->ops->rename(files, OKV_WAL_PART, name);
    if (rc == 0)
        rc = files->ops->sync_names(files);
    if (rc == 0) {
        okv_wal_remove_before(files, snapshot->header.number, true); /* or the next one does */
        okv_wal_room_trim_spare(files);
        if (snapshot->values)
            okv_values_sweep(snapshot->values);
    } else {
        files->ops->remove(files, OKV_WAL_PART); /* its room is the log's */
    }
    *bytes = OKV_WAL_HEADER_SIZE + output.position;
    return rc;
}

void okv_snapshot_note_end(struct okv_snapshot *snapshot, uint64_t number)
{
    uint64_t before = atomic_load(&snapshot->ended);

    while (before < number && !atomic_compare_exchange_weak(&snapshot->ended, &before, number))
        continue;
}

static void end(struct okv_snapshot *snapshot, int rc, uint64_t bytes, uint64_t began_ns)
{
    pthread_mutex_lock(&snapshot->lock);
    okv_chunks_drop(&snapshot->chunks);
    atomic_store(&snapshot->is_crowded, false);
    if (rc && !snapshot->failure)
        snapshot->failure = okv_wal_room_error(rc);
    if (rc) {
        atomic_fetch_add(&snapshot->failed, 1);
    } else {
        atomic_store(&snapshot->last_bytes, bytes);
        atomic_store(&snapshot->last_wall_ms, snapshot->wall_ms);
        atomic_store(&snapshot->last_ns, okv_clock_ns() - began_ns);
        atomic_fetch_add(&snapshot->completed, 1);
        if (snapshot->is_whole) {
            atomic_store(&snapshot->whole_ns, okv_clock_ns());
            atomic_store(&snapshot->whole, snapshot->header.number);
        }
        atomic_store(&snapshot->made, snapshot->header.number);
    }
    okv_snapshot_note_end(snapshot, snapshot->header.number);
    snapshot->is_active = false;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
    snapshot->notify(snapshot->user);
}

static void *run(void *user)
{
    struct okv_snapshot *snapshot = user;
    uint64_t bytes = 0;

    okv_background_begin();
    for (;;) {
        pthread_mutex_lock(&snapshot->lock);
        while (!snapshot->is_active && !snapshot->has_to_stop)
            pthread_cond_wait(&snapshot->changed, &snapshot->lock);
        bool is_active = snapshot->is_active;
        pthread_mutex_unlock(&snapshot->lock);
        if (!is_active)
            return NULL;
        uint64_t began_ns = okv_clock_ns();
        int rc = make(snapshot, &bytes);
        end(snapshot, rc, bytes, began_ns);
    }
}

int okv_snapshot_init(struct okv_snapshot *snapshot, struct okv_files *files,
                      struct okv_store *store, void (*notify)(void *user), void *user)
{
    *snapshot = (struct okv_snapshot){.files = files,
                                      .store = store,
                                      .chunks.heap = &store->heap,
                                      .notify = notify,
                                      .user = user};
    int rc = okv_store_bucket_init(&snapshot->bucket, store->table.bucket_size);
    if (rc)
        return rc;
    pthread_mutex_init(&snapshot->lock, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
    if (pthread_create(&snapshot->thread, NULL, run, snapshot) == 0)
        return 0;
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->lock);
    okv_store_bucket_fini(&snapshot->bucket);
    return OKV_ENOMEM;
}

void okv_snapshot_fini(struct okv_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    snapshot->has_to_stop = true;
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
    pthread_join(snapshot->thread, NULL);
    free(snapshot->saved);
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->lock);
    okv_store_bucket_fini(&snapshot->bucket);
}
