/* The listener: the seals of the regions, requests of clients. */
#include "shared/transport/local/listen.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/local.h"
#include "shared/transport/local/packet.h"
#include "shared/transport/local/peer_credentials.h"
#include "shared/transport/local/safe_close.h"
#include "shared/transport/local/socket_path.h"

#define HELLO_NS UINT64_C(3000000000) /* until a client without a hello is dropped */

#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL)

/* Clients must not write the region, and its shrinking must not kill them with SIGBUS. */
static int seal_region(const struct okv_region *region, struct okv_diag *diag)
{
    struct stat file;

    if (fstat(region->fd, &file))
        return okv_diag_set(diag, OKV_EINVAL, "the region has no memfd: %s", strerror(errno));
    if (region->length == 0 || (uint64_t)file.st_size < region->length)
        return okv_diag_set(diag, OKV_EINVAL, "the region's memfd is smaller than the region");
    int seals = fcntl(region->fd, F_GET_SEALS);
    if (seals >= 0 && (seals & SEALS) == SEALS)
        return 0;
    if (fcntl(region->fd, F_ADD_SEALS, SEALS) == 0)
        return 0;
    if (errno == EINVAL)
        return okv_diag_set(
            diag, OKV_EUNSUPPORTED,
            "the region's memory cannot be sealed against writing by clients: the local "
            "transport needs Linux 5.1 or later");
    return okv_diag_set(diag, OKV_EPERM,
                        "the region's memfd cannot be sealed (%s): it must be made with "
                        "MFD_ALLOW_SEALING",
                        strerror(errno));
}

/* A descriptor for reading only. With the one for writing a client could have the kernel allocate
 * all of the region. Without permission to write nobody but the owner can open it for writing. */
static int share_region(const struct okv_region *region, int *out, struct okv_diag *diag)
{
    char path[32];

    snprintf(path, sizeof path, "/proc/self/fd/%d", region->fd);
    *out = -1;
    if (fchmod(region->fd, 0400) == 0)
        *out = open(path, O_RDONLY | O_CLOEXEC);
    if (*out >= 0)
        return 0;
    return okv_diag_set(diag, OKV_EPERM,
                        "the region's memfd cannot be opened for reading only (%s): raise the "
                        "limit on open files (ulimit -n), or mount /proc",
                        strerror(errno));
}

static void unshare_regions(struct okv_local_listener *listener)
{
    while (listener->region_count > 0)
        close(listener->shared[--listener->region_count]);
}

static int share_regions(struct okv_local_listener *listener, const struct okv_region *regions,
                         unsigned count, struct okv_diag *diag)
{
    int status = 0;

    for (unsigned i = 0; status == 0 && i < count; i++) {
        status = seal_region(&regions[i], diag);
        if (status == 0)
            status = share_region(&regions[i], &listener->shared[i], diag);
        if (status == 0)
            listener->regions[listener->region_count++] = regions[i];
    }
    if (status)
        unshare_regions(listener);
    return status;
}

static int open_socket(struct okv_local_listener *listener, int *out, struct okv_diag *diag)
{
    const char *path = listener->uri.path;
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (sock < 0)
        return okv_diag_set(diag, okv_error_from_errno(errno), "cannot create %s: %s", path,
                            strerror(errno));
    okv_local_refuse_descriptors(sock); /* its clients' sockets inherit it */
    int status =
        okv_socket_path_listen(&listener->path, &listener->uri, sock, OKV_PENDING_MAX, diag);
    if (status) {
        close(sock);
        return status;
    }
    *out = sock;
    return 0;
}

/* Closes the socket of a request that is in no list, and frees it. */
static void request_free(struct okv_pending_client *client)
{
    if (client->sock >= 0)
        okv_local_socket_close(client->sock);
    free(client);
}

static int greet(struct okv_pending_client *client)
{
    const struct okv_local_listener *listener = okv_local_listener(client->base.listener);
    bool is_trusted = false;

    okv_local_peer_name(client->sock, client->base.peer, client->base.address);
    int status = okv_local_peer_is_trusted(client->sock, &is_trusted);
    client->base.is_foreign = !listener->uri.any_uid && !is_trusted;
    return status;
}

static int read_hello(struct okv_pending_client *client)
{
    struct okv_local_request *request = (struct okv_local_request *)client;
    uint8_t magic[OKV_LOCAL_HELLO_HEADER];
    struct iovec vectors[2] = {{magic, sizeof magic}, {request->hello, sizeof request->hello}};
    bool is_cut;
    ssize_t got = okv_local_packet_receive(client->sock, vectors, 2, &is_cut);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return 0;
    if (got < (ssize_t)sizeof magic || is_cut || okv_get_u32(magic) != OKV_LOCAL_MAGIC)
        return OKV_EPROTO;
    client->base.hello = request->hello;
    client->base.hello_length = (size_t)got - sizeof magic;
    return 1;
}

static const struct okv_pending_ops pending_ops = {
    .size = sizeof(struct okv_local_request),
    .greet = greet,
    .read_hello = read_hello,
    .drop = request_free,
    .close_client = okv_local_socket_close,
    .close_listening = okv_local_listening_close,
};

int okv_local_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                     struct okv_listener **out, struct okv_diag *diag)
{
    struct okv_local_listener *listener;
    int sock = -1, status;

    listener = calloc(1, sizeof *listener);
    if (!listener)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
    listener->base.ops = &okv_transport_local;
    listener->uri = *uri;
    snprintf(listener->base.where, sizeof listener->base.where, "local://%s", uri->path);
    snprintf(listener->base.how, sizeof listener->base.how, "shared memory, socket %s", uri->path);

    status = share_regions(listener, regions, count, diag);
    if (status)
        goto free_listener;
    status = open_socket(listener, &sock, diag);
    if (status)
        goto unshare_regions;
    status = okv_pending_open(&listener->pending, sock, HELLO_NS, &pending_ops, diag);
    if (status)
        goto remove_path;
    listener->base.fd = listener->pending.epoll;
    listener->base.pending = &listener->pending;
    *out = &listener->base;
    return 0;
remove_path:
    okv_socket_path_remove(&listener->path);
unshare_regions:
    unshare_regions(listener);
free_listener:
    free(listener);
    return status;
}

void okv_local_unlisten(struct okv_listener *base)
{
    struct okv_local_listener *listener = okv_local_listener(base);

    okv_socket_path_remove(&listener->path);
    okv_pending_close(&listener->pending);
    unshare_regions(listener);
    free(listener);
}

/* ---- answers ---- */

/* Sends the answer to a hello, with OKV_LOCAL_DESCRIPTORS unless `fds` is NULL. */
static int send_answer(int sock, enum okv_local_answer kind, const uint8_t *bytes, size_t length,
                       const int *fds)
{
    const size_t size = OKV_LOCAL_DESCRIPTORS * sizeof *fds;
    uint8_t header[OKV_LOCAL_ANSWER_HEADER];
    union {
        struct cmsghdr header;
        char space[CMSG_SPACE(OKV_LOCAL_DESCRIPTORS * sizeof *fds)];
    } control = {0};
    struct iovec vectors[2] = {{header, sizeof header}, {(void *)bytes, length}};
    struct msghdr message = {.msg_iov = vectors, .msg_iovlen = 2};

    okv_put_u32(header, OKV_LOCAL_MAGIC);
    okv_put_u32(header + 4, kind);
    if (fds) {
        message.msg_control = control.space;
        message.msg_controllen = sizeof control.space;
        control.header.cmsg_level = SOL_SOCKET;
        control.header.cmsg_type = SCM_RIGHTS;
        control.header.cmsg_len = CMSG_LEN(size);
        memcpy(CMSG_DATA(&control.header), fds, size);
    }
    if (sendmsg(sock, &message, MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return okv_error_from_errno(errno);
    return 0;
}

/* Hands an accepted connection to the endpoint's thread. */
static void queue_opened(struct okv_local_endpoint *endpoint, struct okv_local_conn *conn)
{
    pthread_mutex_lock(&endpoint->arrivals.lock);
    okv_arrivals_add_locked(&endpoint->arrivals, &conn->base);
    pthread_mutex_unlock(&endpoint->arrivals.lock);
    okv_wakeup_signal(&endpoint->wakeup);
}

int okv_local_accept(struct okv_request *base, const struct okv_accept *accept)
{
    struct okv_pending_client *client = (struct okv_pending_client *)base;
    struct okv_local_listener *listener = okv_local_listener(base->listener);
    struct okv_local_endpoint *endpoint = okv_local_endpoint(accept->endpoint);
    struct okv_local_conn *conn;
    int status = OKV_EAGAIN;

    if (accept->length > OKV_WELCOME_MAX)
        return OKV_EINVAL;
    if (atomic_fetch_add(&endpoint->conn_count, 1) >= endpoint->base.max_conns)
        goto uncount;
    status = okv_local_conn_new(endpoint, client->sock, &conn);
    if (status)
        goto uncount;
    client->sock = -1;
    conn->base.user = accept->user;
    conn->region = listener->regions[accept->region];
    memcpy(conn->base.peer, base->peer, sizeof conn->base.peer);
    memcpy(conn->base.how, listener->base.how, sizeof conn->base.how);
    status = okv_local_peer_process(conn->sock, &conn->process);
    if (status)
        goto free_conn;
    status = okv_local_ring_create(endpoint->limits.slot_size, &conn->ring, &conn->rings);
    if (status == 0)
        status = okv_local_values_create(&conn->values);
    if (status)
        goto free_conn;
    const int fds[OKV_LOCAL_DESCRIPTORS] = {
        [OKV_LOCAL_REGION] = listener->shared[accept->region],
        [OKV_LOCAL_RINGS] = conn->rings,
        [OKV_LOCAL_VALUES] = conn->values,
    };
    status = send_answer(conn->sock, OKV_LOCAL_WELCOME, accept->welcome, accept->length, fds);
    if (status)
        goto free_conn;
    queue_opened(endpoint, conn);
    request_free(client);
    return 0;
free_conn:
    client->sock = conn->sock; /* the caller rejects on it */
    conn->sock = -1;
    okv_local_conn_free(conn);
uncount:
    atomic_fetch_sub(&endpoint->conn_count, 1);
    return status;
}

void okv_local_reject(struct okv_request *base, const uint8_t *reason, size_t length)
{
    struct okv_pending_client *client = (struct okv_pending_client *)base;

    if (length <= OKV_REJECT_MAX)
        send_answer(client->sock, OKV_LOCAL_REJECT, reason, length, NULL);
    request_free(client);
}
