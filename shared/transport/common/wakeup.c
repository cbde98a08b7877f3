#include "shared/transport/common/wakeup.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/error.h"

static int fail(int errnum, struct okv_diag *diag)
{
    return okv_diag_set(
        diag, okv_error_from_errno(errnum),
        "no descriptor for an endpoint (%s): raise the limit on open files (ulimit -n)",
        strerror(errnum));
}

static int watch(int set, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

int okv_wakeup_open(struct okv_wakeup *wakeup, bool has_timer, struct okv_diag *diag)
{
    *wakeup = OKV_WAKEUP_NONE;
    wakeup->set = epoll_create1(EPOLL_CLOEXEC);
    if (wakeup->set < 0)
        goto close_all;
    wakeup->event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (wakeup->event < 0 || watch(wakeup->set, wakeup->event, EPOLLIN))
        goto close_all;
    if (!has_timer)
        return 0;
    wakeup->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    if (wakeup->timer >= 0 && watch(wakeup->set, wakeup->timer, EPOLLIN) == 0)
        return 0;
close_all:;
    int errnum = errno;
    okv_wakeup_close(wakeup);
    return fail(errnum, diag);
}

void okv_wakeup_close(struct okv_wakeup *wakeup)
{
    const int fds[] = {wakeup->set, wakeup->timer, wakeup->event};

    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    *wakeup = OKV_WAKEUP_NONE;
}

int okv_wakeup_watch(const struct okv_wakeup *wakeup, int fd, uint32_t events,
                     struct okv_diag *diag)
{
    return watch(wakeup->set, fd, events) ? fail(errno, diag) : 0;
}

void okv_wakeup_signal(const struct okv_wakeup *wakeup)
{
    const uint64_t one = 1;
    ssize_t written = write(wakeup->event, &one, sizeof one);

    (void)written; /* fails only when the counter is full, and the descriptor then is readable */
}

static bool clear(int fd)
{
    uint64_t count;

    return read(fd, &count, sizeof count) >= 0 || errno == EAGAIN || errno == EINTR;
}

int okv_wakeup_clear(const struct okv_wakeup *wakeup)
{
    bool is_clear = clear(wakeup->event);

    if (wakeup->timer >= 0)
        is_clear &= clear(wakeup->timer);
    return is_clear ? 0 : OKV_EIO;
}

void okv_wakeup_start_timer(const struct okv_wakeup *wakeup, uint64_t ns)
{
    const struct itimerspec timer = {
        .it_value = {.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)}};

    timerfd_settime(wakeup->timer, 0, &timer, NULL);
}
