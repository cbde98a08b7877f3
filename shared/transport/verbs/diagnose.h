/* Why an attempt to connect failed, for people. Each fills c->diag and returns the code. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_DIAGNOSE_H
#define OKV_SHARED_TRANSPORT_VERBS_DIAGNOSE_H

#include "shared/transport/verbs/attempt.h"

/* The current step took too long. */
int okv_verbs_diagnose_silence(struct verbs_connecting *c);
int okv_verbs_diagnose_route(struct verbs_connecting *c, int errnum);
/* An event that no step waits for. */
int okv_verbs_diagnose_event(struct verbs_connecting *c, const struct rdma_cm_event *event);
/* The connection ended between the server's answer and its last step. */
int okv_verbs_diagnose_loss(struct verbs_connecting *c, int errnum);

#endif
