#include "shared/transport/local/notification.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/packet.h"

/* Why a connection ends whose socket failed so; 0: it does not. */
static int receive_failed(int errnum)
{
    switch (errnum) {
    case EAGAIN:
    case EINTR:
        return 0;
    case ECONNRESET:
        return OKV_EDISCONNECTED;
    case EPROTO:
        return OKV_EPROTO;
    default:
        return okv_error_from_errno(errnum);
    }
}

static void end(struct okv_local_conn *conn, int status)
{
    if (status == OKV_EDISCONNECTED)
        okv_local_hang_up(conn);
    else if (status)
        okv_local_conn_end(conn, status);
}

void okv_local_socket_receive(struct okv_local_conn *conn)
{
    uint8_t bytes[OKV_LOCAL_NOTIFICATION_SIZE];
    struct iovec vector = {bytes, sizeof bytes};
    bool is_cut;

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    ssize_t got = okv_local_packet_receive(conn->sock, &vector, 1, &is_cut);
    if (got < 0) {
        end(conn, receive_failed(errno));
        return;
    }
    if (got == 0) /* the end of the stream; an honest peer sends no empty packet */
        okv_local_hang_up(conn);
    else if (got != OKV_LOCAL_NOTIFICATION_SIZE || is_cut ||
             okv_get_u32(bytes) != OKV_LOCAL_NOTIFICATION_MARK || !okv_local_rings_are_safe(conn))
        okv_local_conn_end(conn, OKV_EPROTO);
    else
        okv_local_conn_activate(conn);
}

static int send_notification(const struct okv_local_conn *conn)
{
    uint8_t packet[OKV_LOCAL_NOTIFICATION_SIZE];
    ssize_t sent;

    okv_put_u32(packet, OKV_LOCAL_NOTIFICATION_MARK);
    do {
        sent = send(conn->sock, packet, sizeof packet, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (sent < 0 && errno == EINTR);
    return sent < 0 ? okv_error_from_errno(errno) : 0;
}

void okv_local_notify(struct okv_local_conn *conn)
{
    int status = 0;

    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    if (conn->must_notify)
        status = send_notification(conn);
    conn->must_notify = status == OKV_EAGAIN; /* until the socket has room */
    if (status != OKV_EAGAIN)
        end(conn, status);
    okv_local_conn_watch(conn);
}

void okv_local_hang_up(struct okv_local_conn *conn)
{
    if (conn->state != OKV_LOCAL_OPEN || conn->hung_up)
        return;
    conn->hung_up = true;
    conn->ring_full = conn->must_notify = false;
    okv_local_unqueue_sends(conn);
    if (!okv_local_rings_are_safe(conn)) {
        okv_local_conn_end(conn, OKV_EDISCONNECTED);
        return;
    }
    okv_local_ring_end(&conn->ring);
    shutdown(conn->sock, SHUT_RDWR); /* a peer that lives on must not wait for us */
    okv_local_conn_watch(conn);
    okv_local_conn_activate(conn);
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
