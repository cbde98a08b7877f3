#include "shared/transport/tcp/endpoint.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"

static void *map(size_t length)
{
    void *memory = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return memory == MAP_FAILED ? NULL : memory;
}

/* Pages are allocated on first use, so memory grows with the clients that come. */
static int create_slots(struct okv_tcp_endpoint *endpoint)
{
    unsigned count;
    size_t length;

    if (__builtin_mul_overflow(endpoint->base.max_conns, okv_tcp_receive_limit(&endpoint->limits),
                               &count) ||
        __builtin_mul_overflow((size_t)endpoint->limits.slot_size, (size_t)count, &length))
        return OKV_ENOMEM;
    endpoint->slots = map(length);
    endpoint->slots_length = endpoint->slots ? length : 0;
    endpoint->free_slots = calloc(count, sizeof *endpoint->free_slots);
    endpoint->slot_owner = calloc(count, sizeof *endpoint->slot_owner);
    endpoint->queue_size = count + endpoint->base.max_conns * OKV_RENDEZVOUS_MAX + OKV_READ_SLOTS;
    endpoint->queue = calloc(endpoint->queue_size, sizeof *endpoint->queue);
    endpoint->scratch = malloc(OKV_TCP_STEP);
    if (!endpoint->slots || !endpoint->free_slots || !endpoint->slot_owner || !endpoint->queue ||
        !endpoint->scratch)
        return OKV_ENOMEM;
    for (unsigned i = 0; i < count; i++)
        endpoint->free_slots[i] = count - 1 - i;
    endpoint->free_count = count;
    return 0;
}

int okv_tcp_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                         struct okv_tcp_endpoint **out, struct okv_diag *diag)
{
    if (limits->slot_size == 0 || limits->credits == 0 || limits->credits == UINT32_MAX ||
        max_conns == 0)
        return okv_diag_set(diag, OKV_EINVAL,
                            "message size, credits and number of connections must not be 0");
    struct okv_tcp_endpoint *endpoint = calloc(1, sizeof *endpoint);
    if (!endpoint)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for an endpoint");
    endpoint->base.ops = &okv_transport_tcp;
    endpoint->base.max_conns = max_conns;
    endpoint->wakeup = OKV_WAKEUP_NONE;
    endpoint->limits = *limits;
    LIST_INIT(&endpoint->conns);
    TAILQ_INIT(&endpoint->ended);
    TAILQ_INIT(&endpoint->unsettled);
    for (unsigned i = 0; i < OKV_REGIONS_MAX; i++)
        TAILQ_INIT(&endpoint->ready[i]);
    okv_arrivals_init(&endpoint->arrivals);
    atomic_init(&endpoint->conn_count, 0);
    int rc = create_slots(endpoint);
    if (rc)
        okv_diag_set(diag, rc,
                     "no memory for the receive buffers of %u connections of %u messages of %u "
                     "bytes: ask for fewer or smaller ones",
                     max_conns, limits->credits, limits->slot_size);
    else
        rc = okv_wakeup_open(&endpoint->wakeup, false, diag);
    if (rc) {
        okv_tcp_endpoint_free(endpoint);
        return rc;
    }
    endpoint->base.fd = endpoint->wakeup.set;
    *out = endpoint;
    return 0;
}

void okv_tcp_endpoint_free(struct okv_tcp_endpoint *endpoint)
{
    struct okv_conn *arrival = okv_arrivals_take(&endpoint->arrivals), *next_arrival;
    struct okv_tcp_conn *conn;

    for (; arrival; arrival = next_arrival) {
        next_arrival = STAILQ_NEXT(arrival, in_arrivals);
        okv_tcp_conn_free(okv_tcp_conn(arrival));
    }
    while ((conn = LIST_FIRST(&endpoint->conns))) {
        LIST_REMOVE(conn, in_conns);
        okv_tcp_conn_free(conn);
    }
    okv_arrivals_fini(&endpoint->arrivals);
    okv_wakeup_close(&endpoint->wakeup);
    if (endpoint->slots)
        munmap(endpoint->slots, endpoint->slots_length);
    if (endpoint->zeros)
        munmap((void *)(uintptr_t)endpoint->zeros, OKV_TCP_BARE_MAX);
    free(endpoint->scratch);
    free(endpoint->queue);
    free(endpoint->slot_owner);
    free(endpoint->free_slots);
    free(endpoint);
}

void okv_tcp_conn_destroy(struct okv_conn *base)
{
    if (!base)
        return;
    struct okv_tcp_conn *conn = okv_tcp_conn(base);
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);

    if (endpoint->client) {
        okv_tcp_conn_end(conn, OKV_EDISCONNECTED, ""); /* also when a child has the socket, too */
        okv_tcp_endpoint_free(endpoint);
        return;
    }
    okv_tcp_conn_end(conn, OKV_EDISCONNECTED, "");
    if (conn->state == OKV_TCP_ENDED)
        TAILQ_REMOVE(&endpoint->ended, conn, in_ended);
    atomic_fetch_sub(&endpoint->conn_count, 1);
    conn->is_destroyed = true;
    okv_tcp_conn_free_destroyed(conn);
}
