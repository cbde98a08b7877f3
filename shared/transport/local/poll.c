#include "shared/transport/local/poll.h"

#include <errno.h>
#include <poll.h>
#include <sys/epoll.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/endpoint.h"
#include "shared/transport/local/messages.h"
#include "shared/transport/local/notification.h"
#include "shared/transport/local/read.h"
#include "shared/transport/local/rendezvous.h"

/* Ready sockets that one poll of a server handles. */
#define POLL_BATCH 64

/* Polls of the rings per poll of the sockets. In a server this bounds how long a client that wakes
 * from idleness waits while others are busy. A client's socket tells only the end of its server,
 * and the client checks it before it sleeps too. */
#define SERVER_SOCKET_INTERVAL 16u
#define CLIENT_SOCKET_INTERVAL 128u

/* Polls without a message after which a connection becomes idle. An active ring costs each poll a
 * few nanoseconds; an idle one costs the next message a system call. */
#define IDLE_POLLS 4096u

static int at_most(int limit, int max)
{
    return max < limit ? max : limit;
}

static int report_ended(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    int n = 0;

    while (n < max && !TAILQ_EMPTY(&endpoint->ended)) {
        struct okv_local_conn *conn = TAILQ_FIRST(&endpoint->ended);
        n += okv_local_end_rendezvous(conn, events + n, max - n);
        if (n == max)
            break;
        TAILQ_REMOVE(&endpoint->ended, conn, in_ended);
        conn->state = OKV_LOCAL_CLOSED;
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_CLOSED,
            .status = conn->status,
            .conn = &conn->base,
        };
    }
    return n;
}

static int report_opened(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    struct okv_conn *conn =
        okv_arrivals_has_any(&endpoint->arrivals) ? okv_arrivals_take(&endpoint->arrivals) : NULL;

    for (; conn; conn = STAILQ_NEXT(conn, in_arrivals))
        okv_local_conn_attach(okv_local_conn(conn));
    return okv_arrivals_report(&endpoint->arrivals, events, max);
}

/* One packet of each ready socket: a client that sends many makes others wait no longer than one
 * that is busy. Its end counts at once, even if packets precede it. epoll moves a reported socket
 * to the end of its ready list, so none starves when more than POLL_BATCH are ready. */
static int poll_sockets(struct okv_local_endpoint *endpoint)
{
    struct epoll_event ready[POLL_BATCH];
    int count = epoll_wait(endpoint->base.fd, ready, POLL_BATCH, 0);

    for (int i = 0; i < count; i++) {
        struct okv_local_conn *conn = ready[i].data.ptr;
        if (!conn) /* the wake-up: arm clears it */
            continue;
        if (ready[i].events & ~(uint32_t)(EPOLLIN | EPOLLOUT)) {
            okv_local_hang_up(conn);
            continue;
        }
        if (ready[i].events & EPOLLOUT)
            okv_local_flush(&conn->base);
        if (ready[i].events & EPOLLIN)
            okv_local_socket_receive(conn);
    }
    return count < 0 && errno != EINTR ? okv_error_from_errno(errno) : 0;
}

/* Receives up to `max` messages of one active connection. */
static int serve(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    int n;

    if (conn->ring_full)
        okv_local_flush(&conn->base);
    if (conn->state != OKV_LOCAL_OPEN)
        return 0;
    n = okv_local_receive(conn, events, max);
    conn->idle_polls = n > 0 ? 0 : conn->idle_polls + 1;
    return n;
}

/* Receives from the active connections. Each gets its part of the room and then moves to the end of
 * the list. */
static int serve_active(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    unsigned count = endpoint->active_count;
    struct okv_local_conn *conn;
    int n = 0;

    for (; count > 0 && n < max && (conn = TAILQ_FIRST(&endpoint->active)); count--) {
        int part = (max - n) / (int)count; /* of this one and of each that follows */
        TAILQ_REMOVE(&endpoint->active, conn, in_active);
        TAILQ_INSERT_TAIL(&endpoint->active, conn, in_active);
        n += serve(conn, events + n, part > 0 ? part : 1);
        if (conn->idle_polls >= IDLE_POLLS && conn->is_active)
            okv_local_conn_go_idle(conn);
    }
    return n;
}

static int poll_server(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    int n = report_opened(endpoint, events, max);
    int ended = 0, status = 0;

    n += okv_local_run_rendezvous(endpoint, events + n, max - n);
    /* The ended come before messages, which may never run out. */
    if (n < max)
        ended = report_ended(endpoint, events + n, at_most(OKV_ENDS_PER_POLL, max - n));
    n += ended;
    if (n == max)
        return n;
    if (endpoint->active_count == 0 || ++endpoint->polls % SERVER_SOCKET_INTERVAL == 0)
        status = poll_sockets(endpoint);
    n += serve_active(endpoint, events + n, max - n);
    n += report_ended(endpoint, events + n, at_most(OKV_ENDS_PER_POLL - ended, max - n));
    /* Events go first. The next poll finds the endpoint broken again. */
    return n == 0 && status ? status : n;
}

/* The server's end takes effect at once, even if packets precede it. */
static void check_socket(struct okv_local_conn *conn)
{
    struct pollfd watched = {.fd = conn->sock, .events = POLLIN | POLLRDHUP};

    if (poll(&watched, 1, 0) <= 0)
        return;
    if (watched.revents & ~POLLIN)
        okv_local_hang_up(conn);
    else
        okv_local_socket_receive(conn);
}

/* With READs to report, checks the server unless it was seen alive just before. Otherwise checks it
 * now and then, and when idle in every poll. */
static void check_server(struct okv_local_conn *conn)
{
    unsigned polls = ++okv_local_endpoint(conn->base.endpoint)->polls;
    uint64_t now = 0;
    bool is_due;

    if (conn->read_count > 0) {
        now = okv_clock_steps();
        is_due = !okv_local_is_alive(conn, now);
    } else {
        is_due = !conn->is_active || polls % CLIENT_SOCKET_INTERVAL == 0;
    }
    if (!is_due)
        return;
    check_socket(conn);
    if (conn->hung_up || conn->state != OKV_LOCAL_OPEN)
        okv_local_fail_reads(conn);
    else if (conn->read_count > 0)
        conn->alive_steps = now;
}

static int poll_client(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    struct okv_local_conn *conn = endpoint->client;
    int n = 0;

    if (conn->ring_full || conn->must_notify)
        okv_local_flush(&conn->base);
    if (conn->state == OKV_LOCAL_OPEN)
        check_server(conn);
    if (conn->state == OKV_LOCAL_OPEN && (conn->hung_up || !okv_local_ring_is_quiet(&conn->ring)))
        n = okv_local_receive(conn, events, conn->read_count > 0 ? (max + 1) / 2 : max);
    if (n > 0)
        okv_local_conn_activate(conn);
    n += okv_local_report_reads(conn, events + n, max - n);
    if (conn->read_count == 0)
        n += report_ended(endpoint, events + n, max - n);
    return n;
}

int okv_local_poll(struct okv_endpoint *base, struct okv_event *events, int max)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);

    if (max <= 0)
        return 0;
    int n =
        endpoint->client ? poll_client(endpoint, events, max) : poll_server(endpoint, events, max);
    base->is_copying = !TAILQ_EMPTY(&endpoint->rendezvous);
    /* No second notification comes for an active connection. Its owner may still go to sleep,
     * because this poll gave it no event: keep the descriptor readable. */
    if (endpoint->armed && endpoint->active_count > 0)
        okv_local_announce(endpoint);
    return n;
}

/* Makes quiet connections idle. The poll after the arm finds the messages of the others. */
static void idle_all(struct okv_local_endpoint *endpoint)
{
    struct okv_local_conn *next;

    for (struct okv_local_conn *conn = TAILQ_FIRST(&endpoint->active); conn; conn = next) {
        next = TAILQ_NEXT(conn, in_active);
        okv_local_conn_go_idle(conn);
    }
}

int okv_local_arm(struct okv_endpoint *base)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);
    int status = okv_wakeup_clear(&endpoint->wakeup);

    if (status)
        return status;
    endpoint->armed = true;
    idle_all(endpoint);
    bool is_waiting = !TAILQ_EMPTY(&endpoint->ended) || !TAILQ_EMPTY(&endpoint->rendezvous) ||
                      (endpoint->client && endpoint->client->read_count > 0) ||
                      okv_arrivals_are_waiting(&endpoint->arrivals);
    if (is_waiting)
        okv_local_announce(endpoint);
    return 0;
}
