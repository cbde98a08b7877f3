/* Work between two queue pairs: messages, READs and WRITEs. */
#include <stdlib.h>
#include <string.h>

#include "tests/support/nic/nic_queue.h"

/* A device reads memory while processors write it. What it gets may be torn, in words, and is no
 * race. */
__attribute__((no_sanitize("thread"), noinline)) static void copy(void *to, const void *from,
                                                                  size_t length)
{
    bool is_aligned = ((uintptr_t)to | (uintptr_t)from) % sizeof(uint64_t) == 0;
    size_t words = is_aligned ? length / sizeof(uint64_t) : 0;

    for (size_t i = 0; i < words; i++)
        ((volatile uint64_t *)to)[i] = ((const volatile uint64_t *)from)[i];
    for (size_t i = words * sizeof(uint64_t); i < length; i++)
        ((volatile uint8_t *)to)[i] = ((const volatile uint8_t *)from)[i];
}

static struct nic_mr *mr_of(const struct nic_qp *qp, uint32_t key)
{
    struct nic_mr *mr = nic.mrs[key % NIC_MRS];

    return mr && mr->base.rkey == key && mr->base.pd->handle == qp->base.pd->handle ? mr : NULL;
}

/* Memory of a queue pair's domain, at an address of the registration; NULL: it may not be used. */
static uint8_t *reach(const struct nic_qp *qp, uint32_t key, uint64_t address, uint64_t length,
                      unsigned access)
{
    const struct nic_mr *mr = mr_of(qp, key);

    if (!mr || (mr->access & access) != access || address < mr->iova ||
        address - mr->iova > mr->base.length || length > mr->base.length - (address - mr->iova))
        return NULL;
    return (uint8_t *)mr->base.addr + (address - mr->iova);
}

static uint8_t *local(const struct nic_qp *qp, const struct ibv_sge *sge, unsigned access)
{
    return reach(qp, sge->lkey, sge->addr, sge->length, access);
}

static void end_send(struct nic_qp *qp, const struct nic_work *work, enum ibv_wc_status status)
{
    const struct ibv_wc wc = {
        .wr_id = work->wr_id, .status = status, .qp_num = qp->base.qp_num, .vendor_err = 0x88};

    if (status != IBV_WC_SUCCESS || work->flags & IBV_SEND_SIGNALED)
        nic_complete(qp->base.send_cq, &wc);
}

static void end_recv(struct nic_qp *qp, const struct nic_work *sent, enum ibv_wc_status status,
                     enum ibv_wc_opcode opcode)
{
    struct nic_work *work = STAILQ_FIRST(&qp->recvs);
    bool has_immediate =
        sent->opcode == IBV_WR_SEND_WITH_IMM || sent->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
    const struct ibv_wc wc = {
        .wr_id = work->wr_id,
        .status = status,
        .opcode = opcode,
        .byte_len = sent->sge.length,
        .imm_data = has_immediate ? sent->immediate : 0,
        .qp_num = qp->base.qp_num,
        .src_qp = qp->peer_num,
        .wc_flags = has_immediate ? IBV_WC_WITH_IMM : 0,
    };

    STAILQ_REMOVE_HEAD(&qp->recvs, next);
    qp->recv_count--;
    nic_complete(qp->base.recv_cq, &wc);
    free(work);
}

static enum ibv_wc_status send_message(const struct nic_qp *qp, struct nic_qp *peer,
                                       const struct nic_work *work)
{
    const struct nic_work *recv = STAILQ_FIRST(&peer->recvs);
    const uint8_t *from = work->flags & IBV_SEND_INLINE ? work->data : local(qp, &work->sge, 0);

    if (!from && work->sge.length > 0)
        return IBV_WC_LOC_PROT_ERR;
    if (work->sge.length > recv->sge.length) {
        end_recv(peer, work, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV);
        return IBV_WC_REM_INV_REQ_ERR;
    }
    uint8_t *to = local(peer, &recv->sge, IBV_ACCESS_LOCAL_WRITE);
    if (!to) {
        end_recv(peer, work, IBV_WC_LOC_PROT_ERR, IBV_WC_RECV);
        return IBV_WC_REM_OP_ERR;
    }
    copy(to, from, work->sge.length);
    end_recv(peer, work, IBV_WC_SUCCESS, IBV_WC_RECV);
    return IBV_WC_SUCCESS;
}

static enum ibv_wc_status read_memory(const struct nic_qp *qp, const struct nic_qp *peer,
                                      const struct nic_work *work)
{
    uint32_t length = work->sge.length;
    uint8_t *to = local(qp, &work->sge, IBV_ACCESS_LOCAL_WRITE);
    const uint8_t *from =
        reach(peer, work->rkey, work->remote_address, length, IBV_ACCESS_REMOTE_READ);

    if (!to)
        return IBV_WC_LOC_PROT_ERR;
    if (!from || !(peer->access & IBV_ACCESS_REMOTE_READ))
        return IBV_WC_REM_ACCESS_ERR;
    copy(to, from, length);
    return IBV_WC_SUCCESS;
}

/* Of 0 bytes neither address nor key is looked at (IBTA specification C9-88). */
static enum ibv_wc_status write_memory(const struct nic_qp *qp, struct nic_qp *peer,
                                       const struct nic_work *work)
{
    uint32_t length = work->sge.length;

    if (!(peer->access & IBV_ACCESS_REMOTE_WRITE))
        return IBV_WC_REM_ACCESS_ERR;
    if (length > 0) {
        uint8_t *to =
            reach(peer, work->rkey, work->remote_address, length, IBV_ACCESS_REMOTE_WRITE);
        const uint8_t *from = work->flags & IBV_SEND_INLINE ? work->data : local(qp, &work->sge, 0);
        if (!from)
            return IBV_WC_LOC_PROT_ERR;
        if (!to)
            return IBV_WC_REM_ACCESS_ERR;
        copy(to, from, length);
    }
    if (work->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        end_recv(peer, work, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM);
    return IBV_WC_SUCCESS;
}

static bool needs_recv(enum ibv_wr_opcode opcode)
{
    return opcode == IBV_WR_SEND || opcode == IBV_WR_SEND_WITH_IMM ||
           opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static enum ibv_wc_status perform(const struct nic_qp *qp, struct nic_qp *peer,
                                  const struct nic_work *work)
{
    switch (work->opcode) {
    case IBV_WR_SEND:
    case IBV_WR_SEND_WITH_IMM:
        return send_message(qp, peer, work);
    case IBV_WR_RDMA_READ:
        return read_memory(qp, peer, work);
    case IBV_WR_RDMA_WRITE:
    case IBV_WR_RDMA_WRITE_WITH_IMM:
        return write_memory(qp, peer, work);
    default:
        return IBV_WC_REM_INV_REQ_ERR;
    }
}

/* Performs one piece of work. False: it has to wait for the peer. */
static bool perform_first(struct nic_qp *qp)
{
    struct nic_work *work = STAILQ_FIRST(&qp->sends);
    struct nic_qp *peer = nic_qp_find(qp->peer_num);
    bool is_there = peer && !nic_device_of(peer->base.context)->is_gone &&
                    peer->base.state != IBV_QPS_ERR && peer->base.state != IBV_QPS_RESET;
    enum ibv_wc_status status = IBV_WC_RETRY_EXC_ERR;

    if (is_there && peer->base.state == IBV_QPS_INIT)
        return false;
    if (is_there && needs_recv(work->opcode) && STAILQ_EMPTY(&peer->recvs))
        return false;
    if (is_there && peer->peer_num == qp->base.qp_num)
        status = perform(qp, peer, work);
    STAILQ_REMOVE_HEAD(&qp->sends, next);
    qp->send_count--;
    end_send(qp, work, status);
    free(work);
    if (status == IBV_WC_SUCCESS)
        return true;
    nic_qp_fail(qp);
    if (status == IBV_WC_REM_ACCESS_ERR || status == IBV_WC_REM_INV_REQ_ERR)
        nic_qp_fail(peer);
    return false;
}

void nic_progress(struct nic_qp *qp)
{
    while (qp->base.state == IBV_QPS_RTS && !nic_device_of(qp->base.context)->is_gone &&
           !STAILQ_EMPTY(&qp->sends) && perform_first(qp))
        continue;
}
