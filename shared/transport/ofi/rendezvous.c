#include "shared/transport/ofi/rendezvous.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/fabric.h"

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

void okv_ofi_withdraw(struct okv_advert *advert, bool is_read)
{
    struct ofi_advert *a = (struct ofi_advert *)advert;

    (void)is_read; /* nothing serves two values */
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
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[index];
    struct ofi_piece *piece = &conn->pieces[slot];
    uint32_t length = read->left < OFI_RENDEZVOUS_PIECE ? read->left : OFI_RENDEZVOUS_PIECE;

    uint8_t *to = read->to;
    void *desc = conn->region->desc;
    if (conn->bounce.memory.base) {
        to = okv_slab_slot(&conn->bounce.memory, slot);
        desc = conn->bounce.region.desc;
    }
    ssize_t rc =
        fi_read(ep->ep, to, length, desc, conn->peer, read->address, read->key, &piece->op.context);
    if (rc)
        return rc;
    piece->busy = true;
    piece->orphaned = false;
    piece->rendezvous = index;
    piece->length = length;
    piece->to = read->to;
    okv_rendezvous_advance(read, length);
    read->pieces++;
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
    for (unsigned index = 0; index < OKV_RENDEZVOUS_MAX && conn->rendezvous.count > 0; index++) {
        const struct okv_rendezvous_read *read = &conn->rendezvous.slots[index];
        while (read->is_busy && read->left > 0 && read->status == 0) {
            unsigned slot = free_piece(conn);
            if (conn->state != OFI_CONN_OPEN || slot == OFI_RENDEZVOUS_DEPTH)
                return;
            ssize_t rc = post_piece(conn, index, slot);
            if (rc == -FI_EAGAIN) {
                okv_ofi_conn_block(conn);
                return;
            }
            if (rc)
                okv_ofi_conn_fail(conn, OKV_EDISCONNECTED, fi_strerror((int)-rc));
        }
    }
}

/* Only the region is registered for a device. OKV_EAGAIN: pieces are on their way to it. */
static int prepare_bounce(struct ofi_conn *conn, const void *destination)
{
    const struct ofi_fabric *fabric = ofi_endpoint_of(conn)->fabric;

    if ((fabric->is_one_sided && !destination) || conn->bounce.memory.base)
        return 0;
    if (conn->rendezvous.count > 0)
        return OKV_EAGAIN;
    int rc = okv_ofi_slab_create(fabric, OFI_RENDEZVOUS_DEPTH, OFI_RENDEZVOUS_PIECE, FI_READ,
                                 &conn->bounce, NULL);
    return rc == OKV_EAGAIN ? OKV_ENOMEM : rc; /* nobody waits for an event that never comes */
}

int okv_ofi_rendezvous(struct okv_conn *conn, const struct okv_rendezvous *rendezvous)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;
    uint64_t region_length = c->memory ? c->memory->length : 0; /* a client has none */

    int rc =
        okv_rendezvous_check(&c->rendezvous, rendezvous, region_length, c->state == OFI_CONN_OPEN);
    if (rc)
        return rc;
    rc = prepare_bounce(c, rendezvous->destination);
    if (rc)
        return rc;
    okv_rendezvous_begin(&c->rendezvous, rendezvous, c->memory->base);
    okv_ofi_post_pieces(c);
    return 0;
}

int okv_ofi_complete_piece(struct ofi_conn *conn, unsigned index, int status,
                           struct okv_event *event)
{
    struct ofi_piece *piece = &conn->pieces[index];
    unsigned slot = piece->rendezvous; /* the next piece to be posted may take this one's place */
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[slot];

    piece->busy = false;
    if (piece->orphaned)
        return 0;
    if (status == 0 && conn->bounce.memory.base) {
        memcpy(piece->to, okv_slab_slot(&conn->bounce.memory, index), piece->length);
        conn->base.endpoint->is_copying = true; /* others follow in the next poll */
    }
    read->pieces--;
    if (read->status == 0)
        read->status = status;
    okv_ofi_post_pieces(conn);
    if (read->pieces > 0 || (read->left > 0 && read->status == 0))
        return 0; /* closing reports one that is not posted to its end */
    okv_rendezvous_report(&conn->rendezvous, slot, &conn->base, event);
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
        const struct okv_rendezvous_read *read = &conn->rendezvous.slots[i];
        if (!read->is_busy)
            continue;
        if (*count == max || (read->pieces > 0 && !conn->bounce.memory.base))
            return false;
        orphan_pieces(conn, i);
        okv_rendezvous_report(&conn->rendezvous, i, &conn->base, &events[(*count)++]);
    }
    return true;
}
