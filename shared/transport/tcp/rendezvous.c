#include "shared/transport/tcp/rendezvous.h"

#include <stdlib.h>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/output.h"

struct advert {
    struct okv_advert base;
    struct okv_tcp_conn *conn;
};

/* ---- the client ---- */

static unsigned key_count(const struct okv_tcp_conn *conn)
{
    uint32_t credits = okv_tcp_endpoint_of(conn)->limits.credits;

    return credits < 1u << OKV_TCP_INDEX_BITS ? credits : 1u << OKV_TCP_INDEX_BITS;
}

static int reserve(struct okv_tcp_conn *conn, const void *bytes, size_t length, uint32_t *number)
{
    unsigned count = key_count(conn), i = 0;

    if (!conn->keys)
        conn->keys = calloc(count, sizeof *conn->keys);
    if (!conn->keys)
        return OKV_ENOMEM;
    while (i < count && (conn->keys[i].length > 0 || conn->keys[i].queued > 0))
        i++;
    if (i == count)
        return OKV_EAGAIN;
    struct okv_tcp_key *key = &conn->keys[i];
    key->uses = (uint16_t)(key->uses + 1u) ? (uint16_t)(key->uses + 1u) : 1;
    key->bytes = bytes;
    key->length = (uint32_t)length;
    *number = (uint32_t)key->uses << OKV_TCP_INDEX_BITS | i;
    return 0;
}

int okv_tcp_advertise(struct okv_conn *base, const void *bytes, size_t length,
                      struct okv_advert **out)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    if (!okv_tcp_endpoint_of(conn)->client || length == 0 || length > UINT32_MAX)
        return OKV_EINVAL;
    if (conn->state != OKV_TCP_OPEN)
        return OKV_EDISCONNECTED;
    struct advert *advert = calloc(1, sizeof *advert);
    if (!advert)
        return OKV_ENOMEM;
    advert->conn = conn;
    int rc = reserve(conn, bytes, length, &advert->base.key);
    if (rc) {
        free(advert);
        return rc;
    }
    *out = &advert->base;
    return 0;
}

/* A piece that has not left would have other bytes by then. */
void okv_tcp_withdraw(struct okv_advert *base, bool is_read)
{
    struct advert *advert = (struct advert *)base;

    (void)is_read; /* nothing serves two values */
    if (!advert)
        return;
    struct okv_tcp_key *key = &advert->conn->keys[base->key % (1u << OKV_TCP_INDEX_BITS)];
    key->length = 0;
    if (key->queued > 0)
        okv_tcp_conn_end(advert->conn, OKV_EDISCONNECTED, "a buffer was withdrawn in the middle");
    free(advert);
}

int okv_tcp_answer_fetch(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    uint32_t number = (uint32_t)frame->value, offset = (uint32_t)(frame->value >> 32);
    uint32_t index = number % (1u << OKV_TCP_INDEX_BITS);
    struct okv_tcp_key *key = conn->keys && index < key_count(conn) ? &conn->keys[index] : NULL;
    struct okv_tcp_frame answer = {.kind = OKV_TCP_REFUSAL, .slot = frame->slot};
    const uint8_t *body = NULL;

    if (frame->slot >= OKV_RENDEZVOUS_MAX || frame->length == 0 ||
        frame->length > OKV_TCP_PIECE_MAX)
        return OKV_EPROTO;
    if (key && key->length > 0 && key->uses == number >> OKV_TCP_INDEX_BITS &&
        okv_range_inside(offset, frame->length, key->length)) {
        answer.kind = OKV_TCP_PIECE;
        answer.length = frame->length;
        body = key->bytes + offset;
    }
    if (!okv_tcp_output_add(&conn->output, &answer, body, index))
        return OKV_EPROTO;
    if (body)
        key->queued++;
    return 0;
}

/* ---- the server ---- */

static void report(struct okv_tcp_conn *conn, unsigned slot)
{
    struct okv_event event;

    conn->wanted[slot] = 0;
    okv_rendezvous_report(&conn->rendezvous, slot, &conn->base, &event);
    okv_tcp_queue_event(conn, &event);
    okv_tcp_announce(okv_tcp_endpoint_of(conn));
}

static void fail(struct okv_tcp_conn *conn, unsigned slot)
{
    conn->rendezvous.slots[slot].left = 0;
    conn->rendezvous.slots[slot].status = OKV_ERENDEZVOUS;
    report(conn, slot);
}

/* Asks for the next piece. */
static void fetch(struct okv_tcp_conn *conn, unsigned slot)
{
    const struct okv_rendezvous_read *read = &conn->rendezvous.slots[slot];
    uint32_t length = read->left < OKV_TCP_PIECE_MAX ? read->left : OKV_TCP_PIECE_MAX;

    conn->wanted[slot] = length;
    okv_tcp_conn_add(conn,
                     &(struct okv_tcp_frame){.kind = OKV_TCP_FETCH,
                                             .slot = (uint16_t)slot,
                                             .length = length,
                                             .value = read->key | read->address << 32},
                     NULL, 0);
}

int okv_tcp_rendezvous(struct okv_conn *base, const struct okv_rendezvous *rendezvous)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);

    /* A client's connection has a region of length 0, so this refuses clients too. */
    int rc = okv_rendezvous_check(&conn->rendezvous, rendezvous, conn->region.length,
                                  conn->state == OKV_TCP_OPEN);
    if (rc)
        return rc;
    if (conn->rendezvous.count + conn->queued_rendezvous >= OKV_RENDEZVOUS_MAX)
        return OKV_EAGAIN; /* the event of one that has ended has a place in the queue, too */
    unsigned slot = okv_rendezvous_begin(&conn->rendezvous, rendezvous, conn->region.base);
    if (!okv_range_inside(rendezvous->address, rendezvous->length, UINT32_MAX)) {
        fail(conn, slot);
        return 0;
    }
    fetch(conn, slot);
    if (!conn->output.is_blocked)
        okv_tcp_conn_write(conn);
    return 0;
}

int okv_tcp_begin_piece(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    if (frame->slot >= OKV_RENDEZVOUS_MAX || conn->wanted[frame->slot] == 0 ||
        conn->wanted[frame->slot] != frame->length)
        return OKV_EPROTO;
    conn->input.body = conn->rendezvous.slots[frame->slot].to;
    return 0;
}

int okv_tcp_end_piece(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    struct okv_rendezvous_read *read = &conn->rendezvous.slots[frame->slot];

    okv_rendezvous_advance(read, frame->length);
    conn->base.acknowledged++;
    if (read->left == 0)
        report(conn, frame->slot);
    else
        fetch(conn, frame->slot);
    return 0;
}

int okv_tcp_refused(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    if (frame->slot >= OKV_RENDEZVOUS_MAX || conn->wanted[frame->slot] == 0)
        return OKV_EPROTO;
    fail(conn, frame->slot);
    return 0;
}

bool okv_tcp_end_rendezvous(struct okv_tcp_conn *conn, struct okv_event *events, int max,
                            int *count)
{
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++) {
        if (!conn->rendezvous.slots[i].is_busy)
            continue;
        if (*count == max)
            return false;
        okv_rendezvous_report(&conn->rendezvous, i, &conn->base, &events[(*count)++]);
    }
    return true;
}
