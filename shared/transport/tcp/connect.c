#include "shared/transport/tcp/connect.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"
#include "shared/base/uri_part.h"
#include "shared/discovery/find.h"
#include "shared/transport/common/hello.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/endpoint.h"

/* A host that does not answer at all is given up after this. */
#define CONNECT_LIMIT_NS UINT64_C(4500000000)

enum step { STEP_ADDRESS, STEP_SOCKET, STEP_TLS, STEP_ANSWER };

struct connecting {
    struct okv_connecting base; /* base.fd: an epoll set of the socket alone */
    struct okv_uri uri;
    struct okv_message_limits limits;
    struct okv_connect_hello hello;
    uint64_t deadline_ns, attempt_ns;  /* of all attempts, and of this one */
    struct addrinfo *addresses, *next; /* all, and the next one to try */
    struct addrinfo *source;
    enum step step;
    struct okv_stream stream;
    struct okv_tls *tls; /* NULL: without */
    struct okv_binding binding;
    uint8_t bytes[OKV_TCP_HEADER + OKV_WELCOME_MAX]; /* of the answer */
    size_t got;
    struct okv_answer answer;
    struct okv_diag diag;
};

/* ---- why it fails ---- */

static int diagnose_socket(struct connecting *c, int errnum)
{
    switch (errnum) {
    case ECONNREFUSED:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "no server listens at %s port %s: start okv-server with --listen "
                            "%s://%s:%s, or check the port",
                            c->uri.host, c->uri.port, okv_uri_scheme_name(&c->uri), c->uri.host,
                            c->uri.port);
    case EADDRNOTAVAIL:
        return okv_diag_set(&c->diag, OKV_EADDRESS,
                            "no network device of this machine has the address %s: see 'ip addr'",
                            c->uri.source);
    case ETIMEDOUT:
        return okv_diag_set(&c->diag, OKV_ETIMEDOUT, "%s does not answer", c->uri.host);
    case ECONNRESET:
    case EPIPE:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "the server at %s port %s closed the connection before its answer",
                            c->uri.host, c->uri.port);
    default:
        return okv_diag_set(&c->diag, OKV_EADDRESS, "%s port %s cannot be reached: %s", c->uri.host,
                            c->uri.port, strerror(errnum));
    }
}

static int diagnose_tls(struct connecting *c)
{
    char where[sizeof c->uri.host + sizeof c->uri.port + sizeof " port "];

    snprintf(where, sizeof where, "%s port %s", c->uri.host, c->uri.port);
    return okv_stream_explain(&c->stream, where, &c->diag);
}

static int diagnose_silence(struct connecting *c)
{
    return okv_diag_set(
        &c->diag, OKV_ETIMEDOUT, "%s port %s did not answer in time%s", c->uri.host, c->uri.port,
        c->step >= STEP_TLS ? ": what listens there is busy or stopped, or is no okv-server"
                            : ": the host is down, or a firewall drops it");
}

static int diagnose_stranger(struct connecting *c)
{
    const char *other = okv_tcp_frame_other_protocol(c->bytes, c->got);

    return okv_diag_set(&c->diag, OKV_EPROTO,
                        "what listens at %s port %s is no okv-server with a %s listener%s%s: %s",
                        c->uri.host, c->uri.port, okv_uri_scheme_name(&c->uri),
                        other ? ", and speaks " : "", other ? other : "",
                        other && strcmp(other, "TLS") == 0 ? "try tcps://" : "check the port");
}

/* ---- the steps: each returns 0 to go on, OKV_EAGAIN to wait, or how the connect ends ---- */

static void end_attempt(struct connecting *c)
{
    if (c->stream.fd >= 0) {
        epoll_ctl(c->base.fd, EPOLL_CTL_DEL, c->stream.fd, NULL); /* a child may have it, too */
        okv_stream_fini(&c->stream);
    }
    c->stream.fd = -1;
}

/* One from which the source can be left. */
static struct addrinfo *usable(const struct connecting *c, struct addrinfo *address)
{
    while (address && c->source && address->ai_family != c->source->ai_family)
        address = address->ai_next;
    return address;
}

/* Each address has its part of the time. */
static void set_deadline(struct connecting *c)
{
    uint64_t now_ns = okv_clock_ns(), left = 1;

    for (struct addrinfo *other = c->next; other; other = usable(c, other->ai_next))
        left++;
    c->attempt_ns =
        now_ns < c->deadline_ns ? now_ns + (c->deadline_ns - now_ns) / left : c->deadline_ns;
}

/* Begins with the next address. */
static int step_address(struct connecting *c)
{
    const struct addrinfo *address = c->next;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};
    int sock;

    c->next = usable(c, address->ai_next);
    c->got = 0;
    set_deadline(c);
    sock = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (sock >= 0 && okv_stream_init(&c->stream, sock, c->tls, c->uri.of_tls.server_name)) {
        c->stream.fd = -1;
        return okv_diag_set(&c->diag, OKV_ENOMEM, "no memory for TLS");
    }
    if (sock < 0 || epoll_ctl(c->base.fd, EPOLL_CTL_ADD, sock, &event))
        return okv_diag_set(&c->diag, okv_error_from_errno(errno), "no socket to connect with: %s",
                            strerror(errno));
    if (c->source && bind(sock, c->source->ai_addr, c->source->ai_addrlen))
        return diagnose_socket(c, errno);
    if (connect(sock, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS)
        return diagnose_socket(c, errno);
    c->step = STEP_SOCKET;
    return 0;
}

/* The server ended TLS: what it said of that may be there to read. */
static int diagnose_end(struct connecting *c)
{
    uint8_t byte;

    okv_stream_read(&c->stream, &byte, 1);
    return diagnose_tls(c);
}

static int send_hello(struct connecting *c)
{
    uint8_t frame[OKV_TCP_HEADER + OKV_HELLO_MAX];
    size_t length = OKV_TCP_HEADER + c->hello.length;

    okv_tcp_frame_put(frame, &(struct okv_tcp_frame){.kind = OKV_TCP_HELLO,
                                                     .length = (uint32_t)c->hello.length,
                                                     .value = OKV_TCP_GREETING});
    memcpy(frame + OKV_TCP_HEADER, c->hello.bytes, c->hello.length);
    c->got = 0;
    /* The socket's buffer is empty: it takes a hello as a whole. */
    if (okv_stream_write(&c->stream, frame, length) != (ssize_t)length)
        return c->tls ? diagnose_end(c) : diagnose_socket(c, EPIPE);
    return 0;
}

static int step_socket(struct connecting *c)
{
    struct epoll_event event;
    socklen_t length = sizeof(int);
    const int one = 1;
    int errnum = 0;

    if (epoll_wait(c->base.fd, &event, 1, 0) <= 0)
        return OKV_EAGAIN;
    getsockopt(c->stream.fd, SOL_SOCKET, SO_ERROR, &errnum, &length);
    event = (struct epoll_event){.events = EPOLLIN};
    if (errnum == 0 && (setsockopt(c->stream.fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) ||
                        epoll_ctl(c->base.fd, EPOLL_CTL_MOD, c->stream.fd, &event)))
        errnum = errno;
    if (errnum)
        return diagnose_socket(c, errnum);
    c->step = STEP_TLS;
    return 0;
}

static int step_tls(struct connecting *c)
{
    int rc = okv_stream_handshake(&c->stream);
    struct epoll_event event = {.events = rc == 0 && c->stream.writes_to_read ? EPOLLOUT : EPOLLIN};

    epoll_ctl(c->base.fd, EPOLL_CTL_MOD, c->stream.fd, &event);
    if (rc == 0)
        return OKV_EAGAIN;
    if (rc < 0)
        return diagnose_tls(c);
    c->binding.length = 0;
    if (c->tls && !okv_stream_is_okv(&c->stream))
        return okv_diag_set(&c->diag, OKV_EPROTO,
                            "what listens at %s port %s speaks TLS, but is no okv-server with a "
                            "tcps listener: check the port",
                            c->uri.host, c->uri.port);
    if (c->tls) {
        c->binding.length = OKV_STREAM_BINDING;
        if (okv_stream_binding(&c->stream, c->binding.bytes))
            return okv_diag_set(&c->diag, OKV_EIO, "TLS gives no binding for a proof");
    }
    c->step = STEP_ANSWER;
    return send_hello(c);
}

/* Bytes of the answer that are missing; a code: it is none. */
static int missing(const struct connecting *c, struct okv_tcp_frame *frame)
{
    if (c->got < OKV_TCP_HEADER)
        return (int)(OKV_TCP_HEADER - c->got);
    if (okv_tcp_frame_get(c->bytes, frame) ||
        (frame->kind != OKV_TCP_WELCOME && frame->kind != OKV_TCP_REJECT) ||
        frame->length > (frame->kind == OKV_TCP_WELCOME ? OKV_WELCOME_MAX : OKV_REJECT_MAX))
        return OKV_EPROTO;
    return (int)(OKV_TCP_HEADER + frame->length - c->got);
}

static int step_answer(struct connecting *c)
{
    struct okv_tcp_frame frame;
    int wanted;

    while ((wanted = missing(c, &frame)) > 0) {
        ssize_t n = okv_stream_read(&c->stream, c->bytes + c->got, (size_t)wanted);
        if (n == 0 && !c->stream.has_ended)
            return OKV_EAGAIN;
        if (n < 0 && c->tls)
            return diagnose_tls(c);
        if (n <= 0 && c->got > 0 && c->got < OKV_TCP_HEADER)
            return diagnose_stranger(c);
        if (n <= 0)
            return diagnose_socket(c, n == 0 ? ECONNRESET : errno);
        c->got += (size_t)n;
        if (okv_tcp_frame_other_protocol(c->bytes, c->got))
            return diagnose_stranger(c);
    }
    if (wanted < 0)
        return diagnose_stranger(c);
    c->answer.length = frame.length;
    c->answer.rejected = frame.kind == OKV_TCP_REJECT;
    memcpy(c->answer.bytes, c->bytes + OKV_TCP_HEADER, frame.length);
    if (!c->answer.rejected)
        return 0;
    if (okv_hello_renew(&c->hello, &c->answer, &c->binding)) {
        c->answer = (struct okv_answer){.length = 0};
        int rc = send_hello(c);
        return rc ? rc : OKV_EAGAIN;
    }
    return okv_diag_set(&c->diag, OKV_EREFUSED, "the server at %s port %s refused: see its log",
                        c->uri.host, c->uri.port);
}

/* ---- */

/* Another address may have a server where this one has none. */
static bool has_another(struct connecting *c, int rc)
{
    if (!c->next || c->answer.rejected || rc == OKV_ENOMEM || rc == OKV_EPERM || rc == OKV_EDENIED)
        return false;
    end_attempt(c);
    c->step = STEP_ADDRESS;
    okv_hello_restart(&c->hello);
    return true;
}

/* Goes on until the answer is there, or has to wait, or ends. */
static int advance(struct connecting *c)
{
    int rc;

    do {
        if (c->step == STEP_ADDRESS)
            rc = step_address(c);
        else if (c->step == STEP_SOCKET)
            rc = step_socket(c);
        else if (c->step == STEP_TLS)
            rc = step_tls(c);
        else
            return step_answer(c);
    } while (rc == 0);
    return rc;
}

static int make_conn(struct connecting *c, struct okv_tcp_conn **out)
{
    struct okv_tcp_endpoint *endpoint;
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;
    struct okv_tcp_conn *conn;
    int rc = okv_tcp_endpoint_new(&c->limits, 1, &endpoint, &c->diag);

    if (rc)
        return rc;
    rc = okv_tcp_conn_new(endpoint, &conn);
    if (rc) {
        okv_tcp_endpoint_free(endpoint);
        return okv_diag_set(&c->diag, rc, "no memory for a connection");
    }
    epoll_ctl(c->base.fd, EPOLL_CTL_DEL, c->stream.fd, NULL);
    okv_stream_move(&conn->stream, &c->stream);
    conn->tls = c->tls;
    c->tls = NULL;
    if (getpeername(conn->stream.fd, (struct sockaddr *)&peer, &length) == 0)
        okv_address_text((struct sockaddr *)&peer, conn->base.peer, sizeof conn->base.peer);
    else
        snprintf(conn->base.peer, sizeof conn->base.peer, "%.40s:%s", c->uri.host, c->uri.port);
    snprintf(conn->base.how, sizeof conn->base.how, "%s, READs served by the server's process",
             conn->tls ? "TLS over TCP" : "TCP");
    endpoint->client = conn;
    okv_tcp_conn_attach(conn);
    *out = conn;
    return 0;
}

static void release(struct connecting *c)
{
    end_attempt(c);
    if (c->base.fd >= 0)
        close(c->base.fd);
    if (c->addresses)
        freeaddrinfo(c->addresses);
    if (c->source)
        freeaddrinfo(c->source);
    okv_tls_destroy(c->tls);
    free(c);
}

static const char *or_null(const char *text)
{
    return text[0] ? text : NULL;
}

/* The files are read for each attempt: they may be renewed. */
static int open_tls(struct connecting *c, struct okv_diag *diag)
{
    struct okv_uri_tls *of_tls = &c->uri.of_tls;
    const struct okv_tls_files files = {or_null(of_tls->cert), or_null(of_tls->key),
                                        or_null(of_tls->ca)};

    if (!files.cert != !files.key)
        return okv_diag_set(diag, OKV_EINVAL,
                            "a certificate and its key go together: give both "
                            "cert=FILE and key=FILE, or none");
    if (!of_tls->server_name[0])
        memcpy(of_tls->server_name, c->uri.host, sizeof c->uri.host);
    return okv_tls_create(OKV_TLS_CLIENT, &files, &c->tls, diag);
}

int okv_tcp_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                          struct okv_connecting **out, struct okv_diag *diag)
{
    uint64_t limit = okv_clock_ns() + CONNECT_LIMIT_NS;
    struct connecting *c = calloc(1, sizeof *c);

    if (!c)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory to connect");
    c->base.ops = &okv_transport_tcp;
    c->uri = *uri;
    c->limits = params->limits;
    c->deadline_ns = params->deadline_ns < limit ? params->deadline_ns : limit;
    c->stream.fd = -1;
    c->base.fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = okv_hello_init(&c->hello, params, diag);
    if (rc == 0 && c->base.fd < 0)
        rc = okv_diag_set(diag, okv_error_from_errno(errno), "no descriptor to connect with: %s",
                          strerror(errno));
    if (rc == 0 && uri->tls)
        rc = open_tls(c, diag);
    if (rc == 0 && uri->name[0])
        rc = okv_discovery_find(&c->uri, c->deadline_ns, diag);
    if (rc == 0)
        rc = okv_resolve(c->uri.host, c->uri.port, 0, &c->addresses, diag);
    if (rc == 0 && uri->source[0])
        rc = okv_resolve(uri->source, NULL, AI_NUMERICHOST, &c->source, diag);
    if (rc) {
        release(c);
        return rc;
    }
    c->next = usable(c, c->addresses);
    if (!c->next) {
        okv_diag_set(diag, OKV_EADDRESS,
                     "%s has no address that %s can reach: leave source out, or name an address "
                     "of its kind",
                     c->uri.host, uri->source);
        release(c);
        return OKV_EADDRESS;
    }
    *out = &c->base;
    return 0;
}

int okv_tcp_connect_step(struct okv_connecting *base, struct okv_answer *answer,
                         struct okv_conn **out, struct okv_diag *diag)
{
    struct connecting *c = (struct connecting *)base;
    struct okv_tcp_conn *conn = NULL;
    int rc;

    do {
        rc = advance(c);
        if (rc == OKV_EAGAIN && okv_clock_ns() < c->attempt_ns) {
            c->base.wake_ns = c->attempt_ns;
            return rc;
        }
        if (rc == OKV_EAGAIN)
            rc = diagnose_silence(c);
    } while (rc && has_another(c, rc));
    if (rc == 0)
        rc = make_conn(c, &conn);
    *answer = c->answer;
    if (rc && diag)
        *diag = c->diag;
    if (rc == 0)
        *out = &conn->base;
    release(c);
    return rc;
}

void okv_tcp_connect_cancel(struct okv_connecting *base)
{
    if (base)
        release((struct connecting *)base);
}

int okv_tcp_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey)
{
    (void)address, (void)rkey;
    if (length == 0)
        return OKV_EPROTO;
    conn->remote_length = length;
    return 0;
}
