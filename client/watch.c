/*
 * One descriptor for the event loop of the caller, whatever becomes of connections: an epoll
 * instance with the descriptor of the connection there is, or of the attempt to make one, and a
 * timer for what no descriptor announces: pauses, ticks of the keepalive, deadlines.
 */
#include "client/handle.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shared/clock.h"
#include "shared/error.h"

static int watch_add(const struct watch *watch, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event);
}

int watch_create(okv *handle)
{
    struct watch *watch = &handle->watch;

    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (watch->epoll < 0 || watch->timer < 0 || watch_add(watch, watch->timer))
        return okv_diag_set(&handle->why, okv_error_from_errno(errno),
                            "no descriptors for a handle: %s", strerror(errno));
    return 0;
}

void watch_destroy(okv *handle)
{
    if (handle->watch.epoll >= 0)
        close(handle->watch.epoll);
    if (handle->watch.timer >= 0)
        close(handle->watch.timer);
}

/* The old one is taken out rather than left to be closed: a child of fork() may have it, too. */
void watch_set(okv *handle, int fd)
{
    struct watch *watch = &handle->watch;

    if (watch->watched >= 0)
        epoll_ctl(watch->epoll, EPOLL_CTL_DEL, watch->watched, NULL);
    watch->watched = fd >= 0 && watch_add(watch, fd) == 0 ? fd : -1;
}

int okv_fd(const okv *handle)
{
    return handle->watch.epoll;
}

/* Sets the timer unless it fires early enough as it is: once too often is no harm. */
static int timer_set(struct watch *watch, uint64_t wake_ns)
{
    uint64_t now = okv_clock_ns();

    if (watch->timer_ns > now && watch->timer_ns <= wake_ns)
        return 0;
    if (watch->timer_ns == 0 && wake_ns == UINT64_MAX)
        return 0;
    if (wake_ns == UINT64_MAX)
        wake_ns = 0; /* off */
    else if (wake_ns <= now)
        wake_ns = now + 1;
    struct itimerspec when = {.it_value = {.tv_sec = (time_t)(wake_ns / 1000000000u),
                                           .tv_nsec = (long)(wake_ns % 1000000000u)}};
    if (timerfd_settime(watch->timer, TFD_TIMER_ABSTIME, &when, NULL))
        return OKV_EIO;
    watch->timer_ns = wake_ns;
    return 0;
}

int okv_arm(okv *handle)
{
    uint64_t wake = link_wake_ns(handle);

    if (handle->failure)
        return handle->failure;
    if (handle->active > 0 && handle->earliest_deadline_ns < wake)
        wake = handle->earliest_deadline_ns;
    int rc = timer_set(&handle->watch, wake);
    if (rc == 0 && handle->conn)
        rc = handle->transport->arm(handle->conn->endpoint);
    handle->watch.armed = true;
    handle->watch.stale = false;
    /* The next okv_poll() finds that out, at once. */
    return rc == OKV_EDISCONNECTED ? timer_set(&handle->watch, 0) : rc;
}

/* What happened since the arm may have made a connection that is not armed, or a deadline before
 * the timer's. The caller wakes for nothing, and arms again. */
void watch_sleeps(okv *handle)
{
    struct watch *watch = &handle->watch;

    if (!watch->armed || !watch->stale)
        return;
    watch->armed = false;
    timer_set(watch, 0);
}
