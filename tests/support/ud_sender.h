/* Sends datagrams of any length to a multicast group by RDMA. Each call fails the test when it
 * fails. */
#ifndef OKV_TESTS_UD_SENDER_H
#define OKV_TESTS_UD_SENDER_H

#include <rdma/rdma_cma.h>

#define UD_SENDER_MAX 4096

struct ud_sender {
    struct rdma_event_channel *channel;
    struct rdma_cm_id *id;
    struct ibv_pd *pd;
    struct ibv_cq *cq;
    struct ibv_mr *mr;
    struct ibv_ah *group;
    uint8_t bytes[UD_SENDER_MAX]; /* what is sent: the first of them */
};

/* Leaves by the device that has the address `source`. */
void ud_sender_open(struct ud_sender *sender, const char *source, const char *group);
/* Sends the first `length` of its bytes. */
void ud_sender_send(struct ud_sender *sender, uint32_t length);
void ud_sender_close(struct ud_sender *sender);

#endif
