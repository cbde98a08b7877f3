/* Queue pairs: their life and states, and what is posted to them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/nic/nic_queue.h"

struct nic_qp *nic_qp_find(uint32_t number)
{
    struct nic_qp *qp = nic.qps[number % NIC_QPS];

    return qp && qp->base.qp_num == number ? qp : NULL;
}

static uint32_t new_number(const struct nic_device *device)
{
    uint32_t last = nic.last_destroyed_qp;

    if (device->traits.is_reusing_numbers && last && !nic.qps[last % NIC_QPS])
        return last;
    for (unsigned tries = 0; tries < NIC_QPS; tries++) {
        nic.next_qp = (nic.next_qp + 1) & 0xffffff;
        if (nic.next_qp > 1 && !nic.qps[nic.next_qp % NIC_QPS])
            return nic.next_qp;
    }
    nic_misused("too many queue pairs");
}

static bool are_allowed(const struct nic_device *device, const struct ibv_qp_init_attr *attr)
{
    const struct nic_traits *traits = &device->traits;

    return attr->qp_type == IBV_QPT_RC && attr->cap.max_inline_data <= traits->max_inline &&
           attr->cap.max_send_wr <= (unsigned)traits->attr.max_qp_wr &&
           attr->cap.max_recv_wr <= (unsigned)traits->attr.max_qp_wr;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
    struct nic_qp *qp = NULL;

    pthread_mutex_lock(&nic.lock);
    struct nic_device *device = nic_device_of(pd->context);
    if (nic_refuses(NIC_CREATE_QP) || nic_is_gone(pd->context)) {
        /* errno is set */
    } else if (!are_allowed(device, attr)) {
        errno = EINVAL;
    } else if ((qp = nic_alloc(sizeof *qp))) {
        qp->base = (struct ibv_qp){.context = pd->context,
                                   .pd = pd,
                                   .send_cq = attr->send_cq,
                                   .recv_cq = attr->recv_cq,
                                   .qp_num = new_number(device),
                                   .state = IBV_QPS_RESET,
                                   .qp_type = attr->qp_type};
        qp->cap = attr->cap;
        nic.last_inline = attr->cap.max_inline_data;
        STAILQ_INIT(&qp->sends);
        STAILQ_INIT(&qp->recvs);
        nic.qps[qp->base.qp_num % NIC_QPS] = qp;
        nic.open_objects++;
    }
    pthread_mutex_unlock(&nic.lock);
    return qp ? &qp->base : NULL;
}

static struct nic_work *take(struct nic_works *works, unsigned *count)
{
    struct nic_work *work = STAILQ_FIRST(works);

    if (work) {
        STAILQ_REMOVE_HEAD(works, next);
        --*count;
    }
    return work;
}

static void flush(struct nic_qp *qp, struct ibv_cq *cq, struct nic_works *works, unsigned *count)
{
    struct nic_work *work;

    while ((work = take(works, count))) {
        const struct ibv_wc wc = {
            .wr_id = work->wr_id, .status = IBV_WC_WR_FLUSH_ERR, .qp_num = qp->base.qp_num};
        nic_complete(cq, &wc);
        free(work);
    }
}

void nic_qp_fail(struct nic_qp *qp)
{
    qp->base.state = IBV_QPS_ERR;
    flush(qp, qp->base.send_cq, &qp->sends, &qp->send_count);
    flush(qp, qp->base.recv_cq, &qp->recvs, &qp->recv_count);
}

int ibv_destroy_qp(struct ibv_qp *base)
{
    struct nic_qp *qp = (struct nic_qp *)base;
    struct nic_work *work;

    pthread_mutex_lock(&nic.lock);
    nic_check_open(base->context);
    while ((work = take(&qp->sends, &qp->send_count)) || (work = take(&qp->recvs, &qp->recv_count)))
        free(work);
    nic.qps[base->qp_num % NIC_QPS] = NULL;
    nic.last_destroyed_qp = base->qp_num;
    struct nic_qp *peer = nic_qp_find(qp->peer_num);
    if (peer && peer->peer_num == base->qp_num)
        nic_progress(peer); /* what it sends has no receiver now */
    free(qp);
    nic.open_objects--;
    pthread_mutex_unlock(&nic.lock);
    return 0;
}

static int to_ready_to_receive(struct nic_qp *qp, const struct ibv_qp_attr *attr)
{
    if (attr->path_mtu > nic_device_of(qp->base.context)->traits.active_mtu)
        return EINVAL;
    qp->peer_num = attr->dest_qp_num;
    qp->base.state = IBV_QPS_RTR;
    struct nic_qp *peer = nic_qp_find(qp->peer_num);
    if (peer)
        nic_progress(peer);
    return 0;
}

static int change(struct nic_qp *qp, const struct ibv_qp_attr *attr)
{
    enum ibv_qp_state from = qp->base.state;

    if (attr->qp_state == IBV_QPS_ERR) {
        nic_qp_fail(qp);
        return 0;
    }
    if (attr->qp_state == IBV_QPS_INIT && from == IBV_QPS_RESET) {
        qp->access = attr->qp_access_flags;
    } else if (attr->qp_state == IBV_QPS_RTR && from == IBV_QPS_INIT) {
        return to_ready_to_receive(qp, attr);
    } else if (attr->qp_state != IBV_QPS_RTS || from != IBV_QPS_RTR) {
        return EINVAL;
    }
    qp->base.state = attr->qp_state;
    return 0;
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask)
{
    int errnum;

    pthread_mutex_lock(&nic.lock);
    if (!(mask & IBV_QP_STATE))
        errnum = EINVAL;
    else if (nic_is_gone(base->context))
        errnum = EIO;
    else if (attr->qp_state != IBV_QPS_ERR && nic_refuses(NIC_MODIFY_QP))
        errnum = errno;
    else
        errnum = change((struct nic_qp *)base, attr);
    pthread_mutex_unlock(&nic.lock);
    return errnum;
}

/* ---- posting ---- */

static struct nic_work *new_work(uint64_t wr_id, const struct ibv_sge *sge, int count)
{
    struct nic_work *work = nic_alloc(sizeof *work);

    if (count > 1)
        nic_misused("more than one buffer");
    work->wr_id = wr_id;
    if (count == 1)
        work->sge = *sge;
    return work;
}

static struct nic_work *new_send(const struct nic_qp *qp, const struct ibv_send_wr *wr)
{
    struct nic_work *work = new_work(wr->wr_id, wr->sg_list, wr->num_sge);

    work->opcode = wr->opcode;
    work->flags = wr->send_flags;
    work->immediate = wr->imm_data;
    work->remote_address = wr->wr.rdma.remote_addr;
    work->rkey = wr->wr.rdma.rkey;
    if (!(wr->send_flags & IBV_SEND_INLINE))
        return work;
    if (work->sge.length > qp->cap.max_inline_data || work->sge.length > sizeof work->data)
        nic_misused("too much is sent inline");
    memcpy(work->data, (const void *)(uintptr_t)work->sge.addr, work->sge.length);
    return work;
}

int nic_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    struct nic_qp *qp = (struct nic_qp *)base;
    int errnum = 0;

    pthread_mutex_lock(&nic.lock);
    for (; wr && errnum == 0; wr = wr->next) {
        *bad = wr;
        if (base->state != IBV_QPS_RTS && base->state != IBV_QPS_ERR)
            errnum = EINVAL;
        else if (qp->send_count == qp->cap.max_send_wr)
            errnum = ENOMEM;
        if (errnum)
            break;
        struct nic_work *work = new_send(qp, wr);
        STAILQ_INSERT_TAIL(&qp->sends, work, next);
        qp->send_count++;
        nic.posted[wr->opcode]++;
    }
    if (base->state == IBV_QPS_ERR)
        nic_qp_fail(qp);
    nic_progress(qp);
    pthread_mutex_unlock(&nic.lock);
    return errnum;
}

int nic_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    struct nic_qp *qp = (struct nic_qp *)base;
    int errnum = 0;

    pthread_mutex_lock(&nic.lock);
    for (; wr && errnum == 0; wr = wr->next) {
        *bad = wr;
        if (base->state == IBV_QPS_RESET)
            errnum = EINVAL;
        else if (qp->recv_count == qp->cap.max_recv_wr)
            errnum = ENOMEM;
        if (errnum)
            break;
        struct nic_work *work = new_work(wr->wr_id, wr->sg_list, wr->num_sge);
        STAILQ_INSERT_TAIL(&qp->recvs, work, next);
        qp->recv_count++;
    }
    if (base->state == IBV_QPS_ERR)
        nic_qp_fail(qp);
    struct nic_qp *peer = nic_qp_find(qp->peer_num);
    if (peer && peer->peer_num == base->qp_num)
        nic_progress(peer);
    pthread_mutex_unlock(&nic.lock);
    return errnum;
}
