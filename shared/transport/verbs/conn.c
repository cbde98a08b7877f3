/* Life and death of one connection. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

static int make_send_buffers(struct verbs_conn *conn, struct okv_diag *diag)
{
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->base.endpoint;
    int rc;

    conn->send_count = ep->limits.credits + 1;
    conn->send_free = calloc(conn->send_count, sizeof *conn->send_free);
    if (!conn->send_free)
        return okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
    conn->sends = calloc(conn->send_count, sizeof *conn->sends);
    if (!conn->sends) {
        rc = okv_diag_set(diag, OKV_ENOMEM, "no memory for a connection");
        goto free_free_list;
    }
    for (unsigned i = 0; i < conn->send_count; i++)
        conn->send_free[conn->send_free_count++] = conn->send_count - 1 - i;
    rc = okv_verbs_slab_create(ep->pd, conn->send_count, ep->limits.slot_size, &conn->send_slab,
                               diag);
    if (rc)
        goto free_sends;
    return 0;

free_sends:
    free(conn->sends);
free_free_list:
    free(conn->send_free);
    return rc;
}

static void destroy_send_buffers(struct verbs_conn *conn)
{
    okv_verbs_slab_destroy(&conn->send_slab);
    free(conn->sends);
    free(conn->send_free);
}

int okv_verbs_conn_new(struct verbs_endpoint *endpoint, struct verbs_conn **out,
                       struct okv_diag *diag)
{
    int rc;
    if (atomic_fetch_add(&endpoint->conns, 1) >= endpoint->max_conns) {
        rc = okv_diag_set(diag, OKV_EAGAIN, "the endpoint is full: %u connections",
                          endpoint->max_conns);
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
    rc = make_send_buffers(conn, diag);
    if (rc)
        goto free_conn;
    rc = okv_verbs_qp_create(conn, diag);
    if (rc)
        goto destroy_send_buffers;
    *out = conn;
    return 0;

destroy_send_buffers:
    destroy_send_buffers(conn);
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
    destroy_send_buffers(conn);
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

/* From here on completions of the connection belong to nobody and are dropped. */
static void expel(struct verbs_conn *conn)
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
    conn->next_closing = ep->closing;
    ep->closing = conn;
    okv_verbs_unqueue(conn);

    /* The error state flushes what is posted; the disconnect tells the peer, or
     * answers its own. Either may fail when the other side or the device is gone
     * already: the deadline covers that. */
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    ibv_modify_qp(conn->qp, &attr, IBV_QP_STATE);
    rdma_disconnect(conn->id);
    if (ep->armed)
        okv_verbs_wake(&ep->base);
}

void okv_verbs_conn_close(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    c->deaf = true;
    okv_verbs_conn_fail(c, OKV_EDISCONNECTED);
}

/* READs that the device never completed end here. True when none is left. */
static bool give_up_reads(struct verbs_conn *conn, struct okv_event *events, int max, int *count)
{
    for (unsigned i = 0; i < VERBS_MAX_READS; i++) {
        struct verbs_read_slot *slot = &conn->reads[i];
        if (!slot->busy)
            continue;
        if (!slot->silent) {
            if (*count == max)
                return false;
            events[(*count)++] = (struct okv_event){.type = OKV_EVENT_READ,
                                                    .status = OKV_EDISCONNECTED,
                                                    .conn = &conn->base,
                                                    .cookie = slot->cookie};
        }
        slot->busy = false;
    }
    return true;
}

/* A connection is over when the device has returned all its work and the queue
 * was seen empty after it entered the error state, so that the last messages of
 * the peer were delivered; or when that takes too long. */
static bool is_over(const struct verbs_endpoint *ep, const struct verbs_conn *conn)
{
    if (conn->base.unacknowledged == 0 && ep->times_empty > conn->close_times_empty)
        return true;
    return okv_clock_ns() >= conn->close_deadline;
}

/* Work that the device did not return in time may still touch memory; without its
 * queue pair it cannot. */
static void revoke_work(struct verbs_conn *conn)
{
    if (conn->base.unacknowledged > 0 && conn->qp) {
        ibv_destroy_qp(conn->qp);
        conn->qp = NULL;
    }
    conn->base.unacknowledged = 0;
}

int okv_verbs_conn_finish(struct verbs_endpoint *endpoint, struct okv_event *events, int max)
{
    int count = 0;
    struct verbs_conn **link = &endpoint->closing;
    while (*link && count < max) {
        struct verbs_conn *conn = *link;
        if (!is_over(endpoint, conn)) {
            link = &conn->next_closing;
            continue;
        }
        revoke_work(conn);
        if (!give_up_reads(conn, events, max, &count) ||
            !okv_verbs_give_up_rendezvous_reads(conn, events, max, &count) || count == max)
            break;
        *link = conn->next_closing;
        expel(conn);
        conn->state = VERBS_CONN_CLOSED;
        events[count++] = (struct okv_event){
            .type = OKV_EVENT_CLOSED, .status = conn->close_status, .conn = &conn->base};
    }
    return count;
}

static void unlink_closing(struct verbs_endpoint *ep, struct verbs_conn *conn)
{
    struct verbs_conn **link = &ep->closing;
    while (*link && *link != conn)
        link = &(*link)->next_closing;
    if (*link)
        *link = conn->next_closing;
}

static void unlink_announce(struct verbs_endpoint *ep, struct verbs_conn *conn)
{
    struct verbs_conn **link = &ep->announce;
    while (*link && *link != conn)
        link = &(*link)->next_opened;
    if (!*link)
        return;
    *link = conn->next_opened;
    if (!*link)
        ep->announce_tail = link;
}

void okv_verbs_conn_destroy(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    if (!c)
        return;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->endpoint;
    bool is_client = ep->cm != NULL;

    okv_verbs_conn_fail(c, OKV_EDISCONNECTED); /* a disconnect first, if nobody closed it */
    unlink_closing(ep, c);
    unlink_announce(ep, c);
    expel(c);
    rdma_destroy_id(c->id); /* waits for the listener's thread, see transport_verbs.h */
    okv_verbs_forget(c);
    okv_verbs_conn_free(c);
    if (is_client)
        okv_verbs_endpoint_destroy(&ep->base);
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
