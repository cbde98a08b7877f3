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

#include "shared/base/error.h"

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

int event_fd_watch(struct event_fd *event_fd)
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
