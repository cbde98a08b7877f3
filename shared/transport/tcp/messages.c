#include "shared/transport/tcp/messages.h"

#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/output.h"

/* ---- messages ---- */

static uint8_t *send_slot(const struct okv_tcp_conn *conn, unsigned index)
{
    return conn->send_memory + (size_t)index * conn->base.slot_size;
}

uint8_t *okv_tcp_send_buffer(struct okv_conn *base)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    return okv_send_slots_reserve(&conn->sends) ? send_slot(conn, conn->sends.current) : NULL;
}

int okv_tcp_post_send(struct okv_conn *base, uint32_t length, uint32_t immediate)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    if (conn->state != OKV_TCP_OPEN)
        return OKV_EDISCONNECTED;
    if (length > base->slot_size)
        return OKV_EINVAL;
    if (!conn->sends.has_current)
        return OKV_EAGAIN;
    conn->messages[conn->sends.current] = (struct okv_tcp_message){length, immediate};
    okv_send_slots_queue(&conn->sends);
    base->unacknowledged++;
    return 0;
}

void okv_tcp_flush(struct okv_conn *base)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    if (conn->state != OKV_TCP_OPEN)
        return;
    while (conn->sends.queued > 0) {
        unsigned index = okv_send_slots_first(&conn->sends);
        const struct okv_tcp_message *message = &conn->messages[index];
        okv_send_slots_pop(&conn->sends);
        okv_tcp_conn_add(conn,
                         &(struct okv_tcp_frame){.kind = OKV_TCP_MESSAGE,
                                                 .length = message->length,
                                                 .value = message->immediate},
                         send_slot(conn, index), index);
    }
    if (conn->output.count > 0 && !conn->output.is_blocked)
        okv_tcp_conn_write(conn);
}

void okv_tcp_recv_release(struct okv_endpoint *base, const struct okv_event *event)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(base);
    struct okv_tcp_conn *owner = endpoint->slot_owner[event->slot];

    endpoint->free_slots[endpoint->free_count++] = event->slot;
    owner->held--;
    okv_tcp_conn_free_destroyed(owner);
}

int okv_tcp_heartbeat(struct okv_conn *base)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);
    const struct okv_tcp_frame life = {.kind = OKV_TCP_LIFE};

    if (conn->state != OKV_TCP_OPEN)
        return OKV_EDISCONNECTED;
    okv_tcp_conn_settle(conn);
    if (conn->life_is_under_way || !okv_tcp_output_add(&conn->output, &life, NULL, 0))
        return 0;
    conn->life_is_under_way = true;
    base->unacknowledged++;
    okv_tcp_conn_write(conn);
    return 0;
}

/* ---- READs ---- */

int okv_tcp_post_read(struct okv_conn *base, const struct okv_read *reads, unsigned count)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);
    unsigned slot = 0;

    if (conn->state != OKV_TCP_OPEN)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++) {
        const struct okv_tcp_memory *memory = (const struct okv_tcp_memory *)reads[i].memory;
        if (!okv_read_is_valid(&reads[i], base->remote_length, memory->base, memory->length))
            return OKV_EINVAL;
    }
    /* The event of one that has come has a place in the queue, too. */
    if (conn->reads.busy + conn->queued_reads + count > OKV_READ_SLOTS)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count; i++) {
        slot = okv_read_slots_take(&conn->reads, slot, reads[i].cookie);
        conn->targets[slot] = (struct okv_tcp_target){reads[i].destination, reads[i].length};
        okv_tcp_conn_add(conn,
                         &(struct okv_tcp_frame){.kind = OKV_TCP_READ,
                                                 .slot = (uint16_t)slot,
                                                 .length = reads[i].length,
                                                 .value = reads[i].offset},
                         NULL, 0);
    }
    base->unacknowledged += count;
    if (!conn->output.is_blocked)
        okv_tcp_conn_write(conn);
    return 0;
}

int okv_tcp_answer(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame,
                   const uint8_t *bytes)
{
    const struct okv_tcp_frame answer = {
        .kind = OKV_TCP_DATA, .slot = frame->slot, .length = frame->length};

    if (frame->slot >= OKV_READ_SLOTS || frame->length == 0 || conn->answers == OKV_READ_SLOTS ||
        !okv_tcp_output_add(&conn->output, &answer, bytes, 0))
        return OKV_EPROTO;
    conn->answers++;
    return 0;
}

int okv_tcp_answer_read(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    if (!okv_range_inside(frame->value, frame->length, conn->region.length))
        return OKV_EPROTO;
    return okv_tcp_answer(conn, frame, (const uint8_t *)conn->region.base + frame->value);
}

int okv_tcp_begin_data(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    unsigned slot = frame->slot;

    if (slot >= OKV_READ_SLOTS || !conn->reads.slots[slot].is_busy ||
        conn->targets[slot].length != frame->length)
        return OKV_EPROTO;
    conn->input.body = conn->targets[slot].bytes;
    return 0;
}

int okv_tcp_end_data(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    struct okv_event event;

    okv_read_slots_complete(&conn->reads, frame->slot, 0, &conn->base, &event);
    okv_tcp_queue_event(conn, &event);
    return 0;
}
