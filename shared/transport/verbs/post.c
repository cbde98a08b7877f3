#include "shared/transport/verbs/post.h"

#include <arpa/inet.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/verbs/conn.h"

void okv_verbs_conn_completed(struct verbs_conn *conn, const struct ibv_wc *wc)
{
    if (conn->base.unacknowledged > 0)
        conn->base.unacknowledged--;
    if (wc->status != IBV_WC_SUCCESS)
        return;
    conn->base.acknowledged++;
    verbs_conn_is_ready(conn);
}

/* ---- receives ---- */

const uint8_t *okv_verbs_slot(const struct verbs_conn *conn, unsigned index)
{
    return okv_slab_slot(&conn->slab.memory, conn->sends.count + index);
}

static int post_recv(struct verbs_conn *conn, unsigned index)
{
    struct ibv_sge sge = {
        .addr = (uintptr_t)okv_verbs_slot(conn, index),
        .length = conn->base.slot_size,
        .lkey = conn->slab.mr->lkey,
    };
    struct ibv_recv_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_RECV, index), .sg_list = &sge, .num_sge = 1};
    struct ibv_recv_wr *bad;
    int errnum = ibv_post_recv(conn->qp, &wr, &bad);

    conn->recvs_posted += errnum == 0;
    return errnum;
}

int okv_verbs_post_slots(struct verbs_conn *conn)
{
    int errnum = 0;

    for (unsigned i = 0; errnum == 0 && i < conn->recv_count; i++)
        errnum = post_recv(conn, i);
    return errnum;
}

/* A slot that the device does not take is one less than the credits promise. */
void okv_verbs_post_slot(struct verbs_conn *conn, unsigned index)
{
    if (conn->state == VERBS_CONN_OPEN && post_recv(conn, index))
        okv_verbs_conn_fail(conn, OKV_EIO);
}

void okv_verbs_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    struct verbs_conn *conn = (struct verbs_conn *)event->conn;

    (void)endpoint;
    if (event->slot < conn->recv_count)
        okv_verbs_post_slot(conn, event->slot);
}

/* ---- sends ---- */

uint8_t *okv_verbs_send_buffer(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;

    if (!okv_send_slots_reserve(&c->sends))
        return NULL;
    return okv_slab_slot(&c->slab.memory, c->sends.current);
}

int okv_verbs_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (!c->sends.has_current || length > conn->slot_size)
        return OKV_EINVAL;

    unsigned index = c->sends.current;
    struct verbs_send *send = &c->send_wrs[index];
    send->sge = (struct ibv_sge){
        .addr = (uintptr_t)okv_slab_slot(&c->slab.memory, index),
        .length = length,
        .lkey = c->slab.mr->lkey,
    };
    send->wr = (struct ibv_send_wr){
        .wr_id = verbs_wr_id(VERBS_WORK_SEND, index),
        .sg_list = &send->sge,
        .num_sge = 1,
        .opcode = IBV_WR_SEND_WITH_IMM,
        .send_flags = IBV_SEND_SIGNALED | (length <= c->max_inline ? IBV_SEND_INLINE : 0),
        .imm_data = htonl(immediate),
    };
    okv_send_slots_queue(&c->sends);
    return 0;
}

void okv_verbs_flush(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct ibv_send_wr *first = NULL, **next = &first, *bad;

    if (c->sends.queued == 0)
        return;
    verbs_conn_posted(c, c->sends.queued);
    while (c->sends.queued > 0) {
        *next = &c->send_wrs[okv_send_slots_first(&c->sends)].wr;
        next = &(*next)->next;
        okv_send_slots_pop(&c->sends);
    }
    /* After a failure it is unknown which of them the device took: their buffers stay in use. */
    if (ibv_post_send(c->qp, first, &bad))
        okv_verbs_conn_fail(c, OKV_EIO);
}

/* ---- READs ---- */

static bool is_valid(const struct okv_conn *conn, const struct okv_read *read)
{
    const struct okv_memory *memory = read->memory;

    return memory && &memory->endpoint->base == conn->endpoint &&
           okv_read_is_valid(read, conn->remote_length, memory->base, memory->length);
}

int okv_verbs_post_read(struct okv_conn *conn, const struct okv_read *reads, unsigned count)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    struct ibv_send_wr wr[OKV_READ_SLOTS];
    struct ibv_sge sge[OKV_READ_SLOTS];
    unsigned slot[OKV_READ_SLOTS];

    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    for (unsigned i = 0; i < count; i++)
        if (!is_valid(conn, &reads[i]))
            return OKV_EINVAL;
    if (count > conn->max_reads - c->reads.busy)
        return OKV_EAGAIN;
    if (count == 0)
        return 0;

    for (unsigned i = 0; i < count; i++) {
        const struct okv_read *read = &reads[i];
        slot[i] = okv_read_slots_take(&c->reads, i ? slot[i - 1] + 1 : 0, read->cookie);
        sge[i] = (struct ibv_sge){.addr = (uintptr_t)read->destination,
                                  .length = read->length,
                                  .lkey = read->memory->mr->lkey};
        wr[i] = (struct ibv_send_wr){
            .wr_id = verbs_wr_id(VERBS_WORK_READ, slot[i]),
            .next = i + 1 < count ? &wr[i + 1] : NULL,
            .sg_list = &sge[i],
            .num_sge = 1,
            .opcode = IBV_WR_RDMA_READ,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = c->remote_address + read->offset, .rkey = c->remote_rkey},
        };
    }
    struct ibv_send_wr *bad;
    verbs_conn_posted(c, count);
    if (ibv_post_send(c->qp, wr, &bad) == 0)
        return 0;
    /* The device may have taken some of them, and `bad` does not tell reliably. The connection
     * ends, and completions of these READs make no events. */
    for (unsigned i = 0; i < count; i++)
        c->reads.slots[slot[i]].is_silent = true;
    okv_verbs_conn_fail(c, OKV_EIO);
    return OKV_EDISCONNECTED;
}

/* ---- heartbeats ---- */

/* True when the peer can answer a heartbeat, or has had its time to get ready. */
static bool is_heartbeat_allowed(const struct verbs_conn *conn, bool by_server)
{
    if (!by_server)
        return conn->base.remote_length > 0;
    return conn->base.acknowledged > 0 ||
           atomic_load_explicit(&conn->ready, memory_order_relaxed) ||
           okv_clock_ns() >= conn->heartbeat_from_ns;
}

/* The peer's device answers a heartbeat by itself. A client READs a byte of the region. A server
 * knows no memory of its client, so it WRITEs 0 bytes: a device checks neither address nor key of
 * that (IBTA specification C9-88). A READ of 0 bytes would not do: when it is sent again, rxe of
 * Linux 6.1 checks its key and ends the connection (read_reply() in rxe_resp.c). */
int okv_verbs_heartbeat(struct okv_conn *conn)
{
    struct verbs_conn *c = (struct verbs_conn *)conn;
    bool is_server = ((struct verbs_endpoint *)conn->endpoint)->listener;
    struct ibv_sge sge = {.addr = (uintptr_t)c->slab.spare, .length = 1, .lkey = c->slab.mr->lkey};
    struct ibv_send_wr wr = {
        .wr_id = verbs_wr_id(VERBS_WORK_HEARTBEAT, 0),
        .opcode = IBV_WR_RDMA_WRITE,
        .send_flags = IBV_SEND_SIGNALED,
    };
    struct ibv_send_wr *bad;

    if (c->state != VERBS_CONN_OPEN)
        return OKV_EDISCONNECTED;
    if (c->heartbeat_pending || !is_heartbeat_allowed(c, is_server))
        return 0;
    if (!is_server) {
        wr.opcode = IBV_WR_RDMA_READ;
        wr.sg_list = &sge;
        wr.num_sge = 1;
        wr.wr.rdma.remote_addr = c->remote_address;
        wr.wr.rdma.rkey = c->remote_rkey;
    }
    c->heartbeat_pending = true;
    verbs_conn_posted(c, 1);
    if (ibv_post_send(c->qp, &wr, &bad) == 0)
        return 0;
    okv_verbs_conn_fail(c, OKV_EIO);
    return OKV_EDISCONNECTED;
}
