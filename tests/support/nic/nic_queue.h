/* What contexts have as operations, where ibv_poll_cq() and others lead. */
#ifndef OKV_TESTS_NIC_QUEUE_H
#define OKV_TESTS_NIC_QUEUE_H

#include "tests/support/nic/nic_state.h"

int nic_poll_cq(struct ibv_cq *cq, int max, struct ibv_wc *out);
int nic_req_notify_cq(struct ibv_cq *cq, int solicited_only);
int nic_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int nic_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);

/* Under the lock: adds a completion. */
void nic_complete(struct ibv_cq *cq, const struct ibv_wc *wc);

/* Under the lock: does what is posted to a queue pair and can be done. */
void nic_progress(struct nic_qp *qp);
/* Under the lock: the error state, in which all work is flushed. */
void nic_qp_fail(struct nic_qp *qp);

#endif
