#include "server/wal/snapshot/writer.h"

#include <sched.h>
#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/wal/background.h"
#include "server/wal/blob/blobs.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/preallocate.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

/* Buckets that are saved before the log's thread may have the lock. */
#define BUCKETS_PER_TURN 16

static int write_chunk(struct okv_snapshot *snapshot, struct okv_background *output,
                       struct okv_snapshot_chunk *chunk)
{
    const uint64_t position = output->end - OKV_WAL_HEADER_SIZE;
    struct okv_wal_frame frame = {
        .position = position,
        .durable = position,
        .epoch = snapshot->header.epoch,
        .clock_ms = snapshot->clock_ms,
        .wall_ms = snapshot->wall_ms,
    };

    return okv_snapshot_chunk_write(chunk, output, &frame, snapshot->header.number);
}

/* Ends the throttling that it caused. */
static void end_chunk(struct okv_snapshot *snapshot, struct okv_snapshot_chunk *chunk)
{
    pthread_mutex_lock(&snapshot->lock);
    snapshot->buffer.weight -= chunk->weight;
    bool was_throttled = snapshot->buffer.weight <= OKV_SNAPSHOT_WAITING_MAX &&
                         atomic_exchange(&snapshot->is_throttled, false);
    pthread_cond_broadcast(&snapshot->changed);
    pthread_mutex_unlock(&snapshot->lock);
    okv_snapshot_chunk_free(chunk, &snapshot->store->heap);
    if (was_throttled)
        snapshot->notify(snapshot->user);
}

static int write_chunks(struct okv_snapshot *snapshot, struct okv_background *output,
                        struct okv_snapshot_chunk *chunk)
{
    int rc = 0;

    while (chunk) {
        struct okv_snapshot_chunk *next = chunk->next;
        if (rc == 0)
            rc = write_chunk(snapshot, output, chunk);
        end_chunk(snapshot, chunk);
        chunk = next;
    }
    return rc;
}

/* Saves buckets until there is a full chunk, or nothing more to save. False: nothing is left. */
static bool save_buckets(struct okv_snapshot *snapshot, struct okv_snapshot_chunk **chunks)
{
    uint64_t count = snapshot->header.bucket_count;
    bool is_last = false;

    do {
        while (atomic_load(&snapshot->is_wanted))
            sched_yield();
        pthread_mutex_lock(&snapshot->lock);
        for (unsigned i = 0; i < BUCKETS_PER_TURN && snapshot->next < count &&
                             snapshot->buffer.weight <= OKV_SNAPSHOT_WAITING_MAX;
             i++)
            okv_snapshot_save_bucket(snapshot, snapshot->next++);
        is_last = snapshot->next == count;
        if (is_last || okv_snapshot_buffer_has_full_chunk(&snapshot->buffer) || snapshot->failure)
            break;
        pthread_mutex_unlock(&snapshot->lock);
    } while (true);
    if (is_last) {
        const struct okv_wal_record end = {.kind = OKV_WAL_END, .version = snapshot->items};
        okv_snapshot_add(snapshot, &end);
    }
    *chunks = okv_snapshot_buffer_take(&snapshot->buffer);
    bool continues = !is_last && !snapshot->failure;
    pthread_mutex_unlock(&snapshot->lock);
    return continues;
}

static int failure_of(struct okv_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    int rc = snapshot->failure;
    pthread_mutex_unlock(&snapshot->lock);
    return rc;
}

static int write_all(struct okv_snapshot *snapshot, struct okv_background *output)
{
    struct okv_snapshot_chunk *chunks;
    bool continues = true;
    int rc = okv_wal_header_write(snapshot->files, output->file, &snapshot->header, NULL);

    while (rc == 0 && continues) {
        continues = save_buckets(snapshot, &chunks);
        rc = write_chunks(snapshot, output, chunks);
        if (rc == 0)
            rc = failure_of(snapshot);
    }
    return rc ? rc : snapshot->files->ops->sync(output->file, NULL);
}

/* The file gets its name when it is complete and durable. Only then the files that it replaces are
 * removed. */
static int make(struct okv_snapshot *snapshot, uint64_t *bytes)
{
    struct okv_files *files = snapshot->files;
    struct okv_background output = {.files = files,
                                    .end = OKV_WAL_HEADER_SIZE,
                                    .on_disk = OKV_WAL_HEADER_SIZE,
                                    .is_alone = snapshot->is_last};
    char name[OKV_WAL_NAME_SIZE];

    files->ops->remove(files, OKV_WAL_PART, NULL); /* of one that failed */
    int rc = files->ops->create(files, OKV_WAL_PART, &output.file, NULL);
    if (rc)
        return rc;
    rc = write_all(snapshot, &output);
    files->ops->close(output.file);
    okv_wal_name(OKV_WAL_SNAPSHOT, snapshot->header.number, name);
    if (rc == 0)
        rc = files->ops->rename(files, OKV_WAL_PART, name, NULL);
    if (rc == 0)
        rc = files->ops->sync_names(files, NULL);
    if (rc == 0) {
        okv_wal_remove_before(files, snapshot->header.number, true,
                              NULL); /* or the next one does */
        okv_wal_recycled_trim(files);
        if (snapshot->blobs)
            okv_blobs_remove_old(snapshot->blobs);
    } else {
        files->ops->remove(files, OKV_WAL_PART, NULL); /* its space is the log's */
    }
    *bytes = output.end;
    return rc;
}

static void end(struct okv_snapshot *snapshot, int rc, uint64_t bytes, uint64_t began_ns)
{
    pthread_mutex_lock(&snapshot->lock);
    okv_snapshot_buffer_drop(&snapshot->buffer);
    atomic_store(&snapshot->is_throttled, false);
    if (rc && !snapshot->failure)
        snapshot->failure = rc;
    if (rc) {
        atomic_fetch_add(&snapshot->failed, 1);
    } else {
        atomic_store(&snapshot->last_bytes, bytes);
        atomic_store(&snapshot->last_wall_ms, snapshot->wall_ms);
        atomic_store(&snapshot->last_ns, okv_clock_ns() - began_ns);
        atomic_fetch_add(&snapshot->completed, 1);
        if (snapshot->is_self_contained) {
            atomic_store(&snapshot->self_contained_ns, okv_clock_ns());
            atomic_store(&snapshot->self_contained, snapshot->header.number);
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
                      struct okv_store *store, void (*notify)(void *user), void *user,
                      struct okv_diag *why)
{
    *snapshot = (struct okv_snapshot){.files = files,
                                      .store = store,
                                      .buffer.heap = &store->heap,
                                      .notify = notify,
                                      .user = user};
    int rc = okv_store_bucket_init(&snapshot->bucket, store->table.bucket_size);
    if (rc)
        return rc;
    pthread_mutex_init(&snapshot->lock, NULL);
    pthread_cond_init(&snapshot->changed, NULL);
    rc = okv_thread_start(&snapshot->thread, run, snapshot, why);
    if (rc == 0)
        return 0;
    pthread_cond_destroy(&snapshot->changed);
    pthread_mutex_destroy(&snapshot->lock);
    okv_store_bucket_fini(&snapshot->bucket);
    return rc;
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
