/* Included before everything else by the sources under test: gives those functions of
 * verbs that are inline a name that wrap_verbs.c defines. */
#ifndef OKV_TESTS_VERBS_POINTS_H
#define OKV_TESTS_VERBS_POINTS_H

#include <infiniband/verbs.h>

int fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad);
int fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad);
int fault_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc);
int fault_req_notify_cq(struct ibv_cq *cq, int solicited);
int fault_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr);

#ifndef OKV_TESTS_VERBS_POINTS_OFF
#undef ibv_query_port
#define ibv_post_send fault_post_send
#define ibv_post_recv fault_post_recv
#define ibv_poll_cq fault_poll_cq
#define ibv_req_notify_cq fault_req_notify_cq
#define ibv_query_port fault_query_port
#endif

#endif
