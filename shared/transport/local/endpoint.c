/* Endpoints and connections of the local transport: how they are made, watched and ended. */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shared/base/error.h"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77 /* Linux 6.5 */
#endif

/* Receive buffers begin on their own cache line. */
#define SLOT_ALIGNMENT 64u

/* One more than its credits: a peer that sends too much is noticed, and no other starves. */
static unsigned receive_share(const struct okv_message_limits *limits)
{
    return limits->credits + 1;
}

static int create_slots(struct okv_local_endpoint *endpoint)
{
    size_t stride =
        ((size_t)endpoint->limits.slot_size + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    unsigned count;
    size_t length;

    if (__builtin_mul_overflow(endpoint->base.max_conns, receive_share(&endpoint->limits),
                               &count) ||
        __builtin_mul_overflow(stride, (size_t)count, &length))
        return OKV_ENOMEM;
    /* Pages are allocated on first use, so memory grows with the clients that come. */
    void *slots = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (slots == MAP_FAILED)
        return OKV_ENOMEM;
    endpoint->slots = slots;
    endpoint->slots_length = length;
    endpoint->slot_stride = stride;
    endpoint->free_slots = calloc(count, sizeof *endpoint->free_slots);
    endpoint->slot_owner = calloc(count, sizeof *endpoint->slot_owner);
    if (!endpoint->free_slots || !endpoint->slot_owner)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        endpoint->free_slots[i] = count - 1 - i;
    endpoint->slot_count = count;
    endpoint->free_count = count;
    return 0;
}

int okv_local_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                           struct okv_local_endpoint **out, struct okv_diag *diag)
{
    struct okv_local_endpoint *endpoint;
    int status;

    if (limits->slot_size == 0 || limits->credits == 0 || limits->credits == UINT32_MAX ||
        max_conns == 0)
        return okv_diag_set(diag, OKV_EINVAL,
                            "message size, credits and number of connections must not be 0");
    endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for an endpoint");
    endpoint->base.ops = &okv_transport_local;
    endpoint->wakeup = OKV_WAKEUP_NONE;
    endpoint->limits = *limits;
    endpoint->base.max_conns = max_conns;
    TAILQ_INIT(&endpoint->awake);
    TAILQ_INIT(&endpoint->ended);
    TAILQ_INIT(&endpoint->rendezvous);
    okv_arrivals_init(&endpoint->arrivals);
    atomic_init(&endpoint->conn_count, 0);

    status = create_slots(endpoint);
    if (status) {
        okv_diag_set(
            diag, status,
            "no memory for the receive buffers of %u connections of %u messages of %u bytes: "
            "ask for fewer or smaller ones",
            max_conns, limits->credits, limits->slot_size);
        goto free_endpoint;
    }
    status = okv_wakeup_open(&endpoint->wakeup, false, diag);
    if (status)
        goto free_endpoint;
    endpoint->base.fd = endpoint->wakeup.set;
    *out = endpoint;
    return 0;
free_endpoint:
    okv_local_endpoint_free(endpoint);
    return status;
}

void okv_local_endpoint_free(struct okv_local_endpoint *endpoint)
{
    struct okv_conn *arrival = okv_arrivals_take(&endpoint->arrivals), *next_arrival;
    struct okv_local_conn *next;

    for (; arrival; arrival = next_arrival) {
        next_arrival = STAILQ_NEXT(arrival, in_arrivals);
        okv_local_conn_free(okv_local_conn(arrival));
    }
    for (struct okv_local_conn *conn = endpoint->conns; conn; conn = next) {
        next = conn->next;
        okv_local_conn_free(conn);
    }
    okv_arrivals_fini(&endpoint->arrivals);
    okv_wakeup_close(&endpoint->wakeup);
    if (endpoint->slots)
        munmap(endpoint->slots, endpoint->slots_length);
    free(endpoint->slot_owner);
    free(endpoint->free_slots);
    free(endpoint);
}

void okv_local_name_peer(int sock, char name[64], char user[64])
{
    struct ucred peer;
    socklen_t length = sizeof peer;
    bool is_known = getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length) == 0;

    if (is_known)
        snprintf(name, 64, "pid %d uid %u", (int)peer.pid, (unsigned)peer.uid);
    else
        snprintf(name, 64, "unknown");
    if (user && is_known)
        snprintf(user, 64, "uid %u", (unsigned)peer.uid);
    else if (user)
        snprintf(user, 64, "unknown");
}

/* Before Linux 6.5 there is only the process id, which may have passed to another process. Then
 * that process is watched and the client's death shows on its socket only. */
int okv_local_find_process(int sock, int *out)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof *out, length = sizeof peer;

    if (getsockopt(sock, SOL_SOCKET, SO_PEERPIDFD, out, &size) == 0)
        return 0;
    *out = -1;
    if (getsockopt(sock, SOL_SOCKET, SO_PEERCRED, &peer, &length) || peer.pid <= 0)
        return 0;
    *out = (int)syscall(SYS_pidfd_open, peer.pid, 0);
    return *out < 0 && errno == ESRCH ? OKV_EDISCONNECTED : 0;
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
    unsigned count = receive_share(limits);
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
    okv_local_conn_wake(conn);
}

unsigned okv_local_receive_room(const struct okv_local_conn *conn)
{
    const struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    unsigned share = receive_share(&endpoint->limits) - conn->held;

    return share < endpoint->free_count ? share : endpoint->free_count;
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
    if (conn->bell_owed)
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

void okv_local_conn_wake(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    if (conn->awake || conn->state != OKV_LOCAL_OPEN || !okv_local_rings_are_safe(conn))
        return;
    okv_local_ring_rise(&conn->ring);
    conn->awake = true;
    conn->idle_polls = 0;
    TAILQ_INSERT_TAIL(&endpoint->awake, conn, in_awake);
    endpoint->awake_count++;
}

static void unlist_awake(struct okv_local_conn *conn)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);

    if (!conn->awake)
        return;
    conn->awake = false;
    TAILQ_REMOVE(&endpoint->awake, conn, in_awake);
    endpoint->awake_count--;
}

bool okv_local_conn_rest(struct okv_local_conn *conn)
{
    /* Without a receive buffer nothing can be received: recv_release wakes it. */
    if (okv_local_receive_room(conn) > 0 && (conn->hung_up || !okv_local_ring_rest(&conn->ring)))
        return false;
    unlist_awake(conn);
    return true;
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
    unlist_awake(conn);
    okv_local_unqueue_sends(conn);
    okv_local_fail_reads(conn);
    TAILQ_INSERT_TAIL(&endpoint->ended, conn, in_ended);
    okv_local_announce(endpoint);
}

void okv_local_conn_destroy(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base->endpoint);

    if (endpoint->client) {
        okv_local_endpoint_free(endpoint);
        return;
    }
    if (conn->state == OKV_LOCAL_ENDED)
        TAILQ_REMOVE(&endpoint->ended, conn, in_ended);
    for (unsigned i = 0; conn->held > 0 && i < endpoint->slot_count; i++) {
        if (endpoint->slot_owner[i] == conn) {
            endpoint->slot_owner[i] = NULL;
            conn->held--;
        }
    }
    unlist_awake(conn);
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        endpoint->conns = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    okv_local_conn_free(conn);
    atomic_fetch_sub(&endpoint->conn_count, 1);
}
