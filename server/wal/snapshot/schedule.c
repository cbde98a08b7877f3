#include "server/wal/snapshot/schedule.h"

#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/recovery/recover.h"
#include "server/wal/segment.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A log that is shorter is no reason for a snapshot. */
#define SNAPSHOT_LENGTH_MIN (UINT64_C(64) << 20)
/* A requested one stays at least this long, to be copied. */
#define SELF_CONTAINED_STAYS_NS UINT64_C(10000000000)

/* A request is for the segment that begins next. When that begins, the request is scheduled under
 * the lock, so that a later one is for the segment after it. */
uint64_t okv_wal_snapshot_request(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t number = wal->scheduled + 1;
    if (atomic_load(&wal->snapshot.ended) >= number) /* its segment could not be begun */
        atomic_store(&wal->snapshot.ended, number - 1);
    wal->requested = number;
    pthread_mutex_unlock(&wal->lock);
    okv_wal_wake(wal);
    return number;
}

int okv_wal_snapshot_state(struct okv_wal *wal, uint64_t number, uint64_t *newest)
{
    struct okv_snapshot *snapshot = &wal->snapshot;
    bool is_ended = atomic_load(&snapshot->ended) >= number;

    *newest = atomic_load(&snapshot->made);
    if (*newest >= number) {
        uint64_t requested = atomic_load(&snapshot->self_contained);
        if (requested < *newest)
            return OKV_ECONFLICT;
        *newest = requested; /* it may have been made just now */
        return 0;
    }
    return is_ended || atomic_load(&wal->failure) ? OKV_ENOTFOUND : OKV_EAGAIN;
}

/* The snapshot of the segment that begins now is self-contained if it was requested. */
static void schedule_requests(struct okv_wal *wal)
{
    uint64_t number = wal->segment.number + 1;

    pthread_mutex_lock(&wal->lock);
    wal->scheduled = number;
    wal->snapshot.is_self_contained = wal->requested >= number;
    pthread_mutex_unlock(&wal->lock);
}

/* Fails this request and all that arrived since. */
static void end_unbegun(struct okv_wal *wal)
{
    atomic_fetch_add(&wal->snapshot.failed, 1);
    pthread_mutex_lock(&wal->lock);
    uint64_t last = wal->requested > wal->scheduled ? wal->requested : wal->scheduled;
    wal->scheduled = last - 1; /* numbers that were returned stay valid */
    wal->requested = 0;
    atomic_store(&wal->snapshot.ended, last);
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_schedule_begin(struct okv_wal *wal)
{
    if (atomic_load(&wal->failure))
        return;
    schedule_requests(wal);
    wal->snapshot_tried = wal->position;
    wal->blobs_tried = atomic_load(&wal->blobs.logged);
    int rc = okv_wal_begin_segment(wal, wal->snapshot.is_last ? OKV_WAL_AT_END : OKV_WAL_MEANWHILE);
    if (rc) {
        wal->snapshot.failure = rc;
        end_unbegun(wal);
        return;
    }
    wal->snapshot_begun = wal->position;
    atomic_store(&wal->length, 0);
    if (okv_snapshot_begin(&wal->snapshot, &wal->segment) == 0) {
        okv_blobs_mark_old(&wal->blobs);
        if (wal->clients)
            wal->clients->save(wal->clients->user, okv_snapshot_add, &wal->snapshot);
        return;
    }
    atomic_fetch_add(&wal->snapshot.failed, 1);
    okv_snapshot_note_end(&wal->snapshot, wal->segment.number);
}

/* Whether the newest was requested, and may be about to be copied. */
static bool is_kept(struct okv_snapshot *snapshot)
{
    uint64_t requested = atomic_load(&snapshot->self_contained);

    return requested && requested == atomic_load(&snapshot->made) &&
           okv_clock_ns() - atomic_load(&snapshot->self_contained_ns) < SELF_CONTAINED_STAYS_NS;
}

static bool is_long(const struct okv_wal *wal)
{
    uint64_t length =
        wal->position - wal->snapshot_tried + atomic_load(&wal->blobs.logged) - wal->blobs_tried;

    return wal->snapshot_ratio > 0 && length > SNAPSHOT_LENGTH_MIN &&
           (double)length > wal->snapshot_ratio * (double)okv_heap_used(&wal->store->heap);
}

bool okv_wal_schedule_is_due(struct okv_wal *wal)
{
    if (atomic_load(&wal->failure) || okv_snapshot_is_active(&wal->snapshot))
        return false;
    pthread_mutex_lock(&wal->lock);
    bool is_requested = wal->requested > wal->segment.number;
    pthread_mutex_unlock(&wal->lock);
    return is_requested || (is_long(wal) && !is_kept(&wal->snapshot));
}

/* The next start loads a snapshot faster than it replays a log. */
void okv_wal_schedule_last(struct okv_wal *wal)
{
    if (wal->snapshot_ratio > 0 && wal->position != wal->snapshot_begun &&
        !atomic_load(&wal->failure)) {
        wal->snapshot.is_last = true;
        okv_wal_schedule_begin(wal);
    }
}

void okv_wal_schedule_report(struct okv_wal *wal)
{
    uint64_t failed = atomic_load(&wal->snapshot.failed);

    if (failed == wal->snapshots_failed)
        return;
    wal->snapshots_failed = failed;
    okv_wal_raise_event(wal, OKV_WAL_SNAPSHOT_FAILED, okv_error_text(wal->snapshot.failure));
}
