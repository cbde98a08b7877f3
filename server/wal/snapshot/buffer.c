#include "server/wal/snapshot/buffer.h"

#include <stdlib.h>

#include "server/wal/background.h"
#include "server/wal/frame.h"

/* Bytes of records in a chunk, unless one record is longer. */
#define CHUNK_SIZE (UINT64_C(256) << 10)

bool okv_snapshot_buffer_has_room(const struct okv_snapshot_buffer *buffer, uint64_t size)
{
    const struct okv_snapshot_chunk *chunk = buffer->last;

    return chunk && chunk->capacity - chunk->used >= size;
}

bool okv_snapshot_buffer_add_chunk(struct okv_snapshot_buffer *buffer, uint64_t size,
                                   bool is_to_be_filled)
{
    uint64_t records = is_to_be_filled && size < CHUNK_SIZE ? CHUNK_SIZE : size;
    uint64_t capacity = OKV_WAL_FRAME_HEADER + records;
    struct okv_snapshot_chunk *chunk = malloc(sizeof *chunk + capacity);

    if (!chunk)
        return false;
    *chunk = (struct okv_snapshot_chunk){.used = OKV_WAL_FRAME_HEADER,
                                         .length = OKV_WAL_FRAME_HEADER,
                                         .capacity = capacity,
                                         .weight = sizeof *chunk + capacity};
    if (buffer->last)
        buffer->last->next = chunk;
    else
        buffer->first = chunk;
    buffer->last = chunk;
    buffer->weight += chunk->weight;
    return true;
}

void okv_snapshot_buffer_append(struct okv_snapshot_buffer *buffer,
                                const struct okv_wal_record *record)
{
    struct okv_snapshot_chunk *chunk = buffer->last;
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    okv_wal_record_encode(record, chunk->bytes + chunk->used);
    chunk->used += size;
    chunk->length += size;
}

bool okv_snapshot_buffer_append_pinned(struct okv_snapshot_buffer *buffer,
                                       const struct okv_wal_record *record, uint64_t extent)
{
    struct okv_snapshot_chunk *chunk = buffer->last;

    if (!okv_heap_pin(buffer->heap, extent, &chunk->pin))
        return false;
    okv_wal_record_encode_head(record, chunk->bytes + chunk->used);
    chunk->used += sizeof(struct okv_wal_wire_record) + record->key_length;
    chunk->capacity = chunk->used;
    chunk->length += okv_wal_record_size(record->key_length, record->value_length);
    chunk->value = record->value;
    chunk->value_length = record->value_length;
    chunk->weight += record->value_length;
    buffer->weight += record->value_length;
    return true;
}

bool okv_snapshot_buffer_has_full_chunk(const struct okv_snapshot_buffer *buffer)
{
    const struct okv_snapshot_chunk *first = buffer->first;

    return first &&
           (first->next || first->value || first->used - OKV_WAL_FRAME_HEADER >= CHUNK_SIZE);
}

struct okv_snapshot_chunk *okv_snapshot_buffer_take(struct okv_snapshot_buffer *buffer)
{
    struct okv_snapshot_chunk *first = buffer->first;

    buffer->first = buffer->last = NULL;
    return first;
}

void okv_snapshot_buffer_drop(struct okv_snapshot_buffer *buffer)
{
    struct okv_snapshot_chunk *chunk = okv_snapshot_buffer_take(buffer), *next;

    for (; chunk; chunk = next) {
        next = chunk->next;
        okv_snapshot_chunk_free(chunk, buffer->heap);
    }
    buffer->weight = 0;
}

int okv_snapshot_chunk_write(struct okv_snapshot_chunk *chunk, struct okv_background *output,
                             struct okv_wal_frame *frame, uint64_t number)
{
    static const uint8_t zeros[OKV_WAL_ALIGNMENT];
    int rc = 0;

    frame->length = chunk->length;
    okv_wal_frame_seal_parts(frame, number, chunk->bytes, chunk->used, chunk->value,
                             chunk->value_length);
    const struct iovec parts[] = {
        {chunk->bytes, chunk->used},
        {(void *)chunk->value, chunk->value_length},
        {(void *)zeros, chunk->length - chunk->used - chunk->value_length},
    };
    for (unsigned i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++)
        rc = okv_background_write(output, &parts[i], NULL);
    return rc;
}

void okv_snapshot_chunk_free(struct okv_snapshot_chunk *chunk, struct okv_heap *heap)
{
    okv_heap_unpin(heap, &chunk->pin);
    free(chunk);
}
