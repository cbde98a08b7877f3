#include "server/wal/writer.h"

#include "server/store/maintain.h"
#include "server/store/pending.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/await.h"
#include "server/wal/copies/hold.h"
#include "server/wal/disk.h"
#include "server/wal/null_files.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Resizing steps after a batch. */
#define RESIZES_MAX 256u

/* ---- the end of a batch ---- */

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
    if (rc == 0 && wal->copies)
        okv_wal_copies_note_applied(wal);
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
    okv_wal_note_step(wal);
    pthread_rwlock_wrlock(&wal->batch_lock);
    end_batch(wal, is_snapshot_due);
    if (wal->copies && okv_wal_copies_must_hold(wal))
        okv_wal_copies_hold(wal);
    pthread_rwlock_unlock(&wal->batch_lock);
    wal->notify(wal->user);
    if (wal->copies)
        okv_wal_copies_tell(wal); /* after those that wait for an answer */
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

/* ---- the thread ---- */

/* So that the next start raises no versions. */
static int begin_clean_segment(struct okv_wal *wal)
{
    bool is_needed = wal->segment.is_relaxed && !wal->segment.is_clean;

    return is_needed ? okv_wal_begin_segment(wal, OKV_WAL_AT_END) : 0;
}

/* No change comes any more, so the last segments need no space but their own. */
static void end_log(struct okv_wal *wal)
{
    bool is_whole = !wal->copies || okv_wal_copies_is_whole(wal);
    int rc = atomic_load(&wal->failure) ? 0 : okv_wal_sync(wal);

    okv_snapshot_await(&wal->snapshot);
    if (rc == 0 && !atomic_load(&wal->failure))
        okv_wal_trim_segment(wal);
    okv_snapshot_lock(&wal->snapshot);
    if (rc == 0 && okv_files_keep(wal->files) && is_whole)
        okv_wal_schedule_last(wal);
    okv_snapshot_unlock(&wal->snapshot);
    if (rc == 0 && is_whole && !atomic_load(&wal->failure))
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
    while (okv_wal_await_batch(wal)) {
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
