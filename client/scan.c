/*
 * Visiting every item, one-sided: the index is read in large chunks, and each
 * bucket is taken whole (all its parts with one version, all its extents)
 * before any of its items is shown. What was torn is read again on its own.
 */
#include "client/handle.h"

#include <stdlib.h>
#include <string.h>

#include "shared/error.h"

#define SCAN_CHUNK 65536
#define SCAN_ATTEMPTS 1000

/* One bucket, taken whole. */
struct scan {
    okv *handle;
    uint8_t *buffer; /* chunk, then one part, then one extent */
    struct okv_memory *memory;
    uint8_t *part;
    uint8_t *extent;

    uint8_t *images; /* OKV_BUCKET_PARTS_MAX parts */
    unsigned parts;
    uint8_t *extents; /* of its references, one after the other */
    size_t extents_size;
    size_t extents_room;
};

static int extents_append(struct scan *scan, const uint8_t *bytes, uint32_t length)
{
    if (scan->extents_room - scan->extents_size < length) {
        size_t room = scan->extents_room * 2 + length;
        uint8_t *larger = realloc(scan->extents, room);
        if (!larger)
            return OKV_ENOMEM;
        scan->extents = larger;
        scan->extents_room = room;
    }
    memcpy(scan->extents + scan->extents_size, bytes, length);
    scan->extents_size += length;
    return 0;
}

static int scan_read(struct scan *scan, uint64_t offset, uint8_t *destination, uint32_t length)
{
    okv *handle = scan->handle;
    int rc = raw_read(handle, offset, destination, scan->memory, length);

    if (rc == OKV_EINVAL)
        return OKV_EPROTO; /* the table led out of the region */
    if (rc == 0) {
        handle->counters.reads++;
        handle->counters.read_bytes += length;
    }
    return rc;
}

static uint8_t *scan_image(const struct scan *scan, unsigned part)
{
    return scan->images + (size_t)part * scan->handle->table.bucket_size;
}

/* Takes part 0 from `image` and reads the rest of the chain. OKV_ECORRUPT: torn. */
static int take_parts(struct scan *scan, uint64_t bucket, const uint8_t *image)
{
    const struct okv_welcome_fields *table = &scan->handle->table;

    memcpy(scan_image(scan, 0), image, table->bucket_size);
    for (scan->parts = 0;;) {
        const uint8_t *taken = scan_image(scan, scan->parts);
        if (okv_bucket_check(taken, table->bucket_size, table->boot_id, bucket, scan->parts) ||
            okv_bucket_version(taken) != okv_bucket_version(scan->images))
            return OKV_ECORRUPT;
        scan->parts++;
        uint64_t chain = okv_bucket_chain(taken);
        if (chain == 0)
            return 0;
        if (scan->parts == OKV_BUCKET_PARTS_MAX)
            return OKV_EPROTO;
        int rc = scan_read(scan, chain, scan->part, table->bucket_size);
        if (rc)
            return rc;
        memcpy(scan_image(scan, scan->parts), scan->part, table->bucket_size);
    }
}

static int take_extent(struct scan *scan, const struct okv_entry *reference)
{
    const okv *handle = scan->handle;
    uint64_t length = (uint64_t)reference->key_length + reference->value_length;

    if (length > handle->extent_max)
        return OKV_EPROTO;
    int rc = scan_read(scan, reference->extent, scan->extent, (uint32_t)length);
    if (rc)
        return rc;
    if (okv_extent_checksum(scan->extent, (uint32_t)length, handle->table.boot_id) !=
        reference->checksum)
        return OKV_ECORRUPT;
    return extents_append(scan, scan->extent, (uint32_t)length);
}

static int take_extents(struct scan *scan)
{
    scan->extents_size = 0;
    for (unsigned part = 0; part < scan->parts; part++) {
        struct okv_entry entry;
        uint32_t position = 0;
        int rc;
        while ((rc = okv_bucket_next(scan_image(scan, part), &position, &entry)) == 1) {
            if (entry.is_reference)
                rc = take_extent(scan, &entry);
            if (rc < 0)
                return rc;
        }
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* Takes a bucket whole, beginning with the image of it that came with the chunk. */
static int take_bucket(struct scan *scan, uint64_t bucket, const uint8_t *image)
{
    const struct okv_welcome_fields *table = &scan->handle->table;
    int rc = OKV_ECORRUPT;

    for (int attempt = 0; attempt < SCAN_ATTEMPTS; attempt++) {
        rc = take_parts(scan, bucket, image);
        if (rc == 0)
            rc = take_extents(scan);
        if (rc != OKV_ECORRUPT)
            return rc;
        rc = scan_read(scan, table->index_offset + bucket * table->bucket_size, scan->part,
                       table->bucket_size);
        if (rc)
            return rc;
        image = scan->part;
    }
    return OKV_ECORRUPT;
}

static int show_bucket(const struct scan *scan, okv_visit *visit, void *user)
{
    const uint8_t *extent = scan->extents;

    for (unsigned part = 0; part < scan->parts; part++) {
        struct okv_entry entry;
        uint32_t position = 0;
        while (okv_bucket_next(scan_image(scan, part), &position, &entry) == 1) {
            if (entry.is_reference) {
                entry.key = extent;
                entry.value = extent + entry.key_length;
                extent = entry.value + entry.value_length;
            }
            int rc = visit(user, entry.key, entry.key_length, entry.value, entry.value_length,
                           entry.version);
            if (rc)
                return rc;
        }
    }
    return 0;
}

static int scan_chunks(struct scan *scan, okv_visit *visit, void *user)
{
    const okv *handle = scan->handle;
    uint32_t bucket_size = handle->table.bucket_size;
    uint64_t per_chunk = SCAN_CHUNK / bucket_size;

    for (uint64_t first = 0; first < handle->bucket_count; first += per_chunk) {
        uint64_t left = handle->bucket_count - first;
        uint64_t count = left < per_chunk ? left : per_chunk;
        int rc = scan_read(scan, handle->table.index_offset + first * bucket_size, scan->buffer,
                           (uint32_t)count * bucket_size);
        for (uint64_t i = 0; i < count && rc == 0; i++) {
            rc = take_bucket(scan, first + i, scan->buffer + i * bucket_size);
            if (rc == 0)
                rc = show_bucket(scan, visit, user);
        }
        if (rc)
            return rc;
    }
    return 0;
}

int okv_scan(okv *handle, okv_visit *visit, void *user)
{
    struct scan scan = {.handle = handle};

    if (!handle || !visit)
        return OKV_EINVAL;
    if (handle->failure)
        return handle->failure;
    if (handle->active > 0)
        return OKV_EAGAIN;

    uint32_t bucket_size = handle->table.bucket_size;
    size_t size = SCAN_CHUNK + bucket_size + handle->extent_max;
    int rc = OKV_ENOMEM;
    scan.buffer = malloc(size);
    if (!scan.buffer)
        goto out;
    scan.part = scan.buffer + SCAN_CHUNK;
    scan.extent = scan.part + bucket_size;
    scan.images = malloc((size_t)OKV_BUCKET_PARTS_MAX * bucket_size);
    if (!scan.images)
        goto free_buffer;
    rc =
        handle->transport->memory_register(handle->conn->endpoint, scan.buffer, size, &scan.memory);
    if (rc)
        goto free_images;
    rc = scan_chunks(&scan, visit, user);
    handle->transport->memory_unregister(scan.memory);
    free(scan.extents);
free_images:
    free(scan.images);
free_buffer:
    free(scan.buffer);
out:
    return rc;
}
