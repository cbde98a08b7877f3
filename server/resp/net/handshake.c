#include "server/resp/net/handshake.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/resp/net/admit.h"
#include "server/resp/run/place.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

#define EVENTS_PER_PASS 16
/* Where there are fewer processors than threads, workers come first. */
#define NICENESS 10

static void leave(struct okv_resp_handshakes *handshakes, struct okv_resp_client *client)
{
    epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_DEL, client->stream.fd, NULL);
    TAILQ_REMOVE(&handshakes->under_way, client, in_all);
}

static void step(struct okv_resp_handshakes *handshakes, struct okv_resp_client *client)
{
    int rc = okv_stream_handshake(&client->stream);

    if (rc == 0) {
        struct epoll_event event = {.events = client->stream.writes_to_read ? EPOLLOUT : EPOLLIN,
                                    .data.ptr = client};
        epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_MOD, client->stream.fd, &event);
        return;
    }
    leave(handshakes, client);
    if (rc > 0)
        okv_resp_admit(handshakes->server, client);
    else
        okv_resp_turn_away(handshakes->server, client);
}

static struct okv_resp_client *next_of_inbox(struct okv_resp_handshakes *handshakes)
{
    pthread_mutex_lock(&handshakes->lock);
    struct okv_resp_client *client = TAILQ_FIRST(&handshakes->inbox);
    if (client)
        TAILQ_REMOVE(&handshakes->inbox, client, in_all);
    pthread_mutex_unlock(&handshakes->lock);
    return client;
}

static void empty_inbox(struct okv_resp_handshakes *handshakes)
{
    struct okv_resp_client *client;

    while ((client = next_of_inbox(handshakes))) {
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
        TAILQ_INSERT_TAIL(&handshakes->under_way, client, in_all);
        client->common.created_ns = okv_clock_ns();
        if (epoll_ctl(handshakes->epoll_fd, EPOLL_CTL_ADD, client->stream.fd, &event)) {
            leave(handshakes, client);
            okv_resp_turn_away(handshakes->server, client);
        }
    }
}

/* Ends handshakes that take too long. Returns for how many ms none does; -1: for ever. */
static int end_overdue(struct okv_resp_handshakes *handshakes, bool all)
{
    uint64_t hello_ns = okv_resp_hello_ns(handshakes->server), now_ns = okv_clock_ns();
    struct okv_resp_client *client;

    while ((client = TAILQ_FIRST(&handshakes->under_way))) {
        uint64_t end_ns = client->common.created_ns + hello_ns;
        if (now_ns < end_ns && !all)
            return (int)((end_ns - now_ns) / 1000000) + 1;
        leave(handshakes, client);
        OKV_STATS_ADD(&handshakes->server->stats, closed_half_open, !all);
        okv_resp_turn_away(handshakes->server, client);
    }
    return -1;
}

static void *run(void *user)
{
    struct okv_resp_handshakes *handshakes = user;
    struct epoll_event events[EVENTS_PER_PASS];
    eventfd_t count;

    setpriority(PRIO_PROCESS, 0, NICENESS); /* of the thread, on Linux */
    while (!atomic_load(&handshakes->has_to_stop)) {
        int n = epoll_wait(handshakes->epoll_fd, events, EVENTS_PER_PASS,
                           end_overdue(handshakes, false));
        for (int i = 0; i < n; i++) {
            if (events[i].data.ptr)
                step(handshakes, events[i].data.ptr);
            else
                eventfd_read(handshakes->wake_fd, &count);
        }
        empty_inbox(handshakes);
    }
    empty_inbox(handshakes);
    end_overdue(handshakes, true);
    return NULL;
}

int okv_resp_handshakes_start(struct okv_resp_handshakes *handshakes, struct okv_server *server,
                              struct okv_diag *why)
{
    struct epoll_event event = {.events = EPOLLIN};
    int rc = OKV_EIO;

    *handshakes = (struct okv_resp_handshakes){.server = server};
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

void okv_resp_handshakes_add(struct okv_resp_handshakes *handshakes, struct okv_resp_client *client)
{
    pthread_mutex_lock(&handshakes->lock);
    TAILQ_INSERT_TAIL(&handshakes->inbox, client, in_all);
    pthread_mutex_unlock(&handshakes->lock);
    eventfd_write(handshakes->wake_fd, 1);
}

void okv_resp_handshakes_stop(struct okv_resp_handshakes *handshakes)
{
    atomic_store(&handshakes->has_to_stop, true);
    eventfd_write(handshakes->wake_fd, 1);
    pthread_join(handshakes->thread, NULL);
    pthread_mutex_destroy(&handshakes->lock);
    close(handshakes->wake_fd);
    close(handshakes->epoll_fd);
}
