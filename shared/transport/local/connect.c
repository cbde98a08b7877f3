/*
 * The client's connect, step by step: find the server, send the hello, read the answer, map the
 * region.
 *
 * A Unix socket does not tell when a full accept queue has room again, so the client tries again
 * after a pause.
 */
#include "shared/transport/local/connect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/mapping.h"
#include "shared/transport/common/hello.h"
#include "shared/transport/local/conn.h"
#include "shared/transport/local/endpoint.h"
#include "shared/transport/local/local.h"
#include "shared/transport/local/packet.h"
#include "shared/transport/local/peer_credentials.h"
#include "shared/transport/local/safe_close.h"

/* Between two attempts to connect to a server whose queue is full. */
#define QUEUE_PAUSE_NS 2000000u

/* A step has to wait. Not OKV_EAGAIN, which may be a failure of a system call. */
#define WAITING 1

struct connecting {
    struct okv_connecting base;
    struct okv_uri uri;
    struct okv_message_limits limits;
    uint64_t deadline_ns;
    struct okv_connect_hello hello;
    struct okv_local_endpoint *endpoint;
    struct okv_local_conn *conn; /* not yet part of the endpoint */
    bool asked;                  /* the hello is sent */
};

static int connect_failed(struct okv_diag *diag, const char *path, int error)
{
    switch (error) {
    case ENOENT:
    case ENOTDIR:
        return okv_diag_set(diag, OKV_EREFUSED,
                            "no server listens at %s (there is no such socket): start "
                            "okv-server --listen local://%s",
                            path, path);
    case ECONNREFUSED:
        return okv_diag_set(
            diag, OKV_EREFUSED,
            "no server listens at %s (the socket is left from one that ended): start "
            "okv-server --listen local://%s",
            path, path);
    case EACCES:
    case EPERM:
        return okv_diag_set(
            diag, OKV_EPERM,
            "no permission to connect to local://%s: join the socket's group if that may write "
            "(ls -l), or have the server listen with ?uids=any&mode=0660 for members of its group, "
            "or &mode=0666 for all users",
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

static int find_server(struct connecting *connecting, struct okv_diag *diag)
{
    const char *path = connecting->uri.path;
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int error;

    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    do {
        if (connect(connecting->conn->sock, (const struct sockaddr *)&address, sizeof address) == 0)
            return 0;
        error = errno;
    } while (error == EINTR);
    uint64_t now = okv_clock_ns();
    if (error != EAGAIN || now >= connecting->deadline_ns)
        return connect_failed(diag, path, error);
    connecting->base.fd = -1;
    connecting->base.wake_ns = now + QUEUE_PAUSE_NS < connecting->deadline_ns
                                   ? now + QUEUE_PAUSE_NS
                                   : connecting->deadline_ns;
    return WAITING;
}

static int send_hello(struct connecting *connecting, struct okv_diag *diag)
{
    uint8_t frame[OKV_LOCAL_HELLO_HEADER + OKV_HELLO_MAX];

    okv_put_u32(frame, OKV_LOCAL_MAGIC);
    memcpy(frame + OKV_LOCAL_HELLO_HEADER, connecting->hello.bytes, connecting->hello.length);
    if (send(connecting->conn->sock, frame, OKV_LOCAL_HELLO_HEADER + connecting->hello.length,
             MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
        return okv_diag_set(diag, OKV_EREFUSED,
                            "the server at local://%s closed the connection (%s): see that it runs",
                            connecting->uri.path, strerror(errno));
    connecting->asked = true;
    return 0;
}

static int await_answer(struct connecting *connecting, struct okv_diag *diag)
{
    if (okv_clock_ns() >= connecting->deadline_ns)
        return okv_diag_set(diag, OKV_ETIMEDOUT,
                            "the server at local://%s did not answer in time: check that it is "
                            "running and not stopped",
                            connecting->uri.path);
    connecting->base.fd = connecting->conn->sock;
    connecting->base.wake_ns = connecting->deadline_ns;
    return WAITING;
}

/* Copies the descriptors that came with a packet, at most OKV_LOCAL_DESCRIPTORS; returns their
 * number. */
static unsigned passed_descriptors(struct msghdr *message, int fds[OKV_LOCAL_DESCRIPTORS])
{
    struct cmsghdr *control = CMSG_FIRSTHDR(message);

    if (!control || control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS ||
        control->cmsg_len < CMSG_LEN(0))
        return 0;
    size_t count = (control->cmsg_len - CMSG_LEN(0)) / sizeof *fds;
    if (count > OKV_LOCAL_DESCRIPTORS)
        count = OKV_LOCAL_DESCRIPTORS;
    memcpy(fds, CMSG_DATA(control), count * sizeof *fds);
    return (unsigned)count;
}

/* Looks at the next packet, which stays in the socket. The kernel may report the end before the
 * last packet when both arrive during a look; a second look is right. A packet of 0 bytes looks
 * like the end, except for its descriptors, which each look installs again. */
static ssize_t peek(int sock, struct msghdr *message)
{
    const struct msghdr first = *message;
    ssize_t got = recvmsg(sock, message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);

    if (got != 0 || message->msg_controllen > 0)
        return got;
    *message = first;
    return recvmsg(sock, message, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
}

/* Looks at the server's answer, which stays in the socket, and gets its descriptors; -1 stays for
 * each that is missing. To close these does not block while the answer has them too. */
static int read_answer(struct connecting *connecting, struct okv_answer *answer,
                       int fds[OKV_LOCAL_DESCRIPTORS], struct okv_diag *diag)
{
    const char *path = connecting->uri.path;
    uint8_t header[OKV_LOCAL_ANSWER_HEADER];
    union {
        struct cmsghdr header;
        char space[CMSG_LEN(OKV_LOCAL_DESCRIPTORS * sizeof *fds)];
    } control;
    struct iovec vectors[2] = {{header, sizeof header}, {answer->bytes, sizeof answer->bytes}};
    struct msghdr message = {.msg_iov = vectors,
                             .msg_iovlen = 2,
                             .msg_control = control.space,
                             .msg_controllen = sizeof control.space};
    ssize_t got = peek(connecting->conn->sock, &message);

    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return await_answer(connecting, diag);
    unsigned count = got < 0 ? 0 : passed_descriptors(&message, fds);
    if (got < 0 || (got == 0 && count == 0))
        return okv_diag_set(
            diag, OKV_EREFUSED,
            "the server at local://%s closed the connection without an answer: it may have "
            "no descriptor left: raise its `ulimit -n`",
            path);
    uint32_t kind = (size_t)got >= sizeof header ? okv_get_u32(header + 4) : 0;
    size_t limit = kind == OKV_LOCAL_REJECT ? OKV_REJECT_MAX : OKV_WELCOME_MAX;
    if (kind == 0 || okv_get_u32(header) != OKV_LOCAL_MAGIC || (message.msg_flags & MSG_TRUNC) ||
        (size_t)got - sizeof header > limit ||
        (kind != OKV_LOCAL_REJECT && (kind != OKV_LOCAL_WELCOME || count < OKV_LOCAL_DESCRIPTORS ||
                                      (message.msg_flags & MSG_CTRUNC))))
        return okv_diag_set(
            diag, OKV_EPROTO,
            "what listens at local://%s answers as no okv server does: check the path "
            "in the URI",
            path);
    answer->rejected = kind == OKV_LOCAL_REJECT;
    answer->length = (size_t)got - sizeof header;
    if (answer->rejected)
        return okv_diag_set(diag, OKV_EREFUSED, "the server at local://%s refused the connection",
                            path);
    return 0;
}

/* Maps the region. A memfd that can shrink could kill this process with SIGBUS. A memfd that can
 * be mapped for writing could be changed by any client. */
static int map_region(struct okv_local_conn *conn, const char *path, int fd, struct okv_diag *diag)
{
    int seals = fcntl(fd, F_GET_SEALS);
    struct stat file;
    void *map;

    if (seals < 0 && errno != EINVAL)
        return okv_diag_set(diag, okv_error_from_errno(errno),
                            "cannot look at the memory of local://%s: %s", path, strerror(errno));
    if (seals < 0 || !(seals & F_SEAL_SHRINK) || !(seals & (F_SEAL_FUTURE_WRITE | F_SEAL_WRITE)))
        return okv_diag_set(diag, OKV_EPROTO,
                            "the server at local://%s offers memory that is not sealed against "
                            "shrinking and writing: it is no okv server, or a broken one",
                            path);
    if (fstat(fd, &file))
        return okv_diag_set(diag, okv_error_from_errno(errno),
                            "cannot look at the memory of local://%s: %s", path, strerror(errno));
    if (file.st_size <= 0)
        return okv_diag_set(diag, OKV_EPROTO, "the server at local://%s offers no memory", path);
    map = okv_map_shared(fd, (size_t)file.st_size, PROT_READ);
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

static int map_rings(struct okv_local_conn *conn, const char *path, int rings, int values,
                     struct okv_diag *diag)
{
    int status = okv_local_values_check(values);

    if (status == 0)
        status = okv_local_ring_map(rings, &conn->ring);
    if (status == OKV_EPROTO)
        return okv_diag_set(diag, status,
                            "the server at local://%s offers no rings for messages, or of another "
                            "format: it is no okv server, or one of another version",
                            path);
    if (status)
        return okv_diag_set(diag, status,
                            "cannot map the rings for messages of local://%s (%s): raise the "
                            "limit on address space (ulimit -v)",
                            path, okv_error_text(status));
    /* A message that the ring cannot hold would never leave. */
    uint32_t most = conn->ring.capacity - OKV_LOCAL_RING_RECORD;
    if (conn->base.slot_size > most)
        conn->base.slot_size = most;
    return 0;
}

static int make_socket(const char *path, int *out, struct okv_diag *diag)
{
    *out = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    return *out < 0 ? connect_failed(diag, path, errno) : 0;
}

static int open_socket(struct okv_local_endpoint *endpoint, const char *path,
                       struct okv_local_conn **out, struct okv_diag *diag)
{
    int sock;
    int status = make_socket(path, &sock, diag);

    if (status)
        return status;
    status = okv_local_conn_new(endpoint, sock, out);
    if (status) {
        close(sock); /* nobody has sent anything on it */
        return okv_diag_set(diag, status, "no memory for a connection");
    }
    return 0;
}

int okv_local_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                            struct okv_connecting **out, struct okv_diag *diag)
{
    struct connecting *connecting;
    int status;

    connecting = calloc(1, sizeof *connecting);
    if (!connecting)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
    status = okv_hello_init(&connecting->hello, params, diag);
    if (status)
        goto free_connecting;
    connecting->base = (struct okv_connecting){.ops = &okv_transport_local, .fd = -1};
    connecting->uri = *uri;
    connecting->limits = params->limits;
    connecting->deadline_ns = params->deadline_ns;
    status = okv_local_endpoint_new(&params->limits, 1, &connecting->endpoint, diag);
    if (status)
        goto free_connecting;
    status = open_socket(connecting->endpoint, uri->path, &connecting->conn, diag);
    if (status)
        goto free_endpoint;
    *out = &connecting->base;
    return 0;
free_endpoint:
    okv_local_endpoint_free(connecting->endpoint);
free_connecting:
    free(connecting);
    return status;
}

void okv_local_connect_cancel(struct okv_connecting *base)
{
    struct connecting *connecting = (struct connecting *)base;

    if (!connecting)
        return;
    okv_local_conn_free(connecting->conn);
    okv_local_endpoint_free(connecting->endpoint);
    free(connecting);
}

static void close_descriptors(int fds[OKV_LOCAL_DESCRIPTORS])
{
    for (unsigned i = 0; i < OKV_LOCAL_DESCRIPTORS; i++) {
        if (fds[i] >= 0)
            close(fds[i]);
        fds[i] = -1;
    }
}

/* The server has closed the socket on which it rejected a hello. */
static int renew_socket(struct connecting *connecting, struct okv_diag *diag)
{
    struct okv_local_conn *conn = connecting->conn;

    okv_local_socket_close(conn->sock);
    conn->sock = -1;
    connecting->asked = false;
    return make_socket(connecting->uri.path, &conn->sock, diag);
}

/* Asks until there is an answer that stands. */
static int ask(struct connecting *connecting, struct okv_answer *answer,
               int fds[OKV_LOCAL_DESCRIPTORS], struct okv_diag *diag)
{
    static const struct okv_binding no_binding;
    int status = 0;

    for (;;) {
        if (!connecting->asked) {
            status = find_server(connecting, diag);
            if (status == 0)
                status = okv_local_peer_verify(connecting->conn->sock, connecting->uri.path, diag);
            if (status == 0)
                status = send_hello(connecting, diag);
            if (status)
                return status;
        }
        status = read_answer(connecting, answer, fds, diag);
        if (status != OKV_EREFUSED || !okv_hello_renew(&connecting->hello, answer, &no_binding))
            return status;
        close_descriptors(fds);
        status = renew_socket(connecting, diag);
        if (status)
            return status;
        answer->rejected = false;
    }
}

/* Goes as far as it can. 0: the welcome came, the region and the rings are mapped. */
static int advance(struct connecting *connecting, struct okv_answer *answer, struct okv_diag *diag)
{
    int fds[OKV_LOCAL_DESCRIPTORS] = {-1, -1, -1};
    int status = ask(connecting, answer, fds, diag);

    if (status == 0)
        status = map_region(connecting->conn, connecting->uri.path, fds[OKV_LOCAL_REGION], diag);
    if (status == 0)
        status = map_rings(connecting->conn, connecting->uri.path, fds[OKV_LOCAL_RINGS],
                           fds[OKV_LOCAL_VALUES], diag);
    /* They are memory, mapped or kept: dropping the answer closes nothing for good. */
    if (status == 0) {
        okv_local_packet_drop(connecting->conn->sock);
        okv_local_refuse_descriptors(connecting->conn->sock);
        connecting->conn->values = fds[OKV_LOCAL_VALUES];
        fds[OKV_LOCAL_VALUES] = -1;
    }
    close_descriptors(fds);
    return status;
}

int okv_local_connect_step(struct okv_connecting *base, struct okv_answer *answer,
                           struct okv_conn **out, struct okv_diag *diag)
{
    struct connecting *connecting = (struct connecting *)base;
    struct okv_local_conn *conn = connecting->conn;
    int status;

    memset(answer, 0, sizeof *answer);
    status = advance(connecting, answer, diag);
    if (status == WAITING)
        return OKV_EAGAIN;
    if (status) {
        okv_local_connect_cancel(base);
        return status == OKV_EAGAIN ? OKV_EIO : status;
    }
    okv_local_peer_name(conn->sock, conn->base.peer, NULL);
    snprintf(conn->base.how, sizeof conn->base.how, "shared memory, socket %s",
             connecting->uri.path);
    connecting->endpoint->client = conn;
    okv_local_conn_attach(conn);
    free(connecting);
    *out = &conn->base;
    return 0;
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
