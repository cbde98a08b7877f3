/* Messages of the local transport: one packet each, the immediate in front. */
#include "shared/transport_local.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "shared/bytes.h"
#include "shared/error.h"

/* Messages that one call takes off one socket, so that one busy peer does not hold up the rest. */
#define RECEIVE_BATCH 16

struct receive_batch {
    struct mmsghdr headers[RECEIVE_BATCH];
    struct iovec vectors[RECEIVE_BATCH][2];
    uint8_t immediates[RECEIVE_BATCH][OKV_LOCAL_MESSAGE_HEADER];
};

/* Hands one message to the socket. OKV_EAGAIN when it is full, OKV_EDISCONNECTED when the
 * peer reads no more, or the code of another failure. */
static int transmit(struct okv_local_conn *conn, unsigned index)
{
    const struct okv_local_outgoing *out = &conn->outgoing[index];
    uint8_t header[OKV_LOCAL_MESSAGE_HEADER];
    struct iovec vectors[2] = {
        {header, sizeof header},
        {conn->send_memory + (size_t)index * conn->base.slot_size, out->length},
    };
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};
    ssize_t sent;

    okv_put_u32(header, out->immediate);
    do {
        sent = sendmsg(conn->sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return 0;
    return errno == EAGAIN || errno == EWOULDBLOCK ? OKV_EAGAIN : okv_error_from_errno(errno);
}

/* What a failed transmit means for the connection. A peer that went away may have left
 * messages: the connection then ends when they have been received. */
static void send_failed(struct okv_local_conn *conn, int status)
{
    conn->send_broken = true;
    conn->send_queued = 0;
    if (status != OKV_EDISCONNECTED)
        okv_local_conn_end(conn, status);
}

uint8_t *okv_local_send_buffer(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (conn->send_queued == conn->send_slots)
        return NULL;
    unsigned index = (conn->send_first + conn->send_queued) % conn->send_slots;
    return conn->send_memory + (size_t)index * base->slot_size;
}

int okv_local_post_send(struct okv_conn *base, uint32_t length, uint32_t immediate)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    if (conn->state != OKV_LOCAL_OPEN || conn->send_broken)
        return OKV_EDISCONNECTED;
    if (length > base->slot_size)
        return OKV_EINVAL;
    if (conn->send_queued == conn->send_slots)
        return OKV_EAGAIN;

    unsigned index = (conn->send_first + conn->send_queued) % conn->send_slots;
    conn->outgoing[index] = (struct okv_local_outgoing){length, immediate};
    if (conn->send_queued == 0) {
        int status = transmit(conn, index);
        if (status == 0)
            return 0;
        if (status != OKV_EAGAIN) {
            send_failed(conn, status);
            return status;
        }
    }
    conn->send_queued++;
    okv_local_conn_watch(conn);
    return 0;
}

void okv_local_flush(struct okv_local_conn *conn)
{
    while (conn->send_queued > 0) {
        int status = transmit(conn, conn->send_first);
        if (status == OKV_EAGAIN)
            break;
        if (status) {
            send_failed(conn, status);
            break;
        }
        conn->send_first = (conn->send_first + 1) % conn->send_slots;
        conn->send_queued--;
    }
    okv_local_conn_watch(conn);
}

/* Lays out `count` receive buffers, the one on top of the stack first. */
static void prepare_batch(struct okv_local_endpoint *endpoint, struct receive_batch *batch,
                          unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t slot = endpoint->free_slots[endpoint->free_count - 1 - i];
        batch->vectors[i][0] = (struct iovec){batch->immediates[i], OKV_LOCAL_MESSAGE_HEADER};
        batch->vectors[i][1] = (struct iovec){endpoint->slots + slot * endpoint->slot_stride,
                                              endpoint->limits.slot_size};
        batch->headers[i].msg_hdr = (struct msghdr){.msg_iov = batch->vectors[i], .msg_iovlen = 2};
    }
}

/* Turns packet `i` of the batch into an event, with the top receive buffer in it. */
static struct okv_event take_message(struct okv_local_conn *conn, const struct receive_batch *batch,
                                     unsigned i)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    uint32_t slot = endpoint->free_slots[--endpoint->free_count];
    uint32_t length = batch->headers[i].msg_len;
    struct okv_event event = {
        .type = OKV_EVENT_RECV,
        .conn = &conn->base,
        .data = endpoint->slots + slot * endpoint->slot_stride,
        .slot = slot,
    };

    if (length >= OKV_LOCAL_MESSAGE_HEADER) {
        event.has_immediate = true;
        event.immediate = okv_get_u32(batch->immediates[i]);
        event.length = length - OKV_LOCAL_MESSAGE_HEADER;
    }
    endpoint->slot_owner[slot] = conn;
    conn->held++;
    return event;
}

int okv_local_receive(struct okv_local_conn *conn, struct okv_event *events, int max, bool *drained)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    struct receive_batch batch;
    unsigned want = okv_local_receive_room(conn);
    int count, taken = 0;

    *drained = false;
    if (want > RECEIVE_BATCH)
        want = RECEIVE_BATCH;
    if (want > (unsigned)max)
        want = (unsigned)max;
    if (want == 0) {
        okv_local_conn_watch(conn);
        return 0;
    }
    prepare_batch(endpoint, &batch, want);
    count = recvmmsg(conn->sock, batch.headers, want, MSG_DONTWAIT, NULL);
    if (count < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK)
            *drained = true;
        else if (errno == ECONNRESET)
            conn->send_broken = true; /* said once; what the peer had sent comes after it */
        else if (errno != EINTR)
            okv_local_conn_end(conn, okv_error_from_errno(errno));
        return 0;
    }
    for (; taken < count; taken++) {
        if (batch.headers[taken].msg_len == 0) {
            /* The end of the stream, or an empty packet, which no peer of ours sends. */
            okv_local_conn_end(conn, OKV_EDISCONNECTED);
            break;
        }
        if (batch.headers[taken].msg_hdr.msg_flags & MSG_TRUNC) {
            okv_local_conn_end(conn, OKV_EPROTO);
            break;
        }
        events[taken] = take_message(conn, &batch, (unsigned)taken);
    }
    return taken;
}

void okv_local_recv_release(struct okv_endpoint *base, const struct okv_event *event)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(base);
    struct okv_local_conn *owner = endpoint->slot_owner[event->slot];
    bool was_empty = endpoint->free_count == 0;

    endpoint->slot_owner[event->slot] = NULL;
    endpoint->free_slots[endpoint->free_count++] = event->slot;
    if (owner) {
        owner->held--;
        okv_local_conn_watch(owner);
    }
    if (was_empty) {
        for (struct okv_local_conn *conn = endpoint->conns; conn; conn = conn->next)
            okv_local_conn_watch(conn);
    }
}
