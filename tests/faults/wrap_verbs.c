/* Calls of libibverbs and librdmacm that are made to fail. Those that end something, and
 * ibv_ack_cq_events and rdma_ack_cm_event, are left out. */
#define OKV_TESTS_VERBS_POINTS_OFF
#include "tests/faults/verbs_points.h"

#include <rdma/rdma_cma.h>

#include "tests/faults/wrap.h"

/* clang-format off */
WRAP(struct ibv_device **, NULL, ibv_get_device_list, (int *count), (count), ENOMEM, ENOSYS)
WRAP(struct ibv_pd *, NULL, ibv_alloc_pd, (struct ibv_context *context), (context), ENOMEM)
WRAP(struct ibv_comp_channel *, NULL, ibv_create_comp_channel, (struct ibv_context *context),
     (context), EMFILE)
WRAP(struct ibv_cq *, NULL, ibv_create_cq, (struct ibv_context *context, int size, void *user,
     struct ibv_comp_channel *channel, int vector), (context, size, user, channel, vector), ENOMEM)
WRAP(struct ibv_qp *, NULL, ibv_create_qp, (struct ibv_pd *pd, struct ibv_qp_init_attr *attr),
     (pd, attr), ENOMEM)
WRAP(struct ibv_mr *, NULL, ibv_reg_mr_iova2, (struct ibv_pd *pd, void *at, size_t length,
     uint64_t iova, unsigned access), (pd, at, length, iova, access), ENOMEM, EFAULT)
WRAP_CODE(int, ibv_modify_qp, (struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask),
          (qp, attr, mask), ENOMEM)
WRAP_CODE(int, ibv_query_device, (struct ibv_context *context, struct ibv_device_attr *attr),
          (context, attr), ENOMEM)
WRAP_CODE(int, _ibv_query_gid_ex, (struct ibv_context *context, uint32_t port, uint32_t index,
          struct ibv_gid_entry *entry, uint32_t flags, size_t size),
          (context, port, index, entry, flags, size), EIO)
WRAP(int, -1, ibv_get_cq_event, (struct ibv_comp_channel *channel, struct ibv_cq **cq,
     void **user), (channel, cq, user), EAGAIN, EINTR)

WRAP(struct rdma_event_channel *, NULL, rdma_create_event_channel, (void), (), EMFILE)
WRAP(struct ibv_context **, NULL, rdma_get_devices, (int *count), (count), ENOMEM)
WRAP(int, -1, rdma_create_id, (struct rdma_event_channel *channel, struct rdma_cm_id **id,
     void *user, enum rdma_port_space space), (channel, id, user, space), ENOMEM)
WRAP(int, -1, rdma_bind_addr, (struct rdma_cm_id *id, struct sockaddr *address), (id, address),
     ENOMEM)
WRAP(int, -1, rdma_listen, (struct rdma_cm_id *id, int backlog), (id, backlog), EADDRINUSE)
WRAP(int, -1, rdma_resolve_addr, (struct rdma_cm_id *id, struct sockaddr *from,
     struct sockaddr *to, int timeout), (id, from, to, timeout), ENOMEM)
WRAP(int, -1, rdma_resolve_route, (struct rdma_cm_id *id, int timeout), (id, timeout), ENOMEM)
WRAP(int, -1, rdma_init_qp_attr, (struct rdma_cm_id *id, struct ibv_qp_attr *attr, int *mask),
     (id, attr, mask), EINVAL)
WRAP(int, -1, rdma_accept, (struct rdma_cm_id *id, struct rdma_conn_param *param), (id, param),
     ENOMEM)
WRAP(int, -1, rdma_reject, (struct rdma_cm_id *id, const void *data, uint8_t length),
     (id, data, length), ENOMEM)
WRAP(int, -1, rdma_establish, (struct rdma_cm_id *id), (id), ENOMEM)
WRAP(int, -1, rdma_disconnect, (struct rdma_cm_id *id), (id), EINVAL)
WRAP(int, -1, rdma_get_cm_event, (struct rdma_event_channel *channel, struct rdma_cm_event **out),
     (channel, out), EAGAIN, EINTR, ENOMEM)
/* clang-format on */

ssize_t __real__ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t count, uint32_t flags, size_t size);
ssize_t __wrap__ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t count, uint32_t flags, size_t size);
ssize_t __wrap__ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
                                    size_t count, uint32_t flags, size_t size)
{
    int way = WRAP_ASK(ibv_query_gid_table, EIO);

    return way ? -way : __real__ibv_query_gid_table(context, entries, count, flags, size);
}

int fault_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
    int way = WRAP_ASK(ibv_post_send, ENOMEM);

    if (way == 0)
        return ibv_post_send(qp, wr, bad);
    *bad = wr;
    return way;
}

int fault_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
    int way = WRAP_ASK(ibv_post_recv, ENOMEM);

    if (way == 0)
        return ibv_post_recv(qp, wr, bad);
    *bad = wr;
    return way;
}

int fault_poll_cq(struct ibv_cq *cq, int count, struct ibv_wc *wc)
{
    return WRAP_ASK(ibv_poll_cq, EIO) ? -1 : ibv_poll_cq(cq, count, wc);
}

int fault_req_notify_cq(struct ibv_cq *cq, int solicited)
{
    int way = WRAP_ASK(ibv_req_notify_cq, EIO);

    return way ? way : ibv_req_notify_cq(cq, solicited);
}

int fault_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr)
{
    int way = WRAP_ASK(ibv_query_port, EIO);

    return way ? way : ibv_query_port(context, port, attr);
}

/* The connection that was asked for last, to be cut. */
static struct rdma_cm_id *connected;

int __real_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param);
int __wrap_rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
    int way = WRAP_ASK(rdma_connect, ENOMEM);

    connected = id;
    if (way == 0)
        return __real_rdma_connect(id, param);
    errno = way;
    return -1;
}

int __real_rdma_disconnect(struct rdma_cm_id *id);
void inject_cut_verbs(void)
{
    if (connected)
        __real_rdma_disconnect(connected);
}
