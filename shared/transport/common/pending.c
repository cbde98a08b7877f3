#include "shared/transport/common/pending.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Events that one next_request handles without a result. The descriptor stays readable for the
 * others. */
#define STEPS_MAX 8

static struct okv_pending_client *client_of(struct okv_crowd_member *member)
{
    return (struct okv_pending_client *)((char *)member -
                                         offsetof(struct okv_pending_client, member));
}

/* NULL: there is none. */
static struct okv_pending_client *oldest_of(const struct okv_pending *pending)
{
    struct okv_crowd_member *member = TAILQ_FIRST(&pending->crowd.members);

    return member ? client_of(member) : NULL;
}

/* Sets the timer to the moment when the oldest client is dropped. */
static void set_timer(const struct okv_pending *pending)
{
    const struct okv_pending_client *oldest = oldest_of(pending);
    struct itimerspec when = {0};

    if (oldest) {
        uint64_t at_ns = oldest->arrived_ns + pending->silence_ns;
        when.it_value.tv_sec = (time_t)(at_ns / 1000000000u);
        when.it_value.tv_nsec = (long)(at_ns % 1000000000u);
    }
    timerfd_settime(pending->timer, TFD_TIMER_ABSTIME, &when, NULL);
}

static int watch(const struct okv_pending *pending, int fd, void *source)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};

    return epoll_ctl(pending->epoll, EPOLL_CTL_ADD, fd, &event) ? errno : 0;
}

int okv_pending_open(struct okv_pending *pending, int sock, uint64_t silence_ns,
                     const struct okv_pending_ops *ops, struct okv_diag *diag)
{
    *pending = (struct okv_pending){.ops = ops,
                                    .sock = sock,
                                    .max = OKV_PENDING_MAX,
                                    .silence_ns = silence_ns,
                                    .usual_silence_ns = silence_ns};
    okv_crowd_init(&pending->crowd);
    okv_crowd_init(&pending->leaving);
    pending->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    pending->epoll = epoll_create1(EPOLL_CLOEXEC);
    int errnum = pending->timer < 0 || pending->epoll < 0 ? errno : 0;
    int failure = okv_entrance_open(&pending->entrance, sock);
    errnum = errnum ? errnum : failure;
    if (errnum == 0)
        errnum = watch(pending, pending->entrance.fd, &pending->entrance);
    if (errnum == 0)
        errnum = watch(pending, pending->timer, &pending->timer);
    if (errnum == 0)
        return 0;
    okv_pending_close(pending);
    return okv_entrance_explain(diag, errnum);
}

int okv_pending_watch_returns(struct okv_pending *pending, int fd, struct okv_diag *diag)
{
    int errnum = watch(pending, fd, &pending->has_returns);

    return errnum
               ? okv_diag_set(diag, OKV_EIO, "no descriptor can be watched: %s", strerror(errnum))
               : 0;
}

/* By `apart` where that is not NULL. */
static void close_socket(void (*apart)(int sock), int sock)
{
    if (apart)
        apart(sock);
    else
        close(sock);
}

void okv_pending_close(struct okv_pending *pending)
{
    const int fds[] = {pending->epoll, pending->timer};
    struct okv_pending_client *client;

    while ((client = oldest_of(pending))) {
        okv_crowd_remove(&pending->crowd, &client->member);
        pending->ops->drop(client);
    }
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    okv_entrance_close(&pending->entrance);
    close_socket(pending->ops->close_listening, pending->sock);
}

void okv_pending_remove(struct okv_pending *pending, struct okv_pending_client *client)
{
    bool was_oldest = oldest_of(pending) == client;

    if (!client->is_away)
        epoll_ctl(pending->epoll, EPOLL_CTL_DEL, client->sock, NULL);
    okv_crowd_remove(&pending->crowd, &client->member);
    if (was_oldest)
        set_timer(pending);
}

static void drop(struct okv_pending *pending, struct okv_pending_client *client)
{
    okv_pending_remove(pending, client); /* a closed socket may live on for a moment */
    if (!client->is_away) {
        pending->ops->drop(client);
        return;
    }
    client->is_dropped = true;
    client->member = (struct okv_crowd_member){.address = client->base.address};
    okv_crowd_add(&pending->leaving, &client->member);
    pending->ops->recall(client);
}

static void drop_overdue(struct okv_pending *pending)
{
    uint64_t now = okv_clock_ns();
    struct okv_pending_client *oldest;

    while ((oldest = oldest_of(pending)) && now - oldest->arrived_ns >= pending->silence_ns)
        drop(pending, oldest);
    set_timer(pending); /* also makes its descriptor unreadable */
}

int okv_pending_add(struct okv_pending *pending, struct okv_pending_client *client)
{
    int errnum = client->is_away ? 0 : watch(pending, client->sock, client);

    if (errnum)
        return errnum;
    while (pending->crowd.count >= pending->max && pending->crowd.count > 0)
        drop(pending, client_of(okv_crowd_one_too_many(&pending->crowd)));
    client->arrived_ns = okv_clock_ns();
    drop_overdue(pending); /* the time may have become shorter */
    client->member = (struct okv_crowd_member){.address = client->base.address};
    okv_crowd_add(&pending->crowd, &client->member);
    if (oldest_of(pending) == client)
        set_timer(pending);
    return 0;
}

/* Too many are leaving, some of them from the client's address. */
static bool is_crowded(const struct okv_pending *pending, const struct okv_pending_client *client)
{
    unsigned max = pending->max, leaving = pending->leaving.count;

    return leaving > 0 &&
           (leaving >= 2 * max ||
            (leaving >= max && okv_crowd_has(&pending->leaving, client->base.address)));
}

static void accept_client(struct okv_listener *listener)
{
    struct okv_pending *pending = listener->pending;
    int sock = okv_entrance_accept(&pending->entrance, NULL, NULL);

    if (sock < 0)
        return;
    struct okv_pending_client *client = calloc(1, pending->ops->size);
    if (!client) {
        close_socket(pending->ops->close_client, sock);
        return;
    }
    client->base.listener = listener;
    client->sock = sock;
    if (pending->ops->greet(client) || is_crowded(pending, client)) {
        pending->ops->drop(client);
        return;
    }
    if (pending->ops->lead_away) {
        client->is_away = true;
        pending->ops->lead_away(client);
    }
    if (okv_pending_add(pending, client))
        pending->ops->drop(client);
}

/* Whether the hello of a client is complete. One that sends anything else is dropped. */
static bool take_hello(struct okv_pending *pending, struct okv_pending_client *client)
{
    int status = pending->ops->read_hello(client);

    if (status < 0)
        drop(pending, client);
    else if (status > 0)
        okv_pending_remove(pending, client);
    return status > 0;
}

/* Takes a client that comes back. Returns it if it has a complete hello. */
static struct okv_pending_client *take_returned(struct okv_listener *listener)
{
    struct okv_pending *pending = listener->pending;
    struct okv_pending_client *client = pending->ops->next_returned(listener);

    if (!client)
        return NULL;
    client->is_away = false;
    if (client->is_dropped) {
        okv_crowd_remove(&pending->leaving, &client->member);
        pending->ops->drop(client);
    } else if (watch(pending, client->sock, client))
        drop(pending, client);
    else if (take_hello(pending, client))
        return client;
    return NULL;
}

int okv_pending_next_request(struct okv_listener *listener, struct okv_request **out)
{
    struct okv_pending *pending = listener->pending;
    struct epoll_event event;

    for (int step = 0; step < STEPS_MAX; step++) {
        int count = epoll_wait(pending->epoll, &event, 1, 0);
        if (count < 0 && errno != EINTR)
            return okv_error_from_errno(errno);
        if (count <= 0)
            return 0;
        struct okv_pending_client *client = event.data.ptr;
        if (event.data.ptr == &pending->entrance) {
            accept_client(listener);
        } else if (event.data.ptr == &pending->timer) {
            drop_overdue(pending);
        } else if (event.data.ptr == &pending->has_returns) {
            client = take_returned(listener);
            if (!client)
                continue;
            *out = &client->base;
            return 1;
        } else if (take_hello(pending, client)) {
            *out = &client->base;
            return 1;
        }
    }
    return 0;
}
