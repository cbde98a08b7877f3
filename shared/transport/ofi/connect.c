/* The client's connect, step by step: a control connection to one address after the other, the
 * server's greeting, an endpoint of the provider that it names, our hello, the server's answer. */
#include "shared/transport/ofi/connect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/common/hello.h"
#include "shared/transport/ofi/closing.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/control.h"
#include "shared/transport/ofi/descriptors.h"
#include "shared/transport/ofi/endpoint.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/poll.h"
#include "shared/transport/ofi/post.h"
#include "shared/transport/ofi/provider.h"
#include "shared/transport/ofi/receive.h"

/* A host that does not answer at all is given up after this. */
#define CONNECT_LIMIT_NS UINT64_C(4500000000)
#define RETRY_NS UINT64_C(1000000)

enum ofi_step {
    OFI_STEP_ADDRESS,
    OFI_STEP_SOCKET,
    OFI_STEP_GREETING,
    OFI_STEP_ANSWER,
    OFI_STEP_FABRIC
};

struct ofi_connecting {
    struct okv_connecting base; /* base.fd: an epoll set of the socket alone */
    struct okv_uri uri;
    struct okv_message_limits limits;
    struct okv_connect_hello hello;
    uint64_t deadline_ns;                           /* for the server */
    uint64_t caller_deadline_ns;                    /* for all of it */
    struct addrinfo *addresses, *current, *address; /* all, and the next one */
    struct addrinfo *source;
    enum ofi_step step;
    bool is_second; /* attempt with the same address, and with the endpoint of the first */
    int sock;
    size_t got;
    struct ofi_frame frame;
    struct ofi_fabric fabric;
    struct ofi_conn *conn; /* owns the fabric and the endpoint; the socket is ours */
    struct okv_answer answer;
    struct okv_diag diag;
};

static void drop_conn(struct ofi_connecting *c)
{
    if (c->conn)
        okv_ofi_conn_destroy(&c->conn->base);
    c->conn = NULL;
}

static void end_attempt(struct ofi_connecting *c)
{
    drop_conn(c);
    okv_ofi_fabric_close(&c->fabric);
    if (c->sock >= 0)
        close(c->sock);
    c->sock = -1;
}

static void release(struct ofi_connecting *c)
{
    end_attempt(c);
    if (c->base.fd >= 0)
        close(c->base.fd);
    if (c->addresses)
        freeaddrinfo(c->addresses);
    if (c->source)
        freeaddrinfo(c->source);
    free(c);
}

int okv_ofi_connect_start(const struct okv_uri *uri, const struct okv_connect_params *params,
                          struct okv_connecting **out, struct okv_diag *diag)
{
    uint64_t limit = okv_clock_ns() + CONNECT_LIMIT_NS;

    struct ofi_connecting *c = calloc(1, sizeof *c);
    if (!c)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory to connect");
    c->base.ops = &okv_transport_ofi;
    c->uri = *uri;
    c->limits = params->limits;
    c->deadline_ns = params->deadline_ns < limit ? params->deadline_ns : limit;
    c->caller_deadline_ns = params->deadline_ns;
    c->sock = -1;
    c->base.fd = epoll_create1(EPOLL_CLOEXEC);
    int rc = okv_hello_init(&c->hello, params, diag);
    if (rc == 0 && c->base.fd < 0)
        rc = okv_diag_set(diag, okv_error_from_errno(errno), "no descriptor to connect with: %s",
                          strerror(errno));
    if (rc == 0)
        rc = okv_resolve(uri->host, uri->port, 0, &c->addresses, diag);
    if (rc == 0 && uri->source[0])
        rc = okv_resolve(uri->source, NULL, AI_NUMERICHOST, &c->source, diag);
    if (rc) {
        release(c);
        return rc;
    }
    c->address = c->addresses;
    *out = &c->base;
    return 0;
}

static int diagnose_socket(struct ofi_connecting *c, int errnum)
{
    switch (errnum) {
    case ECONNREFUSED:
        return okv_diag_set(&c->diag, OKV_EREFUSED,
                            "no server listens at %s port %s: start okv-server with --listen "
                            "ofi://%s:%s, or check the port",
                            c->uri.host, c->uri.port, c->uri.host, c->uri.port);
    case EADDRNOTAVAIL:
        return okv_diag_set(&c->diag, OKV_EADDRESS,
                            "no network device of this machine has the address %s: see 'ip addr'",
                            c->uri.source);
    case ETIMEDOUT:
        return okv_diag_set(&c->diag, OKV_ETIMEDOUT, "%s does not answer", c->uri.host);
    default:
        return okv_diag_set(&c->diag, OKV_EADDRESS, "%s port %s cannot be reached: %s", c->uri.host,
                            c->uri.port, strerror(errnum));
    }
}

static int diagnose_silence(struct ofi_connecting *c)
{
    return okv_diag_set(&c->diag, OKV_ETIMEDOUT, "%s port %s did not answer in time%s", c->uri.host,
                        c->uri.port,
                        c->step > OFI_STEP_SOCKET ? ": the server is there, but busy or stopped"
                                                  : ": the host is down, or a firewall drops it");
}

static int diagnose_frame(struct ofi_connecting *c, int rc)
{
    if (rc == OKV_EVERSION)
        return okv_diag_set(&c->diag, rc,
                            "the server at %s port %s speaks another version of the ofi handshake: "
                            "update the older side",
                            c->uri.host, c->uri.port);
    if (rc == OKV_EPROTO)
        return okv_diag_set(&c->diag, rc,
                            "what listens at %s port %s is no okv-server with an ofi listener",
                            c->uri.host, c->uri.port);
    return okv_diag_set(&c->diag, OKV_EREFUSED,
                        "the server at %s port %s closed the connection before its answer",
                        c->uri.host, c->uri.port);
}

/* ---- the steps: each returns 0 to go on, OKV_EAGAIN to wait, or how the connect ends ---- */

/* Begins with the next address. */
static int step_address(struct ofi_connecting *c)
{
    const struct addrinfo *address = c->address;
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT};

    c->current = c->address;
    c->address = address->ai_next;
    c->got = 0;
    c->sock = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (c->sock < 0 || epoll_ctl(c->base.fd, EPOLL_CTL_ADD, c->sock, &event))
        return okv_diag_set(&c->diag, okv_error_from_errno(errno), "no socket to connect with: %s",
                            strerror(errno));
    if (c->source && bind(c->sock, c->source->ai_addr, c->source->ai_addrlen))
        return diagnose_socket(c, errno);
    if (connect(c->sock, address->ai_addr, address->ai_addrlen) && errno != EINPROGRESS)
        return diagnose_socket(c, errno);
    c->step = OFI_STEP_SOCKET;
    return 0;
}

static int step_socket(struct ofi_connecting *c)
{
    struct epoll_event event;
    socklen_t length = sizeof(int);
    int errnum = 0;

    if (epoll_wait(c->base.fd, &event, 1, 0) <= 0)
        return OKV_EAGAIN;
    getsockopt(c->sock, SOL_SOCKET, SO_ERROR, &errnum, &length);
    if (errnum)
        return diagnose_socket(c, errnum);
    event = (struct epoll_event){.events = EPOLLIN};
    if (okv_ofi_control_prepare(c->sock) || epoll_ctl(c->base.fd, EPOLL_CTL_MOD, c->sock, &event))
        return diagnose_socket(c, errno);
    c->step = OFI_STEP_GREETING;
    return 0;
}

/* The provider is the server's. One that the URI names has to be the same. */
static int check_provider(struct ofi_connecting *c, const char *theirs)
{
    size_t length = strlen(c->uri.provider);

    if (length == 0 || (strncmp(theirs, c->uri.provider, length) == 0 &&
                        (theirs[length] == '\0' || theirs[length] == ';')))
        return 0;
    return okv_diag_set(&c->diag, OKV_EUNSUPPORTED,
                        "the server at %s port %s uses the libfabric provider %s, and the URI "
                        "names %s: leave ?provider= out, or start the server with it",
                        c->uri.host, c->uri.port, theirs, c->uri.provider);
}

/* The names that people write mean more than one provider, a server's greeting means one. */
static int open_fabric(struct ofi_connecting *c, const char *provider, const char *host)
{
    struct okv_diag filter;
    int rc = okv_ofi_provider_open(provider, host, false, &c->fabric, &c->diag);

    if (rc || strcmp(okv_ofi_fabric_name(&c->fabric), provider) == 0)
        return rc;
    okv_ofi_provider_filter(&filter);
    return okv_diag_set(&c->diag, OKV_EUNSUPPORTED,
                        "the server at %s port %s uses the libfabric provider %s, and this host "
                        "has %s in its place: %sinstall the same libfabric",
                        c->uri.host, c->uri.port, provider, okv_ofi_fabric_name(&c->fabric),
                        filter.text);
}

/* An endpoint of the server's provider on the local address of the control connection. */
static int make_conn(struct ofi_connecting *c, const char *provider)
{
    struct sockaddr_storage local;
    socklen_t length = sizeof local;
    struct ofi_endpoint *ep;
    char host[64];

    if (getsockname(c->sock, (struct sockaddr *)&local, &length))
        return diagnose_socket(c, errno);
    okv_host_text((struct sockaddr *)&local, host, sizeof host);
    int rc = open_fabric(c, provider, host);
    if (rc)
        return rc;
    rc = okv_ofi_endpoint_new(NULL, &c->fabric, &c->limits, 1, &ep, &c->diag);
    if (rc)
        return rc;
    rc = okv_ofi_conn_new(ep, &c->conn, &c->diag);
    if (rc) {
        c->conn = NULL;
        okv_ofi_endpoint_destroy(&ep->base);
    }
    return rc;
}

/* The time that our own endpoint takes to open is not the server's. */
static int grant_conn(struct ofi_connecting *c, const char *provider)
{
    uint64_t began = okv_clock_ns();
    int rc = make_conn(c, provider);

    c->deadline_ns += okv_clock_ns() - began;
    if (c->deadline_ns > c->caller_deadline_ns)
        c->deadline_ns = c->caller_deadline_ns;
    return rc;
}

static int step_greeting(struct ofi_connecting *c)
{
    const char *provider = (const char *)c->frame.body.greeting.provider;
    int rc = okv_ofi_control_receive(c->sock, &c->frame, &c->got);

    if (rc == 0)
        return OKV_EAGAIN;
    if (rc < 0 || c->frame.header.kind != OFI_GREETING)
        return diagnose_frame(c, rc < 0 ? rc : OKV_EPROTO);
    rc = check_provider(c, provider);
    if (rc)
        return rc;
    if (c->conn && strcmp(okv_ofi_fabric_name(ofi_endpoint_of(c->conn)->fabric), provider) != 0) {
        drop_conn(c); /* another server than that of the first attempt */
        okv_hello_restart(&c->hello);
    }
    rc = c->conn ? 0 : grant_conn(c, provider);
    if (rc)
        return rc;
    okv_ofi_frame_begin(&c->frame, OFI_HELLO);
    okv_ofi_conn_tell_place(c->conn, &c->frame.body.hello.place);
    c->frame.body.hello.length = (uint8_t)c->hello.length;
    memcpy(c->frame.body.hello.bytes, c->hello.bytes, c->hello.length);
    if (okv_ofi_control_send(c->sock, &c->frame))
        return diagnose_frame(c, OKV_EDISCONNECTED);
    c->got = 0;
    c->step = OFI_STEP_ANSWER;
    return 0;
}

static int take_welcome(struct ofi_connecting *c, const struct ofi_welcome *welcome)
{
    struct ofi_conn *conn = c->conn;

    c->answer.length = welcome->length;
    memcpy(c->answer.bytes, welcome->bytes, welcome->length);
    conn->control = c->sock;
    if (okv_ofi_conn_find_peer(conn, &welcome->place)) {
        conn->control = -1;
        return okv_diag_set(&c->diag, OKV_EIO,
                            "the libfabric provider %s does not take the address of %s's endpoint",
                            okv_ofi_fabric_name(ofi_endpoint_of(conn)->fabric), c->uri.host);
    }
    conn->remote_address = okv_le64_get(welcome->region_address);
    conn->remote_key = okv_le64_get(welcome->region_key);
    conn->remote_limit = okv_le64_get(welcome->region_length);
    if (conn->remote_limit > UINT64_MAX - conn->remote_address) {
        conn->control = -1;
        return diagnose_frame(c, OKV_EPROTO);
    }
    int rc = okv_ofi_conn_admit(conn);
    if (rc) {
        conn->control = -1;
        return okv_diag_set(&c->diag, rc, "no descriptor can watch the connection");
    }
    epoll_ctl(c->base.fd, EPOLL_CTL_DEL, c->sock, NULL);
    c->sock = -1;
    c->deadline_ns = c->caller_deadline_ns; /* the host is there: what is left takes its time */
    c->step = OFI_STEP_FABRIC;
    return 0;
}

static int step_answer(struct ofi_connecting *c)
{
    int rc = okv_ofi_control_receive(c->sock, &c->frame, &c->got);

    if (rc == 0)
        return OKV_EAGAIN;
    if (rc == 1 && c->frame.header.kind == OFI_REJECT) {
        c->answer.rejected = true;
        c->answer.length = c->frame.body.reject.length;
        memcpy(c->answer.bytes, c->frame.body.reject.bytes, c->answer.length);
        return okv_diag_set(&c->diag, OKV_EREFUSED, "the server at %s port %s refused: see its log",
                            c->uri.host, c->uri.port);
    }
    if (rc < 0 || c->frame.header.kind != OFI_WELCOME)
        return diagnose_frame(c, rc < 0 ? rc : OKV_EPROTO);
    return take_welcome(c, &c->frame.body.welcome);
}

static int diagnose_fabric(struct ofi_connecting *c, int code, const char *what)
{
    return okv_diag_set(
        &c->diag, code,
        "%s port %s answers, but its endpoint of the libfabric provider %s does not "
        "(%s): a firewall may be between, which has to let all TCP ports through; tcp:// needs one",
        c->uri.host, c->uri.port, okv_ofi_fabric_name(ofi_endpoint_of(c->conn)->fabric), what);
}

/* The first READ connects the endpoints. It is asked for every RETRY_NS: the endpoint's descriptor
 * in the set of ours would be one more than Linux allows in a chain, where a program watches
 * okv_fd() in a set of its own. */
static int step_fabric(struct ofi_connecting *c)
{
    struct okv_event event;
    int rc = okv_ofi_first_read(c->conn);

    if (rc == OKV_EAGAIN) {
        int count = okv_ofi_poll(c->conn->base.endpoint, &event, 1);
        if (count == 1 && event.type == OKV_EVENT_RECV) /* a server that ends already */
            okv_ofi_recv_release(c->conn->base.endpoint, &event);
        rc = okv_ofi_first_read(c->conn);
    }
    if (rc && rc != OKV_EAGAIN)
        return diagnose_fabric(c, OKV_EADDRESS, c->conn->base.failure);
    return rc;
}

/* ---- */

/* A server drops a client that has not said hello in time, and opening an endpoint may take longer
 * on a busy machine. Now there is one. */
static bool is_worth_a_second(struct ofi_connecting *c)
{
    if (c->is_second)
        return false;
    c->is_second = true;
    return true;
}

static bool has_another_hello(struct ofi_connecting *c)
{
    struct okv_binding binding;
    struct ofi_place place = {.name_length = 0};

    okv_ofi_conn_tell_place(c->conn, &place);
    okv_ofi_binding(&place, &binding);
    return okv_hello_renew(&c->hello, &c->answer, &binding);
}

/* The endpoint stays, and our place with it. */
static bool begins_again(struct ofi_connecting *c, int rc)
{
    if (rc != OKV_EREFUSED || !c->conn ||
        !(c->answer.rejected ? has_another_hello(c) : is_worth_a_second(c)))
        return false;
    memset(&c->answer, 0, sizeof c->answer);
    epoll_ctl(c->base.fd, EPOLL_CTL_DEL, c->sock, NULL); /* a forked child may have it, too */
    close(c->sock);
    c->sock = -1;
    c->address = c->current;
    c->step = OFI_STEP_ADDRESS;
    return true;
}

/* Goes on until the connection stands, or has to wait, or ends. */
static int advance(struct ofi_connecting *c)
{
    int rc = 0;

    while (rc == 0) {
        switch (c->step) {
        case OFI_STEP_ADDRESS:
            rc = step_address(c);
            break;
        case OFI_STEP_SOCKET:
            rc = step_socket(c);
            break;
        case OFI_STEP_GREETING:
            rc = step_greeting(c);
            break;
        case OFI_STEP_ANSWER:
            rc = step_answer(c);
            break;
        case OFI_STEP_FABRIC:
            rc = step_fabric(c);
            if (rc == 0)
                return 0;
        }
        if (rc && rc != OKV_EAGAIN && c->step <= OFI_STEP_SOCKET && c->address) {
            end_attempt(c);
            okv_hello_restart(&c->hello);
            c->step = OFI_STEP_ADDRESS;
            rc = 0;
        }
        if (begins_again(c, rc))
            rc = 0;
    }
    if (rc == OKV_EAGAIN && okv_clock_ns() >= c->deadline_ns)
        return c->step == OFI_STEP_FABRIC ? diagnose_fabric(c, OKV_ETIMEDOUT, "no answer in time")
                                          : diagnose_silence(c);
    return rc;
}

static struct okv_conn *finish(struct ofi_connecting *c)
{
    struct ofi_conn *conn = c->conn;
    const struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    struct sockaddr_storage peer;
    socklen_t length = sizeof peer;

    if (getpeername(conn->control, (struct sockaddr *)&peer, &length) == 0)
        okv_address_text((struct sockaddr *)&peer, conn->base.peer, sizeof conn->base.peer);
    snprintf(conn->base.how, sizeof conn->base.how, "libfabric provider %s, %s",
             okv_ofi_fabric_name(ep->fabric),
             ep->fabric->is_one_sided ? "READs served by the server's device"
                                      : "READs served by the server's process");
    okv_ofi_descriptors_close_on_exec(conn);
    c->conn = NULL;
    return &conn->base;
}

int okv_ofi_connect_step(struct okv_connecting *connecting, struct okv_answer *answer,
                         struct okv_conn **out, struct okv_diag *diag)
{
    struct ofi_connecting *c = (struct ofi_connecting *)connecting;

    int rc = advance(c);
    if (rc == OKV_EAGAIN) {
        c->base.wake_ns = c->deadline_ns;
        if (c->step == OFI_STEP_FABRIC && okv_clock_ns() + RETRY_NS < c->deadline_ns)
            c->base.wake_ns = okv_clock_ns() + RETRY_NS;
        return rc;
    }
    *answer = c->answer;
    if (rc == 0)
        *out = finish(c);
    else if (diag)
        *diag = c->diag;
    release(c);
    return rc;
}

void okv_ofi_connect_cancel(struct okv_connecting *connecting)
{
    if (connecting)
        release((struct ofi_connecting *)connecting);
}
