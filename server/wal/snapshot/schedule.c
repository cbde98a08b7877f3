#include "server/wal/snapshot/schedule.h"

#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/segment.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A log that is shorter is no reason for a snapshot. */
#define SNAPSHOT_LENGTH_MIN (UINT64_C(64) << 20)
/* For so long a whole one that somebody asked for stays, to be copied. */
#define WHOLE_STAYS_NS UINT64_C(10000000000)

/*
 * A wish is for the segment that begins next. When that begins, the wish is granted under the lock,
 * so that one that comes later is for the segment behind it.
 */
uint64_t okv_wal_snapshot(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t number = wal->granted + 1;
    if (atomic_load(&wal->snapshot.ended) >= number) /* its segment could not be begun */
        atomic_store(&wal->snapshot.ended, number - 1);
    wal->wished = number;
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
        uint64_t whole = atomic_load(&snapshot->whole);
        if (whole < *newest)
            return OKV_ECONFLICT;
        *newest = whole; /* it may have been made just now */
        return 0;
    }
    return is_ended || atomic_load(&wal->failure) ? OKV_ENOTFOUND : OKV_EAGAIN;
}

/* The snapshot of the segment that begins now is whole if somebody wished for it. */
static void grant_wishes(struct okv_wal *wal)
{
    uint64_t number = wal->segment.number + 1;

    pthread_mutex_lock(&wal->lock);
    wal->granted = number;
    wal->snapshot.is_whole = wal->wished >= number;
    pthread_mutex_unlock(&wal->lock);
}

/* Whoever waits for it learns that it failed, and so does who came meanwhile. */
static void end_unbegun(struct okv_wal *wal)
{
    atomic_fetch_add(&wal->snapshot.failed, 1);
    pthread_mutex_lock(&wal->lock);
    uint64_t last = wal->wished > wal->granted ? wal->wished : wal->granted;
    wal->granted = last - 1; /* the numbers that were promised stay so */
    wal->wished = 0;
    atomic_store(&wal->snapshot.ended, last);
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_schedule_begin(struct okv_wal *wal)
{
    if (atomic_load(&wal->failure))
        return;
    grant_wishes(wal);
    wal->snapshot_tried = wal->position;
    wal->values_tried = atomic_load(&wal->values.logged);
    int rc = okv_wal_begin_segment(wal);
    if (rc) {
        wal->snapshot.failure = okv_wal_room_error(rc);
        end_unbegun(wal);
        return;
    }
    wal->snapshot_begun = wal->position;
    atomic_store(&wal->length, 0);
    if (okv_snapshot_begin(&wal->snapshot, &wal->segment, okv_clock_wall_ms()) == 0) {
        okv_values_mark(&wal->values);
        if (wal->clients)
            wal->clients->save(wal->clients->user, okv_snapshot_add, &wal->snapshot);
        return;
    }
    atomic_fetch_add(&wal->snapshot.failed, 1);
    okv_snapshot_note_end(&wal->snapshot, wal->segment.number);
}

/* Whether somebody may be about to copy the newest. */
static bool is_kept(struct okv_snapshot *snapshot)
{
    uint64_t whole = atomic_load(&snapshot->whole);

    return whole && whole == atomic_load(&snapshot->made) &&
           okv_clock_ns() - atomic_load(&snapshot->whole_ns) < WHOLE_STAYS_NS;
}

static bool is_long(const struct okv_wal *wal)
{
    uint64_t length =
        wal->position - wal->snapshot_tried + atomic_load(&wal->values.logged) - wal->values_tried;

    return wal->snapshot_ratio > 0 && length > SNAPSHOT_LENGTH_MIN &&
           (double)length > wal->snapshot_ratio * (double)okv_heap_used(&wal->store->heap);
}

bool okv_wal_schedule_take(struct okv_wal *wal)
{
    if (atomic_load(&wal->failure) || okv_snapshot_is_active(&wal->snapshot))
        return false;
    pthread_mutex_lock(&wal->lock);
    bool is_wished = wal->wished > wal->segment.number;
    pthread_mutex_unlock(&wal->lock);
    return is_wished || (is_long(wal) && !is_kept(&wal->snapshot));
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
    okv_wal_report(wal, OKV_WAL_SNAPSHOT_FAILED, wal->snapshot.failure);
}
