#include "shared/stream/handshakes.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

#define EVENTS_PER_PASS 16
#define NICENESS 10

static void end(struct okv_handshakes *handshakes, struct okv_handshake *handshake,
                enum okv_handshake_end how)
{
    epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_DEL, handshake->stream->fd, NULL);
    TAILQ_REMOVE(&handshakes->under_way, handshake, in_list);
    handshakes->ops->ended(handshakes->user, handshake, how);
}

static void step(struct okv_handshakes *handshakes, struct okv_handshake *handshake)
{
    struct okv_stream *stream = handshake->stream;
    int rc = atomic_load(&handshake->is_unwanted) ? -1 : okv_stream_handshake(stream);

    if (rc == 0) {
        struct epoll_event event = {.events = stream->writes_to_read ? EPOLLOUT : EPOLLIN,
                                    .data.ptr = handshake};
        epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_MOD, stream->fd, &event);
        return;
    }
    end(handshakes, handshake, rc > 0 ? OKV_HANDSHAKE_DONE : OKV_HANDSHAKE_FAILED);
}

static struct okv_handshake *next_of_inbox(struct okv_handshakes *handshakes)
{
    pthread_mutex_lock(&handshakes->lock);
    struct okv_handshake *handshake = TAILQ_FIRST(&handshakes->inbox);
    if (handshake)
        TAILQ_REMOVE(&handshakes->inbox, handshake, in_list);
    pthread_mutex_unlock(&handshakes->lock);
    return handshake;
}

static void empty_inbox(struct okv_handshakes *handshakes)
{
    struct okv_handshake *handshake;

    while ((handshake = next_of_inbox(handshakes))) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = handshake};
        TAILQ_INSERT_TAIL(&handshakes->under_way, handshake, in_list);
        handshake->began_ns = okv_clock_ns();
        if (epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_ADD, handshake->stream->fd, &event))
            end(handshakes, handshake, OKV_HANDSHAKE_FAILED);
    }
}

/* Ends those that take too long. Returns for how many ms none does; -1: for ever. */
static int end_overdue(struct okv_handshakes *handshakes)
{
    uint64_t limit_ns = handshakes->ops->limit_ns(handshakes->user), now_ns = okv_clock_ns();
    struct okv_handshake *oldest;

    while ((oldest = TAILQ_FIRST(&handshakes->under_way))) {
        uint64_t end_ns = oldest->began_ns + limit_ns;
        if (now_ns < end_ns)
            return (int)((end_ns - now_ns) / 1000000) + 1;
        end(handshakes, oldest, OKV_HANDSHAKE_OVERDUE);
    }
    return -1;
}

static void end_all(struct okv_handshakes *handshakes)
{
    struct okv_handshake *handshake;

    empty_inbox(handshakes);
    while ((handshake = TAILQ_FIRST(&handshakes->under_way)))
        end(handshakes, handshake, OKV_HANDSHAKE_STOPPED);
}

static void *run(void *user)
{
    struct okv_handshakes *handshakes = user;
    struct epoll_event events[EVENTS_PER_PASS];
    eventfd_t count;

    setpriority(PRIO_PROCESS, 0, NICENESS); /* of the thread, on Linux */
    while (!atomic_load(&handshakes->has_to_stop)) {
        int n = epoll_wait(handshakes->epoll_fd, events, EVENTS_PER_PASS, end_overdue(handshakes));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                step(handshakes, events[i].data.ptr);
            else
                eventfd_read(handshakes->wake_fd, &count);
        }
        empty_inbox(handshakes);
    }
    end_all(handshakes);
    return NULL;
}

int okv_handshakes_start(struct okv_handshakes *handshakes, const struct okv_handshakes_ops *ops,
                         void *user, struct okv_diag *why)
{
    struct epoll_event event = {.events = EPOLLIN};
    int rc = OKV_EIO;

    *handshakes = (struct okv_handshakes){.ops = ops, .user = user};
    TAILQ_INIT(&handshakes->inbox);
    TAILQ_INIT(&handshakes->under_way);
    handshakes->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (handshakes->epoll_fd < 0)
        return OKV_EIO;
    handshakes->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (handshakes->wake_fd < 0)
        goto close_epoll;
    if (epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_ADD, handshakes->wake_fd, &event))
        goto close_wake;
    pthread_mutex_init(&handshakes->lock, NULL);
    rc = okv_thread_start(&handshakes->thread, run, handshakes, why);
    if (rc == 0)
        return 0;
    pthread_mutex_destroy(&handshakes->lock);
close_wake:
    close(handshakes->wake_fd);
close_epoll:
    close(handshakes->epoll_fd);
    return rc;
}

void okv_handshakes_add(struct okv_handshakes *handshakes, struct okv_handshake *handshake)
{
    pthread_mutex_lock(&handshakes->lock);
    TAILQ_INSERT_TAIL(&handshakes->inbox, handshake, in_list);
    pthread_mutex_unlock(&handshakes->lock);
    eventfd_write(handshakes->wake_fd, 1);
}

void okv_handshakes_stop(struct okv_handshakes *handshakes)
{
    atomic_store(&handshakes->has_to_stop, true);
    eventfd_write(handshakes->wake_fd, 1);
    pthread_join(handshakes->thread, NULL);
    pthread_mutex_destroy(&handshakes->lock);
    close(handshakes->wake_fd);
    close(handshakes->epoll_fd);
}
