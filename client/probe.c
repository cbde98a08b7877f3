/*
 * The floor under a get: what the transport does without us. READs go to buckets of
 * the index, as those of gets do, and not beyond the end of a segment.
 */
#include "client/handle.h"

#include <sched.h>
#include <stdlib.h>

#include "shared/clock.h"
#include "shared/error.h"

#define PROBE_BUCKETS_MAX 64
/* The index may have shrunk since its status was read. */
#define PROBE_PLACE_ATTEMPTS 64
/* Tells our READs from a late one of an operation that timed out. */
#define PROBE_COOKIE (UINT64_C(1) << 63)

struct probe {
    okv *handle;
    struct okv_memory *memory;
    uint8_t *buffer; /* depth * length bytes */
    uint64_t *latencies_ns;
    uint64_t random;
    uint64_t last_place; /* of a segment: the bucket behind which `length` bytes still fit */
    uint32_t length;
    uint32_t count;
    uint32_t posted;
    uint32_t done;
};

/* xorshift64*: https://doi.org/10.18637/jss.v008.i14 and its multiplicative finish. */
static uint64_t probe_random(struct probe *probe)
{
    probe->random ^= probe->random >> 12;
    probe->random ^= probe->random << 25;
    probe->random ^= probe->random >> 27;
    return probe->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* The offset of a random bucket, or of the last one of its segment that has room behind
 * it. False when the directory has no segments where the index should be. */
static bool probe_place(struct probe *probe, uint64_t *offset)
{
    const okv *handle = probe->handle;
    uint64_t segment_buckets = handle->table.segment_buckets;

    for (int attempt = 0; attempt < PROBE_PLACE_ATTEMPTS; attempt++) {
        uint64_t bucket = probe_random(probe) % handle->bucket_count;
        uint64_t place = bucket % segment_buckets;
        if (place > probe->last_place)
            bucket -= place - probe->last_place;
        if (directory_locate(handle, bucket, offset))
            return true;
    }
    return false;
}

static int probe_post(struct probe *probe, uint32_t slot)
{
    okv *handle = probe->handle;
    uint64_t offset = 0;

    if (!probe_place(probe, &offset))
        return OKV_EPROTO;
    struct okv_read read = {
        .offset = offset,
        .destination = probe->buffer + (size_t)slot * probe->length,
        .memory = probe->memory,
        .length = probe->length,
        .cookie = PROBE_COOKIE | (uint64_t)slot << 32 | probe->posted,
    };

    probe->latencies_ns[probe->posted] = okv_clock_ns();
    int rc = handle->transport->post_read(handle->conn, &read, 1);
    if (rc == 0)
        probe->posted++;
    return rc;
}

/* After a failure `rc` the others of its turn are still the engine's: messages are to be given
 * back. Returns the first failure. */
static int probe_event(struct probe *probe, const struct okv_event *event, int rc)
{
    if (event->type != OKV_EVENT_READ || !(event->cookie & PROBE_COOKIE)) {
        engine_event(probe->handle, event);
        if (!rc && (probe->handle->failure || !link_is_up(probe->handle)))
            rc = OKV_EDISCONNECTED;
        return rc;
    }
    if (rc || event->status)
        return rc ? rc : event->status;
    uint32_t index = (uint32_t)event->cookie;
    uint32_t slot = (uint32_t)((event->cookie & ~PROBE_COOKIE) >> 32);
    probe->latencies_ns[index] = okv_clock_ns() - probe->latencies_ns[index];
    probe->done++;
    return probe->posted < probe->count ? probe_post(probe, slot) : 0;
}

static int probe_run(struct probe *probe, uint32_t depth)
{
    okv *handle = probe->handle;
    uint64_t deadline = okv_clock_ns() + handle->timeout_ns;
    uint32_t idle = 0;
    int rc = 0;

    for (uint32_t slot = 0; slot < depth && probe->posted < probe->count && rc == 0; slot++)
        rc = probe_post(probe, slot);
    /* A READ of an operation that timed out may still take the place of one of ours. */
    if (rc == OKV_EAGAIN && probe->posted > 0)
        rc = 0;
    while (probe->done < probe->count && rc == 0) {
        struct okv_event events[16];
        int n = handle->transport->poll(handle->conn->endpoint, events, 16);
        for (int i = 0; i < n; i++)
            rc = probe_event(probe, &events[i], rc);
        if (n < 0)
            rc = OKV_EIO;
        idle = n == 0 ? idle + 1 : 0;
        if (n > 0)
            deadline = okv_clock_ns() + handle->timeout_ns;
        if (idle % 64 == 63) {
            sched_yield();
            if (okv_clock_ns() > deadline)
                rc = OKV_ETIMEDOUT;
        }
    }
    return rc;
}

static bool length_is_right(const okv *handle, uint32_t length)
{
    const struct okv_welcome_fields *table = &handle->table;

    return length > 0 && length <= table->bucket_size * PROBE_BUCKETS_MAX &&
           length <= (uint64_t)table->bucket_size * table->segment_buckets;
}

int okv_probe(okv *handle, uint32_t length, uint32_t count, uint32_t depth, uint64_t *latencies_ns)
{
    struct probe probe = {
        .handle = handle,
        .latencies_ns = latencies_ns,
        .length = length,
        .count = count,
        .random = okv_clock_ns() | 1,
    };

    if (!handle || !latencies_ns || count == 0 || depth == 0 || depth > handle->depth ||
        !length_is_right(handle, length))
        return OKV_EINVAL;
    if (handle->failure)
        return handle->failure;
    if (handle->active > 0)
        return OKV_EAGAIN;
    engine_catch_up(handle);
    int rc = link_await(handle, okv_clock_ns() + handle->timeout_ns);
    if (rc)
        return rc;
    if (!length_is_right(handle, length)) /* another server may have come */
        return OKV_EINVAL;
    probe.last_place = handle->table.segment_buckets -
                       (length + handle->table.bucket_size - 1) / handle->table.bucket_size;
    if (depth > handle->conn->max_reads)
        depth = handle->conn->max_reads;
    rc = clock_refresh(handle);
    if (rc == 0 || rc == OKV_ECORRUPT)
        rc = directory_read(handle);
    if (rc)
        return rc;

    size_t size = (size_t)depth * length;
    probe.buffer = malloc(size);
    if (!probe.buffer)
        return OKV_ENOMEM;
    rc = handle->transport->memory_register(handle->conn->endpoint, probe.buffer, size,
                                            &probe.memory);
    if (rc)
        goto free_buffer;
    rc = probe_run(&probe, depth);
    /* READs may still be under way into the buffer: closing the connection and
     * deregistering the memory end their right to it. */
    if (rc == OKV_EDISCONNECTED)
        engine_disconnected(handle);
    else if (rc == OKV_EIO)
        link_lost(handle, rc, "the device failed at a raw READ");
    else if (rc && probe.posted > 0)
        link_lost(handle, rc, "a raw READ did not end by its deadline");
    if (rc && handle->failure)
        rc = handle->failure;
    else if (rc == OKV_EIO)
        rc = OKV_EDISCONNECTED;
    handle->transport->memory_unregister(probe.memory);
free_buffer:
    free(probe.buffer);
    return rc;
}
