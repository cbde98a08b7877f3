/* The client's way to a connection. Every step waits no longer than the deadline. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <resolv.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shared/clock.h"
#include "shared/error.h"
#include "shared/transport_verbs.h"

/* The connection manager itself would go on for a minute and a half against a
 * host that never answers. */
#define CONNECT_LIMIT_NS UINT64_C(4500000000)
#define RESOLVE_MS 2000
/* A lost request is sent again by the connection manager only after more than
 * four seconds: the first attempt is given up sooner, and another made. */
#define ATTEMPTS 3
#define FIRST_ATTEMPT_NS UINT64_C(1500000000)

/* Reasons of a rejection: those of the InfiniBand connection manager
 * (IBTA specification 12.6.7.2), which rdma_cm passes on as they are. */
enum {
    REJECT_NO_RESOURCES = 3,
    REJECT_NO_LISTENER = 8,
    REJECT_STALE = 10,
    REJECT_BY_CONSUMER = 28,
};

struct attempt {
    const struct okv_uri *uri;
    const struct okv_connect_params *params;
    struct okv_welcome *welcome;
    struct okv_diag *diag;
    uint64_t deadline_ns;
    bool first;
    bool again; /* another attempt may succeed */

    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct verbs_conn *conn;
    uint8_t reads_out;     /* READs on their way at once */
    uint8_t reads_in;      /* READs of the server on their way at once */
    unsigned reads_posted; /* READs that may be posted at once */
};

static int timed_out(const struct attempt *a, const char *doing)
{
    return okv_diag_set(a->diag, OKV_ETIMEDOUT,
                        "%s:%s did not answer in time while %s: check that the host is up, that "
                        "its server runs, and that RDMA traffic (UDP 4791 for RoCE) gets through",
                        a->uri->host, a->uri->port, doing);
}

/* The next event of the channel, to be acknowledged by the caller. */
static int next_event(const struct attempt *a, uint64_t deadline_ns, const char *doing,
                      struct rdma_cm_event **out)
{
    for (;;) {
        if (rdma_get_cm_event(a->channel, out) == 0)
            return 0;
        if (errno != EAGAIN && errno != EINTR)
            return okv_diag_set(a->diag, OKV_EIO, "the RDMA connection manager failed: %s",
                                strerror(errno));
        int ms = okv_clock_ms_until(deadline_ns);
        if (ms == 0)
            return timed_out(a, doing);
        struct pollfd pfd = {.fd = a->channel->fd, .events = POLLIN};
        poll(&pfd, 1, ms);
    }
}

static int explain_route(const struct attempt *a, int errnum)
{
    const char *host = a->uri->host;
    char names[96];
    switch (errnum) {
    case ETIMEDOUT:
    case EHOSTUNREACH:
        return okv_diag_set(a->diag, OKV_ETIMEDOUT,
                            "the host %s does not answer on the network: check that it is up and "
                            "reachable ('ping %s')",
                            host, host);
    case EADDRNOTAVAIL:
        if (a->uri->source[0])
            return okv_diag_set(a->diag, OKV_EADDRESS,
                                "no network device of this machine has the source address %s: "
                                "see 'ip addr'",
                                a->uri->source);
        /* fall through */
    case ENODEV:
        okv_verbs_device_names(names, sizeof names);
        return okv_diag_set(a->diag, OKV_EADDRESS,
                            "no RDMA device of this machine (%s) has a route to %s: 'ip route get "
                            "%s' must name a network device of 'rdma link', or give its address "
                            "as ?source=",
                            names, host, host);
    case ENETUNREACH:
        return okv_diag_set(a->diag, OKV_EADDRESS,
                            "this machine has no route to %s: check 'ip route get %s'", host, host);
    default:
        return okv_diag_set(a->diag, OKV_EADDRESS, "%s cannot be reached by RDMA: %s", host,
                            strerror(errnum));
    }
}

static int explain_rejection(struct attempt *a, const struct rdma_cm_event *event)
{
    const struct okv_uri *uri = a->uri;
    const struct rdma_conn_param *param = &event->param.conn;
    switch (event->status) {
    case REJECT_BY_CONSUMER:
        a->welcome->rejected = true;
        a->welcome->length = OKV_REJECT_MAX;
        if (param->private_data)
            memcpy(a->welcome->bytes, param->private_data,
                   param->private_data_len < OKV_REJECT_MAX ? param->private_data_len
                                                            : OKV_REJECT_MAX);
        return okv_diag_set(a->diag, OKV_EREFUSED, "the server at %s:%s refused the connection",
                            uri->host, uri->port);
    case REJECT_NO_LISTENER:
    case ECONNREFUSED:
    case -ECONNREFUSED:
        return okv_diag_set(a->diag, OKV_EREFUSED,
                            "no server listens at %s:%s: start okv-server there with --listen "
                            "rdma://%s:%s, or check the port",
                            uri->host, uri->port, uri->host, uri->port);
    case REJECT_STALE:
        a->again = true; /* the next queue pair has another number */
        return okv_diag_set(a->diag, OKV_EREFUSED,
                            "%s:%s still holds an earlier connection of this machine: try again",
                            uri->host, uri->port);
    case REJECT_NO_RESOURCES:
        return okv_diag_set(a->diag, OKV_EREFUSED,
                            "%s:%s has no resources for another connection: try again later",
                            uri->host, uri->port);
    default:
        return okv_diag_set(a->diag, OKV_EREFUSED,
                            "%s:%s refused the connection (RDMA CM reason %d): see "
                            "rdma_reject_status in the kernel's ib_cm.h",
                            uri->host, uri->port, event->status);
    }
}

/* Waits until the connection manager reports `wanted`. */
static int wait_for(struct attempt *a, enum rdma_cm_event_type wanted, uint64_t deadline_ns,
                    const char *doing)
{
    struct rdma_cm_event *event;
    int rc = next_event(a, deadline_ns, doing, &event);
    if (rc)
        return rc;
    int errnum = event->status < 0 ? -event->status : event->status;
    switch (event->event) {
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
        rc = explain_route(a, errnum);
        break;
    case RDMA_CM_EVENT_UNREACHABLE:
        rc = timed_out(a, doing);
        break;
    case RDMA_CM_EVENT_REJECTED:
        rc = explain_rejection(a, event);
        break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
        a->welcome->length = OKV_WELCOME_MAX;
        if (event->param.conn.private_data)
            memcpy(a->welcome->bytes, event->param.conn.private_data,
                   event->param.conn.private_data_len < OKV_WELCOME_MAX
                       ? event->param.conn.private_data_len
                       : OKV_WELCOME_MAX);
        if (event->param.conn.initiator_depth < a->reads_out)
            a->reads_out = event->param.conn.initiator_depth;
        break;
    default:
        break;
    }
    if (rc == 0 && event->event != wanted)
        rc = okv_diag_set(a->diag, OKV_EIO, "the connection to %s:%s failed while %s: %s (%d)",
                          a->uri->host, a->uri->port, doing, rdma_event_str(event->event),
                          event->status);
    rdma_ack_cm_event(event);
    return rc;
}

/* READs that a send queue has room for beside the messages; the rest of them the
 * device refuses itself. */
static unsigned reads_that_fit(int max_qp_wr, uint32_t credits)
{
    int64_t room = (int64_t)max_qp_wr - credits - 2;
    if (room < 1)
        return 1;
    return room < VERBS_MAX_READS ? (unsigned)room : VERBS_MAX_READS;
}

/* Which device leads to the server, and how. */
static int resolve(struct attempt *a, const struct addrinfo *source,
                   const struct addrinfo *destination)
{
    int ms = okv_clock_ms_until(a->deadline_ns);
    if (ms > RESOLVE_MS)
        ms = RESOLVE_MS;
    if (rdma_resolve_addr(a->id, source ? source->ai_addr : NULL, destination->ai_addr, ms))
        return explain_route(a, errno);
    int rc = wait_for(a, RDMA_CM_EVENT_ADDR_RESOLVED, a->deadline_ns, "resolving its address");
    if (rc)
        return rc;
    struct ibv_device_attr attr;
    rc = okv_verbs_check_device(a->id->verbs, &attr, a->diag);
    if (rc)
        return rc;
    a->reads_out = verbs_at_most(attr.max_qp_init_rd_atom, VERBS_READ_DEPTH);
    a->reads_in = verbs_at_most(attr.max_qp_rd_atom, VERBS_PULL_DEPTH);
    a->reads_posted = reads_that_fit(attr.max_qp_wr, a->params->limits.credits);
    if (rdma_resolve_route(a->id, ms))
        return explain_route(a, errno);
    return wait_for(a, RDMA_CM_EVENT_ROUTE_RESOLVED, a->deadline_ns, "resolving its route");
}

/* The client's own endpoint, and a connection on it that the connection manager
 * does not know yet. On success the endpoint owns the channel. */
static int prepare(struct attempt *a)
{
    struct ibv_pd *pd = ibv_alloc_pd(a->id->verbs);
    if (!pd)
        return okv_diag_set(a->diag, okv_error_from_errno(errno),
                            "%s gives no protection domain: %s",
                            ibv_get_device_name(a->id->verbs->device), strerror(errno));
    struct verbs_endpoint_params params = {
        .verbs = a->id->verbs,
        .pd = pd,
        .owns_pd = true,
        .cm = a->channel,
        .limits = a->params->limits,
        .max_conns = 1,
        .reads_per_conn = a->reads_posted,
    };
    struct verbs_endpoint *ep;
    int rc = okv_verbs_endpoint_new(&params, &ep, a->diag);
    if (rc)
        goto dealloc_pd;
    rc = okv_verbs_conn_new(ep, &a->conn, a->diag);
    if (rc)
        goto destroy_endpoint;
    return 0;

destroy_endpoint:
    ep->cm = NULL; /* stays the caller's */
    ep->owns_pd = false;
    okv_verbs_endpoint_destroy(&ep->base);
dealloc_pd:
    ibv_dealloc_pd(pd);
    return rc;
}

/* Undoes prepare; the id must be gone, the channel stays. */
static void unprepare(struct attempt *a)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)a->conn->base.endpoint;
    okv_verbs_conn_free(a->conn);
    ep->cm = NULL;
    okv_verbs_endpoint_destroy(&ep->base);
}

static int queue_pair_failed(const struct attempt *a, int errnum)
{
    return okv_diag_set(
        a->diag, okv_error_from_errno(errnum), "%s cannot ready a queue pair for %s:%s: %s",
        ibv_get_device_name(a->id->verbs->device), a->uri->host, a->uri->port, strerror(errnum));
}

static int shake_hands(struct attempt *a)
{
    uint8_t hello[OKV_HELLO_MAX] = {0};
    memcpy(hello, a->params->hello, a->params->hello_length);
    struct rdma_conn_param param = {
        .private_data = hello,
        .private_data_len = sizeof hello,
        .responder_resources = a->reads_in,
        .initiator_depth = a->reads_out,
        .flow_control = 1,
        .retry_count = VERBS_RETRY_COUNT,
        .rnr_retry_count = VERBS_RETRY_COUNT,
        .srq = 1,
        .qp_num = a->conn->qp_num,
    };
    int errnum = okv_verbs_qp_to_init(a->conn, a->id, IBV_ACCESS_REMOTE_READ);
    if (errnum)
        return queue_pair_failed(a, errnum);
    if (rdma_connect(a->id, &param))
        return explain_route(a, errno);
    uint64_t answer_by = a->deadline_ns;
    if (a->first && answer_by > okv_clock_ns() + FIRST_ATTEMPT_NS)
        answer_by = okv_clock_ns() + FIRST_ATTEMPT_NS;
    int rc = wait_for(a, RDMA_CM_EVENT_CONNECT_RESPONSE, answer_by, "connecting");
    if (rc) {
        a->again = a->again || rc == OKV_ETIMEDOUT;
        return rc;
    }
    if (a->reads_out == 0)
        return okv_diag_set(a->diag, OKV_EUNSUPPORTED,
                            "the server at %s:%s grants no RDMA READs: is it an okv-server?",
                            a->uri->host, a->uri->port);
    errnum = okv_verbs_qp_to_rts(a->conn, a->id, a->reads_in, a->reads_out);
    if (errnum)
        return queue_pair_failed(a, errnum);
    if (rdma_establish(a->id))
        return okv_diag_set(a->diag, OKV_EDISCONNECTED,
                            "the connection to %s:%s was lost while it was being made: %s",
                            a->uri->host, a->uri->port, strerror(errno));
    return 0;
}

static void adopt(struct attempt *a)
{
    struct verbs_conn *conn = a->conn;
    a->id->context = conn;
    conn->id = a->id;
    conn->base.max_reads = a->reads_posted;
    okv_verbs_address_text(rdma_get_peer_addr(a->id), conn->base.peer, sizeof conn->base.peer);
    okv_verbs_conn_admit(conn);
}

static int attempt_once(struct attempt *a, const struct addrinfo *source,
                        const struct addrinfo *destination)
{
    a->again = false;
    memset(a->welcome, 0, sizeof *a->welcome);
    int rc = okv_verbs_channel(&a->channel, a->diag);
    if (rc)
        return rc;
    if (rdma_create_id(a->channel, &a->id, NULL, RDMA_PS_TCP)) {
        rc = okv_diag_set(a->diag, OKV_EIO, "the RDMA connection manager gives no id: %s",
                          strerror(errno));
        goto destroy_channel;
    }
    rc = resolve(a, source, destination);
    if (rc)
        goto destroy_id;
    rc = prepare(a);
    if (rc)
        goto destroy_id;
    rc = shake_hands(a);
    if (rc)
        goto unprepare;
    adopt(a);
    return 0;

unprepare:
    rdma_destroy_id(a->id);
    unprepare(a);
    goto destroy_channel;
destroy_id:
    rdma_destroy_id(a->id);
destroy_channel:
    rdma_destroy_event_channel(a->channel);
    return rc;
}

static int attempt_address(struct attempt *a, const struct addrinfo *source,
                           const struct addrinfo *destination)
{
    int rc = OKV_ETIMEDOUT;
    for (int i = 0; i < ATTEMPTS; i++) {
        a->first = i == 0;
        rc = attempt_once(a, source, destination);
        if (!a->again || okv_clock_ns() >= a->deadline_ns)
            break;
    }
    return rc;
}

/* Tries the addresses of the host in turn; a wrong one fails before a server answers. */
static int attempt_all(struct attempt *a, const struct addrinfo *source,
                       const struct addrinfo *destinations)
{
    int rc = OKV_EADDRESS;
    for (const struct addrinfo *ai = destinations; ai && rc == OKV_EADDRESS; ai = ai->ai_next)
        rc = attempt_address(a, source, ai);
    return rc;
}

int okv_verbs_connect(const struct okv_uri *uri, const struct okv_connect_params *params,
                      struct okv_welcome *welcome, struct okv_conn **out, struct okv_diag *diag)
{
    struct addrinfo *destinations;
    struct addrinfo *source = NULL;
    uint64_t limit = okv_clock_ns() + CONNECT_LIMIT_NS;
    struct attempt attempt = {
        .uri = uri,
        .params = params,
        .welcome = welcome,
        .diag = diag,
        .deadline_ns = params->deadline_ns < limit ? params->deadline_ns : limit,
    };

    memset(welcome, 0, sizeof *welcome);
    if (params->hello_length > OKV_HELLO_MAX)
        return okv_diag_set(diag, OKV_EINVAL, "a hello has at most %d bytes", OKV_HELLO_MAX);
    int rc = okv_verbs_lookup(uri->host, uri->port, 0, &destinations, diag);
    if (rc)
        return rc;
    if (uri->source[0])
        rc = okv_verbs_lookup(uri->source, NULL, AI_NUMERICHOST, &source, diag);
    if (rc)
        goto free_destinations;
    rc = attempt_all(&attempt, source, destinations);
    if (rc == 0)
        *out = &attempt.conn->base;
    if (source)
        freeaddrinfo(source);
free_destinations:
    freeaddrinfo(destinations);
    return rc;
}
