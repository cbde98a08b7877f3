#include "shared/base/entrance.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/diag.h"
#include "shared/base/error.h"

/* Nobody tells when there is a descriptor again. */
#define REST_NS 100000000

static int watch(const struct okv_entrance *entrance, int how, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events};

    return epoll_ctl(entrance->fd, how, fd, &event);
}

int okv_entrance_open(struct okv_entrance *entrance, int sock)
{
    *entrance = (struct okv_entrance){.sock = sock};
    entrance->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    entrance->fd = epoll_create1(EPOLL_CLOEXEC);
    if (entrance->timer >= 0 && entrance->fd >= 0 &&
        watch(entrance, EPOLL_CTL_ADD, sock, EPOLLIN) == 0 &&
        watch(entrance, EPOLL_CTL_ADD, entrance->timer, EPOLLIN) == 0)
        return 0;
    int errnum = errno;
    okv_entrance_close(entrance);
    return errnum;
}

int okv_entrance_explain(struct okv_diag *diag, int errnum)
{
    return okv_diag_set(diag, okv_error_from_errno(errnum),
                        "no descriptor to listen with (%s): raise the limit on open files "
                        "(ulimit -n)",
                        strerror(errnum));
}

void okv_entrance_close(struct okv_entrance *entrance)
{
    if (entrance->fd >= 0)
        close(entrance->fd);
    if (entrance->timer >= 0)
        close(entrance->timer);
    entrance->fd = entrance->timer = -1;
}

/* Not the end of one client, which accept(2) reports, too. */
static bool is_shortage(int errnum)
{
    return errnum == EMFILE || errnum == ENFILE || errnum == ENOMEM || errnum == ENOBUFS;
}

static void rest(struct okv_entrance *entrance, int errnum)
{
    const struct itimerspec when = {.it_value.tv_nsec = REST_NS};

    if (!entrance->short_of)
        entrance->news = errnum;
    entrance->short_of = errnum;
    timerfd_settime(entrance->timer, 0, &when, NULL);
    entrance->is_resting = watch(entrance, EPOLL_CTL_MOD, entrance->sock, 0) == 0;
}

/* Whether it rests still. */
static bool rests(struct okv_entrance *entrance)
{
    uint64_t times;

    if (read(entrance->timer, &times, sizeof times) == sizeof times) {
        entrance->is_resting = false;
        watch(entrance, EPOLL_CTL_MOD, entrance->sock, EPOLLIN);
    }
    return entrance->is_resting;
}

int okv_entrance_accept(struct okv_entrance *entrance, struct sockaddr *address, socklen_t *length)
{
    if (entrance->is_resting && rests(entrance))
        return -1;
    int sock = accept4(entrance->sock, address, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (sock >= 0)
        entrance->short_of = 0;
    else if (is_shortage(errno))
        rest(entrance, errno);
    return sock;
}

int okv_entrance_news(struct okv_entrance *entrance)
{
    int errnum = entrance->news;

    entrance->news = 0;
    return errnum;
}
