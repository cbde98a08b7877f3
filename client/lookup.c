/*
 * A get, one-sided: docs/consistency.md section 3.
 *
 *            +--------- torn, or split since: again (bounded) --------+
 *            v                                                        |
 *   READ bucket -> whole? right depth? -> entry? -- inline ---------> hit
 *            ^                               |----- none, no chain -> miss
 *            |                               |----- chain: READ the next part
 *            |                               +----- reference: READ the extent
 *            +---- extent torn, freed or reused ---------+--- whole, right key -> hit
 *
 * Nothing that was read is believed before its checksum held, and every offset
 * that it leads to is checked against the region before it is used.
 */
#include "client/handle.h"

#include "shared/error.h"
#include "shared/hash.h"

/* A bucket under constant writing tears nearly every image for as long as the
 * writer copies it; past this many the server is asked instead. */
#define LOOKUP_ATTEMPTS 16

static uint64_t bucket_at_depth(const okv *handle, uint64_t hash, unsigned depth)
{
    while (depth > 0 && okv_hash_bucket(hash, depth) >= handle->bucket_count)
        depth--;
    return okv_hash_bucket(hash, depth);
}

static void read_bucket(okv *handle, struct operation *operation, uint64_t bucket)
{
    operation->step = STEP_BUCKET;
    operation->bucket = bucket;
    operation->part = 0;
    operation->part_offset = handle->table.index_offset + bucket * handle->table.bucket_size;
    operation_advance(handle, operation);
}

void lookup_start(okv *handle, struct operation *operation)
{
    operation->attempts = 0;
    read_bucket(handle, operation, bucket_at_depth(handle, operation->hash, handle->table.depth));
}

int lookup_post(okv *handle, struct operation *operation)
{
    struct okv_read read = {.memory = handle->memory, .cookie = operation->index};

    if (operation->step == STEP_EXTENT) {
        read.offset = operation->reference.extent;
        read.destination = operation->extent;
        read.length = operation->reference.key_length + operation->reference.value_length;
    } else {
        read.offset = operation->part_offset;
        read.destination = operation->image;
        read.length = handle->table.bucket_size;
    }
    int rc = handle->transport->post_read(handle->conn, &read, 1);
    if (rc)
        return rc;
    handle->counters.reads++;
    handle->counters.read_bytes += read.length;
    if (operation->step == STEP_EXTENT)
        handle->counters.extent_reads++;
    else
        handle->counters.bucket_reads++;
    return 0;
}

/* What was read can't be used: read again from the start, or let the server answer. */
static void lookup_again(okv *handle, struct operation *operation, uint64_t bucket)
{
    if (++operation->attempts < LOOKUP_ATTEMPTS) {
        read_bucket(handle, operation, bucket);
        return;
    }
    handle->counters.fallbacks++;
    operation->step = STEP_REPLY;
    operation_advance(handle, operation);
}

static void follow_reference(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->reference;
    uint64_t length = (uint64_t)reference->key_length + reference->value_length;

    if (length > handle->extent_max ||
        !okv_range_inside(reference->extent, length, handle->table.region_length)) {
        operation_end(handle, operation, OKV_EPROTO);
        return;
    }
    operation->step = STEP_EXTENT;
    operation_advance(handle, operation);
}

/* The part in operation->image has no further candidate. */
static void follow_chain(okv *handle, struct operation *operation)
{
    uint64_t chain = okv_bucket_chain(operation->image);

    if (chain == 0) {
        operation_end(handle, operation, OKV_ENOTFOUND);
        return;
    }
    if (operation->part + 1 >= OKV_BUCKET_PARTS_MAX ||
        !okv_range_inside(chain, handle->table.bucket_size, handle->table.region_length)) {
        operation_end(handle, operation, OKV_EPROTO);
        return;
    }
    operation->part++;
    operation->part_offset = chain;
    operation_advance(handle, operation);
}

/* Searches the checked image on from operation->position. */
static void search_image(okv *handle, struct operation *operation)
{
    struct okv_entry entry;
    int rc = okv_bucket_find(operation->image, operation->hash, operation->key,
                             operation->key_length, &operation->position, &entry);

    operation->step = STEP_BUCKET;
    if (rc < 0) {
        operation_end(handle, operation, rc);
    } else if (rc == 0) {
        follow_chain(handle, operation);
    } else if (entry.is_reference) {
        operation->reference = entry;
        follow_reference(handle, operation);
    } else {
        operation_deliver(handle, operation, entry.value, entry.value_length, entry.version);
    }
}

static void bucket_done(okv *handle, struct operation *operation)
{
    const uint8_t *image = operation->image;
    uint64_t version = okv_bucket_version(image);

    if (okv_bucket_check(image, handle->table.bucket_size, handle->table.boot_id, operation->bucket,
                         operation->part) ||
        (operation->part > 0 && version != operation->image_version)) {
        handle->counters.torn_buckets++;
        lookup_again(handle, operation, operation->bucket);
        return;
    }
    uint64_t home = bucket_at_depth(handle, operation->hash, okv_bucket_depth(image));
    if (home != operation->bucket) {
        handle->counters.wrong_depths++;
        lookup_again(handle, operation, home);
        return;
    }
    operation->image_version = version;
    operation->position = 0;
    search_image(handle, operation);
}

static void extent_done(okv *handle, struct operation *operation)
{
    const struct okv_entry *reference = &operation->reference;

    switch (okv_extent_check(reference, operation->extent, handle->table.boot_id, operation->key,
                             operation->key_length)) {
    case OKV_OK:
        operation_deliver(handle, operation, operation->extent + reference->key_length,
                          reference->value_length, reference->version);
        break;
    case OKV_ENOTFOUND: /* another key with the same tag */
        search_image(handle, operation);
        break;
    default:
        handle->counters.torn_extents++;
        lookup_again(handle, operation, operation->bucket);
    }
}

void lookup_read_done(okv *handle, struct operation *operation)
{
    if (operation->step == STEP_EXTENT)
        extent_done(handle, operation);
    else
        bucket_done(handle, operation);
}
