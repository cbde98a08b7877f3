#include "shared/transport/ofi/receive.h"

#include <stdlib.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/fabric.h"

/* How often a provider may fail to take a receive before the next poll asks again. */
#define FAILURES_MAX 64

/* An error is no end: rxm gives a receive to a message that waits for one, and fails when the
 * sender of that is gone. Any peer can bring that about. */
void okv_ofi_post_slots(struct ofi_endpoint *ep)
{
    unsigned failures = 0;

    while (ep->unposted_count > 0 && ep->ep) {
        unsigned index = ep->unposted[ep->unposted_count - 1];
        const struct ofi_slab *slots = &ep->pools[index / ep->pool_slots].slots;
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

    if (event->slot / ep->pool_slots < ep->pool_count)
        okv_ofi_post_slot(ep, event->slot);
}

int okv_ofi_pool_make(struct ofi_endpoint *ep, unsigned number, struct okv_diag *diag)
{
    struct ofi_receive_pool *pool = &ep->pools[number];

    if (pool->recvs)
        return 0;
    struct ofi_recv *recvs = calloc(ep->pool_slots, sizeof *recvs);
    if (!recvs)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for receive slots");
    int rc = okv_ofi_slab_create(
        ep->fabric, ep->pool_slots, sizeof(struct ofi_message_header) + ep->limits.slot_size + 1,
        FI_RECV, &pool->slots, diag); /* one more: a longer message shows */
    if (rc) {
        free(recvs);
        return rc;
    }
    for (unsigned i = 0; i < ep->pool_slots; i++)
        for (unsigned turn = 0; turn < OFI_RECV_TURNS; turn++)
            ofi_op_init(&recvs[i].ops[turn], OFI_WORK_RECV, number * ep->pool_slots + i, NULL);
    pool->recvs = recvs;
    return 0;
}

void okv_ofi_pool_use(struct ofi_endpoint *ep, unsigned number)
{
    struct ofi_receive_pool *pool = &ep->pools[number];

    if (pool->is_in_use)
        return;
    pool->is_in_use = true;
    for (unsigned i = 0; i < ep->pool_slots; i++)
        ep->unposted[ep->unposted_count++] = number * ep->pool_slots + i;
    okv_ofi_post_slots(ep);
}

void okv_ofi_pools_destroy(struct ofi_endpoint *ep)
{
    for (unsigned i = 0; i < ep->pool_count; i++) {
        okv_ofi_slab_destroy(&ep->pools[i].slots);
        free(ep->pools[i].recvs);
        ep->pools[i].recvs = NULL;
    }
}

int okv_ofi_pools_make_first(struct ofi_endpoint *ep, struct okv_diag *diag)
{
    int rc = okv_ofi_pool_make(ep, ep->pool_count - 1, diag);

    if (rc)
        return rc;
    okv_ofi_pool_use(ep, ep->pool_count - 1);
    return ep->unposted_count == ep->pool_slots
               ? okv_diag_set(diag, OKV_EIO, "the libfabric provider %s takes no receive",
                              okv_ofi_fabric_name(ep->fabric))
               : 0;
}
