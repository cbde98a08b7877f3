#include "shared/transport/ofi/post.h"

#include "shared/base/error.h"
#include "shared/transport/ofi/conn.h"
#include "shared/transport/ofi/control.h"
#include "shared/transport/ofi/rendezvous.h"

static void post_failed(struct ofi_conn *conn, ssize_t rc)
{
    okv_ofi_conn_fail(conn, OKV_EDISCONNECTED, fi_strerror((int)-rc));
}

/* ---- messages ---- */

uint8_t *okv_ofi_send_buffer(struct okv_conn *conn)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    if (!okv_send_slots_reserve(&c->sends))
        return NULL;
    return okv_slab_slot(&c->send_slab.memory, c->sends.current) +
           sizeof(struct ofi_message_header);
}

int okv_ofi_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (length > conn->slot_size)
        return OKV_EINVAL;
    if (!c->sends.has_current)
        return OKV_EAGAIN;
    struct ofi_message_header *header =
        (struct ofi_message_header *)okv_slab_slot(&c->send_slab.memory, c->sends.current);
    header->key = okv_le64_of(c->peer_key);
    header->connection = okv_le32_of(c->peer_connection);
    header->immediate = okv_le32_of(immediate);
    c->send_lengths[c->sends.current] = (uint32_t)sizeof *header + length;
    okv_send_slots_queue(&c->sends);
    return 0;
}

/* Where a process serves the peer, a message that fits is copied by the provider and has no
 * completion. Nobody would tell of one that a device did not deliver, so there each has one. */
static ssize_t post_message(struct ofi_conn *conn, unsigned index)
{
    const struct ofi_endpoint *ep = ofi_endpoint_of(conn);
    uint8_t *bytes = okv_slab_slot(&conn->send_slab.memory, index);
    uint32_t length = conn->send_lengths[index];
    ssize_t rc;

    if (!ep->fabric->is_one_sided && length <= ep->fabric->info->tx_attr->inject_size) {
        rc = fi_inject(ep->ep, bytes, length, conn->peer);
        if (rc == 0) {
            okv_send_slots_return(&conn->sends, index);
            conn->base.acknowledged++;
        }
        return rc;
    }
    rc = fi_send(ep->ep, bytes, length, conn->send_slab.region.desc, conn->peer,
                 &conn->send_ops[index].context);
    if (rc == 0)
        ofi_conn_posted(conn);
    return rc;
}

void okv_ofi_flush(struct okv_conn *conn)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    while (c->state == OFI_CONN_OPEN && c->sends.queued > 0) {
        ssize_t rc = post_message(c, okv_send_slots_first(&c->sends));
        if (rc == -FI_EAGAIN) {
            okv_ofi_conn_block(c);
            return;
        }
        if (rc) {
            post_failed(c, rc);
            return;
        }
        okv_send_slots_pop(&c->sends);
    }
}

/* ---- READs ---- */

static ssize_t post_one_read(struct ofi_conn *conn, struct ofi_read *slot)
{
    const struct okv_read *read = &slot->read;

    ssize_t rc = fi_read(ofi_endpoint_of(conn)->ep, read->destination, read->length,
                         read->memory->region.desc, conn->peer, conn->remote_address + read->offset,
                         conn->remote_key, &slot->op.context);
    if (rc == 0)
        ofi_conn_posted(conn);
    return rc;
}

/* Posts those that wait, the first that came first. */
static void post_reads(struct ofi_conn *conn)
{
    while (conn->state == OFI_CONN_OPEN && conn->read_count > 0) {
        ssize_t rc = post_one_read(conn, &conn->read_ops[conn->read_queue[conn->read_first]]);
        if (rc == -FI_EAGAIN) {
            okv_ofi_conn_block(conn);
            return;
        }
        if (rc) {
            post_failed(conn, rc);
            return;
        }
        conn->read_first = (conn->read_first + 1) % OKV_READ_SLOTS;
        conn->read_count--;
    }
}

static void queue_read(struct ofi_conn *conn, const struct okv_read *read)
{
    unsigned index = okv_read_slots_take(&conn->reads, 0, read->cookie);

    conn->read_ops[index].read = *read;
    conn->read_queue[(conn->read_first + conn->read_count++) % OKV_READ_SLOTS] = index;
}

int okv_ofi_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++) {
        if (!okv_read_is_valid(&reads[i], conn->remote_length, reads[i].memory->base,
                               reads[i].memory->length))
            return OKV_EINVAL;
    }
    if (count > OKV_READ_SLOTS - c->reads.busy)
        return OKV_EAGAIN;
    for (unsigned i = 0; i < count; i++)
        queue_read(c, &reads[i]);
    post_reads(c);
    return 0;
}

/* Connects the endpoints, which a fabric does at the first operation, and shows that READs work. */
int okv_ofi_first_read(struct ofi_conn *conn)
{
    ssize_t rc = 0;

    if (conn->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (conn->is_first_done)
        return 0;
    if (!conn->is_first_posted)
        rc = fi_read(ofi_endpoint_of(conn)->ep, conn->send_slab.memory.base, sizeof(uint64_t),
                     conn->send_slab.region.desc, conn->peer, conn->remote_address,
                     conn->remote_key, &conn->first.context);
    if (rc == 0 && !conn->is_first_posted) {
        conn->is_first_posted = true;
        ofi_conn_posted(conn);
    }
    return rc == 0 || rc == -FI_EAGAIN ? OKV_EAGAIN : OKV_EDISCONNECTED;
}

void okv_ofi_retry_blocked(struct ofi_endpoint *endpoint)
{
    struct ofi_conn *conn = LIST_FIRST(&endpoint->blocked), *next;

    LIST_INIT(&endpoint->blocked);
    for (; conn; conn = next) {
        next = LIST_NEXT(conn, in_blocked);
        conn->is_blocked = false;
        okv_ofi_flush(&conn->base);
        post_reads(conn);
        okv_ofi_post_pieces(conn);
    }
}

/* The kernel probes an idle peer's host on the control connection, and knows when it last answered.
 * One that does not answer any more loses its connection to the kernel. */
int okv_ofi_heartbeat(struct okv_conn *conn)
{
    struct ofi_conn *c = (struct ofi_conn *)conn;

    if (c->state != OFI_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (okv_ofi_control_is_alive(c->control))
        conn->acknowledged++;
    return 0;
}
