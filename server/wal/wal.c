#include "server/wal/wal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#include "server/store/store.h"
#include "server/wal/listing.h"
#include "server/wal/replay.h"
#include "server/wal/segment.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* How long a batch waits for as many records as the last one had: this share of a sync. */
#define GATHER_SHARE 5
/* Of the mean time of a sync, what the last one counts. */
#define SYNC_WEIGHT 8
/* Resizing steps after a batch. */
#define RESIZES_MAX 256u
/* A log that is shorter is no reason for a snapshot. */
#define SNAPSHOT_LENGTH_MIN (UINT64_C(16) << 20)
#define FRAME_HEADER sizeof(struct okv_wal_wire_frame)
/* At which a log may begin. */
#define POSITIONS (UINT64_C(1) << 56)

/* ---- records ---- */

static void wake(void *user)
{
    struct okv_wal *wal = user;

    pthread_mutex_lock(&wal->lock);
    wal->is_wanted = true;
    pthread_cond_signal(&wal->wanted);
    pthread_mutex_unlock(&wal->lock);
}

/* Under the lock. */
static int make_space(struct okv_wal *wal, uint64_t size, bool may_wait)
{
    uint64_t needed = wal->used + size;

    if (may_wait && wal->records > 0 && needed > OKV_WAL_BATCH_BYTES)
        return OKV_EAGAIN;
    if (needed <= wal->capacity)
        return 0;
    uint64_t capacity = needed < 2 * wal->capacity ? 2 * wal->capacity : needed;
    uint8_t *larger = realloc(wal->bytes, capacity);
    if (!larger)
        return OKV_ENOMEM;
    wal->bytes = larger;
    wal->capacity = capacity;
    return 0;
}

/* Keeps the lock until end_record(): the version is not known yet. */
static int begin_record(void *user, const struct okv_store_record *record)
{
    struct okv_wal *wal = user;
    const struct okv_wal_record wire = {
        .kind = record->value ? OKV_WAL_PUT : OKV_WAL_DELETE,
        .key = record->key,
        .key_length = record->key_length,
        .value = record->value,
        .value_length = record->value_length,
        .expiry_ms = record->expiry_ms,
    };
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    if (atomic_load(&wal->failure))
        return OKV_EREADONLY;
    if (wal->room.is_full)
        return OKV_EDISKFULL;
    pthread_mutex_lock(&wal->lock);
    int rc = make_space(wal, size, record->value != NULL);
    if (rc) {
        pthread_mutex_unlock(&wal->lock);
        wake(wal);
        return rc;
    }
    okv_wal_record_encode(&wire, wal->bytes + wal->used);
    wal->begun = size;
    return 0;
}

static void end_record(void *user, bool was_made, uint64_t version)
{
    struct okv_wal *wal = user;

    if (was_made) {
        okv_wal_record_set_version(wal->bytes + wal->used, version);
        wal->used += wal->begun;
        wal->records++;
    }
    pthread_mutex_unlock(&wal->lock);
}

static int append(struct okv_wal *wal, const struct okv_wal_record *record)
{
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);
    int rc = make_space(wal, size, false);

    if (rc)
        return rc;
    okv_wal_record_encode(record, wal->bytes + wal->used);
    wal->used += size;
    return 0;
}

void okv_wal_add_reply(struct okv_wal *wal, const struct okv_wal_record *client, bool *knows_client,
                       const struct okv_wal_record *reply)
{
    int rc = 0;

    /* Without room there is no change either. */
    if (atomic_load(&wal->failure) || wal->room.is_full)
        return;
    pthread_mutex_lock(&wal->lock);
    if (!*knows_client)
        rc = append(wal, client);
    *knows_client |= rc == 0;
    if (rc == 0)
        rc = append(wal, reply);
    wal->lacks_reply |= rc != 0;
    pthread_mutex_unlock(&wal->lock);
}

/* ---- the gate ---- */

bool okv_wal_enter(struct okv_wal *wal)
{
    return pthread_rwlock_tryrdlock(&wal->gate) == 0;
}

void okv_wal_leave(struct okv_wal *wal)
{
    pthread_rwlock_unlock(&wal->gate);
}

uint64_t okv_wal_hold(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    if (!wal->is_wanted || wal->records >= wal->records_before)
        pthread_cond_signal(&wal->wanted);
    wal->is_wanted = true;
    pthread_mutex_unlock(&wal->lock);
    return wal->batch;
}

bool okv_wal_is_done(struct okv_wal *wal, uint64_t batch, int *status)
{
    if (atomic_load_explicit(&wal->done, memory_order_acquire) < batch)
        return false;
    *status = atomic_load(&wal->unknown) == batch ? OKV_EUNKNOWN : 0;
    return true;
}

/* ---- the thread ---- */

static int write_frame(struct okv_wal *wal, uint64_t length)
{
    const struct okv_wal_frame frame = {
        .length = length,
        .position = wal->position,
        .durable = wal->durable,
        .clock_ms = atomic_load(&wal->store->clock_ms),
        .wall_ms = okv_clock_wall_ms(),
    };
    struct iovec vector = {wal->bytes, length};
    uint64_t offset = OKV_WAL_HEADER_SIZE + wal->position - wal->segment.position;

    okv_wal_frame_seal(&frame, wal->segment.number, wal->bytes);
    int rc = wal->files->ops->write(wal->file, &vector, 1, offset);
    if (rc)
        return rc;
    uint64_t begin = okv_clock_ns();
    rc = wal->files->ops->sync(wal->file);
    uint64_t taken = okv_clock_ns() - begin;
    okv_wal_histogram_add(&wal->syncs, taken);
    wal->sync_ns = (wal->sync_ns * (SYNC_WEIGHT - 1) + taken) / SYNC_WEIGHT;
    if (rc == 0)
        wal->durable = wal->position += length;
    atomic_store(&wal->length, wal->position - wal->snapshot_begun);
    return rc;
}

/* Nobody knows whether the disk has this batch. */
static void drop_batch(struct okv_wal *wal, int error)
{
    okv_store_pending_drop(wal->store);
    if (!atomic_load(&wal->failure)) /* nothing changes after the first one */
        atomic_store(&wal->unknown, wal->batch);
    okv_wal_fail(wal, error);
}

/* ---- snapshots ---- */

/* The log's thread takes the wish under the lock, and only then begins the segment. */
uint64_t okv_wal_snapshot(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t number = atomic_load(&wal->number) + 1;
    if (atomic_load(&wal->snapshot.ended) == number) /* its segment could not be begun */
        atomic_store(&wal->snapshot.ended, number - 1);
    wal->wants_snapshot = true;
    pthread_mutex_unlock(&wal->lock);
    wake(wal);
    return number;
}

int okv_wal_snapshot_state(struct okv_wal *wal, uint64_t number, uint64_t *newest)
{
    struct okv_snapshot *snapshot = &wal->snapshot;
    bool is_ended = atomic_load(&snapshot->ended) >= number;

    *newest = atomic_load(&snapshot->made);
    if (*newest >= number)
        return 0;
    return is_ended || atomic_load(&wal->failure) ? OKV_ENOTFOUND : OKV_EAGAIN;
}

/* Whoever waits for it learns that it failed. */
static void end_unbegun(struct okv_wal *wal)
{
    atomic_fetch_add(&wal->snapshot.failed, 1);
    atomic_store(&wal->snapshot.ended, wal->segment.number + 1);
}

static void begin_snapshot(struct okv_wal *wal)
{
    wal->snapshot_tried = wal->position;
    int rc = okv_wal_begin_segment(wal);
    if (rc) {
        wal->snapshot.failure = okv_wal_room_error(rc);
        end_unbegun(wal);
        return;
    }
    wal->snapshot_begun = wal->position;
    atomic_store(&wal->length, 0);
    if (okv_snapshot_begin(&wal->snapshot, &wal->segment, okv_clock_wall_ms()) == 0) {
        if (wal->clients)
            wal->clients->save(wal->clients->user, okv_snapshot_add, &wal->snapshot);
        return;
    }
    atomic_fetch_add(&wal->snapshot.failed, 1);
    atomic_store(&wal->snapshot.ended, wal->segment.number);
}

static bool is_long(const struct okv_wal *wal)
{
    uint64_t length = wal->position - wal->snapshot_tried;

    return wal->snapshot_ratio > 0 && length > SNAPSHOT_LENGTH_MIN &&
           (double)length > wal->snapshot_ratio * (double)okv_heap_used(&wal->store->heap);
}

static bool takes_wish(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    bool is_wished = wal->wants_snapshot;
    wal->wants_snapshot = false;
    pthread_mutex_unlock(&wal->lock);
    return is_wished;
}

/* The snapshot's lock is held, and the gate is closed. */
static void consider_snapshot(struct okv_wal *wal)
{
    if (wal->snapshot.is_active || atomic_load(&wal->failure))
        return;
    if (takes_wish(wal) || is_long(wal))
        begin_snapshot(wal);
}

/* The snapshot's lock is held, or its thread has ended. */
static void report_snapshot(struct okv_wal *wal)
{
    uint64_t failed = atomic_load(&wal->snapshot.failed);

    if (failed == wal->snapshots_failed)
        return;
    wal->snapshots_failed = failed;
    okv_wal_report(wal, OKV_WAL_SNAPSHOT_FAILED, wal->snapshot.failure);
}

/* The gate is closed. */
static void end_batch(struct okv_wal *wal)
{
    unsigned records = wal->records;
    int rc = wal->lacks_reply ? -ENOMEM : 0;

    wal->lacks_reply = false;
    if (rc == 0 && wal->used > FRAME_HEADER)
        rc = write_frame(wal, wal->used);
    okv_snapshot_lock(&wal->snapshot);
    if (rc)
        drop_batch(wal, rc);
    else
        okv_store_pending_publish(wal->store);
    wal->used = FRAME_HEADER;
    wal->records = 0;
    if (records) {
        wal->records_before = records;
        okv_wal_histogram_add(&wal->batches, records);
    }
    atomic_store_explicit(&wal->done, wal->batch, memory_order_release);
    wal->batch++;
    okv_store_pending_maintain(wal->store, &wal->work,
                               records < RESIZES_MAX ? records : RESIZES_MAX);
    consider_snapshot(wal);
    report_snapshot(wal);
    okv_snapshot_unlock(&wal->snapshot);
    okv_wal_make_room(wal);
}

static struct timespec after(uint64_t ns)
{
    uint64_t at = okv_clock_ns() + ns;

    return (struct timespec){(time_t)(at / 1000000000u), (long)(at % 1000000000u)};
}

/* While the disk is full it is tried again now and then, after an empty batch. Under the lock. */
static void await_wish(struct okv_wal *wal)
{
    const struct timespec retry = after(OKV_WAL_ROOM_RETRY_NS);
    bool retries = wal->room.is_full && !atomic_load(&wal->failure);
    int rc = 0;

    while (!wal->is_wanted && !wal->has_to_stop && rc == 0)
        rc = retries ? pthread_cond_timedwait(&wal->wanted, &wal->lock, &retry)
                     : pthread_cond_wait(&wal->wanted, &wal->lock);
}

/* Waits until there is a batch to end, and a little for as many records as the last one had. False:
 * the thread is to end. */
static bool await_batch(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    await_wish(wal);
    const struct timespec until = after(wal->sync_ns / GATHER_SHARE);
    while (wal->records > 0 && wal->records < wal->records_before && !wal->has_to_stop &&
           pthread_cond_timedwait(&wal->wanted, &wal->lock, &until) == 0)
        continue;
    bool goes_on = wal->is_wanted || !wal->has_to_stop;
    wal->is_wanted = false;
    pthread_mutex_unlock(&wal->lock);
    return goes_on;
}

/* No change comes any more. The next start loads a snapshot faster than it replays a log. */
static void end_log(struct okv_wal *wal)
{
    okv_snapshot_await(&wal->snapshot);
    okv_snapshot_lock(&wal->snapshot);
    if (wal->snapshot_ratio > 0 && wal->position != wal->snapshot_begun &&
        !atomic_load(&wal->failure))
        begin_snapshot(wal);
    okv_snapshot_unlock(&wal->snapshot);
}

static void *run(void *user)
{
    struct okv_wal *wal = user;

    while (await_batch(wal)) {
        pthread_rwlock_wrlock(&wal->gate);
        end_batch(wal);
        pthread_rwlock_unlock(&wal->gate);
        wal->notify(wal->user);
    }
    end_log(wal);
    return NULL;
}

/* ---- start and stop ---- */

static int failed(struct okv_diag *diag, int error, const char *what)
{
    return okv_diag_set(diag, okv_error_from_errno(-error), "the log: %s: %s", what,
                        strerror(-error));
}

static void init_locks(struct okv_wal *wal)
{
    pthread_rwlockattr_t gate;
    pthread_condattr_t clock;

    pthread_rwlockattr_init(&gate);
    /* No change begins while the log's thread waits for those that are under way. */
    pthread_rwlockattr_setkind_np(&gate, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_rwlock_init(&wal->gate, &gate);
    pthread_cond_init(&wal->wanted, &clock);
    pthread_mutex_init(&wal->lock, NULL);
    pthread_condattr_destroy(&clock);
    pthread_rwlockattr_destroy(&gate);
}

int okv_wal_open(struct okv_wal *wal, struct okv_files *files, const char *restore,
                 struct okv_diag *diag)
{
    *wal = (struct okv_wal){.files = files, .restored = restore, .batch = 1, .used = FRAME_HEADER};
    wal->capacity = 1 << 16;
    wal->bytes = malloc(wal->capacity);
    if (!wal->bytes)
        return OKV_ENOMEM;
    init_locks(wal);
    bool is_there;
    int rc = okv_wal_find(wal, &is_there, diag);
    if (rc)
        goto close;
    if (is_there)
        return 0;
    if (getrandom(&wal->segment.hash_seed, sizeof wal->segment.hash_seed, 0) < 0 ||
        getrandom(&wal->segment.position, sizeof wal->segment.position, 0) < 0 ||
        getrandom(wal->segment.database_id, OKV_WAL_ID_SIZE, 0) < 0) {
        rc = okv_diag_set(diag, OKV_EIO, "no random bytes from the system: %s", strerror(errno));
        goto close;
    }
    /* Nobody can write a value whose bytes look like a frame at its place in the log. */
    wal->segment.position = wal->segment.position % POSITIONS * OKV_WAL_ALIGNMENT;
    return 0;
close:
    okv_wal_close(wal);
    return rc;
}

/* All of it has been loaded, and its segment is there. */
static int name_restored(struct okv_wal *wal)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_SNAPSHOT, wal->loaded.number, name);
    int rc = wal->files->ops->rename(wal->files, OKV_WAL_PART, name);
    if (rc)
        return rc;
    wal->restored = NULL;
    return wal->files->ops->sync_names(wal->files);
}

/* Begins the segment of this start. What no segment needs any more goes. */
static int begin_files(struct okv_wal *wal)
{
    if (!wal->restored) /* it may be what fills the disk */
        wal->files->ops->remove(wal->files, OKV_WAL_PART);
    okv_wal_room_trim_all(wal->files); /* nor what a server that died had reserved */
    int rc = okv_wal_begin_segment(wal);

    if (rc == 0 && wal->restored)
        rc = name_restored(wal);
    if (rc == 0)
        rc = okv_wal_remove_before(wal->files, wal->loaded.number);
    return rc;
}

int okv_wal_start(struct okv_wal *wal, double snapshot_ratio, void (*notify)(void *user),
                  void *user, struct okv_diag *diag)
{
    const struct okv_store_log log = {begin_record, end_record, wake, wal};

    wal->notify = notify;
    wal->user = user;
    wal->snapshot_ratio = snapshot_ratio;
    wal->snapshot_begun = wal->snapshot_tried = wal->segment.position;
    okv_wal_room_init(&wal->room, wal->store->max_value);
    int rc = begin_files(wal);
    if (rc)
        return failed(diag, rc, "cannot begin a segment");
    rc = okv_store_work_init(&wal->work, wal->store->table.bucket_size);
    if (rc)
        return rc;
    rc = okv_store_pending_begin(wal->store, &log);
    if (rc)
        goto fini_work;
    /* One that is being made wakes the log's thread at its end, for a wish that came meanwhile. */
    rc = okv_snapshot_init(&wal->snapshot, wal->files, wal->store, wake, wal);
    if (rc)
        goto end_pending;
    atomic_store(&wal->snapshot.made, wal->loaded.number);
    atomic_store(&wal->snapshot.ended, wal->segment.number);
    if (pthread_create(&wal->thread, NULL, run, wal) == 0)
        return 0;
    rc = OKV_ENOMEM;
    okv_snapshot_fini(&wal->snapshot);
end_pending:
    okv_store_pending_end(wal->store);
fini_work:
    okv_store_work_fini(&wal->work);
    return rc;
}

void okv_wal_stop(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    wal->has_to_stop = true;
    pthread_cond_signal(&wal->wanted);
    pthread_mutex_unlock(&wal->lock);
    pthread_join(wal->thread, NULL);
    okv_snapshot_fini(&wal->snapshot);
    report_snapshot(wal);              /* the last one */
    pthread_rwlock_wrlock(&wal->gate); /* no change begins any more */
    wal->is_stopped = true;
    okv_store_pending_end(wal->store);
    okv_store_work_fini(&wal->work);
}

void okv_wal_close(struct okv_wal *wal)
{
    if (wal->is_stopped)
        pthread_rwlock_unlock(&wal->gate);
    if (wal->file)
        wal->files->ops->close(wal->file);
    if (wal->restored)
        wal->files->ops->remove(wal->files, OKV_WAL_PART);
    pthread_mutex_destroy(&wal->lock);
    pthread_cond_destroy(&wal->wanted);
    pthread_rwlock_destroy(&wal->gate);
    free(wal->bytes);
}
