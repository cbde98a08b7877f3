/* Packets on the socket of a local connection after its handshake: bells, advertised buffers, the
 * end. */
#include "shared/transport/local/local.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"

/* Packets that one call receives at most, so that a busy peer does not hold up the others. */
#define PACKETS 16

struct packets {
    struct mmsghdr headers[PACKETS];
    struct iovec vectors[PACKETS];
    uint8_t bytes[PACKETS][OKV_LOCAL_ADVERT_SIZE];
    union {
        struct cmsghdr header;
        char space[CMSG_LEN(sizeof(int))]; /* with CMSG_SPACE a second descriptor would fit */
    } controls[PACKETS];
};

unsigned okv_local_passed_descriptors(struct msghdr *message, int *fds, unsigned max)
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
        control->cmsg_len < CMSG_LEN(0))
        return 0;
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
    if (count > max)
        count = max;
    memcpy(fds, CMSG_DATA(control), count * sizeof *fds);
    return (unsigned)count;
}

/* A client expects no descriptors. Without room for them the kernel drops them. */
static void prepare(struct packets *packets, bool is_client)
{
    for (unsigned i = 0; i < PACKETS; i++) {
        struct msghdr *header = &packets->headers[i].msg_hdr;
        packets->vectors[i] = (struct iovec){packets->bytes[i], sizeof packets->bytes[i]};
        *header = (struct msghdr){.msg_iov = &packets->vectors[i], .msg_iovlen = 1};
        if (!is_client) {
            header->msg_control = packets->controls[i].space;
            header->msg_controllen = sizeof packets->controls[i].space;
        }
    }
}

/* Consumes `fd`, the descriptor that came with the packet: -1 when there was none, or when this
 * process has no descriptor left for it. Returns 0, or why the connection ends. */
static int process_packet(struct okv_local_conn *conn, const struct mmsghdr *packet,
                          const uint8_t *bytes, int fd)
{
    bool is_whole = !(packet->msg_hdr.msg_flags & MSG_TRUNC);

    /* The end of the stream. An honest peer sends no empty packet. */
    if (packet->msg_len == 0)
        return OKV_EDISCONNECTED;
    if (is_whole && packet->msg_len == OKV_LOCAL_ADVERT_SIZE &&
        okv_get_u32(bytes) == OKV_LOCAL_ADVERT_MARK &&
        !okv_local_endpoint(conn->base.endpoint)->client)
        return okv_local_advert_received(conn, bytes + 4, fd);
    if (fd >= 0)
        close(fd);
    if (is_whole && packet->msg_len == OKV_LOCAL_BELL_SIZE &&
        okv_get_u32(bytes) == OKV_LOCAL_BELL_MARK)
        return 0;
    return OKV_EPROTO;
}

static void process_packets(struct okv_local_conn *conn, struct packets *packets, unsigned count)
{
    int status = 0;

    for (unsigned i = 0; i < count; i++) {
        struct mmsghdr *packet = &packets->headers[i];
        int fd = -1;
        okv_local_passed_descriptors(&packet->msg_hdr, &fd, 1);
        if (status == 0)
            status = process_packet(conn, packet, packets->bytes[i], fd);
        else if (fd >= 0)
            close(fd);
    }
    if (status == OKV_EDISCONNECTED)
        okv_local_hang_up(conn);
    else if (status)
        okv_local_conn_end(conn, status);
}

unsigned okv_local_socket_receive(struct okv_local_conn *conn)
{
    struct packets packets;
    int count;

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return 0;
    prepare(&packets, okv_local_endpoint(conn->base.endpoint)->client != NULL);
    count = recvmmsg(conn->sock, packets.headers, PACKETS, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
    if (count > 0) {
        okv_local_conn_wake(conn);
        process_packets(conn, &packets, (unsigned)count);
        return (unsigned)count;
    }
    if (count == 0 || errno == ECONNRESET)
        okv_local_hang_up(conn);
    else if (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        okv_local_conn_end(conn, okv_error_from_errno(errno));
    return 0;
}

static int send_bell(const struct okv_local_conn *conn)
{
    uint8_t packet[OKV_LOCAL_BELL_SIZE];
    ssize_t sent;

    okv_put_u32(packet, OKV_LOCAL_BELL_MARK);
    do {
        sent = send(conn->sock, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? okv_error_from_errno(errno) : 0;
}

void okv_local_ring_bell(struct okv_local_conn *conn)
{
    int status = 0;

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    if (conn->bell_owed)
        status = send_bell(conn);
    conn->bell_owed = status == OKV_EAGAIN; /* until the socket has room */
    if (status == OKV_EDISCONNECTED)
        okv_local_hang_up(conn);
    else if (status && status != OKV_EAGAIN)
        okv_local_conn_end(conn, status);
    okv_local_conn_watch(conn);
}

void okv_local_hang_up(struct okv_local_conn *conn)
{
    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    conn->hung_up = true;
    conn->ring_full = conn->bell_owed = conn->socket_full = false;
    conn->base.unacknowledged -= conn->send_queued;
    conn->send_queued = 0;
    conn->unsent = NULL;
    okv_local_ring_end(&conn->ring);
    shutdown(conn->sock, SHUT_RDWR); /* a peer that lives on must not wait for us */
    okv_local_conn_watch(conn);
    okv_local_conn_wake(conn);
    /* Otherwise an armed endpoint would not become readable for this. */
    okv_local_announce(okv_local_endpoint(conn->base.endpoint));
}

int okv_local_heartbeat(struct okv_conn *base)
{
    struct okv_local_conn *conn = okv_local_conn(base);
    struct pollfd watched[] = {
        {.fd = conn->sock, .events = POLLRDHUP},
        {.fd = conn->process, .events = POLLIN}, /* poll(2) ignores -1 */
    };

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return OKV_EDISCONNECTED;
    if (poll(watched, 2, 0) > 0)
        okv_local_hang_up(conn);
    else
        base->acknowledged++;
    return 0;
}
