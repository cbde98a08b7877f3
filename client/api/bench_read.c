/*
 * Measures raw READs, the floor under a get. Each READ begins at a bucket and stays inside its
 * segment. After each poll, one doorbell posts as many READs as ended. A transport that has bare
 * READs performs them itself.
 */
#include <sched.h>
#include <stdlib.h>

#include "client/api/argument_error.h"
#include "client/connection/clock_sync.h"
#include "client/connection/wait.h"
#include "client/engine/progress.h"
#include "client/engine/read_batch.h"
#include "client/engine/read_blocking.h"
#include "client/get/directory.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"

#define BENCH_BUCKETS_MAX 64
#define BENCH_EVENTS 64
/* Polls without a completion between two yields. */
#define BENCH_SPINS 64
/* The index may have shrunk since its status was read. */
#define BENCH_OFFSET_ATTEMPTS 64
/* Distinguishes our READs from a late one of an operation that timed out. */
#define BENCH_COOKIE (UINT64_C(1) << 63)

struct bench {
    okv *handle;
    struct okv_memory *memory;
    uint8_t *buffer;        /* depth * length bytes */
    struct okv_read *reads; /* [depth]: those to post next */
    uint64_t *latencies_ns;
    uint64_t began_ns; /* when the first was posted, */
    uint64_t ended_ns; /* and the latest ended: at first, `began_ns` */
    uint64_t random;
    uint64_t last_start; /* of a segment: the last bucket that `length` bytes fit after */
    uint32_t length;
    uint32_t count;
    uint32_t gathered; /* in `reads` */
    uint32_t posted;
    uint32_t done;
};

/* The offset of a random bucket, or of the last one of its segment that has room after it. False
 * when the directory has no segments where the index should be. */
static bool bench_random_offset(struct bench *bench, uint64_t *offset)
{
    const okv *handle = bench->handle;
    uint64_t segment_buckets = handle->table.segment_buckets;

    for (int attempt = 0; attempt < BENCH_OFFSET_ATTEMPTS; attempt++) {
        uint64_t bucket = okv_random_next(&bench->random) % handle->bucket_count;
        uint64_t start = bucket % segment_buckets;
        if (start > bench->last_start)
            bucket -= start - bench->last_start;
        if (directory_locate(handle, bucket, offset))
            return true;
    }
    return false;
}

/* Adds the next READ, if there is one, into the memory of a slot. */
static int bench_gather(struct bench *bench, uint32_t slot)
{
    uint32_t index = bench->posted + bench->gathered;
    uint64_t offset = 0;

    if (index == bench->count)
        return 0;
    if (!bench_random_offset(bench, &offset))
        return OKV_EPROTO;
    bench->reads[bench->gathered++] = (struct okv_read){
        .offset = offset,
        .destination = bench->buffer + (size_t)slot * bench->length,
        .memory = bench->memory,
        .length = bench->length,
        .cookie = BENCH_COOKIE | (uint64_t)slot << 32 | index,
    };
    return 0;
}

static int bench_post(struct bench *bench)
{
    okv *handle = bench->handle;
    uint32_t count = bench->gathered;

    if (count == 0)
        return 0;
    uint64_t now = okv_clock_ns();
    if (bench->posted == 0)
        bench->began_ns = bench->ended_ns = now;
    for (uint32_t i = 0; i < count; i++)
        bench->latencies_ns[bench->posted + i] = now;
    int rc = handle->transport->post_read(handle->conn, bench->reads, count);
    if (rc)
        return rc;
    bench->posted += count;
    bench->gathered = 0;
    return 0;
}

/* `now` is the time of the poll. After a failure `rc` the engine still handles the remaining
 * events, so that receive buffers are returned. Returns the first failure. */
static int bench_event(struct bench *bench, const struct okv_event *event, uint64_t now, int rc)
{
    if (event->type != OKV_EVENT_READ || !(event->cookie & BENCH_COOKIE)) {
        engine_event(bench->handle, event);
        if (!rc && (bench->handle->failure || !link_is_up(bench->handle)))
            rc = OKV_EDISCONNECTED;
        return rc;
    }
    if (rc || event->status)
        return rc ? rc : event->status;
    uint32_t index = (uint32_t)event->cookie;
    uint32_t slot = (uint32_t)((event->cookie & ~BENCH_COOKIE) >> 32);
    bench->latencies_ns[index] = now - bench->latencies_ns[index];
    bench->ended_ns = now;
    bench->done++;
    return bench_gather(bench, slot);
}

/* Polls once, counts the READs that ended and posts as many. */
static int bench_poll(struct bench *bench)
{
    const okv *handle = bench->handle;
    struct okv_event events[BENCH_EVENTS];
    int n = handle->transport->poll(handle->conn->endpoint, events, BENCH_EVENTS);
    int rc = 0;

    if (n <= 0)
        return n < 0 ? OKV_EIO : 0;
    uint64_t now = okv_clock_ns();
    for (int i = 0; i < n; i++)
        rc = bench_event(bench, &events[i], now, rc);
    return rc ? rc : bench_post(bench);
}

static int bench_run(struct bench *bench, uint32_t depth)
{
    uint32_t spins = 0; /* since one ended */
    int rc = 0;

    for (uint32_t slot = 0; slot < depth && rc == 0; slot++)
        rc = bench_gather(bench, slot);
    if (rc == 0)
        rc = bench_post(bench);
    while (bench->done < bench->count && rc == 0) {
        uint32_t done = bench->done;
        rc = bench_poll(bench);
        spins = bench->done == done ? spins + 1 : 0;
        if (rc || spins % BENCH_SPINS != BENCH_SPINS - 1)
            continue;
        sched_yield();
        if (okv_clock_ns() > bench->ended_ns + bench->handle->timeout_ns)
            rc = OKV_ETIMEDOUT;
    }
    return rc;
}

/* 0, or OKV_EINVAL with its sentence. Another server may have another table. */
static int length_check(okv *handle, uint32_t length)
{
    const struct okv_welcome *table = &handle->table;
    uint64_t buckets =
        table->segment_buckets < BENCH_BUCKETS_MAX ? table->segment_buckets : BENCH_BUCKETS_MAX;

    if (length > 0 && length <= table->bucket_size * buckets)
        return 0;
    return argument_error(handle, OKV_EINVAL, "okv_bench_read", "length: %u is not 1 to %llu",
                          length, (unsigned long long)(table->bucket_size * buckets));
}

static int arguments_check(okv *handle, const struct bench *bench, uint32_t depth)
{
    static const char call[] = "okv_bench_read";

    if (bench->count == 0)
        return argument_error(handle, OKV_EINVAL, call, "count: it is 0");
    if (depth == 0 || depth > handle->depth)
        return argument_error(handle, OKV_EINVAL, call, "depth: %u is not 1 to the handle's, %u",
                              depth, handle->depth);
    return length_check(handle, bench->length);
}

/* Allocates the buffers and runs the benchmark. If READs remain in flight, ends the connection. */
static int bench_all(struct bench *bench, uint32_t depth)
{
    okv *handle = bench->handle;
    size_t size = (size_t)depth * bench->length;
    int rc = OKV_ENOMEM;

    bench->reads = malloc(depth * sizeof *bench->reads);
    if (!bench->reads)
        return rc;
    bench->buffer = malloc(size);
    if (!bench->buffer)
        goto free_reads;
    rc = handle->transport->memory_register(handle->conn->endpoint, bench->buffer, size,
                                            &bench->memory);
    if (rc)
        goto free_buffer;
    rc = bench_run(bench, depth);
    if (rc)
        rc = read_failed(handle, rc, bench->posted > 0);
    handle->transport->memory_unregister(bench->memory);
free_buffer:
    free(bench->buffer);
free_reads:
    free(bench->reads);
    return rc;
}

/* The transport READs beside the connection, so a failure says nothing about the connection. */
static int bench_bare(struct bench *bench, uint32_t depth)
{
    okv *handle = bench->handle;
    uint64_t *offsets = malloc(bench->count * sizeof *offsets);
    struct okv_bare_reads reads = {.offsets = offsets,
                                   .length = bench->length,
                                   .count = bench->count,
                                   .depth = depth,
                                   .timeout_ns = handle->timeout_ns,
                                   .latencies_ns = bench->latencies_ns};
    int rc = offsets ? 0 : OKV_ENOMEM;

    for (uint32_t i = 0; i < bench->count && rc == 0; i++) {
        if (!bench_random_offset(bench, &offsets[i]))
            rc = OKV_EPROTO;
    }
    if (rc == 0)
        rc = handle->transport->bare_read(handle->conn, &reads);
    free(offsets);
    bench->ended_ns = bench->began_ns + reads.total_ns;
    return rc == OKV_EINVAL ? OKV_EPROTO : rc; /* the directory leads outside of the region */
}

static int bench_read(struct bench *bench, uint32_t depth)
{
    okv *handle = bench->handle;
    int rc = arguments_check(handle, bench, depth);

    if (rc)
        return rc;
    argument_error_clear(handle);
    rc = link_await_idle(handle);
    if (rc == 0)
        rc = length_check(handle, bench->length);
    if (rc)
        return rc;
    bench->last_start = handle->table.segment_buckets -
                        (bench->length + handle->table.bucket_size - 1) / handle->table.bucket_size;
    rc = status_read_blocking(handle);
    if (rc == 0 || rc == OKV_ECORRUPT)
        rc = directory_read(handle);
    if (rc)
        return rc;
    /* READs of operations that timed out may still count. */
    unsigned room = reads_room(handle);
    if (room == 0)
        return OKV_EAGAIN;
    depth = depth < room ? depth : room;
    return handle->transport->bare_read ? bench_bare(bench, depth) : bench_all(bench, depth);
}

int okv_bench_read(okv *handle, uint32_t length, uint32_t count, uint32_t depth,
                   uint64_t *latencies_ns, uint64_t *total_ns)
{
    struct bench bench = {
        .handle = handle,
        .latencies_ns = latencies_ns,
        .length = length,
        .count = count,
        .random = okv_clock_ns() | 1,
    };

    if (!handle || !latencies_ns)
        return argument_refuse(handle, __func__, "latencies_ns: it is NULL");
    int rc = call_enter(handle, __func__);
    if (rc)
        return rc;
    rc = bench_read(&bench, depth);
    if (rc == 0 && total_ns)
        *total_ns = bench.ended_ns - bench.began_ns;
    return call_leave(handle, rc);
}
