#include "shared/transport/pending.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Sets the timer to the moment when the oldest client is dropped. */
static void set_timer(const struct okv_pending *pending)
{
    struct itimerspec when = {0};

    if (pending->oldest) {
        uint64_t at_ns = pending->oldest->arrived_ns + pending->silence_ns;
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
                     void (*drop)(struct okv_pending_client *client), struct okv_diag *diag)
{
    *pending = (struct okv_pending){.sock = sock,
                                    .max = OKV_PENDING_MAX,
                                    .silence_ns = silence_ns,
                                    .usual_silence_ns = silence_ns,
                                    .drop = drop};
    pending->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    pending->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
    pending->epoll = epoll_create1(EPOLL_CLOEXEC);
    int errnum = pending->timer < 0 || pending->spare < 0 || pending->epoll < 0 ? errno : 0;
    if (errnum == 0)
        errnum = watch(pending, sock, &pending->sock);
    if (errnum == 0)
        errnum = watch(pending, pending->timer, &pending->timer);
    if (errnum == 0)
        return 0;
    okv_pending_close(pending);
    return okv_diag_set(diag, okv_error_from_errno(errnum),
                        "no descriptor to listen with (%s): raise the limit on open files "
                        "(ulimit -n)",
                        strerror(errnum));
}

void okv_pending_close(struct okv_pending *pending)
{
    const int fds[] = {pending->epoll, pending->spare, pending->timer};

    while (pending->oldest) {
        struct okv_pending_client *client = pending->oldest;
        pending->oldest = client->next;
        pending->drop(client);
    }
    for (unsigned i = 0; i < sizeof fds / sizeof *fds; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
    }
    if (pending->close_listening)
        pending->close_listening(pending->sock);
    else
        close(pending->sock);
}

static unsigned count_from(const struct okv_pending *pending, const char *from)
{
    unsigned count = 0;

    for (const struct okv_pending_client *client = pending->oldest; client; client = client->next)
        count += strcmp(client->from, from) == 0;
    return count;
}

static void list_remove(struct okv_pending *pending, struct okv_pending_client *client)
{
    bool was_oldest = pending->oldest == client;

    for (struct okv_pending_client *later = client->next; later; later = later->next)
        later->ahead -= strcmp(later->from, client->from) == 0;
    if (client->previous)
        client->previous->next = client->next;
    else
        pending->oldest = client->next;
    if (client->next)
        client->next->previous = client->previous;
    else
        pending->newest = client->previous;
    client->previous = client->next = NULL;
    pending->count--;
    if (was_oldest)
        set_timer(pending);
}

void okv_pending_remove(struct okv_pending *pending, struct okv_pending_client *client)
{
    epoll_ctl(pending->epoll, EPOLL_CTL_DEL, client->sock, NULL);
    list_remove(pending, client);
}

static void drop(struct okv_pending *pending, struct okv_pending_client *client)
{
    okv_pending_remove(pending, client); /* a closed socket may live on for a moment */
    pending->drop(client);
}

/* The oldest of those from where most come. A flood has it called for each of its clients, so it
 * looks at each client once. */
static struct okv_pending_client *one_too_many(const struct okv_pending *pending)
{
    struct okv_pending_client *last = pending->oldest, *first = pending->oldest;

    for (struct okv_pending_client *client = pending->oldest; client; client = client->next)
        if (client->ahead > last->ahead)
            last = client;
    while (strcmp(first->from, last->from) != 0)
        first = first->next;
    return first;
}

static void drop_overdue(struct okv_pending *pending)
{
    uint64_t now = okv_clock_ns();

    while (pending->oldest && now - pending->oldest->arrived_ns >= pending->silence_ns)
        drop(pending, pending->oldest);
    set_timer(pending); /* also makes its descriptor unreadable */
}

int okv_pending_add(struct okv_pending *pending, struct okv_pending_client *client)
{
    int errnum = watch(pending, client->sock, client);

    if (errnum)
        return errnum;
    while (pending->count >= pending->max && pending->count > 0)
        drop(pending, one_too_many(pending));
    client->arrived_ns = okv_clock_ns();
    drop_overdue(pending); /* the time may have become shorter */
    client->ahead = count_from(pending, client->from);
    client->previous = pending->newest;
    client->next = NULL;
    if (pending->newest)
        pending->newest->next = client;
    else
        pending->oldest = client;
    pending->newest = client;
    pending->count++;
    if (pending->oldest == client)
        set_timer(pending);
    return 0;
}

int okv_pending_wait(struct okv_pending *pending, struct okv_pending_client **client)
{
    struct epoll_event event;
    int count = epoll_wait(pending->epoll, &event, 1, 0);

    if (count < 0 && errno != EINTR)
        return okv_error_from_errno(errno);
    if (count <= 0)
        return OKV_PENDING_NOTHING;
    if (event.data.ptr == &pending->sock)
        return OKV_PENDING_CONNECT;
    if (event.data.ptr == &pending->timer) {
        drop_overdue(pending);
        return OKV_PENDING_OTHER;
    }
    *client = event.data.ptr;
    return OKV_PENDING_BYTES;
}

/* Turns one client away when no descriptor is left for it. Otherwise its connect would keep the
 * listener's descriptor readable for ever. */
static void turn_away(struct okv_pending *pending)
{
    close(pending->spare);
    int sock = accept4(pending->sock, NULL, NULL, SOCK_CLOEXEC);
    if (sock >= 0 && pending->close_client)
        pending->close_client(sock);
    else if (sock >= 0)
        close(sock);
    pending->spare = open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int okv_pending_accept(struct okv_pending *pending)
{
    int sock = accept4(pending->sock, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

    if (sock < 0 && (errno == EMFILE || errno == ENFILE))
        turn_away(pending);
    return sock;
}
