/* An endpoint: a completion queue, and the descriptor that becomes readable when there is something
 * to poll. */
#include "shared/transport/verbs/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/device.h"
#include "shared/transport/verbs/domain.h"

/* An endpoint for fewer connections is of no use, unless it was asked for. */
#define LEAST_CONNS 8u

/* Entries of the completion queue for a connection. With these for each the queue cannot
 * overflow. An overflowing one loses completions silently on some devices and breaks on others. */
static uint64_t entries_per_conn(const struct verbs_endpoint_params *params)
{
    uint64_t credits = params->limits.credits;
    uint64_t recvs = credits + VERBS_SPARE_RECVS;
    uint64_t sends = credits + 1;
    uint64_t reads = (uint64_t)params->reads_per_conn + VERBS_HEARTBEATS;

    return recvs + sends + reads + 1;
}

/* Sets *conns to the connections that there is room for, at most params->max_conns. The queue has
 * its size from the start: its entries are small beside a connection's buffers, not every device
 * can resize a queue, and none is resized while another thread polls it. */
static int choose_size(const struct verbs_endpoint_params *params,
                       const struct ibv_device_attr *attr, unsigned *conns, struct okv_diag *diag)
{
    const char *name = ibv_get_device_name(params->verbs->device);
    uint64_t most = (uint64_t)attr->max_cqe / entries_per_conn(params);
    *conns = most < params->max_conns ? (unsigned)most : params->max_conns;
    if (*conns < params->max_conns && *conns < LEAST_CONNS)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "a connection with %u credits needs %llu completion queue entries, "
                            "%s has at most %d: allow fewer credits",
                            params->limits.credits, (unsigned long long)entries_per_conn(params),
                            name, attr->max_cqe);
    return 0;
}

static int make_queue(struct verbs_endpoint *ep, uint64_t size, unsigned vector,
                      struct okv_diag *diag)
{
    unsigned vectors = ep->verbs->num_comp_vectors > 0 ? (unsigned)ep->verbs->num_comp_vectors : 1;
    int errnum;

    ep->completions = ibv_create_comp_channel(ep->verbs);
    if (!ep->completions) {
        errnum = errno;
        goto fail;
    }
    if (okv_verbs_fd_prepare(ep->completions->fd)) {
        errnum = errno;
        goto destroy_channel;
    }
    ep->cq = ibv_create_cq(ep->verbs, (int)size, NULL, ep->completions, (int)(vector % vectors));
    if (!ep->cq) {
        errnum = errno;
        goto destroy_channel;
    }
    return 0;

destroy_channel:
    ibv_destroy_comp_channel(ep->completions);
fail:
    return okv_diag_set(diag, errnum == ENOMEM ? OKV_ENOMEM : OKV_EIO,
                        "%s cannot make a queue for %u connections with %u credits: %s",
                        ibv_get_device_name(ep->verbs->device), ep->base.max_conns,
                        ep->limits.credits, strerror(errnum));
}

static void destroy_queue(struct verbs_endpoint *ep)
{
    ibv_ack_cq_events(ep->cq, ep->unacked_events); /* or ibv_destroy_cq waits for ever */
    ibv_destroy_cq(ep->cq);
    ibv_destroy_comp_channel(ep->completions);
}

static int open_wakeup(struct verbs_endpoint *ep, struct okv_diag *diag)
{
    int rc = okv_wakeup_open(&ep->wakeup, true, diag);

    if (rc)
        return rc;
    rc = okv_wakeup_watch(&ep->wakeup, ep->completions->fd, EPOLLIN, diag);
    if (rc == 0 && ep->cm)
        rc = okv_wakeup_watch(&ep->wakeup, ep->cm->fd, EPOLLIN, diag);
    if (rc)
        okv_wakeup_close(&ep->wakeup);
    ep->base.fd = ep->wakeup.set;
    return rc;
}

static struct verbs_endpoint *allocate(const struct verbs_endpoint_params *params, unsigned conns)
{
    struct verbs_endpoint *ep = calloc(1, sizeof *ep);
    if (!ep)
        return NULL;
    unsigned buckets = 1;
    while (buckets < conns)
        buckets *= 2;
    ep->by_qp_num = calloc(buckets, sizeof *ep->by_qp_num);
    if (!ep->by_qp_num) {
        free(ep);
        return NULL;
    }
    ep->by_qp_num_mask = buckets - 1;
    ep->base.ops = &okv_transport_verbs;
    ep->verbs = params->verbs;
    ep->domain = params->domain;
    ep->owns_verbs = params->owns_verbs;
    ep->listener = params->listener;
    ep->cm = params->cm;
    ep->limits = params->limits;
    ep->base.max_conns = conns;
    ep->reads_per_conn = params->reads_per_conn;
    okv_arrivals_init(&ep->arrivals);
    return ep;
}

static void release(struct verbs_endpoint *ep)
{
    okv_arrivals_fini(&ep->arrivals);
    free(ep->by_qp_num);
    free(ep);
}

int okv_verbs_endpoint_new(const struct verbs_endpoint_params *params, struct verbs_endpoint **out,
                           struct okv_diag *diag)
{
    if (!params->limits.slot_size || !params->limits.credits || !params->max_conns)
        return okv_diag_set(diag, OKV_EINVAL,
                            "an endpoint needs a message size, credits and room for connections");
    struct ibv_device_attr attr;
    unsigned conns = 0;
    int errnum = ibv_query_device(params->verbs, &attr);
    if (errnum)
        return okv_diag_set(diag, OKV_EIO, "%s does not answer a query: %s",
                            ibv_get_device_name(params->verbs->device), strerror(errnum));
    int rc = choose_size(params, &attr, &conns, diag);
    if (rc)
        return rc;
    struct verbs_endpoint *ep = allocate(params, conns);
    if (!ep)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for an endpoint");
    ep->ack_timeout =
        attr.vendor_id == VERBS_SOFT_VENDOR ? VERBS_ACK_TIMEOUT_SOFT : VERBS_ACK_TIMEOUT;
    rc = make_queue(ep, conns * entries_per_conn(params), params->vector, diag);
    if (rc)
        goto release_endpoint;
    rc = open_wakeup(ep, diag);
    if (rc)
        goto destroy_queue;
    *out = ep;
    return 0;

destroy_queue:
    destroy_queue(ep);
release_endpoint:
    release(ep);
    return rc;
}

int okv_verbs_endpoint_create(struct okv_listener *listener,
                              const struct okv_message_limits *limits, unsigned max_conns,
                              struct okv_endpoint **out, struct okv_diag *diag)
{
    struct verbs_listener *l = (struct verbs_listener *)listener;
    struct verbs_endpoint_params params = {
        .verbs = l->verbs,
        .listener = l,
        .limits = *limits,
        .max_conns = max_conns,
        .reads_per_conn = l->rendezvous_depth,
        .vector = l->next_vector++,
    };
    struct verbs_endpoint *ep;
    int rc = okv_verbs_endpoint_new(&params, &ep, diag);
    if (rc == 0)
        *out = &ep->base;
    return rc;
}

void okv_verbs_endpoint_free(struct verbs_endpoint *ep)
{
    okv_wakeup_close(&ep->wakeup);
    destroy_queue(ep);
    okv_verbs_domain_close(&ep->domain);
    if (ep->owns_verbs)
        ibv_close_device(ep->verbs);
    if (ep->last_id)
        rdma_destroy_id(ep->last_id);
    if (ep->cm)
        rdma_destroy_event_channel(ep->cm);
    release(ep);
}
