#include "shared/transport/tcp/listen.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/base/resolve.h"
#include "shared/base/uri_part.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/handshake.h"

#define HELLO_NS UINT64_C(3000000000) /* until a client without a hello is dropped */

/* A client answers a challenge, and tries another key, on the same connection. */
#define HELLOS_MAX 8u

/* ---- pending clients ---- */

static struct okv_tcp_request *request_of(struct okv_pending_client *client)
{
    return (struct okv_tcp_request *)client;
}

/* Its stream is not there yet where it could not be made; the socket is closed then. */
static void request_free(struct okv_pending_client *client)
{
    if (client->sock >= 0)
        okv_stream_fini(&request_of(client)->stream);
    free(client);
}

static int begin_stream(struct okv_pending_client *client)
{
    struct okv_tcp_listener *l = (struct okv_tcp_listener *)client->base.listener;
    struct okv_tcp_request *request = request_of(client);
    int rc = okv_stream_init(&request->stream, client->sock, l->base.tls, NULL);

    if (rc)
        client->sock = -1;
    return rc;
}

static int greet(struct okv_pending_client *client)
{
    struct okv_request *request = &client->base;
    struct sockaddr_storage peer;
    struct okv_tcp_listener *l = (struct okv_tcp_listener *)request->listener;
    socklen_t length = sizeof peer;
    const int one = 1, step = OKV_TCP_STEP;
    int rc = begin_stream(client);

    if (rc)
        return rc;
    if (l->has_tls && !l->base.tls)
        return OKV_EIO; /* never without it */
    if (getpeername(client->sock, (struct sockaddr *)&peer, &length))
        return OKV_EDISCONNECTED;
    setsockopt(client->sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    /* The kernel would take megabytes for a peer that does not read. */
    setsockopt(client->sock, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &step, sizeof step);
    okv_address_text((struct sockaddr *)&peer, request->peer, sizeof request->peer);
    okv_host_group_text((struct sockaddr *)&peer, request->address);
    return 0;
}

static void shake_hands(struct okv_pending_client *client)
{
    okv_tcp_handshakes_begin((struct okv_tcp_listener *)client->base.listener, request_of(client));
}

/* Tells a client of another protocol, in words that it may show. */
static void tell_stranger(struct okv_tcp_request *request, const char *protocol)
{
    const bool has_tls = request->stream.ssl != NULL;
    char text[160];
    int length =
        snprintf(text, sizeof text, "-ERR okv's %s:// speaks a protocol of its own, and not %s\r\n",
                 has_tls ? "tcps" : "tcp", protocol);

    okv_stream_write(&request->stream, (const uint8_t *)text, (size_t)length);
    snprintf(request->client.base.stranger, sizeof request->client.base.stranger, "it speaks %s%s",
             protocol, strcmp(protocol, "TLS") == 0 ? ": tcps:// is another listener" : "");
}

/* Bytes that the frame needs beyond those that have come; a code: it is no hello. */
static int missing(const struct okv_tcp_request *request)
{
    struct okv_tcp_frame frame;

    if (request->got < OKV_TCP_HEADER)
        return (int)(OKV_TCP_HEADER - request->got);
    if (okv_tcp_frame_get(request->bytes, &frame) || frame.kind != OKV_TCP_HELLO ||
        frame.length > OKV_HELLO_MAX)
        return OKV_EPROTO;
    return (int)(OKV_TCP_HEADER + frame.length - request->got);
}

static int read_hello(struct okv_pending_client *client)
{
    struct okv_tcp_request *request = request_of(client);
    int wanted;

    if (client->base.stranger[0])
        return 1;
    if (request->stream.ssl && client->base.binding.length == 0)
        return OKV_EDISCONNECTED; /* its handshake has not come to its end */
    while ((wanted = missing(request)) > 0) {
        ssize_t n =
            okv_stream_read(&request->stream, request->bytes + request->got, (size_t)wanted);
        if (n < 0 || (n == 0 && request->stream.has_ended))
            return OKV_EDISCONNECTED;
        if (n == 0)
            return 0;
        request->got += (size_t)n;
        const char *other = okv_tcp_frame_other_protocol(request->bytes, request->got);
        if (other) {
            tell_stranger(request, other);
            return 1;
        }
    }
    if (wanted < 0)
        return wanted;
    client->base.hello = request->bytes + OKV_TCP_HEADER;
    client->base.hello_length = request->got - OKV_TCP_HEADER;
    request->hellos++;
    return 1;
}

/* A client without TLS is told so without TLS. */
static void describe_failure(struct okv_tcp_request *request)
{
    static const char text[] = "-ERR okv's tcps:// speaks TLS, and nothing else\r\n";
    struct okv_request *base = &request->client.base;

    if (!okv_stream_describe(&request->stream, base->stranger, sizeof base->stranger))
        send(request->stream.fd, text, sizeof text - 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* A client whose handshake is over. One that did not come to its end, but said something, is a
 * stranger. */
static struct okv_pending_client *next_returned(struct okv_listener *listener)
{
    struct okv_tcp_request *request = okv_tcp_handshakes_next((struct okv_tcp_listener *)listener);

    if (!request)
        return NULL;
    struct okv_request *base = &request->client.base;
    if (request->how == OKV_HANDSHAKE_FAILED)
        describe_failure(request);
    else if (request->how == OKV_HANDSHAKE_DONE &&
             okv_stream_binding(&request->stream, base->binding.bytes) == 0)
        base->binding.length = OKV_STREAM_BINDING;
    return &request->client;
}

/* Its handshake costs no more time. */
static void recall(struct okv_pending_client *client)
{
    atomic_store(&request_of(client)->handshake.is_unwanted, true);
    shutdown(client->sock, SHUT_RDWR);
}

static const struct okv_pending_ops pending_ops = {
    .size = sizeof(struct okv_tcp_request),
    .greet = greet,
    .read_hello = read_hello,
    .drop = request_free,
};

static const struct okv_pending_ops pending_tls_ops = {
    .size = sizeof(struct okv_tcp_request),
    .greet = greet,
    .lead_away = shake_hands,
    .next_returned = next_returned,
    .recall = recall,
    .read_hello = read_hello,
    .drop = request_free,
};

/* ---- opening ---- */

static int open_socket(const struct okv_uri *uri, const struct addrinfo *address, int *out,
                       struct okv_diag *diag)
{
    const int one = 1, zero = 0;
    int sock = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    if (sock < 0)
        return okv_bind_failed(errno, uri->host, uri->port, diag);
    setsockopt(sock, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); /* after a restart */
    if (address->ai_family == AF_INET6)
        setsockopt(sock, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
    if (bind(sock, address->ai_addr, address->ai_addrlen) || listen(sock, SOMAXCONN)) {
        int errnum = errno;
        close(sock);
        return okv_bind_failed(errnum, uri->host, uri->port, diag);
    }
    *out = sock;
    return 0;
}

/* "*" is every address of the host: those of IPv4, too, by the socket of IPv6 if there is one. */
static int open_sockets(const struct okv_uri *uri, int *out, struct okv_diag *diag)
{
    const char *host = strcmp(uri->host, "*") == 0 ? NULL : uri->host;
    struct addrinfo *found;
    int rc = okv_resolve(host ? host : "::", uri->port, AI_PASSIVE, &found, diag);

    if (rc)
        return rc;
    rc = open_socket(uri, found, out, diag);
    freeaddrinfo(found);
    if (rc == 0 || host || rc == OKV_EAGAIN ||
        okv_resolve("0.0.0.0", uri->port, AI_PASSIVE, &found, diag))
        return rc;
    rc = open_socket(uri, found, out, diag);
    freeaddrinfo(found);
    return rc;
}

static void describe(struct okv_tcp_listener *l, const struct okv_uri *uri)
{
    bool is_ipv6 = strchr(uri->host, ':') != NULL;

    snprintf(l->base.where, sizeof l->base.where, is_ipv6 ? "%s://[%.128s]:%s" : "%s://%.128s:%s",
             okv_uri_scheme_name(uri), uri->host, uri->port);
    snprintf(l->base.how, sizeof l->base.how, "%s, READs served by this process",
             uri->tls ? "TLS over TCP" : "TCP");
}

static int open_handshakes(struct okv_tcp_listener *l, struct okv_diag *diag)
{
    int rc = okv_tcp_handshakes_open(l, diag);

    if (rc)
        return rc;
    rc = okv_pending_watch_returns(&l->pending, l->handshakes.fd, diag);
    if (rc) {
        okv_tcp_handshakes_stop(l);
        okv_tcp_handshakes_close(l);
    }
    return rc;
}

int okv_tcp_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                   struct okv_listener **out, struct okv_diag *diag)
{
    struct okv_tcp_listener *l = calloc(1, sizeof *l);
    int sock = -1;

    if (!l)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a listener");
    l->base.ops = &okv_transport_tcp;
    l->has_tls = uri->tls;
    memcpy(l->regions, regions, count * sizeof *regions);
    describe(l, uri);
    int rc = open_sockets(uri, &sock, diag);
    if (rc == 0)
        rc = okv_pending_open(&l->pending, sock, HELLO_NS,
                              l->has_tls ? &pending_tls_ops : &pending_ops, diag);
    if (rc)
        goto free_listener;
    rc = l->has_tls ? open_handshakes(l, diag) : 0;
    if (rc)
        goto close_pending;
    l->base.fd = l->pending.epoll;
    l->base.pending = &l->pending;
    *out = &l->base;
    return 0;

close_pending:
    okv_pending_close(&l->pending);
free_listener:
    free(l);
    return rc;
}

/* Those whose handshakes are under way return by that. */
static void close_handshakes(struct okv_tcp_listener *l)
{
    struct okv_tcp_request *request;

    okv_tcp_handshakes_stop(l);
    while ((request = okv_tcp_handshakes_next(l))) {
        if (!request->client.is_dropped)
            okv_pending_remove(&l->pending, &request->client);
        request_free(&request->client);
    }
    okv_tcp_handshakes_close(l);
}

void okv_tcp_unlisten(struct okv_listener *listener)
{
    struct okv_tcp_listener *l = (struct okv_tcp_listener *)listener;

    if (l->has_tls)
        close_handshakes(l);
    okv_pending_close(&l->pending);
    free(l);
}

/* ---- answers ---- */

/* The socket is new, and its buffer empty: it takes an answer as a whole. */
static int send_answer(struct okv_tcp_request *request, enum okv_tcp_kind kind,
                       const uint8_t *bytes, size_t length)
{
    uint8_t frame[OKV_TCP_HEADER + OKV_WELCOME_MAX];

    okv_tcp_frame_put(frame, &(struct okv_tcp_frame){.kind = (uint8_t)kind,
                                                     .length = (uint32_t)length,
                                                     .value = OKV_TCP_GREETING});
    memcpy(frame + OKV_TCP_HEADER, bytes, length);
    ssize_t n = okv_stream_write(&request->stream, frame, OKV_TCP_HEADER + length);
    return n == (ssize_t)(OKV_TCP_HEADER + length) ? 0 : OKV_EDISCONNECTED;
}

/* Hands an accepted connection to the endpoint's thread. */
static void queue_opened(struct okv_tcp_endpoint *endpoint, struct okv_tcp_conn *conn)
{
    pthread_mutex_lock(&endpoint->arrivals.lock);
    okv_arrivals_add_locked(&endpoint->arrivals, &conn->base);
    pthread_mutex_unlock(&endpoint->arrivals.lock);
    okv_wakeup_signal(&endpoint->wakeup);
}

/* A client that gave up has closed its end, or reset the connection. */
static bool is_gone(int sock)
{
    struct pollfd watched = {.fd = sock, .events = POLLRDHUP};

    return poll(&watched, 1, 0) > 0;
}

int okv_tcp_accept(struct okv_request *base, const struct okv_accept *accept)
{
    struct okv_pending_client *client = (struct okv_pending_client *)base;
    struct okv_tcp_request *request = request_of(client);
    const struct okv_tcp_listener *l = (struct okv_tcp_listener *)base->listener;
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(accept->endpoint);
    struct okv_tcp_conn *conn;
    int rc = OKV_EAGAIN;

    if (accept->length > OKV_WELCOME_MAX)
        return OKV_EINVAL;
    if (is_gone(client->sock))
        return OKV_EDISCONNECTED;
    if (atomic_fetch_add(&endpoint->conn_count, 1) >= endpoint->base.max_conns)
        goto uncount;
    rc = okv_tcp_conn_new(endpoint, &conn);
    if (rc)
        goto uncount;
    rc = send_answer(request, OKV_TCP_WELCOME, accept->welcome, accept->length);
    if (rc)
        goto free_conn;
    client->sock = -1;
    okv_stream_move(&conn->stream, &request->stream);
    conn->base.user = accept->user;
    conn->region = l->regions[accept->region];
    conn->region_index = accept->region;
    memcpy(conn->base.peer, base->peer, sizeof conn->base.peer);
    memcpy(conn->base.how, l->base.how, sizeof conn->base.how);
    queue_opened(endpoint, conn);
    request_free(client);
    return 0;

free_conn:
    okv_tcp_conn_free(conn);
uncount:
    atomic_fetch_sub(&endpoint->conn_count, 1);
    return rc;
}

/* The client may have another hello for the rejection, which it sends on this connection. */
void okv_tcp_reject(struct okv_request *base, const uint8_t *reason, size_t length)
{
    struct okv_tcp_request *request = (struct okv_tcp_request *)base;
    struct okv_tcp_listener *l = (struct okv_tcp_listener *)base->listener;

    request->got = 0;
    /* A stranger was told already. */
    if (base->stranger[0] || length > OKV_REJECT_MAX ||
        send_answer(request, OKV_TCP_REJECT, reason, length) || request->hellos == HELLOS_MAX ||
        okv_pending_add(&l->pending, &request->client))
        request_free(&request->client);
}
