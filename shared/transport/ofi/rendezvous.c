/* A client's advertised buffers, and the server's rendezvous reads of them. */
#include <stdlib.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/ofi.h"

struct ofi_advert {
    struct okv_advert base;
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

    ssize_t rc = fi_read(ep->ep, (uint8_t *)ep->listener->memory.base + rendezvous->offset, length,
                         ep->listener->region.desc, conn->peer, rendezvous->address,
                         rendezvous->key, &piece->op.context);
    if (rc)
        return rc;
    piece->busy = true;
    piece->rendezvous = index;
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

int okv_ofi_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;
    const struct ofi_listener *listener = ofi_endpoint_of(c)->listener;
    unsigned index = 0;

    if (!listener || rendezvous->length == 0 ||
        !okv_range_inside(rendezvous->offset, rendezvous->length, listener->memory.length))
        return OKV_EINVAL;
    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->rendezvous_count == OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN;
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
    struct ofi_rendezvous *rendezvous = &conn->rendezvous[conn->pieces[index].rendezvous];

    conn->pieces[index].busy = false;
    rendezvous->pieces--;
    if (rendezvous->status == 0)
        rendezvous->status = status;
    okv_ofi_post_pieces(conn);
    if (rendezvous->pieces > 0 || (rendezvous->left > 0 && rendezvous->status == 0))
        return 0; /* closing reports one that is not posted to its end */
    report(conn, rendezvous, event);
    return 1;
}

bool okv_ofi_end_rendezvous_reads(struct ofi_conn *conn, struct okv_event *events, int max,
                                  int *count)
{
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        struct ofi_rendezvous *rendezvous = &conn->rendezvous[i];
        if (!rendezvous->busy)
            continue;
        if (*count == max || rendezvous->pieces > 0)
            return false;
        if (rendezvous->status == 0)
            rendezvous->status = OKV_EDISCONNECTED;
        report(conn, rendezvous, &events[(*count)++]);
    }
    return true;
}
