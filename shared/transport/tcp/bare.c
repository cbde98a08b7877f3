#include "shared/transport/tcp/bare.h"

#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/transport/tcp/conn.h"
#include "shared/transport/tcp/messages.h"

/* Reads that find nothing between two yields. */
#define SPINS 64

/* One call. */
struct run {
    struct okv_tcp_conn *conn;
    struct okv_bare_reads *reads;
    uint32_t posted, done;
    uint64_t began_ns, ended_ns; /* when the first was posted; when the latest ended */
    uint8_t header[OKV_TCP_HEADER];
    unsigned header_used;
    uint32_t left; /* of the body that is being received */
};

/* Sends one frame for each exchange that is not under way yet, up to the depth. The socket buffer
 * holds nothing else and has room for them. */
static int post(struct run *run)
{
    uint8_t frames[OKV_READ_SLOTS * OKV_TCP_HEADER];
    struct okv_bare_reads *reads = run->reads;
    uint64_t now = okv_clock_ns();
    size_t length = 0;

    while (run->posted < reads->count && run->posted - run->done < reads->depth) {
        okv_tcp_frame_put(frames + length,
                          &(struct okv_tcp_frame){.kind = OKV_TCP_BARE,
                                                  .slot = (uint16_t)(run->posted % OKV_READ_SLOTS),
                                                  .length = reads->length});
        length += OKV_TCP_HEADER;
        reads->latencies_ns[run->posted++] = now;
    }
    if (length == 0)
        return 0;
    ssize_t n = okv_stream_write(&run->conn->stream, frames, length);
    return n == (ssize_t)length ? 0 : OKV_EDISCONNECTED;
}

static int take_header(struct run *run)
{
    struct okv_tcp_frame frame;

    run->header_used = 0;
    if (okv_tcp_frame_get(run->header, &frame))
        return OKV_EPROTO;
    if (frame.kind == OKV_TCP_LIFE)
        return 0;
    if (frame.kind != OKV_TCP_DATA || frame.length != run->reads->length ||
        run->done == run->posted)
        return OKV_EDISCONNECTED;
    run->left = frame.length;
    return 0;
}

static void take_body(struct run *run, size_t length)
{
    uint64_t *latency = &run->reads->latencies_ns[run->done];

    run->left -= (uint32_t)length;
    if (run->left > 0)
        return;
    *latency = run->ended_ns - *latency;
    run->done++;
}

static int take(struct run *run, const uint8_t *bytes, size_t count)
{
    int rc = 0;

    while (count > 0 && rc == 0) {
        size_t wanted = run->left > 0 ? run->left : OKV_TCP_HEADER - run->header_used;
        size_t use = wanted < count ? wanted : count;
        if (run->left > 0) {
            take_body(run, use);
        } else {
            memcpy(run->header + run->header_used, bytes, use);
            run->header_used += (unsigned)use;
            if (run->header_used == OKV_TCP_HEADER)
                rc = take_header(run);
        }
        bytes += use;
        count -= use;
    }
    return rc;
}

/* Takes what has come, and posts as many. Returns whether something has, or a code. */
static int step(struct run *run)
{
    struct okv_stream *stream = &run->conn->stream;
    uint8_t *scratch = okv_tcp_endpoint_of(run->conn)->scratch;
    ssize_t n = okv_stream_read(stream, scratch, OKV_TCP_STEP);

    if (n < 0 || (n == 0 && stream->has_ended))
        return OKV_EDISCONNECTED;
    if (n == 0)
        return 0;
    run->ended_ns = okv_clock_ns();
    int rc = take(run, scratch, (size_t)n);
    if (rc == 0)
        rc = post(run);
    return rc ? rc : 1;
}

static int exchange(struct run *run)
{
    unsigned spins = 0;

    run->began_ns = run->ended_ns = okv_clock_ns();
    int rc = post(run);
    while (run->done < run->reads->count && rc >= 0) {
        rc = step(run);
        if (rc != 0 || ++spins % SPINS != 0)
            continue;
        sched_yield();
        if (okv_clock_ns() - run->ended_ns > run->reads->timeout_ns)
            rc = OKV_ETIMEDOUT;
    }
    return rc < 0 ? rc : 0;
}

int okv_tcp_bare_read(struct okv_conn *base, struct okv_bare_reads *reads)
{
    struct okv_tcp_conn *conn = okv_tcp_conn(base);
    struct run run = {.conn = conn, .reads = reads};

    if (conn->state != OKV_TCP_OPEN)
        return OKV_EDISCONNECTED;
    if (reads->length == 0 || reads->length > OKV_TCP_BARE_MAX || reads->depth == 0)
        return OKV_EINVAL;
    if (conn->output.count > 0 || conn->reads.busy > 0 || conn->input.left > 0 ||
        conn->input.header_used > 0)
        return OKV_EAGAIN;
    reads->depth = reads->depth < OKV_READ_SLOTS ? reads->depth : OKV_READ_SLOTS;
    int rc = exchange(&run);
    reads->total_ns = run.ended_ns - run.began_ns;
    /* The rest of it would not be understood. */
    if (rc || run.header_used > 0 || run.left > 0)
        okv_tcp_conn_end(conn, OKV_EDISCONNECTED, "a bare exchange failed");
    return rc;
}

/* The kernel's page of zeros, many times. */
static const uint8_t *zeros_of(struct okv_tcp_endpoint *endpoint)
{
    if (endpoint->zeros)
        return endpoint->zeros;
    void *zeros =
        mmap(NULL, OKV_TCP_BARE_MAX, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    endpoint->zeros = zeros == MAP_FAILED ? NULL : zeros;
    return endpoint->zeros;
}

int okv_tcp_answer_bare(struct okv_tcp_conn *conn, const struct okv_tcp_frame *frame)
{
    const uint8_t *zeros =
        frame->length <= OKV_TCP_BARE_MAX ? zeros_of(okv_tcp_endpoint_of(conn)) : NULL;

    return zeros ? okv_tcp_answer(conn, frame, zeros) : OKV_EPROTO;
}
