/* An endpoint: the fabric's, its queues, and the descriptor that becomes readable when there is
 * something to poll. */
#include "shared/transport/ofi/endpoint.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/fabric.h"
#include "shared/transport/ofi/progress.h"
#include "shared/transport/ofi/receive.h"

#define QUEUE_MAX 65536u
/* Of a pool beyond the credits: a slot is posted again only when the caller has released its
 * message. */
#define SPARE_SLOTS 2u
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
    size_t entries = (size_t)ep->pool_count * ep->pool_slots + ep->base.max_conns * own;
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

static void free_all(struct ofi_endpoint *ep)
{
    free(ep->pools);
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
    ep->pool_slots = limits->credits + SPARE_SLOTS;
    ep->pool_count = max_conns + (listener != NULL);
    ep->pools = calloc(ep->pool_count, sizeof *ep->pools);
    ep->unposted = calloc((size_t)ep->pool_count * ep->pool_slots, sizeof *ep->unposted);
    ep->table = calloc(max_conns, sizeof *ep->table);
    ep->numbers = calloc(max_conns, sizeof *ep->numbers);
    if (!ep->pools || !ep->unposted || !ep->table || !ep->numbers) {
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
    okv_ofi_pools_destroy(ep);
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
    rc = okv_ofi_pools_make_first(ep, diag);
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

void okv_ofi_endpoint_free(struct ofi_endpoint *ep)
{
    close_wakeups(ep);
    close_queues(ep);
    okv_ofi_pools_destroy(ep); /* before their domain */
    okv_ofi_fabric_close(&ep->own);
    release(ep);
}
