/* One attempt to connect to one address, event by event. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_ATTEMPT_H
#define OKV_SHARED_TRANSPORT_VERBS_ATTEMPT_H

#include "shared/transport/verbs/connecting.h"

/* Begins an attempt. Returns 0 or a code of connect_step. okv_verbs_attempt_end or
 * okv_verbs_attempt_finish must follow. */
int okv_verbs_attempt_begin(struct verbs_connecting *c);
/* Begins it once more with another hello and the same queue pair, after a rejection. */
int okv_verbs_attempt_renew(struct verbs_connecting *c);
/* Handles one event of the connection manager; the caller acknowledges it. */
int okv_verbs_attempt_event(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* Ends a failed attempt; the channel stays. */
void okv_verbs_attempt_end(struct verbs_connecting *c);
/* The connection of an attempt at VERBS_STEP_DONE; it owns id and channel. */
struct okv_conn *okv_verbs_attempt_finish(struct verbs_connecting *c);

#endif
