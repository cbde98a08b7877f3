#include "shared/transport/tcp/poll.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/input.h"
#include "shared/transport/tcp/messages.h"
#include "shared/transport/tcp/rendezvous.h"

/* Ready connections that one poll of a server serves: a small request costs two calls of the
 * system.
 */
#define POLL_BATCH 64

/* A poll of a server serves no further connection after this number of bytes. The last one may add
 * a step. */
#define POLL_BYTES (OKV_TCP_STEP / 2)

static void serve(struct okv_tcp_conn *conn)
{
    bool is_readable = conn->is_readable || conn->stream.writes_to_read;

    okv_tcp_conn_forget_ready(conn);
    conn->is_readable = false;
    if (is_readable && conn->state == OKV_TCP_OPEN)
        okv_tcp_input(conn);
    if (conn->output.count > 0)
        okv_tcp_conn_write(conn);
    else if (conn->stream.ssl)
        okv_tcp_conn_watch(conn);
}

/* A level-triggered set reports a socket again that is not drained. It may report any of those that
 * are ready, in any order. */
static int list_ready_sockets(struct okv_tcp_endpoint *endpoint)
{
    struct epoll_event ready[POLL_BATCH];
    int count = epoll_wait(endpoint->wakeup.set, ready, POLL_BATCH, 0);

    for (int i = 0; i < count; i++)
        if (ready[i].data.ptr) /* else the wake-up: arm clears it */
            okv_tcp_conn_list_ready(ready[i].data.ptr, ready[i].events & ~(uint32_t)EPOLLOUT);
    return count < 0 && errno != EINTR ? okv_error_from_errno(errno) : 0;
}

/* There is one. */
static struct okv_tcp_conn *next_ready(struct okv_tcp_endpoint *endpoint)
{
    while (TAILQ_EMPTY(&endpoint->ready[endpoint->turn % OKV_REGIONS_MAX]))
        endpoint->turn++;
    return TAILQ_FIRST(&endpoint->ready[endpoint->turn++ % OKV_REGIONS_MAX]);
}

static int serve_ready(struct okv_tcp_endpoint *endpoint)
{
    uint64_t most = endpoint->moved + POLL_BYTES;
    int status = list_ready_sockets(endpoint);

    /* A connection that has more, and is put at the end, waits for the next poll. */
    unsigned left = endpoint->ready_count < POLL_BATCH ? endpoint->ready_count : POLL_BATCH;
    for (; left > 0 && endpoint->ready_count > 0 && endpoint->moved < most; left--)
        serve(next_ready(endpoint));
    return status;
}

/* ---- events ---- */

static void attach_arrivals(struct okv_tcp_endpoint *endpoint)
{
    struct okv_conn *conn =
        okv_arrivals_has_any(&endpoint->arrivals) ? okv_arrivals_take(&endpoint->arrivals) : NULL;

    for (; conn; conn = STAILQ_NEXT(conn, in_arrivals))
        okv_tcp_conn_attach(okv_tcp_conn(conn));
}

/* Whether it is dropped: a message to a connection that was closed here. */
static bool drop_event(struct okv_tcp_endpoint *endpoint, const struct okv_event *event)
{
    if (event->type != OKV_EVENT_RECV || !okv_tcp_conn(event->conn)->discards)
        return false;
    okv_tcp_recv_release(&endpoint->base, event);
    return true;
}

static int report_queue(struct okv_tcp_endpoint *endpoint, struct okv_event *events, int max)
{
    int count = 0;

    while (count < max && endpoint->queue_count > 0) {
        const struct okv_event *next = &endpoint->queue[endpoint->queue_first];
        endpoint->queue_first = (endpoint->queue_first + 1) % endpoint->queue_size;
        endpoint->queue_count--;
        struct okv_tcp_conn *conn = okv_tcp_conn(next->conn);
        conn->queued--;
        conn->queued_reads -= next->type == OKV_EVENT_READ;
        conn->queued_rendezvous -= next->type == OKV_EVENT_RENDEZVOUS_DONE;
        if (!drop_event(endpoint, next))
            events[count++] = *next;
    }
    return count;
}

static int report_ended(struct okv_tcp_endpoint *endpoint, struct okv_event *events, int max)
{
    struct okv_tcp_conn *next;
    int count = 0;

    for (struct okv_tcp_conn *conn = TAILQ_FIRST(&endpoint->ended); conn && count < max;
         conn = next) {
        next = TAILQ_NEXT(conn, in_ended);
        if (conn->queued > 0 ||
            !okv_read_slots_end(&conn->reads, &conn->base, events, max, &count) ||
            !okv_tcp_end_rendezvous(conn, events, max, &count) || count == max)
            continue;
        TAILQ_REMOVE(&endpoint->ended, conn, in_ended);
        conn->state = OKV_TCP_CLOSED;
        okv_tcp_conn_close(conn);
        events[count++] = (struct okv_event){
            .type = OKV_EVENT_CLOSED, .status = conn->status, .conn = &conn->base};
    }
    return count;
}

static int at_most(int limit, int max)
{
    return max < limit ? max : limit;
}

/* Work that epoll does not report. */
static bool has_more(const struct okv_tcp_endpoint *endpoint)
{
    return endpoint->queue_count > 0 || !TAILQ_EMPTY(&endpoint->ended) || endpoint->ready_count > 0;
}

int okv_tcp_poll(struct okv_endpoint *base, struct okv_event *events, int max)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(base);
    int status = 0;

    attach_arrivals(endpoint);
    int count = okv_arrivals_report(&endpoint->arrivals, events, max);
    if (endpoint->client) {
        endpoint->client->is_readable = true;
        serve(endpoint->client);
    } else {
        status = serve_ready(endpoint);
    }
    count += report_ended(endpoint, events + count, at_most(OKV_ENDS_PER_POLL, max - count));
    count += report_queue(endpoint, events + count, max - count);
    okv_tcp_settle_some(endpoint);
    /* Its owner may go to sleep, because this poll gave it few events. */
    if (has_more(endpoint))
        okv_tcp_announce(endpoint);
    return count == 0 && status ? status : count;
}

int okv_tcp_arm(struct okv_endpoint *base)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(base);
    int rc = okv_wakeup_clear(&endpoint->wakeup);

    if (rc)
        return rc;
    okv_tcp_settle_some(endpoint);
    endpoint->is_armed = true;
    if (has_more(endpoint) || okv_arrivals_are_waiting(&endpoint->arrivals))
        okv_tcp_announce(endpoint);
    return 0;
}
