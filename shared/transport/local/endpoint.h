/* Endpoints: how they are made, and freed with their connections. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_ENDPOINT_H
#define OKV_SHARED_TRANSPORT_LOCAL_ENDPOINT_H

#include "shared/transport/local/local.h"

/* Makes an endpoint for `max_conns` connections. */
int okv_local_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                           struct okv_local_endpoint **out, struct okv_diag *diag);
/* Frees an endpoint and every connection that still belongs to it. */
void okv_local_endpoint_free(struct okv_local_endpoint *endpoint);
void okv_local_conn_destroy(struct okv_conn *conn);

#endif
