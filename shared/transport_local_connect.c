/* The client's way in: find the server, say hello, map the region. */
#include "shared/transport_local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/bytes.h"
#include "shared/clock.h"
#include "shared/error.h"

static int connect_failed(struct okv_diag *diag, const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return okv_diag_set(diag, OKV_EREFUSED,
                            "no server listens at local://%s (there is no such socket): start "
                            "okv-server --listen local://%s",
                            path, path);
    case ECONNREFUSED:
        return okv_diag_set(
            diag, OKV_EREFUSED,
            "no server listens at local://%s (the socket is left from one that ended): start "
            "okv-server --listen local://%s",
            path, path);
    case EACCES:
    case EPERM:
        return okv_diag_set(
            diag, OKV_EPERM,
            "no permission to connect to local://%s: become a user that may write to "
            "this socket, or have the server's umask changed",
            path);
    case EPROTOTYPE:
        return okv_diag_set(diag, OKV_EADDRESS,
                            "%s is the socket of another program: check the path in the URI", path);
    case EAGAIN:
        return okv_diag_set(
            diag, OKV_ETIMEDOUT,
            "the server at local://%s has too many clients waiting and took none in time: "
            "check that it is running",
            path);
    default:
        return okv_diag_set(diag, okv_error_from_errno(error), "cannot connect to local://%s: %s",
                            path, strerror(error));
    }
}

/* What is left until the deadline as the socket's time-out, at least a
 * microsecond: 0 would mean for ever. */
static void set_send_timeout(int sock, uint64_t deadline_ns)
{
    uint64_t now = okv_clock_ns();
    uint64_t left_us = deadline_ns > now ? (deadline_ns - now) / 1000u : 0;
    struct timeval left = {
        .tv_sec = (time_t)(left_us / 1000000u),
        .tv_usec = (suseconds_t)(left_us > 0 ? left_us % 1000000u : 1),
    };

    setsockopt(sock, SOL_SOCKET, SO_SNDTIMEO, &left, sizeof left);
}

static int open_socket(const char *path, uint64_t deadline_ns, int *out, struct okv_diag *diag)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

    if (sock < 0)
        return connect_failed(diag, path, errno);
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    for (;;) {
        /* The only thing that blocks in it is a full queue of clients. */
        set_send_timeout(sock, deadline_ns);
        if (connect(sock, (const struct sockaddr *)&address, sizeof address) == 0)
            break;
        if (errno != EINTR) {
            int status = connect_failed(diag, path, errno);
            close(sock);
            return status;
        }
    }
    *out = sock;
    return 0;
}

static int send_hello(int sock, const char *path, const struct okv_connect_params *params,
                      struct okv_diag *diag)
{
    uint8_t frame[OKV_LOCAL_HELLO_HEADER + OKV_HELLO_MAX];

    okv_put_u32(frame, OKV_LOCAL_MAGIC);
    if (params->hello_length > 0)
        memcpy(frame + OKV_LOCAL_HELLO_HEADER, params->hello, params->hello_length);
    if (send(sock, frame, OKV_LOCAL_HELLO_HEADER + params->hello_length,
             MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return okv_diag_set(diag, OKV_EREFUSED,
                            "the server at local://%s closed the connection (%s): see that it runs",
                            path, strerror(errno));
    return 0;
}

static int await_answer(int sock, const char *path, uint64_t deadline_ns, struct okv_diag *diag)
{
    struct pollfd watched = {.fd = sock, .events = POLLIN};

    for (;;) {
        int ready = poll(&watched, 1, okv_clock_ms_until(deadline_ns));
        if (ready > 0)
            return 0;
        if (ready < 0 && errno != EINTR)
            return okv_diag_set(diag, OKV_EIO, "waiting for local://%s failed: %s", path,
                                strerror(errno));
        if (okv_clock_ns() >= deadline_ns)
            return okv_diag_set(diag, OKV_ETIMEDOUT,
                                "the server at local://%s did not answer in time: check that it is "
                                "running and not stopped",
                                path);
    }
}

/* Receives the server's answer and the descriptor with it (-1 when there is none). */
static int take_answer(int sock, const char *path, struct okv_welcome *welcome, int *fd,
                       struct okv_diag *diag)
{
    uint8_t header[OKV_LOCAL_ANSWER_HEADER];
    union {
        struct cmsghdr header;
        char space[CMSG_LEN(sizeof(int))]; /* with CMSG_SPACE a second descriptor would fit */
    } control;
    struct iovec vectors[2] = {{header, sizeof header}, {welcome->bytes, sizeof welcome->bytes}};
    struct msghdr message = {.msg_iov = vectors,
                             .msg_iovlen = 2,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got = recvmsg(sock, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    *fd = -1;
    if (got <= 0)
        return okv_diag_set(
            diag, OKV_EREFUSED,
            "the server at local://%s closed the connection without an answer: it may have "
            "no descriptor left: raise its `ulimit -n`",
            path);
    *fd = okv_local_passed_descriptor(&message);
    uint32_t kind = (size_t)got >= sizeof header ? okv_get_u32(header + 4) : 0;
    size_t limit = kind == OKV_LOCAL_REJECT ? OKV_REJECT_MAX : OKV_WELCOME_MAX;
    if (kind == 0 || okv_get_u32(header) != OKV_LOCAL_MAGIC || (message.msg_flags & MSG_TRUNC) ||
        (size_t)got - sizeof header > limit ||
        (kind != OKV_LOCAL_REJECT && (kind != OKV_LOCAL_WELCOME || *fd < 0)))
        return okv_diag_set(
            diag, OKV_EPROTO,
            "what listens at local://%s answers as no okv server does: check the path "
            "in the URI",
            path);
    welcome->rejected = kind == OKV_LOCAL_REJECT;
    welcome->length = (size_t)got - sizeof header;
    if (welcome->rejected)
        return okv_diag_set(diag, OKV_EREFUSED, "the server at local://%s refused the connection",
                            path);
    return 0;
}

/* Maps the region. A memfd that can shrink could kill this process with SIGBUS,
 * and one that can be mapped for writing could be changed by any client. */
static int map_region(struct okv_local_conn *conn, const char *path, int fd, struct okv_diag *diag)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;
    void *map;

    if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)))
        return okv_diag_set(diag, OKV_EPROTO,
                            "the server at local://%s offers memory that is not sealed against "
                            "shrinking and writing: it is no okv server, or a broken one",
                            path);
    if (fstat(fd, &file) || file.st_size <= 0)
        return okv_diag_set(diag, OKV_EPROTO, "the server at local://%s offers no memory", path);
    map = mmap(NULL, (size_t)file.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (map == MAP_FAILED)
        return okv_diag_set(
            diag, okv_error_from_errno(errno),
            "cannot map the %lld bytes of local://%s (%s): raise the limit on address "
            "space (ulimit -v)",
            (long long)file.st_size, path, strerror(errno));
    conn->map = map;
    conn->map_length = (uint64_t)file.st_size;
    return 0;
}

/* Everything after the socket stands; `conn` owns it. */
static int shake_hands(struct okv_local_conn *conn, const char *path,
                       const struct okv_connect_params *params, struct okv_welcome *welcome,
                       struct okv_diag *diag)
{
    int fd, status;

    status = okv_local_size_socket(conn->sock, &params->limits);
    if (status)
        return okv_diag_set(
            diag, status,
            "a Unix socket has no room for messages of %u bytes: use smaller ones, or "
            "raise net.core.wmem_max",
            params->limits.slot_size);
    status = send_hello(conn->sock, path, params, diag);
    if (status)
        return status;
    status = await_answer(conn->sock, path, params->deadline_ns, diag);
    if (status)
        return status;
    status = take_answer(conn->sock, path, welcome, &fd, diag);
    if (status == 0)
        status = map_region(conn, path, fd, diag);
    if (fd >= 0)
        close(fd);
    return status;
}

int okv_local_connect(const struct okv_uri *uri, const struct okv_connect_params *params,
                      struct okv_welcome *welcome, struct okv_conn **out, struct okv_diag *diag)
{
    struct okv_local_endpoint *endpoint;
    struct okv_local_conn *conn;
    int sock = -1;
    int status;

    memset(welcome, 0, sizeof *welcome);
    if (params->hello_length > OKV_HELLO_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "a hello has at most %d bytes", OKV_HELLO_MAX);
    status = okv_local_endpoint_new(&params->limits, 1, &endpoint, diag);
    if (status)
        return status;
    status = open_socket(uri->path, params->deadline_ns, &sock, diag);
    if (status)
        goto free_endpoint;
    status = okv_local_conn_new(endpoint, sock, &conn);
    if (status) {
        okv_diag_set(diag, status, "no memory for a connection");
        goto close_socket;
    }
    status = shake_hands(conn, uri->path, params, welcome, diag);
    if (status)
        goto free_conn;
    okv_local_name_peer(sock, conn->base.peer);
    snprintf(conn->base.how, sizeof conn->base.how, "shared memory, socket %s", uri->path);
    endpoint->client = conn;
    okv_local_conn_attach(conn);
    *out = &conn->base;
    return 0;
free_conn:
    okv_local_conn_free(conn);
    goto free_endpoint;
close_socket:
    close(sock);
free_endpoint:
    okv_local_endpoint_free(endpoint);
    return status;
}

int okv_local_set_remote(struct okv_conn *base, uint64_t address, uint64_t length, uint32_t rkey)
{
    struct okv_local_conn *conn = okv_local_conn(base);

    (void)address;
    (void)rkey;
    if (!conn->map || length == 0 || length > conn->map_length)
        return OKV_EPROTO;
    base->remote_length = length;
    return 0;
}
