/* Poll and arm: operations of the transport. */
#ifndef OKV_SHARED_TRANSPORT_TCP_POLL_H
#define OKV_SHARED_TRANSPORT_TCP_POLL_H

#include "shared/transport/tcp/tcp.h"

int okv_tcp_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);
int okv_tcp_arm(struct okv_endpoint *endpoint);

#endif
