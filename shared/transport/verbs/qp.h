/* Queue pairs: how they are made, and their states. */
#ifndef OKV_SHARED_TRANSPORT_VERBS_QP_H
#define OKV_SHARED_TRANSPORT_VERBS_QP_H

#include "shared/transport/verbs/verbs.h"

int okv_verbs_qp_create(struct verbs_conn *conn, struct okv_diag *diag);
/* These two change the state of the queue pair with the connection manager's attributes; `access`
 * is all that the peer may ever do. They return 0 or an errno value. */
int okv_verbs_qp_to_init(struct verbs_conn *conn, struct rdma_cm_id *id, unsigned access);
int okv_verbs_qp_to_rts(struct verbs_conn *conn, struct rdma_cm_id *id, uint8_t reads_in,
                        uint8_t reads_out);

#endif
