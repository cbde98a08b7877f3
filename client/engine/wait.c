#include "client/engine/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "client/engine/operation.h"
#include "client/engine/progress.h"
#include "client/engine/refusal.h"
#include "client/engine/upcalls.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Passes at full speed; then passes with a yield between them, for WAIT_SPIN_NS; then sleep on the
 * descriptor. */
#define WAIT_HOT_PASSES 32
#define WAIT_SPIN_NS 100000
/* A busy wait reads the clock once in so many passes. */
#define WAIT_BUSY_PASSES 64

/* Sleeps until the connection has an event, the link has something to do, or a deadline:
 * `deadline_ns` or an operation's. OKV_EIO: it cannot sleep. */
static int sleep_until(okv *handle, uint64_t deadline_ns)
{
    int rc = handle->conn ? handle->transport->arm(handle->conn->endpoint) : 0;

    if (rc)
        return rc;
    if (engine_progress(handle)) /* an event from before the arm announces nothing */
        return 0;
    if (handle->active > 0 && handle->earliest_deadline_ns < deadline_ns)
        deadline_ns = handle->earliest_deadline_ns;
    if (handle->upcalls->wake_ns(handle) < deadline_ns)
        deadline_ns = handle->upcalls->wake_ns(handle);
    struct pollfd fd = {.fd = handle->upcalls->fd(handle), .events = POLLIN};
    if (poll(&fd, 1, okv_clock_ms_until(deadline_ns)) < 0 && errno != EINTR)
        return OKV_EIO;
    return 0;
}

void engine_pause(okv *handle, struct waiting *waiting, uint64_t deadline_ns)
{
    if (engine_progress(handle)) {
        *waiting = (struct waiting){0};
        return;
    }
    if (++waiting->idle < WAIT_HOT_PASSES)
        return;
    uint64_t now = okv_clock_ns();
    if (waiting->spin_until_ns == 0)
        waiting->spin_until_ns = now + WAIT_SPIN_NS;
    if (now < waiting->spin_until_ns)
        sched_yield();
    else if (sleep_until(handle, deadline_ns))
        handle->upcalls->lost(handle, OKV_EIO, "waiting for events of the connection failed");
}

/* Abandoned operations hold all slots. One pass may free some; only a call that blocks waits for
 * more. */
static int slot_await(okv *handle, enum operation_delivery delivery, uint64_t deadline_ns)
{
    struct waiting waiting = {0};

    engine_progress(handle);
    while (handle->free.count == 0 && !handle->failure) {
        if (delivery != DELIVER_TO_CALLER)
            return OKV_EAGAIN;
        if (okv_clock_ns() >= deadline_ns) {
            handle->counters.timeouts++;
            return OKV_ETIMEDOUT;
        }
        engine_pause(handle, &waiting, deadline_ns);
    }
    return handle->failure;
}

int engine_operation_acquire(okv *handle, enum operation_kind kind,
                             enum operation_delivery delivery, uint64_t deadline_ns,
                             struct operation **out)
{
    bool is_full = delivery == DELIVER_TO_POLL && handle->pending == handle->depth;

    if (handle->free.count == 0 && !handle->failure && !is_full) {
        int rc = slot_await(handle, delivery, deadline_ns);
        if (rc)
            return rc;
    }
    return operation_acquire(handle, kind, delivery, deadline_ns, out);
}

int engine_wait_for(okv *handle, struct operation *operation, struct okv_result *result)
{
    struct waiting waiting = {0};

    engine_flush(handle);
    while (operation->step != STEP_ENDED && !operation->abandoned)
        engine_pause(handle, &waiting, operation->deadline_ns);
    int status = operation->result.status;
    if (result)
        *result = operation->result;
    if (!operation->abandoned)
        operation_release(handle, operation);
    return status;
}

int okv_wait(okv *handle, int timeout_ms)
{
    struct waiting waiting = {0};
    uint32_t passes = 0;

    if (!handle || timeout_ms < 0)
        return refuse(handle, OKV_EINVAL, __func__, "timeout_ms: %d is negative", timeout_ms);
    refusal_clear(handle);
    /* A result usually comes before the clock is read at all. Reconnecting takes longer, so then
     * the deadline is exact from the start. */
    uint64_t deadline = UINT64_MAX;
    if (!link_is_up(handle))
        deadline = okv_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    while (handle->ended.count == 0 && !handle->failure) {
        bool is_clock_read =
            waiting.idle + 1 >= WAIT_HOT_PASSES || ++passes % WAIT_BUSY_PASSES == 0;
        uint64_t now = is_clock_read ? okv_clock_ns() : 0;
        if (is_clock_read && deadline == UINT64_MAX)
            deadline = now + (uint64_t)timeout_ms * 1000000u;
        if (now >= deadline)
            return OKV_ETIMEDOUT;
        engine_pause(handle, &waiting, deadline);
    }
    return OKV_OK;
}
