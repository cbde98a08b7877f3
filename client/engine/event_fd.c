/*
 * One descriptor for the event loop of the caller, whatever becomes of connections: an epoll
 * instance with the descriptor of the connection there is, or of the attempt to make one, and a
 * timer for what no descriptor announces: pauses, ticks of the keepalive, deadlines.
 */
#include "client/engine/event_fd.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "client/engine/progress.h"
#include "client/engine/upcalls.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Times that what is armed is adapted in one call. */
#define FOLLOW_TURNS 4

static int watch_add(const struct watch *watch, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    return epoll_ctl(watch->epoll, EPOLL_CTL_ADD, fd, &event);
}

int event_fd_create(okv *handle)
{
    struct watch *watch = &handle->watch;

    watch->epoll = epoll_create1(EPOLL_CLOEXEC);
    watch->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (watch->epoll < 0 || watch->timer < 0 || watch_add(watch, watch->timer))
        return okv_diag_set(&handle->why, okv_error_from_errno(errno),
                            "no descriptors for a handle: %s", strerror(errno));
    return 0;
}

void event_fd_destroy(okv *handle)
{
    if (handle->watch.epoll >= 0)
        close(handle->watch.epoll);
    if (handle->watch.timer >= 0)
        close(handle->watch.timer);
}

/* Where that fails it is tried again by whoever needs it. */
static int watch_wanted(struct watch *watch)
{
    if (watch->watched == watch->wanted)
        return 0;
    if (watch_add(watch, watch->wanted))
        return errno == ENOMEM || errno == ENOSPC ? OKV_ENOMEM : OKV_EIO;
    watch->watched = watch->wanted;
    return 0;
}

/* The old one is taken out rather than left to be closed: a child of fork() may have it, too. */
void event_fd_set(okv *handle, int fd)
{
    struct watch *watch = &handle->watch;

    if (watch->watched >= 0)
        epoll_ctl(watch->epoll, EPOLL_CTL_DEL, watch->watched, NULL);
    watch->watched = -1;
    watch->wanted = fd;
    watch_wanted(watch);
}

int okv_fd(const okv *handle)
{
    return handle->watch.epoll;
}

/* Sets the timer unless it fires early enough as it is: once too often is no harm. */
static int timer_set(struct watch *watch, uint64_t wake_ns)
{
    uint64_t now = okv_clock_ns();
    struct itimerspec when = {.it_value = {.tv_sec = 0}}; /* off */

    if (watch->timer_ns > now && watch->timer_ns <= wake_ns)
        return 0;
    if (wake_ns != WATCH_OFF) {
        if (wake_ns <= now)
            wake_ns = now + 1;
        when.it_value.tv_sec = (time_t)(wake_ns / 1000000000u);
        when.it_value.tv_nsec = (long)(wake_ns % 1000000000u);
    }
    if (timerfd_settime(watch->timer, TFD_TIMER_ABSTIME, &when, NULL))
        return OKV_EIO;
    watch->timer_ns = wake_ns;
    return 0;
}

static uint64_t watch_wake_ns(const okv *handle)
{
    uint64_t wake = handle->upcalls->wake_ns(handle);

    if (handle->active > 0 && handle->earliest_deadline_ns < wake)
        wake = handle->earliest_deadline_ns;
    return wake;
}

int okv_arm(okv *handle)
{
    struct watch *watch = &handle->watch;

    if (handle->failure)
        return handle->failure;
    watch->armed = true;
    watch->stale = false;
    int rc = watch_wanted(watch);
    if (rc == 0)
        rc = timer_set(watch, watch_wake_ns(handle));
    if (rc == 0 && handle->conn)
        rc = handle->transport->arm(handle->conn->endpoint);
    /* The next okv_poll() finds that out, at once. */
    return rc == OKV_EDISCONNECTED ? timer_set(watch, 0) : rc;
}

/* What was armed is not what is to be waited for: another connection, an earlier step, or nothing
 * after the timer fired. */
static bool watch_is_stale(const okv *handle, bool idle)
{
    const struct watch *watch = &handle->watch;

    if (watch->stale || !idle)
        return watch->stale;
    if (watch_wake_ns(handle) < watch->timer_ns)
        return true;
    return watch->timer_ns != WATCH_OFF && watch->timer_ns <= okv_clock_ns();
}

void event_fd_follow(okv *handle, bool idle)
{
    for (int turns = 0; watch_is_stale(handle, idle); turns++) {
        if (turns == FOLLOW_TURNS || okv_arm(handle)) {
            timer_set(&handle->watch, 0); /* the next okv_poll() goes on, or says why not */
            return;
        }
        idle = !engine_turn(handle); /* what came before the arm announces nothing */
    }
}
