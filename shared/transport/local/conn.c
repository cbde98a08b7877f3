#include "shared/transport/local/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/local/safe_close.h"

void okv_local_announce(struct okv_local_endpoint *endpoint)
{
    if (endpoint->armed) {
        endpoint->armed = false;
        okv_wakeup_signal(&endpoint->wakeup);
    }
}

static void close_process(struct okv_local_conn *conn)
{
    if (conn->process >= 0)
        close(conn->process);
    conn->process = -1;
}

int okv_local_conn_new(struct okv_local_endpoint *endpoint, int sock, struct okv_local_conn **out)
{
    const struct okv_message_limits *limits = &endpoint->limits;
    struct okv_local_conn *conn = calloc(1, sizeof *conn);

    if (!conn)
        return OKV_ENOMEM;
    conn->sock = conn->process = conn->values = conn->rings = -1;
    unsigned count = okv_local_receive_limit(limits);
    conn->send_memory = calloc(count, limits->slot_size);
    conn->outgoing = calloc(count, sizeof *conn->outgoing);
    if (!conn->send_memory || !conn->outgoing || !okv_send_slots_create(&conn->sends, count)) {
        okv_local_conn_free(conn);
        return OKV_ENOMEM;
    }
    conn->base.ops = &okv_transport_local;
    conn->base.endpoint = &endpoint->base;
    conn->base.slot_size = limits->slot_size;
    conn->base.is_one_sided = true;
    conn->base.max_reads = OKV_LOCAL_MAX_READS;
    conn->state = OKV_LOCAL_OPEN;
    conn->sock = sock;
    *out = conn;
    return 0;
}

void okv_local_conn_free(struct okv_local_conn *conn)
{
    if (conn->map)
        munmap((void *)conn->map, conn->map_length);
    if (conn->sock >= 0)
        okv_local_socket_close(conn->sock);
    close_process(conn);
    okv_local_rings_close(&conn->ring, conn->rings);
    okv_local_values_close(conn->values);
    free(conn->keys);
    okv_send_slots_destroy(&conn->sends);
    free(conn->outgoing);
    free(conn->send_memory);
    free(conn);
}

void okv_local_conn_attach(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    conn->previous = NULL;
    conn->next = endpoint->conns;
    if (conn->next)
        conn->next->previous = conn;
    endpoint->conns = conn;
    okv_local_conn_watch(conn);
    okv_local_conn_activate(conn);
}

void okv_local_conn_watch(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    struct epoll_event event = {.data.ptr = conn};
    int operation;

    if (conn->state != OKV_LOCAL_OPEN)
        return;
    if (!conn->hung_up)
        event.events |= EPOLLIN | EPOLLRDHUP;
    if (conn->must_notify)
        event.events |= EPOLLOUT;
    if (event.events == conn->interest)
        return;
    /* A hung-up socket keeps the descriptor readable even with no interest: remove it. */
    operation = event.events == 0     ? EPOLL_CTL_DEL
                : conn->interest == 0 ? EPOLL_CTL_ADD
                                      : EPOLL_CTL_MOD;
    conn->interest = event.events;
    if (epoll_ctl(endpoint->base.fd, operation, conn->sock, &event)) {
        conn->interest = 0;
        okv_local_conn_end(conn, okv_error_from_errno(errno));
    }
}

unsigned okv_local_receive_room(const struct okv_local_conn *conn)
{
    const struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    unsigned room = okv_local_receive_limit(&endpoint->limits) - conn->held;

    return room < endpoint->free_count ? room : endpoint->free_count;
}

bool okv_local_rings_are_safe(struct okv_local_conn *conn)
{
    if (conn->rings < 0)
        return true;
    if (!okv_local_ring_has_no_holes(conn->rings))
        return false;
    close(conn->rings);
    conn->rings = -1;
    return true;
}

void okv_local_conn_activate(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    if (conn->is_active || conn->state != OKV_LOCAL_OPEN || !okv_local_rings_are_safe(conn))
        return;
    okv_local_ring_stop_waiting(&conn->ring);
    conn->is_active = true;
    conn->idle_polls = 0;
    TAILQ_INSERT_TAIL(&endpoint->active, conn, in_active);
    endpoint->active_count++;
}

void okv_local_conn_deactivate(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    if (!conn->is_active)
        return;
    conn->is_active = false;
    TAILQ_REMOVE(&endpoint->active, conn, in_active);
    endpoint->active_count--;
}

bool okv_local_conn_go_idle(struct okv_local_conn *conn)
{
    /* Without a receive buffer nothing can be received: recv_release wakes it. */
    if (okv_local_receive_room(conn) > 0 && (conn->hung_up || !okv_local_ring_wait(&conn->ring)))
        return false;
    okv_local_conn_deactivate(conn);
    return true;
}

void okv_local_unqueue_sends(struct okv_local_conn *conn)
{
    conn->base.unacknowledged -= conn->sends.queued;
    okv_send_slots_unqueue(&conn->sends);
}

void okv_local_fail_reads(struct okv_local_conn *conn)
{
    for (unsigned i = 0; i < conn->read_count; i++)
        conn->reads[(conn->read_first + i) % OKV_LOCAL_MAX_READS].status = OKV_EDISCONNECTED;
}

void okv_local_conn_end(struct okv_local_conn *conn, int status)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    if (conn->state != OKV_LOCAL_OPEN)
        return;
    conn->state = OKV_LOCAL_ENDED;
    conn->status = status;
    if (conn->interest)
        epoll_ctl(endpoint->base.fd, EPOLL_CTL_DEL, conn->sock, NULL);
    conn->interest = 0;
    okv_local_socket_close(conn->sock);
    conn->sock = -1;
    close_process(conn);
    okv_local_conn_deactivate(conn);
    okv_local_unqueue_sends(conn);
    okv_local_fail_reads(conn);
    TAILQ_INSERT_TAIL(&endpoint->ended, conn, in_ended);
    okv_local_announce(endpoint);
}
