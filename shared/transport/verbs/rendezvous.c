/* A client's advertised buffers, and the server's rendezvous reads of them. */
#include <stdlib.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/verbs.h"

/* A multiple of every page size. An address modulo this tells a peer little about our memory
 * layout. */
#define PAGE_MAX (2u << 20)

struct verbs_advert {
    struct okv_advert base;
    struct ibv_mr *mr;
};

int okv_verbs_advertise(struct okv_conn *conn, const void *base, size_t length,
                        struct okv_advert **out)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct verbs_endpoint *ep = (struct verbs_endpoint *)conn->endpoint;

    if (ep->listener || length == 0)
        return OKV_EINVAL;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    struct verbs_advert *advert = calloc(1, sizeof *advert);
    if (!advert)
        return OKV_ENOMEM;
    advert->base.address = (uintptr_t)base % PAGE_MAX;
    int rc = okv_verbs_register(ep->pd, (void *)base, length, IBV_ACCESS_REMOTE_READ,
                                advert->base.address, &advert->mr, NULL);
    if (rc) {
        free(advert);
        return rc;
    }
    advert->base.key = advert->mr->rkey;
    *out = &advert->base;
    return 0;
}

void okv_verbs_withdraw(struct okv_advert *advert)
{
    struct verbs_advert *a = (struct verbs_advert *)advert;
    if (!a)
        return;
    ibv_dereg_mr(a->mr);
    free(a);
}

/* Posts the next piece of a rendezvous read. The region is registered zero-based, so its offset is
 * the local address. */
static int post_piece(struct verbs_conn *conn, unsigned index)
{
    const struct verbs_listener *l = ((struct verbs_endpoint *)conn->base.endpoint)->listener;
    struct verbs_rendezvous *rendezvous = &conn->rendezvous[index];
    uint32_t length =
        rendezvous->left < l->rendezvous_piece ? rendezvous->left : l->rendezvous_piece;
    struct ibv_sge sge = {
        .addr = rendezvous->offset, .length = length, .lkey = conn->share->mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_RENDEZVOUS, index),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = rendezvous->address, .rkey = rendezvous->key},
    };
    struct ibv_send_wr *bad;

    rendezvous->address += length;
    rendezvous->offset += length;
    rendezvous->left -= length;
    rendezvous->pieces++;
    conn->pieces++;
    verbs_conn_posted(conn, 1);
    return ibv_post_send(conn->qp, &wr, &bad);
}

/* Posts pieces, oldest rendezvous read first, as many as the queue pair may have under way. One
 * more would wait in the send queue and hold up the messages behind it. */
static void post_pieces(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->rendezvous_count; i++) {
        unsigned index = (conn->rendezvous_first + i) % OKV_RENDEZVOUS_MAX;
        while (conn->rendezvous[index].left > 0) {
            if (conn->state != VERBS_CONN_OPEN || conn->pieces == conn->rendezvous_depth)
                return;
            /* It is unknown whether the device took it: it counts as under way. */
            if (post_piece(conn, index))
                okv_verbs_conn_fail(conn, OKV_EIO);
        }
    }
}

int okv_verbs_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;

    if (!c->share || rendezvous->length == 0 ||
        !okv_range_inside(rendezvous->offset, rendezvous->length, c->share->mr->length))
        return OKV_EINVAL;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->rendezvous_depth == 0)
        return OKV_EUNSUPPORTED;
    if (c->rendezvous_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    c->rendezvous[(c->rendezvous_first + c->rendezvous_count++) % OKV_RENDEZVOUS_MAX] =
        (struct verbs_rendezvous){
            .address = rendezvous->address,
            .key = rendezvous->key,
            .left = rendezvous->length,
            .offset = rendezvous->offset,
            .cookie = rendezvous->cookie,
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
        return OKV_ERENDEZVOUS;
    default:
        return OKV_EDISCONNECTED;
    }
}

/* Reports and removes the oldest rendezvous read. */
static void report_oldest(struct verbs_conn *conn, struct okv_event *event)
{
    const struct verbs_rendezvous *rendezvous = &conn->rendezvous[conn->rendezvous_first];
    *event = (struct okv_event){
        .type = OKV_EVENT_RENDEZVOUS_DONE,
        .status = rendezvous->status,
        .conn = &conn->base,
        .cookie = rendezvous->cookie,
    };
    conn->rendezvous_first = (conn->rendezvous_first + 1) % OKV_RENDEZVOUS_MAX;
    conn->rendezvous_count--;
}

int okv_verbs_complete_piece(struct verbs_conn *conn, const struct ibv_wc *wc,
                             struct okv_event *event)
{
    unsigned index = (uint32_t)wc->wr_id;
    /* A send queue completes in order, so this is a piece of the oldest rendezvous read. */
    if (index != conn->rendezvous_first || conn->rendezvous_count == 0 ||
        conn->rendezvous[index].pieces == 0)
        return 0;
    struct verbs_rendezvous *rendezvous = &conn->rendezvous[index];
    rendezvous->pieces--;
    conn->pieces--;
    if (rendezvous->status == 0)
        rendezvous->status = piece_status(wc->status);
    post_pieces(conn);
    /* After a failure the rest is not posted; closing reports it. */
    if (rendezvous->left > 0 || rendezvous->pieces > 0)
        return 0;
    report_oldest(conn, event);
    return 1;
}

bool okv_verbs_end_rendezvous_reads(struct verbs_conn *conn, struct okv_event *events, int max,
                                    int *count)
{
    while (conn->rendezvous_count > 0) {
        struct verbs_rendezvous *rendezvous = &conn->rendezvous[conn->rendezvous_first];
        if (*count == max)
            return false;
        if (rendezvous->status == 0)
            rendezvous->status = OKV_EDISCONNECTED;
        conn->pieces -= rendezvous->pieces;
        report_oldest(conn, &events[(*count)++]);
    }
    return true;
}
