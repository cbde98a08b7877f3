/* A client's advertised buffers, and the server's rendezvous reads of them. */
#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

struct ofi_advert {
    struct okv_advert base;
    struct ofi_conn *conn;
    struct ofi_region region;
};

int okv_ofi_advertise(struct okv_conn *conn, const void *base, size_t length,
                      struct okv_advert **out)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;
    const struct ofi_endpoint *ep = ofi_endpoint_of(c);

    if (ep->listener || length == 0)
        return OKV_EINVAL;
    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->adverts == ep->limits.credits)
        return OKV_EAGAIN;
    struct ofi_advert *advert = calloc(1, sizeof *advert);
    if (!advert)
        return OKV_ENOMEM;
    int rc = okv_ofi_region_open(ep->fabric, base, length, FI_REMOTE_READ, &advert->region, NULL);
    if (rc == 0 && advert->region.key > UINT32_MAX) {
        okv_ofi_region_close(&advert->region); /* a request has room for 32 bits */
        rc = OKV_EIO;
    }
    if (rc) {
        free(advert);
        return rc;
    }
    advert->conn = c;
    c->adverts++;
    advert->base.address = advert->region.address;
    advert->base.key = (uint32_t)advert->region.key;
    *out = &advert->base;
    return 0;
}

void okv_ofi_withdraw(struct okv_advert *advert)
{
    struct ofi_advert *a = (struct ofi_advert *)advert;

    if (!a)
        return;
    okv_ofi_region_close(&a->region);
    a->conn->adverts--;
    free(a);
}

/* Posts the next piece of a rendezvous read. */
static ssize_t post_piece(struct ofi_conn *conn, unsigned index, unsigned slot)
{
    const struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    struct ofi_rendezvous *rendezvous = &conn->rendezvous[index];
    struct ofi_piece *piece = &conn->pieces[slot];
    uint32_t length =
        rendezvous->left < OFI_RENDEZVOUS_PIECE ? rendezvous->left : OFI_RENDEZVOUS_PIECE;

    uint8_t *to = (uint8_t *)conn->memory->base + rendezvous->offset;
    void *desc = conn->region->desc;
    if (conn->bounce.base) {
        to = conn->bounce.base + slot * conn->bounce.stride;
        desc = conn->bounce.region.desc;
    }
    ssize_t rc = fi_read(ep->ep, to, length, desc, conn->peer, rendezvous->address, rendezvous->key,
                         &piece->op.context);
    if (rc)
        return rc;
    piece->busy = true;
    piece->orphaned = false;
    piece->rendezvous = index;
    piece->length = length;
    piece->offset = rendezvous->offset;
    rendezvous->address += length;
    rendezvous->offset += length;
    rendezvous->left -= length;
    rendezvous->pieces++;
    ofi_conn_posted(conn);
    return 0;
}

static unsigned free_piece(const struct ofi_conn *conn)
{
    unsigned slot = 0;

    while (slot < OFI_RENDEZVOUS_DEPTH && conn->pieces[slot].busy)
        slot++;
    return slot;
}

void okv_ofi_post_pieces(struct ofi_conn *conn)
{
    for (unsigned index = 0; index < OKV_RENDEZVOUS_MAX && conn->rendezvous_count > 0; index++) {
        struct ofi_rendezvous *rendezvous = &conn->rendezvous[index];
        while (rendezvous->busy && rendezvous->left > 0 && rendezvous->status == 0) {
            unsigned slot = free_piece(conn);
            if (conn->state != OFI_CONN_OPEN || slot == OFI_RENDEZVOUS_DEPTH)
                return;
            ssize_t rc = post_piece(conn, index, slot);
            if (rc == -FI_EAGAIN) {
                okv_ofi_block(conn);
                return;
            }
            if (rc)
                okv_ofi_conn_fail(conn, OKV_EDISCONNECTED, fi_strerror((int)-rc));
        }
    }
}

static int prepare_bounce(struct ofi_conn *conn)
{
    const struct ofi_fabric *fabric = ofi_endpoint_of(conn)->fabric;

    if (fabric->is_one_sided || conn->bounce.base)
        return 0;
    return okv_ofi_slab_create(fabric, OFI_RENDEZVOUS_DEPTH, OFI_RENDEZVOUS_PIECE, FI_READ,
                               &conn->bounce, NULL);
}

int okv_ofi_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;
    unsigned index = 0;

    if (!c->memory || rendezvous->length == 0 ||
        !okv_range_inside(rendezvous->offset, rendezvous->length, c->memory->length))
        return OKV_EINVAL;
    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->rendezvous_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
    /* Not OKV_EAGAIN: the caller would wait for the end of a rendezvous read that there is not. */
    int rc = prepare_bounce(c);
    if (rc)
        return rc == OKV_EAGAIN ? OKV_ENOMEM : rc;
    while (c->rendezvous[index].busy)
        index++;
    c->rendezvous_count++;
    c->rendezvous[index] = (struct ofi_rendezvous){
        .busy = true,
        .address = rendezvous->address,
        .key = rendezvous->key,
        .left = rendezvous->length,
        .offset = rendezvous->offset,
        .cookie = rendezvous->cookie,
    };
    okv_ofi_post_pieces(c);
    return 0;
}

static void report(struct ofi_conn *conn, struct ofi_rendezvous *rendezvous,
                   struct okv_event *event)
{
    rendezvous->busy = false;
    conn->rendezvous_count--;
    *event = (struct okv_event){
        .type = OKV_EVENT_RENDEZVOUS_DONE,
        .status = rendezvous->status,
        .conn = &conn->base,
        .cookie = rendezvous->cookie,
    };
}

int okv_ofi_complete_piece(struct ofi_conn *conn, unsigned index, int status,
                           struct okv_event *event)
{
    struct ofi_piece *piece = &conn->pieces[index];
    struct ofi_rendezvous *rendezvous = &conn->rendezvous[piece->rendezvous];

    piece->busy = false;
    if (piece->orphaned)
        return 0;
    if (status == 0 && conn->bounce.base) {
        memcpy((uint8_t *)conn->memory->base + piece->offset,
               conn->bounce.base + index * conn->bounce.stride, piece->length);
        conn->base.endpoint->is_copying = true; /* others follow in the next poll */
    }
    rendezvous->pieces--;
    if (rendezvous->status == 0)
        rendezvous->status = status;
    okv_ofi_post_pieces(conn);
    if (rendezvous->pieces > 0 || (rendezvous->left > 0 && rendezvous->status == 0))
        return 0; /* closing reports one that is not posted to its end */
    report(conn, rendezvous, event);
    return 1;
}

/* The provider may keep them for ever. */
static void orphan_pieces(struct ofi_conn *conn, unsigned rendezvous)
{
    for (unsigned i = 0; i < OFI_RENDEZVOUS_DEPTH; i++) {
        struct ofi_piece *piece = &conn->pieces[i];
        if (piece->busy && piece->rendezvous == rendezvous)
            piece->orphaned = true;
    }
}

bool okv_ofi_end_rendezvous_reads(struct ofi_conn *conn, struct okv_event *events, int max,
                                  int *count)
{
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        struct ofi_rendezvous *rendezvous = &conn->rendezvous[i];
        if (!rendezvous->busy)
            continue;
        if (*count == max || (rendezvous->pieces > 0 && !conn->bounce.base))
            return false;
        orphan_pieces(conn, i);
        if (rendezvous->status == 0)
            rendezvous->status = OKV_EDISCONNECTED;
        report(conn, rendezvous, &events[(*count)++]);
    }
    return true;
}
