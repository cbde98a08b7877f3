#include "shared/transport/tcp/input.h"

#include <errno.h>
#include <string.h>
#include <sys/uio.h>

#include "shared/base/error.h"
#include "shared/transport/tcp/bare.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/messages.h"
#include "shared/transport/tcp/output.h"
#include "shared/transport/tcp/rendezvous.h"

/* ---- frames ---- */

static bool is_client(const struct okv_tcp_conn *conn)
{
    return okv_tcp_endpoint_of(conn)->client != NULL;
}

/* Takes a receive slot. */
static int begin_message(struct okv_tcp_conn *conn)
{
    struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);
    struct okv_tcp_input *input = &conn->input;

    if (input->frame.length > endpoint->limits.slot_size)
        return OKV_EPROTO;
    if (conn->held == okv_tcp_receive_limit(&endpoint->limits) || endpoint->free_count == 0)
        return is_client(conn) ? OKV_EPROTO : OKV_ECREDIT;
    input->slot = endpoint->free_slots[--endpoint->free_count];
    endpoint->slot_owner[input->slot] = conn;
    conn->held++;
    input->body = endpoint->slots + (size_t)input->slot * endpoint->limits.slot_size;
    return 0;
}

static int end_message(struct okv_tcp_conn *conn)
{
    const struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint_of(conn);
    const struct okv_tcp_input *input = &conn->input;

    okv_tcp_queue_event(
        conn, &(struct okv_event){.type = OKV_EVENT_RECV,
                                  .immediate = (uint32_t)input->frame.value,
                                  .has_immediate = true,
                                  .length = input->frame.length,
                                  .data = endpoint->slots +
                                          (size_t)input->slot * endpoint->limits.slot_size,
                                  .slot = input->slot});
    return 0;
}

/* A frame whose header has come. Sets where its body goes, or does what one without a body asks. */
static int begin_frame(struct okv_tcp_conn *conn)
{
    const struct okv_tcp_frame *frame = &conn->input.frame;

    switch (frame->kind) {
    case OKV_TCP_MESSAGE:
        return begin_message(conn);
    case OKV_TCP_READ:
        return is_client(conn) ? OKV_EPROTO : okv_tcp_answer_read(conn, frame);
    case OKV_TCP_DATA:
        return is_client(conn) ? okv_tcp_begin_data(conn, frame) : OKV_EPROTO;
    case OKV_TCP_FETCH:
        return is_client(conn) ? okv_tcp_answer_fetch(conn, frame) : OKV_EPROTO;
    case OKV_TCP_PIECE:
        return is_client(conn) ? OKV_EPROTO : okv_tcp_begin_piece(conn, frame);
    case OKV_TCP_REFUSAL:
        return is_client(conn) ? OKV_EPROTO : okv_tcp_refused(conn, frame);
    case OKV_TCP_LIFE:
        return 0;
    case OKV_TCP_BARE:
        return is_client(conn) ? OKV_EPROTO : okv_tcp_answer_bare(conn, frame);
    default:
        return OKV_EPROTO;
    }
}

/* A frame whose body has come. */
static int end_frame(struct okv_tcp_conn *conn)
{
    const struct okv_tcp_frame *frame = &conn->input.frame;

    switch (frame->kind) {
    case OKV_TCP_MESSAGE:
        return end_message(conn);
    case OKV_TCP_DATA:
        return okv_tcp_end_data(conn, frame);
    case OKV_TCP_PIECE:
        return okv_tcp_end_piece(conn, frame);
    default:
        return 0;
    }
}

/* ---- bytes ---- */

static int take_header(struct okv_tcp_conn *conn)
{
    struct okv_tcp_input *input = &conn->input;

    input->header_used = 0;
    int rc = okv_tcp_frame_get(input->header, &input->frame);
    if (rc == 0)
        rc = begin_frame(conn);
    if (rc || !okv_tcp_frame_has_body(&input->frame))
        return rc;
    input->left = input->frame.length;
    return input->left == 0 ? end_frame(conn) : 0;
}

/* `length` bytes of the body have come, to where they belong. */
static int take_body(struct okv_tcp_conn *conn, uint32_t length)
{
    struct okv_tcp_input *input = &conn->input;

    input->body += length;
    input->left -= length;
    return input->left == 0 ? end_frame(conn) : 0;
}

static size_t at_most(size_t wanted, size_t there)
{
    return wanted < there ? wanted : there;
}

static int take_bytes(struct okv_tcp_conn *conn, const uint8_t *bytes, size_t count)
{
    struct okv_tcp_input *input = &conn->input;
    int rc = 0;

    while (count > 0 && rc == 0 && conn->state == OKV_TCP_OPEN) {
        size_t use;
        if (input->left > 0) {
            use = at_most(input->left, count);
            memcpy(input->body, bytes, use);
            rc = take_body(conn, (uint32_t)use);
        } else {
            use = at_most(OKV_TCP_HEADER - input->header_used, count);
            memcpy(input->header + input->header_used, bytes, use);
            input->header_used += (unsigned)use;
            if (input->header_used == OKV_TCP_HEADER)
                rc = take_header(conn);
        }
        bytes += use;
        count -= use;
    }
    return rc;
}

/* The rest of a body comes to its place, and what follows it to the scratch. */
static ssize_t receive(struct okv_tcp_conn *conn, size_t *body)
{
    const struct okv_tcp_input *input = &conn->input;
    struct iovec vectors[2] = {{.iov_base = input->body},
                               {.iov_base = okv_tcp_endpoint_of(conn)->scratch}};

    *body = at_most(input->left, OKV_TCP_STEP);
    vectors[0].iov_len = *body;
    vectors[1].iov_len = *body < input->left ? 0 : OKV_TCP_STEP - *body;
    errno = EPROTO; /* TLS has errors of its own */
    if (*body == 0)
        return okv_stream_readv(&conn->stream, &vectors[1], 1);
    return okv_stream_readv(&conn->stream, vectors, vectors[1].iov_len == 0 ? 1 : 2);
}

static void end_by_error(struct okv_tcp_conn *conn, int errnum)
{
    int status = errnum == ETIMEDOUT ? OKV_ETIMEDOUT : OKV_EDISCONNECTED;

    okv_tcp_conn_end(conn, status, strerror(errnum));
}

/* Nothing has come. */
static void look_for_end(struct okv_tcp_conn *conn, ssize_t n)
{
    if (conn->broken)
        end_by_error(conn, conn->broken);
    else if (n < 0)
        end_by_error(conn, errno);
    else if (conn->stream.has_ended)
        okv_tcp_conn_end(conn, OKV_EDISCONNECTED, "");
}

void okv_tcp_input(struct okv_tcp_conn *conn)
{
    size_t body;
    ssize_t n = receive(conn, &body);
    int rc = 0;

    if (n <= 0) {
        look_for_end(conn, n);
        return;
    }
    conn->base.acknowledged++; /* it is alive */
    okv_tcp_endpoint_of(conn)->moved += (uint64_t)n;
    if (body > 0) {
        size_t use = at_most(body, (size_t)n);
        rc = take_body(conn, (uint32_t)use);
        n -= (ssize_t)use;
    }
    if (rc == 0 && n > 0)
        rc = take_bytes(conn, okv_tcp_endpoint_of(conn)->scratch, (size_t)n);
    if (rc) {
        conn->discards = true;
        okv_tcp_conn_end(conn, rc, "a frame is not valid");
    }
    if (conn->stream.has_unread)
        okv_tcp_conn_list_ready(conn, true);
}
