/* Exposures of a client, and the server's pulls out of them. */
#include <stdlib.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

/* A multiple of every size of page. What is left of an address tells a peer little
 * about where things are in our memory. */
#define PAGE_MAX (2u << 20)

struct verbs_exposure {
    struct okv_exposure base;
    struct ibv_mr *mr;
};

int okv_verbs_expose(struct okv_conn *conn, const void *base, size_t length,
                     struct okv_exposure **out)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->endpoint;

    if (ep->listener || length == 0)
        return OKV_EINVAL;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    struct verbs_exposure *exposure = calloc(1, sizeof *exposure);
    if (!exposure)
        return OKV_ENOMEM;
    exposure->base.address = (uintptr_t)base % PAGE_MAX;
    int rc = okv_verbs_register(ep->pd, (void *)base, length, IBV_ACCESS_REMOTE_READ,
                                exposure->base.address, &exposure->mr, NULL);
    if (rc) {
        free(exposure);
        return rc;
    }
    exposure->base.key = exposure->mr->rkey;
    *out = &exposure->base;
    return 0;
}

void okv_verbs_unexpose(struct okv_exposure *exposure)
{
    struct verbs_exposure *e = (struct verbs_exposure *)exposure;
    if (!e)
        return;
    ibv_dereg_mr(e->mr);
    free(e);
}

/* Posts the next piece of a pull. Its numbers name the place in the region, which
 * is registered zero-based. */
static int post_piece(struct verbs_conn *conn, unsigned index)
{
    const struct verbs_listener *l = ((struct verbs_endpoint *)conn->base.endpoint)->listener;
    struct verbs_pull *pull = &conn->pulls[index];
    uint32_t length = pull->left < l->pull_piece ? pull->left : l->pull_piece;
    struct ibv_sge sge = {.addr = pull->offset, .length = length, .lkey = l->region->lkey};
    struct ibv_send_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_PULL, index),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = pull->address, .rkey = pull->key},
    };
    struct ibv_send_wr *bad;

    pull->address += length;
    pull->offset += length;
    pull->left -= length;
    pull->pieces++;
    conn->pieces++;
    verbs_conn_posted(conn, 1);
    return ibv_post_send(conn->qp, &wr, &bad);
}

/* Posts pieces, those of the oldest pull first, as many as the queue pair may have
 * under way: one more would wait in the send queue, and hold up the messages behind it. */
static void post_pieces(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->pull_count; i++) {
        unsigned index = (conn->pull_first + i) % OKV_PULLS_MAX;
        while (conn->pulls[index].left > 0) {
            if (conn->state != VERBS_CONN_OPEN || conn->pieces == conn->pull_depth)
                return;
            /* Whether the device took it is unknown: it counts as under way. */
            if (post_piece(conn, index))
                okv_verbs_conn_fail(conn, OKV_EIO);
        }
    }
}

int okv_verbs_pull(struct okv_conn *conn, const struct okv_pull *pull)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    const struct verbs_listener *l = ((struct verbs_endpoint *)conn->endpoint)->listener;

    if (!l || pull->length == 0 || !okv_range_inside(pull->offset, pull->length, l->region->length))
        return OKV_EINVAL;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->pull_depth == 0)
        return OKV_EUNSUPPORTED;
    if (c->pull_count == OKV_PULLS_MAX)
        return OKV_EAGAIN;
    c->pulls[(c->pull_first + c->pull_count++) % OKV_PULLS_MAX] = (struct verbs_pull){
        .address = pull->address,
        .key = pull->key,
        .left = pull->length,
        .offset = pull->offset,
        .cookie = pull->cookie,
    };
    post_pieces(c);
    return 0;
}

static int piece_status(enum ibv_wc_status status)
{
    switch (status) {
    case IBV_WC_SUCCESS:
        return 0;
    case IBV_WC_REM_ACCESS_ERR:
    case IBV_WC_REM_INV_REQ_ERR:
    case IBV_WC_REM_OP_ERR:
        return OKV_EPULL;
    default:
        return OKV_EDISCONNECTED;
    }
}

/* The oldest pull has ended. */
static void take_pull(struct verbs_conn *conn, struct okv_event *event)
{
    const struct verbs_pull *pull = &conn->pulls[conn->pull_first];
    *event = (struct okv_event){
        .type = OKV_EVENT_PULLED,
        .status = pull->status,
        .conn = &conn->base,
        .cookie = pull->cookie,
    };
    conn->pull_first = (conn->pull_first + 1) % OKV_PULLS_MAX;
    conn->pull_count--;
}

int okv_verbs_complete_piece(struct verbs_conn *conn, const struct ibv_wc *wc,
                             struct okv_event *event)
{
    unsigned index = (uint32_t)wc->wr_id;
    /* A send queue completes in order, so this is a piece of the oldest pull. */
    if (index != conn->pull_first || conn->pull_count == 0 || conn->pulls[index].pieces == 0)
        return 0;
    struct verbs_pull *pull = &conn->pulls[index];
    pull->pieces--;
    conn->pieces--;
    if (pull->status == 0)
        pull->status = piece_status(wc->status);
    post_pieces(conn);
    /* What is left when the connection has failed ends with it. */
    if (pull->left > 0 || pull->pieces > 0)
        return 0;
    take_pull(conn, event);
    return 1;
}

bool okv_verbs_give_up_pulls(struct verbs_conn *conn, struct okv_event *events, int max, int *count)
{
    while (conn->pull_count > 0) {
        struct verbs_pull *pull = &conn->pulls[conn->pull_first];
        if (*count == max)
            return false;
        if (pull->status == 0)
            pull->status = OKV_EDISCONNECTED;
        conn->pieces -= pull->pieces;
        take_pull(conn, &events[(*count)++]);
    }
    return true;
}
