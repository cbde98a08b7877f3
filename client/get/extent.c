/*
 * Destinations of an extent: its key, unless the entry holds it, and its value.
 *
 *   fits the operation's buffer          to that buffer, then copied to the caller
 *   longer, or without a key;            the key to the operation's buffer,
 *   the caller's buffer is registered    the value straight to the caller's
 *   longer otherwise                     to a bounce buffer, then copied to the caller
 *
 * A long extent takes several READs, each of one piece. When only a part of a long
 * value is wanted, it is READ to the caller's registered buffer, the operation's or a bounce
 * buffer, and no checksum covers it.
 */
#include "client/get/extent.h"

#include <string.h>

#include "client/engine/memory.h"
#include "client/engine/operation.h"
#include "client/engine/read_batch.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* READs of one operation under way: enough to keep a network link busy, few enough that other
 * operations do not wait for a whole long value. */
#define PIECES_UNDER_WAY 16

bool extent_is_possible(const okv *handle, const struct okv_entry *reference)
{
    uint64_t length = okv_entry_extent_length(reference);

    return reference->key_length <= handle->table.max_key &&
           reference->value_length <= handle->table.max_value && length > 0 &&
           okv_range_inside(reference->extent, length, handle->table.region_length);
}

static uint32_t key_bytes(const struct okv_entry *reference)
{
    return reference->key_in_extent ? reference->key_length : 0;
}

/* The registration of the caller's buffer if the whole value can be READ straight to it, else NULL.
 */
static const struct okv_registration *direct_destination(const okv *handle,
                                                         const struct operation *operation,
                                                         const struct okv_entry *reference)
{
    uint64_t length = okv_entry_extent_length(reference);

    if (operation_wants_part(operation, reference->value_length) ||
        reference->value_length > operation->buffer_size ||
        (reference->key_in_extent && length <= EXTENT_BUFFER_SIZE))
        return NULL;
    return registration_find(handle, operation->buffer, operation->buffer_size);
}

/* Directs the READs to a bounce buffer of this size. */
static int read_to_bounce(okv *handle, struct operation *operation, size_t size,
                          struct extent_read *read)
{
    int rc = 0;

    if (operation->bounce && operation->bounce->size < size) {
        bounce_release(handle, operation->bounce);
        operation->bounce = NULL;
    }
    if (!operation->bounce)
        rc = bounce_acquire(handle, size, &operation->bounce);
    if (rc)
        return rc;
    read->to = operation->bounce->base;
    read->memory = operation->bounce->memory;
    return 0;
}

int extent_begin(okv *handle, struct operation *operation, const struct okv_entry *reference)
{
    const struct okv_registration *direct = direct_destination(handle, operation, reference);
    struct extent_read read = {
        .offset = reference->extent,
        .length = (uint32_t)okv_entry_extent_length(reference),
        .to = operation->extent,
        .memory = handle->memory,
    };

    if (direct) {
        read.head = key_bytes(reference);
        read.to = operation->buffer;
        read.memory = direct->memory;
    } else if (read.length > EXTENT_BUFFER_SIZE) {
        int rc = read_to_bounce(handle, operation, read.length, &read);
        if (rc)
            return rc;
    }
    operation->extent_read = read;
    return 0;
}

int extent_begin_part(okv *handle, struct operation *operation, const struct okv_entry *reference)
{
    const struct okv_registration *direct =
        registration_find(handle, operation->buffer, operation->buffer_size);
    uint32_t length = operation_part_length(operation, reference->value_length);
    struct extent_read read = {
        .offset = reference->extent,
        .length = key_bytes(reference) + length,
        .head = key_bytes(reference),
        .skipped = (uint32_t)operation->offset,
        .to = operation->extent + PART_OFFSET,
        .memory = handle->memory,
    };

    if (direct) {
        read.to = operation->buffer;
        read.memory = direct->memory;
    } else if (length > EXTENT_BUFFER_SIZE - PART_OFFSET) {
        int rc = read_to_bounce(handle, operation, length, &read);
        if (rc)
            return rc;
    }
    operation->extent_read = read;
    return 0;
}

void extent_begin_key(struct operation *operation, const struct okv_entry *reference)
{
    operation->extent_read = (struct extent_read){
        .offset = reference->extent,
        .length = reference->key_length,
        .head = reference->key_length,
    };
}

static uint32_t next_piece_length(const struct extent_read *extent)
{
    uint32_t left = extent->length - extent->posted;

    if (extent->posted < extent->head)
        return extent->head - extent->posted;
    return left < EXTENT_PIECE_SIZE ? left : EXTENT_PIECE_SIZE;
}

/* Adds the READ of the next piece to the batch. */
static int post_piece(okv *handle, struct operation *operation)
{
    struct extent_read *extent = &operation->extent_read;
    struct okv_read *piece =
        reads_add_for(handle, operation, READ_EXTENT, next_piece_length(extent));

    if (!piece)
        return OKV_EAGAIN;
    bool in_head = extent->posted < extent->head;
    piece->offset = extent->offset + extent->posted + (in_head ? 0 : extent->skipped);
    piece->destination =
        in_head ? operation->extent + extent->posted : extent->to + (extent->posted - extent->head);
    piece->memory = in_head ? handle->memory : extent->memory;
    extent->posted += piece->length;
    return 0;
}

int extent_post(okv *handle, struct operation *operation)
{
    while (!extent_is_posted(operation) && operation->reads < PIECES_UNDER_WAY) {
        int rc = post_piece(handle, operation);
        if (rc)
            return rc;
    }
    return 0;
}

const uint8_t *extent_value(const struct operation *operation, const struct okv_entry *reference)
{
    const struct extent_read *read = &operation->extent_read;

    return read->to + (key_bytes(reference) - read->head);
}

/* The check when key and value are in different buffers. */
static int check_split(const okv *handle, const struct operation *operation,
                       const struct okv_entry *reference)
{
    const struct extent_read *read = &operation->extent_read;

    if (okv_hash_checksum_of_two(operation->extent, read->head, read->to, read->length - read->head,
                                 handle->table.boot_id) != reference->checksum)
        return OKV_ECORRUPT;
    return memcmp(operation->extent, operation->key, read->head) == 0 ? 0 : OKV_ENOTFOUND;
}

int extent_check(const okv *handle, const struct operation *operation,
                 const struct okv_entry *reference)
{
    if (operation->extent_read.head > 0)
        return check_split(handle, operation, reference);
    return okv_extent_check(reference, operation->extent_read.to, handle->table.boot_id,
                            operation->key, operation->key_length);
}
