/* What ties a connection to its two ends: docs/protocol.md section 1.4. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_BINDING_H
#define OKV_SHARED_TRANSPORT_VERBS_BINDING_H

#include "shared/transport/verbs/verbs.h"

/* `id` has its route, and a connect request has one. */
void okv_verbs_binding(struct rdma_cm_id *id, bool is_client, uint32_t qp_num,
                       struct okv_binding *out);

#endif
