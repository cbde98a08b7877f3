/* Endpoints: how they are made and freed. closing.h ends them. */
#ifndef OKV_SHARED_TRANSPORT_OFI_ENDPOINT_H
#define OKV_SHARED_TRANSPORT_OFI_ENDPOINT_H

#include "shared/transport/ofi/ofi.h"

/* Takes over `own` on success if it is not NULL; else the listener's fabric is used. */
int okv_ofi_endpoint_new(const struct ofi_listener *listener, struct ofi_fabric *own,
                         const struct okv_message_limits *limits, unsigned max_conns,
                         struct ofi_endpoint **out, struct okv_diag *diag);
int okv_ofi_endpoint_create(struct okv_listener *listener, const struct okv_message_limits *limits,
                            unsigned max_conns, struct okv_endpoint **out, struct okv_diag *diag);
/* Frees one whose `ep` is closed and that has no connections. */
void okv_ofi_endpoint_free(struct ofi_endpoint *endpoint);

#endif
