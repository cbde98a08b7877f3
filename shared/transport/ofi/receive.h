/* Receive slots: a pool for each connection number. Endpoint's thread, unless it says otherwise. */
#ifndef OKV_SHARED_TRANSPORT_OFI_RECEIVE_H
#define OKV_SHARED_TRANSPORT_OFI_RECEIVE_H

#include "shared/transport/ofi/ofi.h"

/* Makes the first pool and posts it: a server's for messages of no connection, or a client's only
 * one. */
int okv_ofi_pools_make_first(struct ofi_endpoint *endpoint, struct okv_diag *diag);
/* The provider must have no slot any more. */
void okv_ofi_pools_destroy(struct ofi_endpoint *endpoint);
/* Makes the pool of a connection number, unless it is there. Any thread that owns the number. */
int okv_ofi_pool_make(struct ofi_endpoint *endpoint, unsigned number, struct okv_diag *diag);
/* Posts the slots of a pool, once. */
void okv_ofi_pool_use(struct ofi_endpoint *endpoint, unsigned number);
/* Posts the slots that the provider has not taken yet. */
void okv_ofi_post_slots(struct ofi_endpoint *endpoint);
/* Posts receive slot `index`, now or when the provider has room. */
void okv_ofi_post_slot(struct ofi_endpoint *endpoint, unsigned index);
void okv_ofi_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event);

#endif
