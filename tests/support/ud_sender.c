#include "tests/support/ud_sender.h"

#include "tests/support/test.h"
#include <arpa/inet.h>

static struct sockaddr_in address_of(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};

    assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
    return address;
}

void ud_sender_open(struct ud_sender *sender, const char *source, const char *group)
{
    struct sockaddr_in from = address_of(source), to = address_of(group);
    struct rdma_cm_join_mc_attr_ex join = {
        .comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS,
        .join_flags = RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER,
        .addr = (struct sockaddr *)&to,
    };
    struct ibv_qp_init_attr attr = {
        .qp_type = IBV_QPT_UD,
        .cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
    };
    struct rdma_cm_event *event;

    memset(sender, 0, sizeof *sender);
    sender->channel = rdma_create_event_channel();
    assert_non_null(sender->channel);
    assert_int_equal(rdma_create_id(sender->channel, &sender->id, NULL, RDMA_PS_UDP), 0);
    assert_int_equal(rdma_bind_addr(sender->id, (struct sockaddr *)&from), 0);
    sender->pd = ibv_alloc_pd(sender->id->verbs);
    sender->cq = ibv_create_cq(sender->id->verbs, 2, NULL, NULL, 0);
    assert_true(sender->pd && sender->cq);
    sender->mr = ibv_reg_mr(sender->pd, sender->bytes, sizeof sender->bytes, 0);
    assert_non_null(sender->mr);
    attr.send_cq = attr.recv_cq = sender->cq;
    assert_int_equal(rdma_create_qp(sender->id, sender->pd, &attr), 0);
    assert_int_equal(rdma_join_multicast_ex(sender->id, &join, NULL), 0);
    assert_int_equal(rdma_get_cm_event(sender->channel, &event), 0);
    assert_int_equal(event->event, RDMA_CM_EVENT_MULTICAST_JOIN);
    sender->group = ibv_create_ah(sender->pd, &event->param.ud.ah_attr);
    assert_non_null(sender->group);
    rdma_ack_cm_event(event);
}

void ud_sender_send(struct ud_sender *sender, uint32_t length)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)sender->bytes, .length = length, .lkey = sender->mr->lkey};
    struct ibv_send_wr *bad;
    struct ibv_send_wr wr = {
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.ud = {.ah = sender->group, .remote_qpn = 0xffffff, .remote_qkey = RDMA_UDP_QKEY},
    };
    struct ibv_wc wc;

    assert_int_equal(ibv_post_send(sender->id->qp, &wr, &bad), 0);
    while (ibv_poll_cq(sender->cq, 1, &wc) == 0)
        ;
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

void ud_sender_close(struct ud_sender *sender)
{
    ibv_destroy_ah(sender->group);
    rdma_destroy_qp(sender->id);
    ibv_dereg_mr(sender->mr);
    ibv_destroy_cq(sender->cq);
    ibv_dealloc_pd(sender->pd);
    rdma_destroy_id(sender->id);
    rdma_destroy_event_channel(sender->channel);
}
