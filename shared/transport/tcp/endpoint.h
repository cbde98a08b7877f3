/* Endpoints: made, and freed with their connections. */
#ifndef OKV_SHARED_TRANSPORT_TCP_ENDPOINT_H
#define OKV_SHARED_TRANSPORT_TCP_ENDPOINT_H

#include "shared/transport/tcp/tcp.h"

/* OKV_EINVAL, OKV_ENOMEM, OKV_EPERM, OKV_EIO, with a sentence. */
int okv_tcp_endpoint_new(const struct okv_message_limits *limits, unsigned max_conns,
                         struct okv_tcp_endpoint **out, struct okv_diag *diag);
/* With all its connections; accepts one that is half made. */
void okv_tcp_endpoint_free(struct okv_tcp_endpoint *endpoint);
/* Operation of the transport. */
void okv_tcp_conn_destroy(struct okv_conn *conn);

#endif
