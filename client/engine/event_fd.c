/*
 * One descriptor for the caller's event loop. It stays the same while connections come and go: an
 * epoll instance holds the descriptor of the present connection or attempt, and a timer for what
 * no descriptor announces: backoff, keepalive ticks, deadlines.
 */
#include "client/engine/event_fd.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/engine/progress.h"
#include "client/engine/refusal.h"
#include "client/engine/upcalls.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Rounds of arming in one call. */
#define FOLLOW_PASSES 4

static int event_fd_add(const struct event_fd *event_fd, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(event_fd->epoll, EPOLL_CTL_ADD, fd, &event);
}

int event_fd_create(okv *handle)
{
    struct event_fd *event_fd = &handle->event_fd;

    event_fd->epoll = epoll_create1(EPOLL_CLOEXEC);
    event_fd->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (event_fd->epoll < 0 || event_fd->timer < 0 || event_fd_add(event_fd, event_fd->timer))
        return okv_diag_set(&handle->why, okv_error_from_errno(errno),
                            "no descriptors for a handle: %s", strerror(errno));
    return 0;
}

void event_fd_destroy(okv *handle)
{
    if (handle->event_fd.epoll >= 0)
        close(handle->event_fd.epoll);
    if (handle->event_fd.timer >= 0)
        close(handle->event_fd.timer);
}

/* Adds the wanted descriptor to epoll. After a failure okv_arm() tries again. */
static int event_fd_watch(struct event_fd *event_fd)
{
    if (event_fd->watched == event_fd->wanted)
        return 0;
    if (event_fd_add(event_fd, event_fd->wanted))
        return errno == ENOMEM || errno == ENOSPC ? OKV_ENOMEM : OKV_EIO;
    event_fd->watched = event_fd->wanted;
    return 0;
}

/* Removes the old one explicitly: epoll keeps a closed descriptor while a child of fork() has it.
 */
void event_fd_set(okv *handle, int fd)
{
    struct event_fd *event_fd = &handle->event_fd;

    if (event_fd->watched >= 0)
        epoll_ctl(event_fd->epoll, EPOLL_CTL_DEL, event_fd->watched, NULL);
    event_fd->watched = -1;
    event_fd->wanted = fd;
    event_fd_watch(event_fd);
}

int okv_fd(const okv *handle)
{
    return handle->event_fd.epoll;
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

static uint64_t event_fd_wake_ns(const okv *handle)
{
    uint64_t wake = handle->upcalls->wake_ns(handle);

    if (handle->active > 0 && handle->earliest_deadline_ns < wake)
        wake = handle->earliest_deadline_ns;
    return wake;
}

int okv_arm(okv *handle)
{
    struct event_fd *event_fd = &handle->event_fd;

    refusal_clear(handle);
    if (handle->failure)
        return handle->failure;
    event_fd->armed = true;
    event_fd->stale = false;
    int rc = event_fd_watch(event_fd);
    if (rc == 0)
        rc = timer_set(event_fd, event_fd_wake_ns(handle));
    if (rc == 0 && handle->conn)
        rc = handle->transport->arm(handle->conn->endpoint);
    return rc;
}

/* True when the armed state no longer fits: the link has changed, something is due earlier, or the
 * timer has fired. */
static bool event_fd_is_stale(const okv *handle, bool idle)
{
    const struct event_fd *event_fd = &handle->event_fd;

    if (event_fd->stale || !idle)
        return event_fd->stale;
    if (event_fd_wake_ns(handle) < event_fd->timer_ns)
        return true;
    return event_fd->timer_ns != EVENT_FD_OFF && event_fd->timer_ns <= okv_clock_ns();
}

void event_fd_follow(okv *handle, bool idle)
{
    for (int passes = 0; event_fd_is_stale(handle, idle); passes++) {
        if (passes == FOLLOW_PASSES || okv_arm(handle)) {
            timer_set(&handle->event_fd,
                      0); /* the next okv_poll() continues, or reports the failure */
            return;
        }
        idle = !engine_progress(handle); /* an event from before the arm announces nothing */
    }
}
