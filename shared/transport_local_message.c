/* Packets of the local transport: messages, the immediate in front, and exposures among them. */
#include "shared/transport_local.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/bytes.h"
#include "shared/error.h"

/* Messages that one call takes off one socket, so that one busy peer does not hold up the rest. */
#define RECEIVE_BATCH 16

/* Messages that one call hands to a socket. */
#define SEND_BATCH 16u

#define NO_SLOT UINT32_MAX

struct receive_batch {
    struct mmsghdr headers[RECEIVE_BATCH];
    struct iovec vectors[RECEIVE_BATCH][2];
    uint8_t immediates[RECEIVE_BATCH][OKV_LOCAL_MESSAGE_HEADER];
    union {
        struct cmsghdr header;
        char space[CMSG_LEN(sizeof(int))]; /* with CMSG_SPACE a second descriptor would fit */
    } controls[RECEIVE_BATCH];
    int descriptors[RECEIVE_BATCH]; /* -1: none, or somebody else's now */
    uint32_t slots[RECEIVE_BATCH];  /* NO_SLOT: in an event now */
};

/* Hands up to `count` messages to the socket, the oldest first; returns how many it took.
 * OKV_EAGAIN when it is full, OKV_EDISCONNECTED when the peer reads no more, or the code
 * of another failure. */
static int transmit(const struct okv_local_conn *conn, unsigned count)
{
    struct mmsghdr headers[SEND_BATCH];
    struct iovec vectors[SEND_BATCH][2];
    uint8_t immediates[SEND_BATCH][OKV_LOCAL_MESSAGE_HEADER];
    int sent;

    for (unsigned i = 0; i < count; i++) {
        unsigned index = (conn->send_first + i) % conn->send_slots;
        const struct okv_local_outgoing *out = &conn->outgoing[index];
        okv_put_u32(immediates[i], out->immediate);
        vectors[i][0] = (struct iovec){immediates[i], OKV_LOCAL_MESSAGE_HEADER};
        vectors[i][1] = (struct iovec){
            conn->send_memory + (size_t)index * conn->base.slot_size,
            out->length,
        };
        headers[i].msg_hdr = (struct msghdr){.msg_iov = vectors[i], .msg_iovlen = 2};
    }
    do {
        sent = sendmmsg(conn->sock, headers, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    if (sent >= 0)
        return sent;
    return errno == EAGAIN || errno == EWOULDBLOCK ? OKV_EAGAIN : okv_error_from_errno(errno);
}

/* Nothing more can be sent. A peer that takes no more may have left messages: the connection
 * ends when they have been received, and those are all, even if it lives on and would send. */
static void send_failed(struct okv_local_conn *conn, int status)
{
    conn->send_broken = true;
    conn->socket_full = false;
    conn->base.unacknowledged -= conn->send_queued;
    conn->send_queued = 0;
    conn->unsent = NULL;
    if (status == OKV_EDISCONNECTED)
        shutdown(conn->sock, SHUT_RD);
    else
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
    conn->send_queued++;
    base->unacknowledged++;
    return 0;
}

/* Messages that may leave before the next exposure must. */
static unsigned sendable(const struct okv_local_conn *conn)
{
    unsigned count = conn->send_queued < SEND_BATCH ? conn->send_queued : SEND_BATCH;

    if (conn->unsent && conn->unsent->goes_before - conn->sent < count)
        count = (unsigned)(conn->unsent->goes_before - conn->sent);
    return count;
}

/* Hands what waits next to the socket, exposures before the messages that name them. */
static int transmit_next(struct okv_local_conn *conn)
{
    unsigned count = sendable(conn);
    int status;

    if (count == 0) {
        struct okv_local_exposure *exposure = conn->unsent;
        status = okv_local_transmit_exposure(exposure);
        if (status == 0)
            conn->unsent = exposure->next;
        return status;
    }
    status = transmit(conn, count);
    if (status < 0)
        return status;
    conn->send_first = (conn->send_first + (unsigned)status) % conn->send_slots;
    conn->send_queued -= (unsigned)status;
    conn->sent += (unsigned)status;
    conn->base.unacknowledged -= (unsigned)status;
    conn->base.acknowledged += (unsigned)status;
    return 0;
}

void okv_local_flush(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    int status = 0;

    while (status == 0 && (conn->send_queued > 0 || conn->unsent))
        status = transmit_next(conn);
    conn->socket_full = status == OKV_EAGAIN;
    if (status && status != OKV_EAGAIN)
        send_failed(conn, status);
    okv_local_conn_watch(conn);
}

int okv_local_probe(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct pollfd watched = {.fd = conn->sock, .events = POLLRDHUP};

    if (conn->state != OKV_LOCAL_OPEN || conn->send_broken)
        return OKV_EDISCONNECTED;
    if (poll(&watched, 1, 0) > 0)
        send_failed(conn, OKV_EDISCONNECTED);
    else
        base->acknowledged++;
    return 0;
}

int okv_local_passed_descriptor(struct msghdr *message)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);
    int fd;

    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
        control->cmsg_len != CMSG_LEN(sizeof fd))
        return -1;
    memcpy(&fd, CMSG_DATA(control), sizeof fd);
    return fd;
}

/* Lays out `count` receive buffers, taken off the stack. Without room for descriptors
 * the kernel drops them: a client wants none. */
static void prepare_batch(struct okv_local_endpoint *endpoint, struct receive_batch *batch,
                          unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        uint32_t slot = endpoint->free_slots[--endpoint->free_count];
        batch->slots[i] = slot;
        batch->vectors[i][0] = (struct iovec){batch->immediates[i], OKV_LOCAL_MESSAGE_HEADER};
        batch->vectors[i][1] = (struct iovec){endpoint->slots + slot * endpoint->slot_stride,
                                              endpoint->limits.slot_size};
        batch->headers[i].msg_hdr = (struct msghdr){.msg_iov = batch->vectors[i], .msg_iovlen = 2};
        if (!endpoint->client) {
            batch->headers[i].msg_hdr.msg_control = batch->controls[i].space;
            batch->headers[i].msg_hdr.msg_controllen = sizeof batch->controls[i].space;
        }
    }
}

/* Puts back what no event holds. */
static void give_back(struct okv_local_endpoint *endpoint, const struct receive_batch *batch,
                      unsigned count)
{
    while (count-- > 0) {
        if (batch->slots[count] != NO_SLOT)
            endpoint->free_slots[endpoint->free_count++] = batch->slots[count];
    }
}

/* Turns packet `i` of the batch into an event, with its receive buffer in it. */
static struct okv_event take_message(struct okv_local_conn *conn, struct receive_batch *batch,
                                     unsigned i)
{
    struct okv_local_endpoint *endpoint = okv_local_endpoint(conn->base.endpoint);
    uint32_t slot = batch->slots[i];
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
    batch->slots[i] = NO_SLOT;
    endpoint->slot_owner[slot] = conn;
    conn->held++;
    return event;
}

/* A descriptor that was lost because there is no room for it here counts as one. */
static bool is_exposure(const struct okv_local_conn *conn, const struct receive_batch *batch,
                        unsigned i)
{
    const struct mmsghdr *header = &batch->headers[i];

    return !okv_local_endpoint(conn->base.endpoint)->client &&
           (batch->descriptors[i] >= 0 || (header->msg_hdr.msg_flags & MSG_CTRUNC)) &&
           header->msg_len == OKV_LOCAL_EXPOSURE_SIZE &&
           okv_get_u32(batch->immediates[i]) == OKV_LOCAL_EXPOSURE_MARK;
}

/* Sorts `count` packets; returns the number of events. */
static int take_packets(struct okv_local_conn *conn, struct receive_batch *batch, unsigned count,
                        struct okv_event *events)
{
    int taken = 0;
    int status = 0;

    for (unsigned i = 0; i < count; i++)
        batch->descriptors[i] = okv_local_passed_descriptor(&batch->headers[i].msg_hdr);
    for (unsigned i = 0; i < count && status == 0; i++) {
        if (batch->headers[i].msg_len == 0) {
            /* The end of the stream, or an empty packet, which no peer of ours sends. */
            status = OKV_EDISCONNECTED;
        } else if (batch->headers[i].msg_hdr.msg_flags & MSG_TRUNC) {
            status = OKV_EPROTO;
        } else if (is_exposure(conn, batch, i)) {
            status =
                okv_local_take_exposure(conn, batch->vectors[i][1].iov_base, batch->descriptors[i]);
            batch->descriptors[i] = -1;
        } else {
            events[taken++] = take_message(conn, batch, i);
        }
    }
    for (unsigned i = 0; i < count; i++) {
        if (batch->descriptors[i] >= 0)
            close(batch->descriptors[i]);
    }
    if (status)
        okv_local_conn_end(conn, status);
    return taken;
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
    count = recvmmsg(conn->sock, batch.headers, want, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
    if (count >= 0)
        taken = take_packets(conn, &batch, (unsigned)count, events);
    else if (errno == EAGAIN || errno == EWOULDBLOCK)
        *drained = true;
    else if (errno == ECONNRESET)
        send_failed(conn, OKV_EDISCONNECTED); /* said once; what the peer sent comes after it */
    else if (errno != EINTR)
        okv_local_conn_end(conn, okv_error_from_errno(errno));
    give_back(endpoint, &batch, want);
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
