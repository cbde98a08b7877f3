/* Queue pairs: their states, and the only two functions that post work on them. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "shared/bytes.h"
#include "shared/error.h"
#include "shared/transport_verbs.h"

int okv_verbs_qp_create(struct verbs_conn *conn, struct okv_diag *diag)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    /* Devices differ in what they can send inline and refuse more than that. */
    static const uint32_t inline_sizes[] = {VERBS_MAX_INLINE, 64, 0};

    for (unsigned i = 0; i < sizeof inline_sizes / sizeof *inline_sizes; i++) {
        struct ibv_qp_init_attr attr = {
            .send_cq = ep->cq,
            .recv_cq = ep->cq,
            .srq = ep->srq,
            .cap = {.max_send_wr = conn->send_count + ep->reads_per_conn + 1,
                    .max_send_sge = 1,
                    .max_inline_data = inline_sizes[i]},
            .qp_type = IBV_QPT_RC,
            .sq_sig_all = 0,
        };
        conn->qp = ibv_create_qp(ep->pd, &attr);
        if (conn->qp) {
            conn->qp_num = conn->qp->qp_num;
            conn->max_inline = attr.cap.max_inline_data;
            return 0;
        }
    }
    int errnum = errno;
    return okv_diag_set(diag, errnum == ENOMEM ? OKV_ENOMEM : OKV_EIO,
                        "%s cannot make a queue pair for %u messages and %u READs: %s",
                        ibv_get_device_name(ep->verbs->device), conn->send_count,
                        ep->reads_per_conn, strerror(errnum));
}

/* The connection manager knows addresses and sequence numbers; what the peer may
 * do and how long we try is decided here. A queue pair made by rdma_create_qp()
 * would allow remote writes, for a moment or for ever. */
int okv_verbs_qp_to_init(struct verbs_conn *conn, struct rdma_cm_id *id, unsigned access)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT};
    int mask;
    if (rdma_init_qp_attr(id, &attr, &mask))
        return errno;
    attr.qp_access_flags = access;
    return ibv_modify_qp(conn->qp, &attr, mask);
}

static void describe(struct verbs_conn *conn, const struct ibv_qp_attr *attr)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    struct ibv_gid_entry gid;
    bool known =
        attr->ah_attr.is_global && ibv_query_gid_ex(ep->verbs, attr->ah_attr.port_num,
                                                    attr->ah_attr.grh.sgid_index, &gid, 0) == 0;
    okv_verbs_describe(ep->verbs, attr->ah_attr.port_num, known ? &gid : NULL, attr->path_mtu,
                       conn->base.how, sizeof conn->base.how);
}

int okv_verbs_qp_to_rts(struct verbs_conn *conn, struct rdma_cm_id *id, uint8_t reads_in,
                        uint8_t reads_out)
{
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR};
    int mask;
    if (rdma_init_qp_attr(id, &attr, &mask))
        return errno;
    attr.max_dest_rd_atomic = reads_in;
    attr.min_rnr_timer = VERBS_MIN_RNR_TIMER;
    int errnum = ibv_modify_qp(conn->qp, &attr, mask);
    if (errnum)
        return errnum;
    describe(conn, &attr);

    memset(&attr, 0, sizeof attr);
    attr.qp_state = IBV_QPS_RTS;
    if (rdma_init_qp_attr(id, &attr, &mask))
        return errno;
    attr.max_rd_atomic = reads_out;
    attr.timeout = VERBS_ACK_TIMEOUT;
    attr.retry_cnt = VERBS_RETRY_COUNT;
    attr.rnr_retry = VERBS_RETRY_COUNT;
    return ibv_modify_qp(conn->qp, &attr, mask);
}

uint8_t *okv_verbs_send_buffer(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    if (!c->send_current_taken) {
        if (c->send_free_count == 0)
            return NULL;
        c->send_current = c->send_free[--c->send_free_count];
        c->send_current_taken = true;
    }
    return c->send_slab.base + c->send_current * c->send_slab.stride;
}

int okv_verbs_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (!c->send_current_taken || length > conn->slot_size)
        return OKV_EINVAL;

    struct ibv_sge sge = {
        .addr = (uintptr_t)(c->send_slab.base + c->send_current * c->send_slab.stride),
        .length = length,
        .lkey = c->send_slab.mr->lkey,
    };
    struct ibv_send_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_SEND, c->send_current),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED | (length <= c->max_inline ? IBV_SEND_INLINE : 0),
        .imm_data = htonl(immediate),
    };
    struct ibv_send_wr *bad;
    int errnum = ibv_post_send(c->qp, &wr, &bad);
    c->send_current_taken = false;
    c->outstanding++;
    if (errnum) {
        /* Whether the device took it is unknown; the buffer stays out of use. */
        okv_verbs_conn_fail(c, OKV_EIO);
        return OKV_EIO;
    }
    return 0;
}

static bool is_valid_read(const struct okv_conn *conn, const struct okv_read *read)
{
    const struct okv_memory *memory = read->memory;
    if (read->length == 0 || !okv_range_inside(read->offset, read->length, conn->remote_length))
        return false;
    uintptr_t destination = (uintptr_t)read->destination;
    return memory && &memory->endpoint->base == conn->endpoint && destination >= memory->base &&
           okv_range_inside(destination - memory->base, read->length, memory->length);
}

static unsigned take_read_slot(struct verbs_conn *conn, unsigned from, uint64_t cookie)
{
    while (conn->reads[from].busy)
        from++;
    conn->reads[from] = (struct verbs_read_slot){.cookie = cookie, .busy = true};
    conn->reads_busy++;
    conn->outstanding++;
    return from;
}

int okv_verbs_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct ibv_send_wr wr[VERBS_MAX_READS];
    struct ibv_sge sge[VERBS_MAX_READS];
    unsigned slot[VERBS_MAX_READS];

    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++)
        if (!is_valid_read(conn, &reads[i]))
            return OKV_EINVAL;
    if (count > conn->max_reads - c->reads_busy)
        return OKV_EAGAIN;
    if (count == 0)
        return 0;

    for (unsigned i = 0; i < count; i++) {
        const struct okv_read *read = &reads[i];
        slot[i] = take_read_slot(c, i ? slot[i - 1] + 1 : 0, read->cookie);
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)read->destination,
                                  .length = read->length,
                                  .lkey = read->memory->mr->lkey};
        wr[i] = (struct ibv_send_wr){
            .wr_id = verbs_wr_id(VERBS_WORK_READ, slot[i]),
            .next = i + 1 < count ? &wr[i + 1] : NULL,
            .sg_list = &sge[i],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_READ,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = c->remote_address + read->offset, .rkey = c->remote_rkey},
        };
    }
    struct ibv_send_wr *bad;
    if (ibv_post_send(c->qp, wr, &bad) == 0)
        return 0;
    /* The device may have taken some of them, and `bad` does not tell reliably:
     * the connection ends, and what it still completes of these is nobody's event. */
    for (unsigned i = 0; i < count; i++)
        c->reads[slot[i]].silent = true;
    okv_verbs_conn_fail(c, OKV_EIO);
    return OKV_EDISCONNECTED;
}
