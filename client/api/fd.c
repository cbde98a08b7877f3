/* The descriptor for the caller's event loop: engine/event_fd.c holds it. */
#include "client/api/fd.h"

#include <sys/timerfd.h>

#include "client/api/argument_error.h"
#include "client/connection/reconnect.h"
#include "client/engine/event_fd.h"
#include "client/engine/progress.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Rounds of arming in one call. */
#define FOLLOW_PASSES 4

int okv_fd(const okv *handle)
{
    return call_may_look(handle, __func__) ? handle->event_fd.epoll : OKV_EINVAL;
}

/* Sets the timer unless it fires early enough already: an extra wake-up does no harm. */
static int timer_set(struct event_fd *event_fd, uint64_t wake_ns)
{
    uint64_t now = okv_clock_ns();
    struct itimerspec when = {.it_value = {.tv_sec = 0}}; /* off */

    if (event_fd->timer_ns > now && event_fd->timer_ns <= wake_ns)
        return 0;
    if (wake_ns != EVENT_FD_OFF) {
        if (wake_ns <= now)
            wake_ns = now + 1;
        when.it_value.tv_sec = (time_t)(wake_ns / 1000000000u);
        when.it_value.tv_nsec = (long)(wake_ns % 1000000000u);
    }
    if (timerfd_settime(event_fd->timer, TFD_TIMER_ABSTIME, &when, NULL))
        return OKV_EIO;
    event_fd->timer_ns = wake_ns;
    return 0;
}

static uint64_t fd_wake_ns(const okv *handle)
{
    uint64_t wake = link_wake_ns(handle);

    if (handle->active > 0 && handle->earliest_deadline_ns < wake)
        wake = handle->earliest_deadline_ns;
    return wake;
}

static int fd_arm(okv *handle)
{
    struct event_fd *event_fd = &handle->event_fd;

    argument_error_clear(handle);
    if (handle->failure)
        return handle->failure;
    event_fd->armed = true;
    event_fd->stale = false;
    int rc = event_fd_watch(event_fd);
    if (rc == 0)
        rc = timer_set(event_fd, fd_wake_ns(handle));
    if (rc == 0 && handle->conn)
        rc = handle->transport->arm(handle->conn->endpoint);
    return rc;
}

int okv_arm(okv *handle)
{
    int rc = call_enter(handle, __func__);

    return rc ? rc : call_leave(handle, fd_arm(handle));
}

/* True when the armed state no longer fits: the link has changed, something is due earlier, or the
 * timer has fired. */
static bool is_stale(const okv *handle, bool idle)
{
    const struct event_fd *event_fd = &handle->event_fd;

    if (event_fd->stale || !idle)
        return event_fd->stale;
    if (fd_wake_ns(handle) < event_fd->timer_ns)
        return true;
    return event_fd->timer_ns != EVENT_FD_OFF && event_fd->timer_ns <= okv_clock_ns();
}

void fd_follow(okv *handle, bool idle)
{
    for (int passes = 0; is_stale(handle, idle); passes++) {
        if (passes == FOLLOW_PASSES || fd_arm(handle)) {
            timer_set(&handle->event_fd, 0); /* the next okv_poll() continues, or reports it */
            return;
        }
        idle = !engine_progress(handle); /* an event from before the arm announces nothing */
    }
}
