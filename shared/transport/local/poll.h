/* Poll and arm. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_POLL_H
#define OKV_SHARED_TRANSPORT_LOCAL_POLL_H

#include "shared/transport/transport.h"

int okv_local_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);
int okv_local_arm(struct okv_endpoint *endpoint);

#endif
