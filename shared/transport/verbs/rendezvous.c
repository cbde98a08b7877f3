#include "shared/transport/verbs/rendezvous.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/conn.h"
#include "shared/transport/verbs/mr.h"
#include "shared/transport/verbs/stage.h"

struct verbs_advert {
    struct okv_advert base;
    struct ibv_mr *mr;          /* of the caller's memory; NULL where a copy is staged */
    struct verbs_stage *staged; /* else NULL */
};

/* ---- the client's buffers ---- */

/* True if a copy of the value stands in a stage. */
static bool advertise_copy(struct verbs_conn *conn, const void *base, size_t length,
                           struct verbs_advert *advert)
{
    if (length < VERBS_STAGED_MIN || length > VERBS_STAGE_SIZE)
        return false;
    advert->staged = okv_verbs_stage_acquire(conn);
    if (!advert->staged)
        return false;
    const struct verbs_slab *slab = &advert->staged->slab;
    memcpy(slab->memory.base, base, length);
    advert->base.address = okv_verbs_advertised_address(slab->memory.base);
    advert->base.key = slab->mr->rkey;
    return true;
}

static int advertise_in_place(struct verbs_conn *conn, const void *base, size_t length,
                              struct verbs_advert *advert)
{
    advert->base.address = okv_verbs_advertised_address(base);
    int rc = okv_verbs_register(conn->pd, (void *)base, length, IBV_ACCESS_REMOTE_READ,
                                advert->base.address, &advert->mr, NULL);

    if (rc == 0)
        advert->base.key = advert->mr->rkey;
    return rc;
}

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
    int rc = 0;
    if (!advertise_copy(c, base, length, advert))
        rc = advertise_in_place(c, base, length, advert);
    if (rc) {
        free(advert);
        return rc;
    }
    *out = &advert->base;
    return 0;
}

void okv_verbs_withdraw(struct okv_advert *advert, bool is_read)
{
    struct verbs_advert *a = (struct verbs_advert *)advert;
    if (!a)
        return;
    if (a->staged)
        okv_verbs_stage_release(a->staged, is_read);
    else
        ibv_dereg_mr(a->mr);
    free(a);
}

/* ---- the server's READs ---- */

/* Where the next piece goes. The region is registered zero-based, so its offset is the local
 * address. */
static struct ibv_sge target_of(const struct verbs_conn *conn, unsigned index, uint32_t length)
{
    const struct ibv_mr *region = conn->region->mr, *own = conn->destinations[index];
    const uint8_t *to = conn->rendezvous.slots[index].to;
    uint64_t address = own ? (uintptr_t)to : (uint64_t)(to - (const uint8_t *)region->addr);

    return (struct ibv_sge){
        .addr = address, .length = length, .lkey = own ? own->lkey : region->lkey};
}

/* Posts the next piece of a rendezvous read. */
static int post_piece(struct verbs_conn *conn, unsigned index)
{
    const struct verbs_listener *l = ((struct verbs_endpoint *)conn->base.endpoint)->listener;
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[index];
    uint32_t length = read->left < l->rendezvous_piece ? read->left : l->rendezvous_piece;
    struct ibv_sge sge = target_of(conn, index, length);
    struct ibv_send_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_RENDEZVOUS, index),
        .sg_list = &sge,
        .num_sge = 1,
        .opcode = IBV_WR_RDMA_READ,
        .send_flags = IBV_SEND_SIGNALED,
        .wr.rdma = {.remote_addr = read->address, .rkey = read->key},
    };
    struct ibv_send_wr *bad;

    okv_rendezvous_advance(read, length);
    read->pieces++;
    conn->pieces++;
    verbs_conn_posted(conn, 1);
    return ibv_post_send(conn->qp, &wr, &bad);
}

/* Posts pieces, oldest rendezvous read first, as many as the queue pair may have under way. One
 * more would wait in the send queue and hold up the messages after it. */
static void post_pieces(struct verbs_conn *conn)
{
    for (unsigned i = 0; i < conn->rendezvous.count; i++) {
        unsigned index = (conn->rendezvous.first + i) % OKV_RENDEZVOUS_MAX;
        while (conn->rendezvous.slots[index].left > 0) {
            if (conn->state != VERBS_CONN_OPEN || conn->pieces == conn->rendezvous_depth)
                return;
            /* It is unknown whether the device took it: it counts as under way. */
            if (post_piece(conn, index))
                okv_verbs_conn_fail(conn, OKV_EIO);
        }
    }
}

static void report_oldest(struct verbs_conn *conn, struct okv_event *event)
{
    struct ibv_mr **destination = &conn->destinations[conn->rendezvous.first];

    if (*destination)
        ibv_dereg_mr(*destination);
    *destination = NULL;
    okv_rendezvous_report_oldest(&conn->rendezvous, &conn->base, event);
}

int okv_verbs_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct ibv_mr *destination = NULL;

    uint64_t region_length = c->region ? c->region->mr->length : 0; /* a client has none */

    int rc = okv_rendezvous_check(&c->rendezvous, rendezvous, region_length,
                                  c->state == VERBS_CONN_OPEN);
    if (rc == 0 && c->rendezvous_depth == 0)
        rc = OKV_EUNSUPPORTED;
    if (rc == 0 && rendezvous->destination)
        rc = okv_verbs_register(c->pd, rendezvous->destination, rendezvous->length,
                                VERBS_WRITTEN_HERE, (uintptr_t)rendezvous->destination,
                                &destination, NULL);
    if (rc)
        return rc;
    c->destinations[okv_rendezvous_begin(&c->rendezvous, rendezvous, c->region->mr->addr)] =
        destination;
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

int okv_verbs_complete_piece(struct verbs_conn *conn, const struct ibv_wc *wc,
                             struct okv_event *event)
{
    unsigned index = (uint32_t)wc->wr_id;
    /* A send queue completes in order, so this is a piece of the oldest rendezvous read. */
    if (index != conn->rendezvous.first || conn->rendezvous.count == 0 ||
        conn->rendezvous.slots[index].pieces == 0)
        return 0;
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[index];
    read->pieces--;
    conn->pieces--;
    if (read->status == 0)
        read->status = piece_status(wc->status);
    post_pieces(conn);
    /* After a failure the rest is not posted; closing reports it. */
    if (read->left > 0 || read->pieces > 0)
        return 0;
    report_oldest(conn, event);
    return 1;
}

bool okv_verbs_end_rendezvous_reads(struct verbs_conn *conn, struct okv_event *events, int max,
                                    int *count)
{
    while (conn->rendezvous.count > 0 && *count < max)
        report_oldest(conn, &events[(*count)++]);
    return conn->rendezvous.count == 0;
}
