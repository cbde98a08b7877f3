#include "shared/transport/local/messages.h"

#include "shared/base/error.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/notification.h"

/* Limit of the messages of one call, so that a busy peer does not delay the others. */
#define RECEIVE_BATCH 16u

/* ---- sending ---- */

static uint8_t *send_slot(const struct okv_local_conn *conn, unsigned index)
{
    return conn->send_memory + (size_t)index * conn->base.slot_size;
}

uint8_t *okv_local_send_buffer(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    return okv_send_slots_reserve(&conn->sends) ? send_slot(conn, conn->sends.current) : NULL;
}

int okv_local_post_send(struct okv_conn *base, uint32_t length, uint32_t immediate)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    if (length > base->slot_size)
        return OKV_EINVAL;
    if (!conn->sends.has_current)
        return OKV_EAGAIN;
    conn->outgoing[conn->sends.current] = (struct okv_local_outgoing){length, immediate};
    okv_send_slots_queue(&conn->sends);
    base->unacknowledged++;
    return 0;
}

static int put_next(struct okv_local_conn *conn)
{
    unsigned index = okv_send_slots_first(&conn->sends);
    const struct okv_local_outgoing *out = &conn->outgoing[index];
    int status =
        okv_local_ring_put(&conn->ring, send_slot(conn, index), out->length, out->immediate);

    conn->ring_full = status == OKV_EAGAIN;
    if (status)
        return status;
    okv_send_slots_pop(&conn->sends);
    okv_send_slots_return(&conn->sends, index);
    conn->base.unacknowledged--;
    conn->base.acknowledged++;
    return 0;
}

void okv_local_flush(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    int status = 0;

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    if (!okv_local_rings_are_safe(conn)) {
        conn->ring_full = conn->sends.queued > 0; /* the client's first message has it flushed */
        return;
    }
    while (status == 0 && conn->sends.queued > 0)
        status = put_next(conn);
    if (okv_local_ring_publish(&conn->ring))
        conn->must_notify = true;
    if (status && status != OKV_EAGAIN)
        okv_local_conn_end(conn, status);
    okv_local_notify(conn);
}

/* ---- receiving ---- */

/* Receives the next message into a buffer. Returns 1, 0 when there is none, or a code. */
static int receive_one(struct okv_local_conn *conn, struct okv_event *event)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    uint32_t slot = endpoint->free_slots[endpoint->free_count - 1];
    uint8_t *bytes = endpoint->slots + slot * endpoint->slot_stride;
    uint32_t length, immediate;
    int status =
        okv_local_ring_take(&conn->ring, bytes, endpoint->limits.slot_size, &length, &immediate);

    if (status <= 0)
        return status;
    endpoint->free_count--;
    endpoint->slot_owner[slot] = conn;
    conn->held++;
    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &conn->base,
        .immediate = immediate,
        .has_immediate = true,
        .data = bytes,
        .length = length,
        .slot = slot,
    };
    return 1;
}

int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max)
{
    unsigned want = okv_local_receive_room(conn), count = 0;
    int status = 1;

    if (want > RECEIVE_BATCH)
        want = RECEIVE_BATCH;
    if (want > (unsigned)max)
        want = (unsigned)max;
    while (count < want && (status = receive_one(conn, &events[count])) > 0)
        count++;
    if (okv_local_ring_release(&conn->ring)) {
        conn->must_notify = true;
        okv_local_notify(conn);
    }
    if (status < 0)
        okv_local_conn_end(conn, status);
    else if (status == 0 && conn->hung_up)
        okv_local_conn_end(conn, OKV_EDISCONNECTED);
    return (int)count;
}

/* A receive buffer is free again for a connection that had none. */
static void resume(struct okv_local_conn *conn)
{
    okv_local_conn_activate(conn);
    okv_local_announce(okv_local_endpoint(conn->base.endpoint));
}

void okv_local_recv_release(struct okv_endpoint *base, const struct okv_event *event)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);
    struct okv_local_conn *owner = endpoint->slot_owner[event->slot];
    bool had_none = owner && okv_local_receive_room(owner) == 0;
    bool was_empty = endpoint->free_count == 0;

    endpoint->slot_owner[event->slot] = NULL;
    endpoint->free_slots[endpoint->free_count++] = event->slot;
    if (owner)
        owner->held--;
    if (was_empty) {
        for (struct okv_local_conn *conn = endpoint->conns; conn; conn = conn->next)
            resume(conn);
    } else if (had_none) {
        resume(owner);
    }
}
