#include "shared/transport/verbs/conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/mr.h"
#include "shared/transport/verbs/qp.h"
#include "shared/transport/verbs/stage.h"

static void destroy_buffers(struct verbs_conn *conn)
{
    okv_verbs_slab_destroy(&conn->slab);
    okv_send_slots_destroy(&conn->sends);
    free(conn->send_wrs);
}

static int make_buffers(struct verbs_conn *conn, struct okv_diag *diag)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    unsigned count = ep->limits.credits + 1;
    int rc = 0;

    conn->recv_count = ep->limits.credits + VERBS_SPARE_RECVS;
    conn->send_wrs = calloc(count, sizeof *conn->send_wrs);
    if (!conn->send_wrs || !okv_send_slots_create(&conn->sends, count))
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
    if (rc == 0)
        rc = okv_verbs_slab_create(conn->pd, count + conn->recv_count, ep->limits.slot_size,
                                   &conn->slab, diag);
    if (rc)
        destroy_buffers(conn);
    return rc;
}

int okv_verbs_conn_new(struct verbs_endpoint *endpoint, const struct verbs_region *region,
                       struct verbs_conn **out, struct okv_diag *diag)
{
    int rc;
    if (atomic_fetch_add(&endpoint->conns, 1) >= endpoint->base.max_conns) {
        rc = okv_diag_set(diag, OKV_EAGAIN, "the endpoint is full: %u connections",
                          endpoint->base.max_conns);
        goto uncount;
    }
    struct verbs_conn *conn = calloc(1, sizeof *conn);
    if (!conn) {
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
        goto uncount;
    }
    conn->base.ops = &okv_transport_verbs;
    conn->base.endpoint = &endpoint->base;
    conn->base.slot_size = endpoint->limits.slot_size;
    conn->base.is_one_sided = true;
    conn->region = region;
    conn->pd = region ? region->pd : endpoint->domain.pd;
    rc = make_buffers(conn, diag);
    if (rc)
        goto free_conn;
    rc = okv_verbs_qp_create(conn, diag);
    if (rc)
        goto destroy_buffers;
    *out = conn;
    return 0;

destroy_buffers:
    destroy_buffers(conn);
free_conn:
    free(conn);
uncount:
    atomic_fetch_sub(&endpoint->conns, 1);
    return rc;
}

void okv_verbs_conn_free(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    if (conn->qp)
        ibv_destroy_qp(conn->qp);
    okv_verbs_stages_destroy(conn);
    destroy_buffers(conn);
    free(conn);
    atomic_fetch_sub(&ep->conns, 1);
}

static struct verbs_conn **bucket_of(struct verbs_endpoint *ep, uint32_t qp_num)
{
    return &ep->by_qp_num[qp_num & ep->by_qp_num_mask];
}

void okv_verbs_conn_admit(struct verbs_conn *conn)
{
    struct verbs_conn **bucket =
        bucket_of((struct verbs_endpoint *)conn->base.endpoint, conn->qp_num);
    conn->next_by_qp_num = *bucket;
    *bucket = conn;
}

struct verbs_conn *okv_verbs_conn_find(struct verbs_endpoint *endpoint, uint32_t qp_num)
{
    struct verbs_conn *conn = *bucket_of(endpoint, qp_num);
    while (conn && conn->qp_num != qp_num)
        conn = conn->next_by_qp_num;
    return conn;
}

void okv_verbs_conn_expel(struct verbs_conn *conn)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    struct verbs_conn **link = bucket_of(ep, conn->qp_num);
    while (*link && *link != conn)
        link = &(*link)->next_by_qp_num;
    if (*link)
        *link = conn->next_by_qp_num;
}

void okv_verbs_conn_fail(struct verbs_conn *conn, int status)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    if (conn->state != VERBS_CONN_OPEN)
        return;
    conn->state = VERBS_CONN_CLOSING;
    conn->close_status = status;
    conn->close_deadline = okv_clock_ns() + VERBS_CLOSE_NS;
    conn->close_times_empty = ep->times_empty;
    LIST_INSERT_HEAD(&ep->closing, conn, in_closing);
    okv_send_slots_unqueue(&conn->sends);

    /* The error state flushes the posted work. The disconnect tells the peer, or answers its
     * disconnect. Either may fail when the peer or the device is gone; the deadline covers that. */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
    rdma_disconnect(conn->id);
    if (ep->armed)
        okv_wakeup_signal(&ep->wakeup);
}

int okv_verbs_set_remote(struct okv_conn *conn, uint64_t address, uint64_t length, uint32_t rkey)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    if (length == 0 || length > UINT64_MAX - address)
        return OKV_EPROTO;
    c->remote_address = address;
    c->remote_rkey = rkey;
    conn->remote_length = length;
    return 0;
}
