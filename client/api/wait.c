/* Waiting for results. */
#include "client/connection/wait.h"
#include "client/api/argument_error.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Passes of a busy wait between two looks at the clock. */
#define BUSY_PASSES 64

static int result_await(okv *handle, int timeout_ms)
{
    struct waiting waiting = {0};
    uint32_t passes = 0;

    argument_error_clear(handle);
    /* A result usually comes before the clock is read at all. Reconnecting takes longer, so then
     * the deadline is exact from the start. */
    uint64_t deadline = UINT64_MAX;
    if (!link_is_up(handle))
        deadline = okv_clock_ns() + (uint64_t)timeout_ms * 1000000u;
    while (handle->ended.count == 0 && !handle->failure) {
        bool is_clock_read = waiting.idle + 1 >= WAIT_HOT_PASSES || ++passes % BUSY_PASSES == 0;
        uint64_t now = is_clock_read ? okv_clock_ns() : 0;
        if (is_clock_read && deadline == UINT64_MAX)
            deadline = now + (uint64_t)timeout_ms * 1000000u;
        if (now >= deadline)
            return OKV_ETIMEDOUT;
        wait_pause(handle, &waiting, deadline);
    }
    return OKV_OK;
}

int okv_wait(okv *handle, int timeout_ms)
{
    if (!handle || timeout_ms < 0)
        return argument_refuse(handle, __func__, "timeout_ms: %d is negative", timeout_ms);
    if (call_enter(handle, __func__))
        return OKV_EINVAL;
    return call_leave(handle, result_await(handle, timeout_ms));
}
