#include "shared/transport/tcp/conn.h"

#include <errno.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/tcp/output.h"

/* Frames that may wait beside messages: answers or READs, FETCHes or pieces, and a sign of life. */
#define OTHER_FRAMES (OKV_READ_SLOTS + OKV_RENDEZVOUS_MAX + 1)

/* A connection is asked this often what the peer has acknowledged, and one poll asks so many. */
#define SETTLE_NS UINT64_C(1000000)
#define SETTLE_BATCH 16

void okv_tcp_announce(struct okv_tcp_endpoint *endpoint)
{
    if (!endpoint->is_armed)
        return;
    endpoint->is_armed = false;
    okv_wakeup_signal(&endpoint->wakeup);
}

void okv_tcp_queue_event(struct okv_tcp_conn *conn, const struct okv_event *event)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);
    unsigned last = (endpoint->queue_first + endpoint->queue_count++) % endpoint->queue_size;

    endpoint->queue[last] = *event;
    endpoint->queue[last].conn = &conn->base;
    conn->queued++;
    conn->queued_reads += event->type == OKV_EVENT_READ;
    conn->queued_rendezvous += event->type == OKV_EVENT_RENDEZVOUS_DONE;
}

int okv_tcp_conn_new(struct okv_tcp_endpoint *endpoint, struct okv_tcp_conn **out)
{
    const struct okv_message_limits *limits = &endpoint->limits;
    struct okv_tcp_conn *conn = calloc(1, sizeof *conn);
    unsigned count = okv_tcp_receive_limit(limits);

    if (!conn)
        return OKV_ENOMEM;
    conn->stream.fd = -1;
    conn->send_memory = calloc(count, limits->slot_size);
    conn->messages = calloc(count, sizeof *conn->messages);
    if (!conn->send_memory || !conn->messages || !okv_send_slots_create(&conn->sends, count) ||
        okv_tcp_output_create(&conn->output, count + OTHER_FRAMES)) {
        okv_tcp_conn_free(conn);
        return OKV_ENOMEM;
    }
    conn->base.ops = &okv_transport_tcp;
    conn->base.endpoint = &endpoint->base;
    conn->base.slot_size = limits->slot_size;
    conn->base.max_reads = OKV_READ_SLOTS;
    *out = conn;
    return 0;
}

/* What a peer that breaks the rules, or is gone, has not read is dropped: the kernel would keep it
 * for minutes. */
static void drop_unsent(const struct okv_tcp_conn *conn)
{
    const struct linger at_once = {.l_onoff = 1};

    if (conn->status == OKV_EPROTO || conn->status == OKV_ECREDIT || conn->status == OKV_ETIMEDOUT)
        setsockopt(conn->stream.fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
}

void okv_tcp_conn_close(struct okv_tcp_conn *conn)
{
    if (conn->stream.fd >= 0) {
        drop_unsent(conn);
        okv_stream_fini(&conn->stream);
    }
    conn->stream.fd = -1;
}

void okv_tcp_conn_free(struct okv_tcp_conn *conn)
{
    okv_tcp_conn_close(conn);
    okv_tls_destroy(conn->tls);
    okv_tcp_output_destroy(&conn->output);
    okv_send_slots_destroy(&conn->sends);
    free(conn->keys);
    free(conn->messages);
    free(conn->send_memory);
    free(conn);
}

void okv_tcp_conn_free_destroyed(struct okv_tcp_conn *conn)
{
    if (!conn->is_destroyed || conn->held > 0)
        return;
    LIST_REMOVE(conn, in_conns);
    okv_tcp_conn_free(conn);
}

void okv_tcp_conn_attach(struct okv_tcp_conn *conn)
{
    LIST_INSERT_HEAD(&okv_tcp_endpoint_of(conn)->conns, conn, in_conns);
    if (conn->stream.has_unread)
        okv_tcp_conn_list_ready(conn, true);
    okv_tcp_conn_watch(conn);
}

void okv_tcp_conn_watch(struct okv_tcp_conn *conn)
{
    const struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = conn};

    if (conn->state != OKV_TCP_OPEN)
        return;
    bool may_write = conn->output.is_blocked && !conn->stream.reads_to_write;
    if ((may_write || conn->stream.writes_to_read) && !conn->broken)
        event.events |= EPOLLOUT;
    if (event.events == conn->interest)
        return;
    int operation = conn->interest ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    conn->interest = event.events;
    if (epoll_ctl(endpoint->wakeup.set, operation, conn->stream.fd, &event)) {
        conn->interest = 0;
        okv_tcp_conn_end(conn, okv_error_from_errno(errno), "no descriptor can watch it");
    }
}

/* A message that will not come to its end has a receive slot. */
static void return_slot(struct okv_tcp_conn *conn)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);
    struct okv_tcp_input *input = &conn->input;

    if (input->left == 0 || input->frame.kind != OKV_TCP_MESSAGE)
        return;
    input->left = 0;
    endpoint->free_slots[endpoint->free_count++] = input->slot;
    conn->held--;
}

static void forget_unsettled(struct okv_tcp_conn *conn)
{
    if (conn->is_unsettled)
        TAILQ_REMOVE(&okv_tcp_endpoint_of(conn)->unsettled, conn, in_unsettled);
    conn->is_unsettled = false;
}

void okv_tcp_conn_list_ready(struct okv_tcp_conn *conn, bool is_readable)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);

    if (conn->state != OKV_TCP_OPEN)
        return;
    conn->is_readable = conn->is_readable || is_readable;
    if (conn->is_ready)
        return;
    TAILQ_INSERT_TAIL(&endpoint->ready[conn->region_index], conn, in_ready);
    endpoint->ready_count++;
    conn->is_ready = true;
}

void okv_tcp_conn_forget_ready(struct okv_tcp_conn *conn)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);

    if (!conn->is_ready)
        return;
    TAILQ_REMOVE(&endpoint->ready[conn->region_index], conn, in_ready);
    endpoint->ready_count--;
    conn->is_ready = false;
}

/* Its socket is closed when that is reported. */
void okv_tcp_conn_end(struct okv_tcp_conn *conn, int status, const char *why)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);

    if (conn->state != OKV_TCP_OPEN)
        return;
    conn->state = OKV_TCP_ENDED;
    conn->status = status;
    snprintf(conn->base.failure, sizeof conn->base.failure, "%s", why);
    if (conn->interest)
        epoll_ctl(endpoint->wakeup.set, EPOLL_CTL_DEL, conn->stream.fd, NULL);
    conn->interest = 0;
    okv_stream_shut(&conn->stream);
    return_slot(conn);
    okv_send_slots_unqueue(&conn->sends);
    forget_unsettled(conn);
    okv_tcp_conn_forget_ready(conn);
    TAILQ_INSERT_TAIL(&endpoint->ended, conn, in_ended);
    okv_tcp_announce(endpoint);
}

/* ---- sending ---- */

/* Something may be acknowledged. */
static void list_unsettled(struct okv_tcp_conn *conn)
{
    if (conn->is_unsettled || conn->base.unacknowledged == 0)
        return;
    TAILQ_INSERT_TAIL(&okv_tcp_endpoint_of(conn)->unsettled, conn, in_unsettled);
    conn->is_unsettled = true;
}

static void has_left(struct okv_tcp_conn *conn, const struct okv_tcp_out *out)
{
    struct okv_tcp_frame frame;

    okv_tcp_frame_get(out->header, &frame);
    switch (frame.kind) {
    case OKV_TCP_MESSAGE:
        okv_send_slots_return(&conn->sends, out->index);
        conn->output.unsettled++;
        break;
    case OKV_TCP_READ:
        conn->output.unsettled++;
        break;
    case OKV_TCP_LIFE:
        conn->output.unsettled++;
        conn->life_has_left = true;
        break;
    case OKV_TCP_DATA:
        conn->answers--;
        break;
    case OKV_TCP_PIECE:
        conn->keys[out->index].queued--;
        break;
    default:
        break;
    }
}

void okv_tcp_conn_add(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame,
                      const uint8_t *body, uint32_t index)
{
    if (!okv_tcp_output_add(&conn->output, frame, body, index))
        okv_tcp_conn_end(conn, OKV_EPROTO, "the peer asks for more than it may");
}

void okv_tcp_conn_write(struct okv_tcp_conn *conn)
{
    const struct okv_tcp_out *out;

    if (conn->state != OKV_TCP_OPEN || conn->broken)
        return;
    ssize_t n = okv_tcp_output_write(&conn->output, &conn->stream);
    if (n < 0)
        conn->broken = errno;
    else
        okv_tcp_endpoint_of(conn)->moved += (uint64_t)n;
    while ((out = okv_tcp_output_first_that_left(&conn->output))) {
        has_left(conn, out);
        okv_tcp_output_pop(&conn->output);
    }
    if (conn->broken && conn->stream.ssl) { /* epoll does not report a failure of TLS */
        okv_tcp_conn_end(conn, OKV_EDISCONNECTED, strerror(conn->broken));
        return;
    }
    list_unsettled(conn);
    okv_tcp_conn_watch(conn);
}

/* How far the peer's kernel has come. False: this host's does not say. */
static bool read_progress(int sock, struct tcp_info *info)
{
    socklen_t length = sizeof *info;

    return getsockopt(sock, IPPROTO_TCP, TCP_INFO, info, &length) == 0 &&
           length >= offsetof(struct tcp_info, tcpi_min_rtt);
}

/* A peer that has no room for more, and has answered the last question for some, is alive, too. */
void okv_tcp_conn_settle(struct okv_tcp_conn *conn)
{
    struct okv_tcp_output *output = &conn->output;
    struct tcp_info info;

    if (conn->state != OKV_TCP_OPEN || !read_progress(conn->stream.fd, &info))
        return;
    bool has_progressed = info.tcpi_bytes_acked > output->acknowledged;
    output->acknowledged = info.tcpi_bytes_acked;
    if (info.tcpi_unacked > 0 || info.tcpi_notsent_bytes > 0) {
        conn->base.acknowledged += has_progressed || (!info.tcpi_unacked && !info.tcpi_probes);
        return;
    }
    conn->base.acknowledged += output->unsettled;
    conn->base.unacknowledged -= output->unsettled;
    output->unsettled = 0;
    if (conn->life_has_left)
        conn->life_has_left = conn->life_is_under_way = false;
    if (conn->base.unacknowledged == 0)
        forget_unsettled(conn);
}

void okv_tcp_settle_some(struct okv_tcp_endpoint *endpoint)
{
    uint64_t now_ns = TAILQ_EMPTY(&endpoint->unsettled) ? 0 : okv_clock_ns();
    struct okv_tcp_conn *conn;

    for (int i = 0; i < SETTLE_BATCH && (conn = TAILQ_FIRST(&endpoint->unsettled)); i++) {
        if (now_ns - conn->settled_ns < SETTLE_NS)
            break;
        TAILQ_REMOVE(&endpoint->unsettled, conn, in_unsettled);
        TAILQ_INSERT_TAIL(&endpoint->unsettled, conn, in_unsettled);
        conn->settled_ns = now_ns;
        okv_tcp_conn_settle(conn);
    }
}
