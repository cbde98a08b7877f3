/* One attempt to connect to one address. Each event of the connection manager leads to the next
 * step. */
#include "shared/transport/verbs/attempt.h"

#include <errno.h>
#include <netdb.h>
#include <sched.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/binding.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/device.h"
#include "shared/transport/verbs/diagnose.h"
#include "shared/transport/verbs/domain.h"
#include "shared/transport/verbs/endpoint.h"
#include "shared/transport/verbs/post.h"
#include "shared/transport/verbs/qp.h"

#define RESOLVE_MS 2000
/* The connection manager resends a lost request only after more than four seconds. The first
 * attempt ends sooner and a second one follows. */
#define FIRST_ATTEMPT_NS UINT64_C(1500000000)

/* Never 0, which the connection manager refuses as invalid. */
static int resolve_ms(const struct verbs_connecting *c)
{
    int ms = okv_clock_ms_until(c->deadline_ns);
    if (ms < 1)
        return 1;
    return ms < RESOLVE_MS ? ms : RESOLVE_MS;
}

/* Makes an id and begins to resolve the address. */
static int begin(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;

    a->step = VERBS_STEP_ADDRESS;
    a->deadline_ns = c->deadline_ns;
    memset(&c->answer, 0, sizeof c->answer);
    if (rdma_create_id(c->channel, &a->id, NULL, RDMA_PS_TCP)) {
        a->id = NULL;
        return okv_diag_set(&c->diag, OKV_EIO, "the RDMA connection manager gives no id: %s",
                            strerror(errno));
    }
    int errnum = okv_verbs_set_tos(a->id, &c->uri);
    if (errnum)
        return okv_diag_set(&c->diag, OKV_EIO, "the traffic class %u cannot be set: %s", c->uri.tos,
                            strerror(errnum));
    if (rdma_resolve_addr(a->id, c->source ? c->source->ai_addr : NULL, c->address->ai_addr,
                          resolve_ms(c)))
        return okv_verbs_diagnose_route(c, errno);
    return 0;
}

int okv_verbs_attempt_begin(struct verbs_connecting *c)
{
    c->attempt = (struct verbs_attempt){.id = NULL};
    if (c->has_begun)
        okv_hello_restart(&c->hello);
    c->has_begun = true;
    return begin(c);
}

static void drop_rejected(struct verbs_attempt *a)
{
    if (a->rejected)
        rdma_destroy_id(a->rejected);
    a->rejected = NULL;
}

/* A rejected id cannot connect again. It keeps the device of `conn` open. */
int okv_verbs_attempt_renew(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;

    drop_rejected(a);
    a->rejected = a->id;
    return begin(c);
}

/* READs that a send queue has room for beside messages and heartbeats. If even one is too many,
 * the device refuses the queue pair. */
static unsigned reads_that_fit(int max_qp_wr, uint32_t credits)
{
    int64_t room = (int64_t)max_qp_wr - credits - VERBS_HEARTBEATS - 2;
    if (room < 1)
        return 1;
    return room < OKV_READ_SLOTS ? (unsigned)room : OKV_READ_SLOTS;
}

/* The route to the server has named its device. */
static int on_address(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    struct ibv_device_attr attr;
    int rc = okv_verbs_check_named(a->id->verbs, &c->uri, &c->diag);
    if (rc == 0)
        rc = okv_verbs_check_device(a->id->verbs, &attr, &c->diag);
    if (rc)
        return rc;
    a->reads_out = verbs_at_most(attr.max_qp_init_rd_atom, VERBS_READ_DEPTH);
    a->reads_in = verbs_at_most(attr.max_qp_rd_atom, VERBS_RENDEZVOUS_DEPTH);
    a->reads_posted = reads_that_fit(attr.max_qp_wr, c->limits.credits);
    if (rdma_resolve_route(a->id, resolve_ms(c)))
        return okv_verbs_diagnose_route(c, errno);
    a->step = VERBS_STEP_ROUTE;
    return 0;
}

/* Makes the client's endpoint and a connection that the connection manager does not know yet. */
static int prepare(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    struct ibv_context *verbs;
    int processor = sched_getcpu();
    int rc = okv_verbs_context(a->id->verbs, &verbs, &c->diag);
    if (rc)
        return rc;
    struct verbs_domain domain;
    rc = okv_verbs_domain_open(verbs, &domain, &c->diag);
    if (rc)
        goto close_verbs;
    struct verbs_endpoint_params params = {
        .verbs = verbs,
        .domain = domain,
        .owns_verbs = verbs != a->id->verbs,
        .cm = c->channel,
        .limits = c->limits,
        .max_conns = 1,
        .reads_per_conn = a->reads_posted,
        .vector = processor > 0 ? (unsigned)processor : 0, /* spreads handles */
    };
    struct verbs_endpoint *ep;
    rc = okv_verbs_endpoint_new(&params, &ep, &c->diag);
    if (rc)
        goto close_domain;
    rc = okv_verbs_conn_new(ep, NULL, &a->conn, &c->diag);
    if (rc)
        goto destroy_endpoint;
    return 0;

destroy_endpoint:
    a->conn = NULL;
    ep->cm = NULL; /* the channel belongs to the attempts */
    ep->owns_verbs = false;
    ep->domain = (struct verbs_domain){.pd = NULL};
    okv_verbs_endpoint_free(ep);
close_domain:
    okv_verbs_domain_close(&domain);
close_verbs:
    if (verbs != a->id->verbs)
        ibv_close_device(verbs);
    return rc;
}

static int queue_pair_failed(struct verbs_connecting *c, int errnum)
{
    /* EINVAL here is the device's view, not an argument of the caller. */
    return okv_diag_set(&c->diag, errnum == EINVAL ? OKV_EIO : okv_error_from_errno(errnum),
                        "%s cannot ready a queue pair for %s:%s: %s",
                        ibv_get_device_name(c->attempt.id->verbs->device), c->uri.host, c->uri.port,
                        strerror(errnum));
}

/* Makes the connection, or takes the one that a hello before has named. */
static int ready_conn(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    struct okv_binding binding;

    if (a->conn) {
        okv_verbs_binding(a->id, true, a->conn->qp_num, &binding);
        if (memcmp(binding.bytes, a->binding.bytes, binding.length) == 0)
            return 0;
        return okv_diag_set(&c->diag, OKV_EADDRESS,
                            "the route to %s:%s has changed while it was connected to: try again",
                            c->uri.host, c->uri.port);
    }
    int rc = prepare(c);
    if (rc)
        return rc;
    okv_verbs_binding(a->id, true, a->conn->qp_num, &a->binding);
    /* The server's heartbeats are empty remote writes. No memory here allows a real one. */
    int errnum =
        okv_verbs_qp_to_init(a->conn, a->id, IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE);
    if (errnum == 0)
        errnum = okv_verbs_post_slots(a->conn);
    return errnum ? queue_pair_failed(c, errnum) : 0;
}

static int on_route(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    int rc = ready_conn(c);
    if (rc)
        return rc;
    struct rdma_conn_param param = {
        .private_data = c->hello.bytes,
        .private_data_len = sizeof c->hello.bytes,
        .responder_resources = a->reads_in,
        .initiator_depth = a->reads_out,
        .flow_control = 1,
        .retry_count = VERBS_RETRY_COUNT,
        .rnr_retry_count = VERBS_RETRY_COUNT,
        .qp_num = a->conn->qp_num,
    };
    if (rdma_connect(a->id, &param))
        return okv_verbs_diagnose_route(c, errno);
    a->step = VERBS_STEP_ANSWER;
    uint64_t answer_by = okv_clock_ns() + FIRST_ATTEMPT_NS;
    if (c->attempts == 1 && answer_by < a->deadline_ns)
        a->deadline_ns = answer_by;
    return 0;
}

static int on_answer(struct verbs_connecting *c, const struct rdma_conn_param *param)
{
    struct verbs_attempt *a = &c->attempt;

    c->answer.length = OKV_WELCOME_MAX;
    if (param->private_data)
        memcpy(c->answer.bytes, param->private_data,
               param->private_data_len < OKV_WELCOME_MAX ? param->private_data_len
                                                         : OKV_WELCOME_MAX);
    if (param->initiator_depth < a->reads_out)
        a->reads_out = param->initiator_depth;
    if (a->reads_out == 0)
        return okv_diag_set(&c->diag, OKV_EUNSUPPORTED,
                            "the server at %s:%s grants no RDMA READs: is it an okv-server?",
                            c->uri.host, c->uri.port);
    /* Both calls ask the connection manager. They fail when the server has ended the connection
     * meanwhile. */
    int errnum = okv_verbs_qp_to_rts(a->conn, a->id, a->reads_in, a->reads_out);
    if (errnum == ENOMEM)
        return queue_pair_failed(c, errnum);
    if (errnum)
        return okv_verbs_diagnose_loss(c, errnum);
    if (rdma_establish(a->id))
        return okv_verbs_diagnose_loss(c, errno);
    a->step = VERBS_STEP_DONE;
    return 0;
}

int okv_verbs_attempt_event(struct verbs_connecting *c, const struct rdma_cm_event *event)
{
    enum verbs_step step = c->attempt.step;

    if (step == VERBS_STEP_ADDRESS && event->event == RDMA_CM_EVENT_ADDR_RESOLVED)
        return on_address(c);
    if (step == VERBS_STEP_ROUTE && event->event == RDMA_CM_EVENT_ROUTE_RESOLVED)
        return on_route(c);
    if (step == VERBS_STEP_ANSWER && event->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
        return on_answer(c, &event->param.conn);
    return okv_verbs_diagnose_event(c, event);
}

static void free_conn(struct verbs_conn *conn)
{
    if (!conn)
        return;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    okv_verbs_conn_free(conn);
    ep->cm = NULL; /* the channel belongs to the attempts */
    okv_verbs_endpoint_free(ep);
}

void okv_verbs_attempt_forget(struct verbs_connecting *c)
{
    while (c->stale_count > 0)
        free_conn(c->stale[--c->stale_count]);
}

/* A queue pair that is made after another one is destroyed may get its number, so those with stale
 * numbers stay until one was found that is not. */
void okv_verbs_attempt_end(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    struct verbs_conn *conn = a->conn;

    /* The id goes with the connection, after it. */
    if (conn)
        ((struct verbs_endpoint *)conn->base.endpoint)->last_id = a->id;
    if (conn && a->is_stale && c->stale_count < VERBS_STALE_MAX)
        c->stale[c->stale_count++] = conn;
    else
        free_conn(conn);
    if (!conn && a->id)
        rdma_destroy_id(a->id);
    drop_rejected(a);
    a->id = NULL;
    a->conn = NULL;
}

struct okv_conn *okv_verbs_attempt_finish(struct verbs_connecting *c)
{
    struct verbs_attempt *a = &c->attempt;
    struct verbs_conn *conn = a->conn;

    a->id->context = conn;
    conn->id = a->id;
    conn->base.max_reads = a->reads_posted;
    okv_address_text(rdma_get_peer_addr(a->id), conn->base.peer, sizeof conn->base.peer);
    okv_verbs_conn_admit(conn);
    drop_rejected(a);
    a->id = NULL;
    a->conn = NULL;
    c->channel = NULL;
    return &conn->base;
}
