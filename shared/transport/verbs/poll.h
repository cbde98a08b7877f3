/* Turns completions into events, and arms the descriptor to wait on. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_POLL_H
#define OKV_SHARED_TRANSPORT_VERBS_POLL_H

#include "shared/transport/transport.h"

int okv_verbs_poll(struct okv_endpoint *endpoint, struct okv_event *events, int max);
int okv_verbs_arm(struct okv_endpoint *endpoint);

#endif
