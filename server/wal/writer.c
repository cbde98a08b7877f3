#include "server/wal/writer.h"

#include <time.h>

#include "server/store/maintain.h"
#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/copies/hold.h"
#include "server/wal/frame.h"
#include "server/wal/null_files.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A batch waits this share of a sync for as many records as the last one had. */
#define GATHER_SHARE 5
/* Weight 1 / SYNC_WEIGHT of the last sync in the mean time of a sync. */
#define SYNC_WEIGHT 8
/* Resizing steps after a batch. */
#define RESIZES_MAX 256u
/* Records that nobody waits for are written within this time. */
#define WRITE_DELAY_NS UINT64_C(10000000)
/* Most bytes of the log that are not durable, as a start has to copy them. They hold fewer changes
 * than OKV_WAL_RAISE_BY. */
#define UNSYNCED_MAX (UINT64_C(1) << 30)

/* ---- the disk ---- */

bool okv_wal_has_files(const struct okv_wal *wal)
{
    return wal->files != okv_null_files();
}

void okv_wal_note_written(struct okv_wal *wal, const struct okv_wal_frame *frame, uint64_t since_ns)
{
    wal->position = frame->position + frame->length;
    wal->epoch = frame->epoch;
    atomic_store(&wal->length, wal->position - wal->snapshot_begun);
    if (!wal->oldest_ns)
        wal->oldest_ns = since_ns;
}

static int write_frame(struct okv_wal *wal)
{
    struct okv_wal_batch *batch = &wal->writing;
    const struct okv_wal_frame frame = {
        .length = batch->used,
        .position = wal->position,
        .durable = wal->durable,
        .epoch = wal->epoch,
        .clock_ms = atomic_load(&wal->store->clock_ms),
        .wall_ms = okv_store_clock_wall_ms(wal->store),
    };
    int rc = okv_wal_has_files(wal) ? okv_wal_frame_write(wal->files, wal->file, &wal->segment,
                                                          &frame, batch->bytes, &wal->why)
                                    : 0;
    if (rc == 0)
        okv_wal_note_written(wal, &frame, batch->since_ns);
    return rc;
}

int okv_wal_sync(struct okv_wal *wal)
{
    uint64_t begin = okv_clock_ns();
    int rc = wal->position == wal->durable ? 0 : wal->files->ops->sync(wal->file, &wal->why);
    uint64_t taken = okv_clock_ns() - begin;

    if (rc || wal->position == wal->durable)
        return rc;
    okv_wal_histogram_add(&wal->syncs, taken);
    wal->sync_ns = (wal->sync_ns * (SYNC_WEIGHT - 1) + taken) / SYNC_WEIGHT;
    okv_wal_note_durable(wal);
    return 0;
}

int okv_wal_begin_epoch(struct okv_wal *wal, uint64_t epoch)
{
    const struct okv_wal_record record = {.kind = OKV_WAL_EPOCH, .version = epoch};

    if (okv_wal_batch_add(&wal->writing, &record))
        return okv_diag_set(&wal->why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    wal->epoch = epoch;
    int rc = write_frame(wal);
    wal->writing.used = OKV_WAL_FRAME_HEADER;
    return rc ? rc : okv_wal_sync(wal);
}

/* When to sync the oldest record that is not durable; UINT64_MAX: any time. Half of the time is
 * left for the sync itself. */
static uint64_t sync_due_ns(const struct okv_wal *wal)
{
    bool is_timed = wal->oldest_ns && wal->sync_within_ns != OKV_WAL_NEVER;

    return is_timed ? wal->oldest_ns + wal->sync_within_ns / 2 : UINT64_MAX;
}

static bool is_sync_due(const struct okv_wal *wal)
{
    return wal->sync_within_ns == 0 || wal->position - wal->durable >= UNSYNCED_MAX ||
           okv_clock_ns() >= sync_due_ns(wal);
}

int okv_wal_sync_if_due(struct okv_wal *wal)
{
    return is_sync_due(wal) ? okv_wal_sync(wal) : 0;
}

/* Writes wal->writing. Nothing of a batch that lacks a reply may be recovered: its write would be
 * applied twice. Nothing is written after a failure: a later sync may succeed without what an
 * earlier one lost. */
int okv_wal_write_batch(struct okv_wal *wal)
{
    bool has_records = wal->writing.used > OKV_WAL_FRAME_HEADER;
    bool is_too_long = wal->writing.used > OKV_WAL_FRAME_MAX; /* no start would read it */
    int rc = 0;

    if (atomic_load(&wal->failure))
        return has_records ? OKV_EIO : 0;
    if (wal->writing.lacks_reply || is_too_long)
        rc = okv_diag_set(&wal->why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    if (rc == 0 && has_records)
        rc = write_frame(wal);
    if (rc == 0)
        rc = okv_wal_sync_if_due(wal);
    if (wal->writing.records) {
        wal->records_before = wal->writing.records;
        okv_wal_histogram_add(&wal->batches, wal->writing.records);
    }
    okv_wal_batch_shrink(&wal->writing);
    return rc;
}

/* ---- the end of a batch ---- */

bool okv_wal_is_awaited(const struct okv_wal *wal)
{
    return wal->awaited == wal->batch;
}

/* Clients may look at the one before after this one. */
static void note_unknown(struct okv_wal *wal)
{
    uint64_t last = atomic_load(&wal->unknown), later = wal->batch - last;

    pthread_mutex_lock(&wal->lock);
    wal->unknown_before = later < 64 ? wal->unknown_before << later : 0;
    if (last && later <= 64)
        wal->unknown_before |= UINT64_C(1) << (later - 1);
    atomic_store(&wal->unknown, wal->batch);
    pthread_mutex_unlock(&wal->lock);
}

/* Whether the disk, or another copy, has this batch is unknown. */
static void drop_batch(struct okv_wal *wal, int rc)
{
    okv_store_pending_drop(wal->store);
    if (wal->copies || !atomic_load(&wal->unknown)) /* nothing changes after a failure */
        note_unknown(wal);
    if (rc != OKV_EREADONLY) /* else another copy leads */
        okv_wal_fail(wal, rc, wal->why.text);
}

static void publish(struct okv_wal *wal)
{
    atomic_fetch_add(&wal->publish_seq, 1);
    okv_store_pending_publish(wal->store);
    atomic_fetch_add(&wal->publish_seq, 1);
}

/* The batch is closed. */
static void end_batch(struct okv_wal *wal, bool is_snapshot_due)
{
    okv_wal_take_staged(wal);
    unsigned records = wal->writing.records;
    int rc = wal->copies ? okv_wal_copies_commit(wal) : okv_wal_write_batch(wal);
    okv_snapshot_lock(&wal->snapshot);
    if (rc)
        drop_batch(wal, rc);
    else
        publish(wal);
    atomic_store_explicit(&wal->done, wal->batch, memory_order_release);
    wal->batch++;
    okv_store_maintain(wal->store, &wal->work, records < RESIZES_MAX ? records : RESIZES_MAX);
    if (rc == 0 && is_snapshot_due)
        okv_wal_schedule_begin(wal);
    okv_wal_schedule_report(wal);
    okv_snapshot_unlock(&wal->snapshot);
    okv_wal_reserve_space(wal);
}

static void run_batch(struct okv_wal *wal, bool is_snapshot_due)
{
    pthread_rwlock_wrlock(&wal->batch_lock);
    end_batch(wal, is_snapshot_due);
    if (wal->copies && okv_wal_copies_must_hold(wal))
        okv_wal_copies_hold(wal);
    pthread_rwlock_unlock(&wal->batch_lock);
    wal->notify(wal->user);
}

/* In a log whose changes are published at once. Everything before the snapshot is durable, so no
 * earlier record lands in the new segment, whose blob files the snapshot would remove. */
static void run_snapshot(struct okv_wal *wal)
{
    pthread_rwlock_wrlock(&wal->batch_lock);
    okv_wal_take_staged(wal);
    int rc = okv_wal_write_batch(wal);
    if (rc == 0 && !atomic_load(&wal->failure))
        rc = okv_wal_sync(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    okv_snapshot_lock(&wal->snapshot);
    if (rc == 0)
        okv_wal_schedule_begin(wal);
    okv_snapshot_unlock(&wal->snapshot);
    okv_wal_reserve_space(wal);
    pthread_rwlock_unlock(&wal->batch_lock);
    wal->notify(wal->user);
}

/* Its changes are published already, and further ones are made while it is written. Before a
 * snapshot it is synced as well, so that little is left to sync while the batch is closed. */
static void run_published_batch(struct okv_wal *wal, bool is_snapshot_due)
{
    pthread_rwlock_wrlock(&wal->batch_lock);
    okv_wal_take_staged(wal);
    okv_store_maintain(wal->store, &wal->work, 0);
    okv_wal_reserve_space(wal); /* for two batches: the one that was taken has its space already */
    pthread_rwlock_unlock(&wal->batch_lock);
    wal->notify(wal->user);

    atomic_store(&wal->waits_since_ns, wal->oldest_ns ? wal->oldest_ns : wal->writing.since_ns);
    int rc = okv_wal_write_batch(wal);
    if (rc == 0 && is_snapshot_due)
        rc = okv_wal_sync(wal);
    atomic_store(&wal->waits_since_ns, 0);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    wal->notify(wal->user); /* changes that were refused as the disk was late */
    okv_snapshot_lock(&wal->snapshot);
    okv_wal_schedule_report(wal);
    okv_snapshot_unlock(&wal->snapshot);
}

/* ---- waiting for one ---- */

static struct timespec at(uint64_t ns)
{
    return (struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
}

/* When to write records that nobody waits for. Under the lock. */
static uint64_t write_due_ns(const struct okv_wal *wal)
{
    const struct okv_wal_batch *batch = &wal->staged;
    uint64_t part = wal->sync_within_ns / 4;
    uint64_t delay = part && part < WRITE_DELAY_NS ? part : WRITE_DELAY_NS;

    if (batch->used == OKV_WAL_FRAME_HEADER || (!wal->is_direct && batch->records > 0))
        return UINT64_MAX;
    return batch->used < OKV_WAL_WRITE_BYTES ? batch->since_ns + delay : 0;
}

/* When there is something to do without a request. Under the lock. */
static uint64_t due_ns(const struct okv_wal *wal, uint64_t retry_ns)
{
    uint64_t write_ns = write_due_ns(wal), sync_ns = sync_due_ns(wal), due = retry_ns;

    if (atomic_load(&wal->failure))
        return UINT64_MAX;
    due = write_ns < due ? write_ns : due;
    return sync_ns < due ? sync_ns : due;
}

/* A full disk is tried again at intervals, after an empty batch. */
void okv_wal_await_request(struct okv_wal *wal)
{
    uint64_t retry_ns =
        atomic_load(&wal->space.is_full) ? okv_clock_ns() + OKV_WAL_SPACE_RETRY_NS : UINT64_MAX;

    while (!wal->is_wanted && !wal->has_to_stop) {
        uint64_t due = due_ns(wal, retry_ns);
        const struct timespec until = at(due);
        if (due == UINT64_MAX)
            pthread_cond_wait(&wal->wanted, &wal->lock);
        else if (okv_clock_ns() >= due)
            return;
        else
            pthread_cond_timedwait(&wal->wanted, &wal->lock, &until);
    }
}

/* Waits briefly for as many records as the last batch had. Under the lock. */
static void gather(struct okv_wal *wal)
{
    const struct timespec until = at(okv_clock_ns() + wal->sync_ns / GATHER_SHARE);
    const struct okv_wal_batch *batch = &wal->staged;

    while (batch->records > 0 && batch->records < wal->records_before && !wal->has_to_stop &&
           pthread_cond_timedwait(&wal->wanted, &wal->lock, &until) == 0)
        continue;
}

/* Waits until there is a batch to end. False: the thread is to end. */
static bool await_batch(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    okv_wal_await_request(wal);
    if (wal->sync_within_ns == 0)
        gather(wal);
    bool has_records = wal->staged.used > OKV_WAL_FRAME_HEADER;
    bool continues = wal->is_wanted || has_records || !wal->has_to_stop;
    wal->is_wanted = false;
    pthread_mutex_unlock(&wal->lock);
    return continues;
}

/* So that the next start raises no versions. */
static int begin_clean_segment(struct okv_wal *wal)
{
    bool is_needed = wal->segment.is_relaxed && !wal->segment.is_clean;

    return is_needed ? okv_wal_begin_segment(wal, OKV_WAL_AT_END) : 0;
}

/* No change comes any more, so the last segments need no space but their own. */
static void end_log(struct okv_wal *wal)
{
    int rc = atomic_load(&wal->failure) ? 0 : okv_wal_sync(wal);

    okv_snapshot_await(&wal->snapshot);
    if (rc == 0 && !atomic_load(&wal->failure))
        okv_wal_trim_segment(wal);
    okv_snapshot_lock(&wal->snapshot);
    if (rc == 0 && (!wal->copies || okv_wal_copies_has_applied(wal)))
        okv_wal_schedule_last(wal);
    okv_snapshot_unlock(&wal->snapshot);
    if (rc == 0 && !atomic_load(&wal->failure))
        rc = begin_clean_segment(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    if (!atomic_load(&wal->failure))
        okv_wal_trim_segment(wal);
}

static void begin_as_copy(struct okv_wal *wal)
{
    pthread_rwlock_wrlock(&wal->batch_lock);
    atomic_store(&wal->is_held, false); /* by the lock, from here on */
    okv_wal_copies_hold(wal);
    pthread_rwlock_unlock(&wal->batch_lock);
    wal->notify(wal->user);
}

void *okv_wal_writer_run(void *user)
{
    struct okv_wal *wal = user;

    if (wal->copies)
        begin_as_copy(wal);
    while (await_batch(wal)) {
        bool is_snapshot_due = okv_wal_schedule_is_due(wal);
        if (!wal->is_direct) {
            run_batch(wal, is_snapshot_due);
            continue;
        }
        run_published_batch(wal, is_snapshot_due);
        if (is_snapshot_due)
            run_snapshot(wal);
    }
    end_log(wal);
    return NULL;
}
