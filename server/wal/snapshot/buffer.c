#include "server/wal/snapshot/buffer.h"

#include <stdlib.h>

#include "server/wal/background.h"

#define FRAME_HEADER sizeof(struct okv_wal_wire_frame)
/* Of records in a chunk, but for one that is longer. */
#define CHUNK_SIZE (UINT64_C(256) << 10)

bool okv_chunks_have_room(const struct okv_chunks *chunks, uint64_t size)
{
    const struct okv_chunk *chunk = chunks->last;

    return chunk && chunk->capacity - chunk->used >= size;
}

bool okv_chunks_begin(struct okv_chunks *chunks, uint64_t size, bool is_to_be_filled)
{
    uint64_t records = is_to_be_filled && size < CHUNK_SIZE ? CHUNK_SIZE : size;
    uint64_t capacity = FRAME_HEADER + records;
    struct okv_chunk *chunk = malloc(sizeof *chunk + capacity);

    if (!chunk)
        return false;
    *chunk = (struct okv_chunk){.used = FRAME_HEADER,
                                .length = FRAME_HEADER,
                                .capacity = capacity,
                                .weight = sizeof *chunk + capacity};
    if (chunks->last)
        chunks->last->next = chunk;
    else
        chunks->first = chunk;
    chunks->last = chunk;
    chunks->weight += chunk->weight;
    return true;
}

void okv_chunks_append(struct okv_chunks *chunks, const struct okv_wal_record *record)
{
    struct okv_chunk *chunk = chunks->last;
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    okv_wal_record_encode(record, chunk->bytes + chunk->used);
    chunk->used += size;
    chunk->length += size;
}

bool okv_chunks_append_pinned(struct okv_chunks *chunks, const struct okv_wal_record *record,
                              uint64_t extent)
{
    struct okv_chunk *chunk = chunks->last;

    if (!okv_heap_pin(chunks->heap, extent, &chunk->pin))
        return false;
    okv_wal_record_encode_head(record, chunk->bytes + chunk->used);
    chunk->used += sizeof(struct okv_wal_wire_record) + record->key_length;
    chunk->capacity = chunk->used;
    chunk->length += okv_wal_record_size(record->key_length, record->value_length);
    chunk->value = record->value;
    chunk->value_length = record->value_length;
    chunk->weight += record->value_length;
    chunks->weight += record->value_length;
    return true;
}

bool okv_chunks_has_whole(const struct okv_chunks *chunks)
{
    const struct okv_chunk *first = chunks->first;

    return first && (first->next || first->value || first->used - FRAME_HEADER >= CHUNK_SIZE);
}

struct okv_chunk *okv_chunks_take(struct okv_chunks *chunks)
{
    struct okv_chunk *first = chunks->first;

    chunks->first = chunks->last = NULL;
    return first;
}

void okv_chunks_drop(struct okv_chunks *chunks)
{
    struct okv_chunk *chunk = okv_chunks_take(chunks), *next;

    for (; chunk; chunk = next) {
        next = chunk->next;
        okv_chunk_free(chunk, chunks->heap);
    }
    chunks->weight = 0;
}

int okv_chunk_write(struct okv_chunk *chunk, struct okv_files *files, struct okv_file *file,
                    struct okv_wal_frame *frame, uint64_t number, uint64_t offset, bool is_in_hurry)
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
    for (unsigned i = 0; rc == 0 && i < sizeof parts / sizeof *parts; i++) {
        rc = okv_background_write(files, file, parts[i].iov_base, parts[i].iov_len, offset,
                                  is_in_hurry);
        offset += parts[i].iov_len;
    }
    return rc;
}

void okv_chunk_free(struct okv_chunk *chunk, struct okv_heap *heap)
{
    okv_heap_unpin(heap, &chunk->pin);
    free(chunk);
}
