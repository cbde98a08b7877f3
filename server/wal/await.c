#include "server/wal/await.h"

#include <sched.h>
#include <time.h>

#include "server/wal/append.h"
#include "server/wal/copies/state.h"
#include "server/wal/disk.h"
#include "server/wal/frame.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"

/* A batch waits this share of a sync for as many records as the last one had. */
#define GATHER_SHARE 5
/* Records that nobody waits for are written within this time. */
#define WRITE_DELAY_NS UINT64_C(10000000)

bool okv_wal_is_awaited(const struct okv_wal *wal)
{
    return wal->awaited == wal->batch;
}

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
    uint64_t write_ns = write_due_ns(wal), sync_ns = okv_wal_sync_due_ns(wal), due = retry_ns;

    if (atomic_load(&wal->failure))
        return UINT64_MAX;
    due = write_ns < due ? write_ns : due;
    return sync_ns < due ? sync_ns : due;
}

uint64_t okv_wal_poll_until_ns(const struct okv_wal *wal)
{
    const _Atomic uint32_t *spin_us = wal->copies ? wal->copies->params.spin_us : NULL;

    return spin_us ? okv_clock_ns() + atomic_load(spin_us) * UINT64_C(1000) : 0;
}

void okv_wal_note_step(struct okv_wal *wal)
{
    if (wal->copies)
        atomic_store_explicit(&wal->step_ns, okv_clock_ns(), memory_order_relaxed);
}

void okv_wal_pause(struct okv_wal *wal, uint64_t poll_until_ns, uint64_t due_ns)
{
    const struct timespec until = at(due_ns);

    atomic_store_explicit(&wal->step_ns, 0, memory_order_relaxed);
    if (okv_clock_ns() < poll_until_ns) {
        pthread_mutex_unlock(&wal->lock);
        sched_yield();
        pthread_mutex_lock(&wal->lock);
    } else if (due_ns == UINT64_MAX) {
        pthread_cond_wait(&wal->wanted, &wal->lock);
    } else {
        pthread_cond_timedwait(&wal->wanted, &wal->lock, &until);
    }
    okv_wal_note_step(wal);
}

/* A full disk is tried again at intervals, after an empty batch. */
void okv_wal_await_request(struct okv_wal *wal)
{
    uint64_t retry_ns =
        atomic_load(&wal->space.is_full) ? okv_clock_ns() + OKV_WAL_SPACE_RETRY_NS : UINT64_MAX;
    uint64_t poll_until_ns = okv_wal_poll_until_ns(wal);

    while (!wal->is_wanted && !wal->has_to_stop) {
        uint64_t due = due_ns(wal, retry_ns);
        if (due != UINT64_MAX && okv_clock_ns() >= due)
            return;
        okv_wal_pause(wal, poll_until_ns, due);
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

bool okv_wal_await_batch(struct okv_wal *wal)
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
