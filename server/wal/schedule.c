#include "server/wal/schedule.h"

#include "server/store/store.h"
#include "server/wal/collect.h"
#include "server/wal/segment.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A log that is shorter is no reason for a snapshot. */
#define SNAPSHOT_LENGTH_MIN (UINT64_C(64) << 20)
/* For so long a whole one that somebody asked for stays, to be copied. */
#define WHOLE_STAYS_NS UINT64_C(10000000000)

/* The log's thread takes the wish under the lock, and only then begins the segment. In between a
 * further wish makes one more. */
uint64_t okv_wal_snapshot(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    uint64_t number = atomic_load(&wal->number) + 1;
    if (atomic_load(&wal->snapshot.ended) == number) /* its segment could not be begun */
        atomic_store(&wal->snapshot.ended, number - 1);
    wal->wants_snapshot = true;
    pthread_mutex_unlock(&wal->lock);
    okv_wal_wake(wal);
    return number;
}

int okv_wal_snapshot_state(struct okv_wal *wal, uint64_t number, uint64_t *newest)
{
    struct okv_snapshot *snapshot = &wal->snapshot;
    bool is_ended = atomic_load(&snapshot->ended) >= number;

    *newest = atomic_load(&snapshot->made);
    if (*newest >= number)
        return atomic_load(&snapshot->whole) == *newest ? 0 : OKV_ECONFLICT;
    return is_ended || atomic_load(&wal->failure) ? OKV_ENOTFOUND : OKV_EAGAIN;
}

/* Whoever waits for it learns that it failed. */
static void end_unbegun(struct okv_wal *wal)
{
    atomic_fetch_add(&wal->snapshot.failed, 1);
    atomic_store(&wal->snapshot.ended, wal->segment.number + 1);
}

void okv_wal_schedule_begin(struct okv_wal *wal)
{
    if (atomic_load(&wal->failure))
        return;
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
    atomic_store(&wal->snapshot.ended, wal->segment.number);
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
    bool is_whole = wal->wants_snapshot;
    bool is_due = is_whole || (is_long(wal) && !is_kept(&wal->snapshot));
    wal->wants_snapshot = false;
    pthread_mutex_unlock(&wal->lock);
    wal->snapshot.is_whole = is_whole;
    return is_due;
}

/* The next start loads a snapshot faster than it replays a log. */
void okv_wal_schedule_last(struct okv_wal *wal)
{
    if (wal->snapshot_ratio > 0 && wal->position != wal->snapshot_begun &&
        !atomic_load(&wal->failure)) {
        wal->snapshot.is_last = true;
        wal->snapshot.is_whole = false;
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
