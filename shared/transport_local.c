/* READs and events of the local transport, and its table of operations. */
#include "shared/transport_local.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/bytes.h"
#include "shared/clock.h"
#include "shared/error.h"
#include "shared/ordering.h"

/* Ready connections that one poll of a server looks at. */
#define POLL_BATCH 64

static void close_conn(struct okv_conn *conn)
{
    okv_local_conn_end(okv_local_conn(conn), OKV_EDISCONNECTED);
}

static int memory_register(struct okv_endpoint *endpoint, void *base, size_t length,
                           struct okv_memory **out)
{
    struct okv_local_memory *memory = malloc(sizeof *memory);

    (void)endpoint;
    if (!memory)
        return OKV_ENOMEM;
    *memory = (struct okv_local_memory){base, length};
    *out = (struct okv_memory *)memory;
    return 0;
}

static void memory_unregister(struct okv_memory *memory)
{
    free(memory);
}

static bool read_is_valid(const struct okv_conn *conn, const struct okv_read *read)
{
    const struct okv_local_memory *memory = (const struct okv_local_memory *)read->memory;

    if (read->length == 0 || !memory)
        return false;
    if (!okv_range_inside(read->offset, read->length, conn->remote_length))
        return false;
    /* As unsigned numbers a destination before the memory is one far behind it. */
    uint64_t at = (uint64_t)((uintptr_t)read->destination - (uintptr_t)memory->base);
    return okv_range_inside(at, read->length, memory->length);
}

static int post_read(struct okv_conn *base, const struct okv_read *reads, unsigned count)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (conn->state != OKV_LOCAL_OPEN || conn->server_gone)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++) {
        if (!read_is_valid(base, &reads[i]))
            return OKV_EINVAL;
    }
    if (count > base->max_reads - conn->read_count)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        /* The server may store into these bytes meanwhile: what arrives is checked by its
         * checksum, as after a READ of a device. */
        memcpy(reads[i].destination, conn->map + reads[i].offset, reads[i].length);
        conn->reads[(conn->read_first + conn->read_count++) % OKV_LOCAL_MAX_READS] =
            (struct okv_local_done){reads[i].cookie, 0};
    }
    okv_snapshot_fence(); /* a later READ sees at least what these saw */
    base->acknowledged += count;
    if (count > 0)
        okv_local_announce(okv_local_endpoint(base->endpoint));
    return 0;
}

static int report_reads(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    int n = 0;

    while (n < max && conn->read_count > 0) {
        const struct okv_local_done *done = &conn->reads[conn->read_first];
        events[n++] = (struct okv_event){
            .type = OKV_EVENT_READ,
            .status = done->status,
            .conn = &conn->base,
            .cookie = done->cookie,
        };
        conn->read_first = (conn->read_first + 1) % OKV_LOCAL_MAX_READS;
        conn->read_count--;
    }
    return n;
}

static int report_ended(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    int n = 0;

    while (n < max && endpoint->ended) {
        struct okv_local_conn *conn = endpoint->ended;
        okv_local_unqueue_ended(endpoint, conn);
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
    int n = 0;

    if (!atomic_load_explicit(&endpoint->has_opened, memory_order_acquire))
        return 0;
    pthread_mutex_lock(&endpoint->lock);
    while (n < max && endpoint->opened) {
        struct okv_local_conn *conn = endpoint->opened;
        endpoint->opened = conn->next_queued;
        okv_local_conn_attach(conn);
        events[n++] = (struct okv_event){.type = OKV_EVENT_OPENED, .conn = &conn->base};
    }
    if (!endpoint->opened) {
        endpoint->opened_tail = &endpoint->opened;
        atomic_store_explicit(&endpoint->has_opened, false, memory_order_release);
    }
    pthread_mutex_unlock(&endpoint->lock);
    return n;
}

static void serve_ready(struct okv_local_conn *conn, struct okv_event *events, int max, int *count)
{
    bool drained;

    if (conn->socket_full)
        okv_local_flush(&conn->base);
    if (conn->state == OKV_LOCAL_OPEN)
        *count += okv_local_receive(conn, events + *count, max, &drained);
}

/* Up to `max` of those that are ready: their number, or a negative code. Whoever the kernel
 * tells of goes to the end of its list of ready ones. So those that are told of must have their
 * turn, and no others be told of, or some would be at the head for ever. */
static int take_ready(const struct okv_local_endpoint *endpoint, struct epoll_event *ready, int max)
{
    int count = epoll_wait(endpoint->base.fd, ready, max, 0);

    if (max == 1 && count == 1 && !ready->data.ptr) /* wake_fd, in the place of a connection */
        count = epoll_wait(endpoint->base.fd, ready, max, 0);
    if (count < 0)
        return errno == EINTR ? 0 : okv_error_from_errno(errno);
    return count;
}

/* Takes messages of the connections that have some: their number, or a negative code. */
static int receive_ready(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    struct epoll_event ready[POLL_BATCH];
    int count = take_ready(endpoint, ready, max < POLL_BATCH ? max : POLL_BATCH);
    int n = 0;

    for (int i = 0; i < count; i++) {
        int share = (max - n) / (count - i); /* of this one and each that follows: at least 1 */
        if (ready[i].data.ptr)               /* else it is wake_fd: arm empties it */
            serve_ready(ready[i].data.ptr, events, share, &n);
    }
    return count < 0 ? count : n;
}

static int poll_server(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    int n = report_opened(endpoint, events, max);

    n += okv_local_report_pulled(endpoint, events + n, max - n);
    /* Before messages, of which there may be enough for ever; a connection whose pulls are
     * reported has nothing else to say before its end. */
    if (n < max)
        n += report_ended(endpoint, events + n, max - n);
    if (n == max)
        return n;
    int received = receive_ready(endpoint, events + n, max - n);
    /* Events that were taken are not thrown away: the next poll finds it broken again. */
    if (received < 0)
        return n > 0 ? n : received;
    n += received;
    return n + report_ended(endpoint, events + n, max - n);
}

static bool hung_up(const struct okv_local_conn *conn)
{
    struct pollfd watched = {.fd = conn->sock, .events = POLLRDHUP};

    return poll(&watched, 1, 0) > 0;
}

static int poll_client(struct okv_local_endpoint *endpoint, struct okv_event *events, int max)
{
    struct okv_local_conn *conn = endpoint->client;
    uint64_t now = conn->read_count > 0 ? okv_clock_ns() : 0;
    int n = 0;
    bool drained;

    if (conn->socket_full)
        okv_local_flush(&conn->base);
    if (conn->state == OKV_LOCAL_OPEN &&
        (conn->read_count == 0 || now - conn->alive_ns >= OKV_LOCAL_ALIVE_NS)) {
        n = okv_local_receive(conn, events, conn->read_count > 0 ? (max + 1) / 2 : max, &drained);
        if (conn->read_count > 0 && conn->state == OKV_LOCAL_OPEN) {
            if (drained || !hung_up(conn)) {
                conn->alive_ns = now;
            } else {
                conn->server_gone = true;
                okv_local_flush_reads(conn);
            }
        }
    }
    n += report_reads(conn, events + n, max - n);
    if (conn->read_count == 0)
        n += report_ended(endpoint, events + n, max - n);
    return n;
}

static int poll_endpoint(struct okv_endpoint *base, struct okv_event *events, int max)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);

    if (max <= 0)
        return 0;
    return endpoint->client ? poll_client(endpoint, events, max)
                            : poll_server(endpoint, events, max);
}

static int arm(struct okv_endpoint *base)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);
    uint64_t count;
    bool waiting;

    if (read(endpoint->wake_fd, &count, sizeof count) < 0 && errno != EAGAIN && errno != EINTR)
        return okv_error_from_errno(errno);
    endpoint->armed = true;
    waiting = endpoint->ended || endpoint->pulled ||
              (endpoint->client && endpoint->client->read_count > 0) ||
              atomic_load_explicit(&endpoint->has_opened, memory_order_acquire);
    if (waiting)
        okv_local_announce(endpoint);
    return 0;
}

static void wake(struct okv_endpoint *endpoint)
{
    okv_local_signal(okv_local_endpoint(endpoint));
}

static int endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                           unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag)
{
    struct okv_local_endpoint *endpoint;
    int status = okv_local_endpoint_new(limits, max_conns, &endpoint, diag);

    if (status)
        return status;
    endpoint->region = okv_local_listener(listener)->region;
    *out = &endpoint->base;
    return 0;
}

static void endpoint_destroy(struct okv_endpoint *endpoint)
{
    okv_local_endpoint_free(okv_local_endpoint(endpoint));
}

const struct okv_transport_ops okv_transport_local = {
    .name = "local",
    .listen = okv_local_listen,
    .unlisten = okv_local_unlisten,
    .endpoint_create = endpoint_create,
    .endpoint_destroy = endpoint_destroy,
    .next_request = okv_local_next_request,
    .accept = okv_local_accept,
    .reject = okv_local_reject,
    .connect = okv_local_connect,
    .connect_start = okv_local_connect_start,
    .connect_step = okv_local_connect_step,
    .connect_cancel = okv_local_connect_cancel,
    .set_remote = okv_local_set_remote,
    .close = close_conn,
    .conn_destroy = okv_local_conn_destroy,
    .memory_register = memory_register,
    .memory_unregister = memory_unregister,
    .post_read = post_read,
    .expose = okv_local_expose,
    .unexpose = okv_local_unexpose,
    .pull = okv_local_pull,
    .send_buffer = okv_local_send_buffer,
    .post_send = okv_local_post_send,
    .flush = okv_local_flush,
    .probe = okv_local_probe,
    .poll = poll_endpoint,
    .recv_release = okv_local_recv_release,
    .arm = arm,
    .wake = wake,
};
