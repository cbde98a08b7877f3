/* An endpoint: a completion queue, and the descriptor that becomes readable when there is something
 * to poll. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

/* An acknowledgement takes a lock, so one covers many events (man ibv_get_cq_event). */
#define ACK_BATCH 64u

/* An endpoint for fewer connections is of no use, unless it was asked for. */
#define LEAST_CONNS 8u

/* Entries of the completion queue for a connection. With so many for each the queue cannot
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
static int choose_size(const struct verbs_endpoint_params *params, unsigned *conns,
                       struct okv_diag *diag)
{
    struct ibv_device_attr attr;
    const char *name = ibv_get_device_name(params->verbs->device);
    int errnum = ibv_query_device(params->verbs, &attr);
    if (errnum)
        return okv_diag_set(diag, OKV_EIO, "%s does not answer a query: %s", name,
                            strerror(errnum));
    uint64_t most = (uint64_t)attr.max_cqe / entries_per_conn(params);
    *conns = most < params->max_conns ? (unsigned)most : params->max_conns;
    if (*conns < params->max_conns && *conns < LEAST_CONNS)
        return okv_diag_set(diag, OKV_EUNSUPPORTED,
                            "a connection with %u credits needs %llu completion queue entries, "
                            "%s has at most %d: allow fewer credits",
                            params->limits.credits, (unsigned long long)entries_per_conn(params),
                            name, attr.max_cqe);
    return 0;
}

static int make_queue(struct verbs_endpoint *ep, uint64_t size, struct okv_diag *diag)
{
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
    ep->cq = ibv_create_cq(ep->verbs, (int)size, NULL, ep->completions, 0);
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

static int watch(int set, int fd)
{
    struct epoll_event event = {.events = EPOLLIN};
    return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event);
}

static void close_wakeups(struct verbs_endpoint *ep)
{
    if (ep->base.fd >= 0)
        close(ep->base.fd);
    if (ep->timer_fd >= 0)
        close(ep->timer_fd);
    if (ep->wake_fd >= 0)
        close(ep->wake_fd);
}

static int make_wakeups(struct verbs_endpoint *ep, struct okv_diag *diag)
{
    ep->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    ep->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    ep->base.fd = epoll_create1(EPOLL_CLOEXEC);
    if (ep->wake_fd < 0 || ep->timer_fd < 0 || ep->base.fd < 0 || watch(ep->base.fd, ep->wake_fd) ||
        watch(ep->base.fd, ep->timer_fd) || watch(ep->base.fd, ep->completions->fd) ||
        (ep->cm && watch(ep->base.fd, ep->cm->fd))) {
        int errnum = errno;
        close_wakeups(ep);
        return okv_diag_set(diag, okv_error_from_errno(errnum),
                            "no file descriptors for an endpoint: %s", strerror(errnum));
    }
    return 0;
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
    ep->pd = params->pd;
    ep->owns_verbs = params->owns_verbs;
    ep->owns_pd = params->owns_pd;
    ep->listener = params->listener;
    ep->cm = params->cm;
    ep->limits = params->limits;
    ep->base.max_conns = conns;
    ep->reads_per_conn = params->reads_per_conn;
    ep->announce_tail = &ep->announce;
    ep->handover.opened_tail = &ep->handover.opened;
    pthread_mutex_init(&ep->handover.lock, NULL);
    return ep;
}

static void release(struct verbs_endpoint *ep)
{
    pthread_mutex_destroy(&ep->handover.lock);
    free(ep->by_qp_num);
    free(ep);
}

int okv_verbs_endpoint_new(const struct verbs_endpoint_params *params, struct verbs_endpoint **out,
                           struct okv_diag *diag)
{
    if (!params->limits.slot_size || !params->limits.credits || !params->max_conns)
        return okv_diag_set(diag, OKV_EINVAL,
                            "an endpoint needs a message size, credits and room for connections");
    unsigned conns = 0;
    int rc = choose_size(params, &conns, diag);
    if (rc)
        return rc;
    struct verbs_endpoint *ep = allocate(params, conns);
    if (!ep)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for an endpoint");
    rc = make_queue(ep, conns * entries_per_conn(params), diag);
    if (rc)
        goto release_endpoint;
    rc = make_wakeups(ep, diag);
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
    };
    struct verbs_endpoint *ep;
    int rc = okv_verbs_endpoint_new(&params, &ep, diag);
    if (rc == 0)
        *out = &ep->base;
    return rc;
}

/* Accepted connections whose OKV_EVENT_OPENED was not polled have no other owner. */
static void destroy_unannounced(struct verbs_endpoint *ep)
{
    okv_verbs_arrivals_process(ep);
    while (ep->announce)
        okv_verbs_conn_discard(ep->announce);
}

void okv_verbs_endpoint_destroy(struct okv_endpoint *endpoint)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    if (!ep)
        return;
    destroy_unannounced(ep);
    close_wakeups(ep);
    destroy_queue(ep);
    if (ep->owns_pd)
        ibv_dealloc_pd(ep->pd);
    if (ep->owns_verbs)
        ibv_close_device(ep->verbs);
    if (ep->cm)
        rdma_destroy_event_channel(ep->cm);
    release(ep);
}

/* Clears what has made the descriptor readable. */
static void drain_wakeups(struct verbs_endpoint *ep)
{
    uint64_t ignored;
    struct ibv_cq *cq;
    void *context;

    while (read(ep->wake_fd, &ignored, sizeof ignored) > 0)
        ;
    while (read(ep->timer_fd, &ignored, sizeof ignored) > 0)
        ;
    while (ibv_get_cq_event(ep->completions, &cq, &context) == 0)
        ep->unacked_events++;
    if (ep->unacked_events >= ACK_BATCH) {
        ibv_ack_cq_events(ep->cq, ep->unacked_events);
        ep->unacked_events = 0;
    }
}

int okv_verbs_arm(struct okv_endpoint *endpoint)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)endpoint;
    drain_wakeups(ep);
    if (ep->broken || ibv_req_notify_cq(ep->cq, 0))
        return OKV_EIO;
    ep->armed = true;
    if (ep->closing) {
        /* A connection whose work the device never flushes makes no completion. */
        struct itimerspec timer = {.it_value = {.tv_sec = VERBS_CLOSE_NS / 1000000000u}};
        timerfd_settime(ep->timer_fd, 0, &timer, NULL);
    }
    return 0;
}
