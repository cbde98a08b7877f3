/* An endpoint: the fabric's, its queues, receive slots, and the descriptor that becomes readable
 * when there is something to poll. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

#define QUEUE_MAX 65536u
/* Of a share beyond the credits: a slot is posted again only when the caller has released its
 * message. */
#define SPARE_SLOTS 2u
/* A closing connection whose operations do not end is looked at this often. */
#define CLOSING_NS 100000000

static int failed(const struct ofi_endpoint *ep, const char *what, int rc, struct okv_diag *diag)
{
    return okv_diag_set(diag, okv_ofi_error(rc), "the libfabric provider %s gives no %s: %s",
                        okv_ofi_fabric_name(ep->fabric), what, fi_strerror(-rc));
}

static int open_queues(struct ofi_endpoint *ep, struct okv_diag *diag)
{
    struct fi_av_attr av = {.type = ep->fabric->info->domain_attr->av_type,
                            .count = ep->base.max_conns};
    size_t own = ep->limits.credits + 1 + (ep->listener ? OFI_RENDEZVOUS_DEPTH : OKV_READ_SLOTS);
    size_t entries = (size_t)ep->share_count * ep->share_slots + ep->base.max_conns * own;
    struct fi_cq_attr cq = {.size = entries < QUEUE_MAX ? entries : QUEUE_MAX,
                            .format = FI_CQ_FORMAT_MSG,
                            .wait_obj = FI_WAIT_FD};

    int rc = fi_av_open(ep->fabric->domain, &av, &ep->av, NULL);
    if (rc)
        return failed(ep, "address table", rc, diag);
    rc = fi_cq_open(ep->fabric->domain, &cq, &ep->cq, NULL);
    if (rc) {
        fi_close(&ep->av->fid);
        return failed(ep, "completion queue to wait for", rc, diag);
    }
    return 0;
}

static void close_queues(struct ofi_endpoint *ep)
{
    fi_close(&ep->cq->fid);
    fi_close(&ep->av->fid);
}

static int open_ep(struct ofi_endpoint *ep, struct okv_diag *diag)
{
    size_t length = sizeof ep->name;
    int rc = fi_endpoint(ep->fabric->domain, ep->fabric->info, &ep->ep, NULL);

    if (rc)
        return failed(ep, "endpoint", rc, diag);
    rc = fi_ep_bind(ep->ep, &ep->av->fid, 0);
    if (rc == 0)
        rc = fi_ep_bind(ep->ep, &ep->cq->fid, FI_TRANSMIT | FI_RECV);
    if (rc == 0)
        rc = fi_enable(ep->ep);
    if (rc == 0)
        rc = fi_getname(&ep->ep->fid, ep->name, &length);
    if (rc) {
        fi_close(&ep->ep->fid);
        return failed(ep, "endpoint", rc, diag);
    }
    ep->name_length = (uint8_t)length;
    return 0;
}

/* ---- receive slots ---- */

/* How often a provider may fail to take a receive before the next poll asks again. */
#define FAILURES_MAX 64

/* An error is no end: rxm gives a receive to a message that waits for one, and fails when the
 * sender of that is gone. Any peer can bring that about. */
void okv_ofi_post_slots(struct ofi_endpoint *ep)
{
    unsigned failures = 0;

    while (ep->unposted_count > 0 && ep->ep) {
        unsigned index = ep->unposted[ep->unposted_count - 1];
        const struct ofi_slab *slots = &ep->shares[index / ep->share_slots].slots;
        struct ofi_recv *recv = ofi_recv_of(ep, index);
        ssize_t rc = fi_recv(ep->ep, ofi_slot(ep, index), slots->memory.stride, slots->region.desc,
                             FI_ADDR_UNSPEC, &recv->ops[recv->turn].context);
        recv->is_posted = rc == 0;
        if (rc == 0)
            ep->unposted_count--;
        else if (rc == -FI_EAGAIN || ++failures == FAILURES_MAX)
            return;
    }
}

void okv_ofi_post_slot(struct ofi_endpoint *endpoint, unsigned index)
{
    endpoint->unposted[endpoint->unposted_count++] = index;
    okv_ofi_post_slots(endpoint);
}

void okv_ofi_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;

    if (event->slot / ep->share_slots < ep->share_count)
        okv_ofi_post_slot(ep, event->slot);
}

int okv_ofi_share_make(struct ofi_endpoint *ep, unsigned number, struct okv_diag *diag)
{
    struct ofi_share *share = &ep->shares[number];

    if (share->recvs)
        return 0;
    struct ofi_recv *recvs = calloc(ep->share_slots, sizeof *recvs);
    if (!recvs)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for receive slots");
    int rc = okv_ofi_slab_create(
        ep->fabric, ep->share_slots, sizeof(struct ofi_message_header) + ep->limits.slot_size + 1,
        FI_RECV, &share->slots, diag); /* one more: a longer message shows */
    if (rc) {
        free(recvs);
        return rc;
    }
    for (unsigned i = 0; i < ep->share_slots; i++)
        for (unsigned turn = 0; turn < OFI_RECV_TURNS; turn++)
            ofi_op_init(&recvs[i].ops[turn], OFI_WORK_RECV, number * ep->share_slots + i, NULL);
    share->recvs = recvs;
    return 0;
}

void okv_ofi_share_use(struct ofi_endpoint *ep, unsigned number)
{
    struct ofi_share *share = &ep->shares[number];

    if (share->is_in_use)
        return;
    share->is_in_use = true;
    for (unsigned i = 0; i < ep->share_slots; i++)
        ep->unposted[ep->unposted_count++] = number * ep->share_slots + i;
    okv_ofi_post_slots(ep);
}

static void destroy_shares(struct ofi_endpoint *ep)
{
    for (unsigned i = 0; i < ep->share_count; i++) {
        okv_ofi_slab_destroy(&ep->shares[i].slots);
        free(ep->shares[i].recvs);
        ep->shares[i].recvs = NULL;
    }
}

/* The share that is there from the start: a server's own, a client's only one. */
static int make_first_share(struct ofi_endpoint *ep, struct okv_diag *diag)
{
    int rc = okv_ofi_share_make(ep, ep->share_count - 1, diag);

    if (rc)
        return rc;
    okv_ofi_share_use(ep, ep->share_count - 1);
    return ep->unposted_count == ep->share_slots
               ? okv_diag_set(diag, OKV_EIO, "the libfabric provider %s takes no receive",
                              okv_ofi_fabric_name(ep->fabric))
               : 0;
}

/* ---- descriptors ---- */

static void close_wakeups(struct ofi_endpoint *ep)
{
    okv_wakeup_close(&ep->wakeup);
    if (ep->controls >= 0)
        close(ep->controls);
}

static int make_wakeups(struct ofi_endpoint *ep, struct okv_diag *diag)
{
    int queue;
    int rc = fi_control(&ep->cq->fid, FI_GETWAIT, &queue);

    if (rc)
        return failed(ep, "descriptor to wait for", rc, diag);
    rc = okv_wakeup_open(&ep->wakeup, true, diag);
    if (rc)
        return rc;
    ep->base.fd = ep->wakeup.set;
    ep->controls = epoll_create1(EPOLL_CLOEXEC);
    if (ep->controls < 0)
        return okv_diag_set(diag, okv_error_from_errno(errno), "no descriptor for an endpoint: %s",
                            strerror(errno));
    rc = okv_wakeup_watch(&ep->wakeup, ep->controls, EPOLLIN, diag);
    return rc ? rc : okv_wakeup_watch(&ep->wakeup, queue, OFI_QUEUE_EVENTS, diag);
}

void okv_ofi_wake(struct okv_endpoint *endpoint)
{
    okv_wakeup_signal(&((struct ofi_endpoint *)endpoint)->wakeup);
}

int okv_ofi_arm(struct okv_endpoint *endpoint)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;
    struct fid *queue = &ep->cq->fid;
    struct epoll_event change;

    epoll_wait(ep->base.fd, &change, 1, 0); /* takes a change of the queue's descriptor */
    if (okv_wakeup_clear(&ep->wakeup) || ep->broken)
        return OKV_EIO;
    ep->polls_until_controls = 0;
    if (ep->ep) {
        int rc = fi_trywait(ep->fabric->fabric, &queue, 1);
        if (rc == -FI_EAGAIN)
            okv_ofi_wake(endpoint); /* something has come already */
        else if (rc)
            return OKV_EIO;
    }
    if (!LIST_EMPTY(&ep->closing) || !LIST_EMPTY(&ep->blocked) || ep->unposted_count > 0)
        okv_wakeup_start_timer(&ep->wakeup, CLOSING_NS);
    return 0;
}

/* ---- all of it ---- */

static void free_all(struct ofi_endpoint *ep)
{
    free(ep->shares);
    free(ep->unposted);
    free(ep->table);
    free(ep->numbers);
    free(ep);
}

static int allocate(const struct ofi_listener *listener, const struct okv_message_limits *limits,
                    unsigned max_conns, struct ofi_endpoint **out)
{
    struct ofi_endpoint *ep = calloc(1, sizeof *ep);

    if (!ep)
        return OKV_ENOMEM;
    ep->share_slots = limits->credits + SPARE_SLOTS;
    ep->share_count = max_conns + (listener != NULL);
    ep->shares = calloc(ep->share_count, sizeof *ep->shares);
    ep->unposted = calloc((size_t)ep->share_count * ep->share_slots, sizeof *ep->unposted);
    ep->table = calloc(max_conns, sizeof *ep->table);
    ep->numbers = calloc(max_conns, sizeof *ep->numbers);
    if (!ep->shares || !ep->unposted || !ep->table || !ep->numbers) {
        free_all(ep);
        return OKV_ENOMEM;
    }
    for (unsigned i = 0; i < max_conns; i++)
        ep->numbers[ep->number_count++] = max_conns - 1 - i;
    ep->base.ops = &okv_transport_ofi;
    ep->wakeup = OKV_WAKEUP_NONE;
    ep->controls = -1;
    ep->listener = listener;
    ep->limits = *limits;
    ep->base.max_conns = max_conns;
    okv_arrivals_init(&ep->arrivals);
    *out = ep;
    return 0;
}

static void release(struct ofi_endpoint *ep)
{
    destroy_shares(ep);
    okv_arrivals_fini(&ep->arrivals);
    free_all(ep);
}

int okv_ofi_endpoint_new(const struct ofi_listener *listener, struct ofi_fabric *own,
                         const struct okv_message_limits *limits, unsigned max_conns,
                         struct ofi_endpoint **out, struct okv_diag *diag)
{
    struct ofi_endpoint *ep;

    if (!limits->slot_size || !limits->credits || !max_conns)
        return okv_diag_set(diag, OKV_EINVAL,
                            "an endpoint needs a message size, credits and room for connections");
    if (allocate(listener, limits, max_conns, &ep))
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for an endpoint");
    ep->fabric = own ? own : (struct ofi_fabric *)&listener->fabric;
    int rc = open_queues(ep, diag);
    if (rc)
        goto release_it;
    rc = make_wakeups(ep, diag);
    if (rc)
        goto close_queues;
    rc = open_ep(ep, diag);
    if (rc)
        goto close_queues;
    rc = make_first_share(ep, diag);
    if (rc == 0 && listener)
        rc = okv_ofi_progress_start(ep, diag);
    if (rc)
        goto close_ep;
    if (own) {
        ep->own = *own;
        ep->fabric = &ep->own;
        own->info = NULL;
    }
    *out = ep;
    return 0;

close_ep:
    if (fi_close(&ep->ep->fid))
        return rc; /* the provider may write to the slots, which stay */
close_queues:
    close_wakeups(ep);
    close_queues(ep);
release_it:
    release(ep);
    return rc;
}

int okv_ofi_endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                            unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag)
{
    struct ofi_endpoint *ep;
    int rc =
        okv_ofi_endpoint_new((struct ofi_listener *)listener, NULL, limits, max_conns, &ep, diag);

    if (rc == 0)
        *out = &ep->base;
    return rc;
}

/* Accepted connections whose OKV_EVENT_OPENED was not polled have no other owner. */
static void destroy_unannounced(struct ofi_endpoint *ep)
{
    struct okv_conn *conn;

    okv_ofi_arrivals_process(ep);
    while ((conn = okv_arrivals_pop(&ep->arrivals)))
        okv_ofi_conn_destroy(conn);
}

void okv_ofi_endpoint_destroy(struct okv_endpoint *endpoint)
{
    struct ofi_endpoint *ep = (struct ofi_endpoint *)endpoint;

    if (!ep)
        return;
    destroy_unannounced(ep);
    okv_ofi_progress_stop(ep);
    if (ep->ep && fi_close(&ep->ep->fid)) /* ends every operation */
        return; /* or the provider may write to what it has, which stays */
    okv_ofi_zombies_free(ep, true);
    close_wakeups(ep);
    close_queues(ep);
    destroy_shares(ep); /* before their domain */
    okv_ofi_fabric_close(&ep->own);
    release(ep);
}
