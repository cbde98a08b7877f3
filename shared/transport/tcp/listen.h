/* The listener: operations of the transport. */
#ifndef OKV_SHARED_TRANSPORT_TCP_LISTEN_H
#define OKV_SHARED_TRANSPORT_TCP_LISTEN_H

#include "shared/transport/tcp/tcp.h"

int okv_tcp_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                   struct okv_listener **out, struct okv_diag *diag);
void okv_tcp_unlisten(struct okv_listener *listener);
int okv_tcp_accept(struct okv_request *request, const struct okv_accept *accept);
void okv_tcp_reject(struct okv_request *request, const uint8_t *reason, size_t length);

#endif
