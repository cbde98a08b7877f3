#include "shared/transport/ofi/conn.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/ofi/bare.h"
#include "shared/transport/ofi/control.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/receive.h"

#define CLOSE_NS UINT64_C(1000000000) /* time for the messages of a closing connection to leave */

/* ---- memory ---- */

static void free_send_buffers(struct ofi_conn *conn)
{
    okv_ofi_slab_destroy(&conn->send_slab);
    okv_send_slots_destroy(&conn->sends);
    free(conn->send_ops);
    free(conn->send_lengths);
}

static int make_send_buffers(struct ofi_conn *conn, struct okv_diag *diag)
{
    const struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    unsigned count = ep->limits.credits + 1;

    conn->send_ops = calloc(count, sizeof *conn->send_ops);
    conn->send_lengths = calloc(count, sizeof *conn->send_lengths);
    if (!conn->send_ops || !conn->send_lengths || !okv_send_slots_create(&conn->sends, count))
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
    for (unsigned i = 0; i < count; i++)
        ofi_op_init(&conn->send_ops[i], OFI_WORK_SEND, i, conn);
    return okv_ofi_slab_create(ep->fabric, count,
                               sizeof(struct ofi_message_header) + ep->limits.slot_size,
                               FI_SEND | FI_READ, &conn->send_slab, diag);
}

static bool take_number(struct ofi_endpoint *ep, unsigned *number)
{
    pthread_mutex_lock(&ep->arrivals.lock);
    bool any = ep->number_count > 0;
    if (any)
        *number = ep->numbers[--ep->number_count];
    pthread_mutex_unlock(&ep->arrivals.lock);
    return any;
}

void okv_ofi_conn_return_number(struct ofi_endpoint *ep, unsigned number)
{
    pthread_mutex_lock(&ep->arrivals.lock);
    ep->numbers[ep->number_count++] = number;
    pthread_mutex_unlock(&ep->arrivals.lock);
}

int okv_ofi_conn_new(struct ofi_endpoint *endpoint, struct ofi_conn **out, struct okv_diag *diag)
{
    int rc;
    struct ofi_conn *conn = calloc(1, sizeof *conn);

    if (!conn)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
    conn->base.ops = &okv_transport_ofi;
    conn->base.endpoint = &endpoint->base;
    conn->base.slot_size = endpoint->limits.slot_size;
    conn->base.is_one_sided = endpoint->fabric->is_one_sided;
    conn->base.max_reads = OKV_READ_SLOTS;
    conn->control = -1;
    conn->peer = FI_ADDR_NOTAVAIL;
    ofi_op_init(&conn->first, OFI_WORK_FIRST, 0, conn);
    for (unsigned i = 0; i < OKV_READ_SLOTS; i++)
        ofi_op_init(&conn->read_ops[i].op, OFI_WORK_READ, i, conn);
    for (unsigned i = 0; i < OFI_RENDEZVOUS_DEPTH; i++)
        ofi_op_init(&conn->pieces[i].op, OFI_WORK_PIECE, i, conn);
    if (getrandom(&conn->key, sizeof conn->key, 0) != sizeof conn->key) {
        rc = okv_diag_set(diag, OKV_EIO, "no random bytes: %s", strerror(errno));
        goto free_conn;
    }
    if (!take_number(endpoint, &conn->number)) {
        rc = okv_diag_set(diag, OKV_EAGAIN, "the endpoint is full: %u connections",
                          endpoint->base.max_conns);
        goto free_conn;
    }
    conn->has_number = true;
    rc = okv_ofi_pool_make(endpoint, conn->number, diag);
    if (rc == 0)
        rc = make_send_buffers(conn, diag);
    if (rc)
        goto return_number;
    *out = conn;
    return 0;

return_number:
    okv_ofi_conn_return_number(endpoint, conn->number);
free_conn:
    free_send_buffers(conn);
    free(conn);
    return rc;
}

void okv_ofi_conn_free(struct ofi_conn *conn)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    okv_ofi_bare_close(conn->bare);
    if (conn->peer != FI_ADDR_NOTAVAIL)
        fi_av_remove(ep->av, &conn->peer, 1, 0);
    if (conn->control >= 0)
        close(conn->control);
    if (conn->has_number)
        okv_ofi_conn_return_number(ep, conn->number);
    okv_ofi_slab_destroy(&conn->bounce);
    free_send_buffers(conn);
    free(conn);
}

/* ---- the peer ---- */

/* Where addresses are IP addresses: that of the control connection's other end. Otherwise a client
 * could name another's endpoint, and break the connection that the server has with it. libfabric
 * trusts the family, and takes no address any more after a wrong one. */
static bool is_place_of_peer(const struct ofi_conn *conn, const struct ofi_place *place)
{
    uint32_t format = ofi_endpoint_of(conn)->fabric->info->addr_format;
    struct sockaddr_storage name = {0}, peer;
    socklen_t length = sizeof peer;
    char ours[64], theirs[64];

    if (format != FI_SOCKADDR_IN && format != FI_SOCKADDR_IN6)
        return true;
    memcpy(&name, place->name, place->name_length);
    if (name.ss_family != (format == FI_SOCKADDR_IN ? AF_INET : AF_INET6) ||
        getpeername(conn->control, (struct sockaddr *)&peer, &length))
        return false;
    okv_host_text((struct sockaddr *)&name, theirs, sizeof theirs);
    okv_host_text((struct sockaddr *)&peer, ours, sizeof ours);
    return strcmp(ours, theirs) == 0;
}

int okv_ofi_conn_find_peer(struct ofi_conn *conn, const struct ofi_place *place)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    if (place->name_length != ep->name_length || !is_place_of_peer(conn, place))
        return OKV_EIO;
    if (fi_av_insert(ep->av, place->name, 1, &conn->peer, 0, NULL) != 1) {
        conn->peer = FI_ADDR_NOTAVAIL;
        return OKV_EIO;
    }
    conn->peer_key = okv_le64_get(place->key);
    conn->peer_connection = okv_le32_get(place->connection);
    return 0;
}

void okv_ofi_conn_tell_place(const struct ofi_conn *conn, struct ofi_place *place)
{
    const struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    place->key = okv_le64_of(conn->key);
    place->connection = okv_le32_of(conn->number);
    place->name_length = ep->name_length;
    memcpy(place->name, ep->name, ep->name_length);
}

int okv_ofi_conn_admit(struct ofi_conn *conn)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP, .data.ptr = conn};

    ep->table[conn->number] = conn;
    okv_ofi_pool_use(ep, conn->number);
    if (epoll_ctl(ep->controls, EPOLL_CTL_ADD, conn->control, &event) == 0)
        return 0;
    return okv_error_from_errno(errno);
}

void okv_ofi_arrivals_process(struct ofi_endpoint *ep)
{
    struct okv_conn *conn = okv_arrivals_take(&ep->arrivals);

    for (; conn; conn = STAILQ_NEXT(conn, in_arrivals)) {
        int rc = okv_ofi_conn_admit((struct ofi_conn *)conn);
        if (rc)
            okv_ofi_conn_fail((struct ofi_conn *)conn, rc, "no descriptor can watch it");
    }
}

int okv_ofi_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey)
{
    (void)address, (void)rkey; /* the transport's own handshake has told them, with 64 bits */
    if (length == 0 || length > ((struct ofi_conn *)conn)->remote_limit)
        return OKV_EPROTO;
    conn->remote_length = length;
    return 0;
}

void okv_ofi_conn_fail(struct ofi_conn *conn, int status, const char *why)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    if (conn->state != OFI_CONN_OPEN)
        return;
    conn->state = OFI_CONN_CLOSING;
    conn->close_status = status;
    conn->close_deadline = okv_clock_ns() + CLOSE_NS;
    conn->close_times_empty = ep->times_empty;
    LIST_INSERT_HEAD(&ep->closing, conn, in_closing);
    snprintf(conn->base.failure, sizeof conn->base.failure, "%s", why);
    okv_send_slots_unqueue(&conn->sends);
    epoll_ctl(ep->controls, EPOLL_CTL_DEL, conn->control, NULL);
    shutdown(conn->control, SHUT_RDWR);
    okv_wakeup_signal(&ep->wakeup);
}

void okv_ofi_conn_block(struct ofi_conn *conn)
{
    struct ofi_endpoint *ep = ofi_endpoint_of(conn);

    if (conn->is_blocked)
        return;
    conn->is_blocked = true;
    LIST_INSERT_HEAD(&ep->blocked, conn, in_blocked);
}
