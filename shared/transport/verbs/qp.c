#include "shared/transport/verbs/qp.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/devices/limits.h"
#include "shared/transport/verbs/device.h"

int okv_verbs_qp_create(struct verbs_conn *conn, struct okv_diag *diag)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    static const uint32_t inline_sizes[] = OKV_INLINE_SIZES;

    for (unsigned i = 0; i < sizeof inline_sizes / sizeof *inline_sizes; i++) {
        if (inline_sizes[i] > VERBS_MAX_INLINE)
            continue;
        struct ibv_qp_init_attr attr = {
            .send_cq = ep->cq,
            .recv_cq = ep->cq,
            .cap = {.max_send_wr = conn->sends.count + ep->reads_per_conn + VERBS_HEARTBEATS + 1,
                    .max_recv_wr = conn->recv_count,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = inline_sizes[i]},
            .qp_type = IBV_QPT_RC,
            .sq_sig_all = 0,
        };
        conn->qp = ibv_create_qp(conn->pd, &attr);
        if (conn->qp) {
            conn->qp_num = conn->qp->qp_num;
            conn->max_inline = attr.cap.max_inline_data;
            return 0;
        }
    }
    int errnum = errno;
    return okv_diag_set(diag, errnum == ENOMEM ? OKV_ENOMEM : OKV_EIO,
                        "%s cannot make a queue pair for %u messages and %u READs: %s",
                        ibv_get_device_name(ep->verbs->device), conn->sends.count,
                        ep->reads_per_conn, strerror(errnum));
}

/* The connection manager provides addresses and sequence numbers. Access rights and timeouts are
 * set here: a queue pair made by rdma_create_qp() would allow remote writes, at least at first. */
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
    size_t used = strlen(conn->base.how);
    if (attr->ah_attr.grh.traffic_class)
        snprintf(conn->base.how + used, sizeof conn->base.how - used, ", traffic class %u",
                 attr->ah_attr.grh.traffic_class);
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
    attr.timeout = ((struct verbs_endpoint *)conn->base.endpoint)->ack_timeout;
    attr.retry_cnt = VERBS_RETRY_COUNT;
    attr.rnr_retry = VERBS_RETRY_COUNT;
    return ibv_modify_qp(conn->qp, &attr, mask);
}
