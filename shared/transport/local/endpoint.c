#include "shared/transport/local/endpoint.h"

#include <stdlib.h>
#include <sys/mman.h>

#include "shared/base/error.h"
#include "shared/transport/local/conn.h"

/* Receive buffers begin on their own cache line. */
#define SLOT_ALIGNMENT 64u

static int create_slots(struct okv_local_endpoint *endpoint)
{
    size_t stride =
        ((size_t)endpoint->limits.slot_size + SLOT_ALIGNMENT - 1) & ~(size_t)(SLOT_ALIGNMENT - 1);
    unsigned count;
    size_t length;

    if (__builtin_mul_overflow(endpoint->base.max_conns, okv_local_receive_limit(&endpoint->limits),
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
    TAILQ_INIT(&endpoint->active);
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
    okv_local_conn_deactivate(conn);
    if (conn->previous)
        conn->previous->next = conn->next;
    else
        endpoint->conns = conn->next;
    if (conn->next)
        conn->next->previous = conn->previous;
    okv_local_conn_free(conn);
    atomic_fetch_sub(&endpoint->conn_count, 1);
}
