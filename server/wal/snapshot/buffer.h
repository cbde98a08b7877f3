/* Records that a snapshot has saved and not written yet, in chunks: each becomes a frame. */
#ifndef OKV_SERVER_WAL_SNAPSHOT_BUFFER_H
#define OKV_SERVER_WAL_SNAPSHOT_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/heap.h"
#include "server/wal/format.h"

struct okv_background;

struct okv_snapshot_chunk {
    struct okv_snapshot_chunk *next;
    struct okv_heap_pin pin; /* of the value */
    const uint8_t *value;    /* of the last record, if it is in the region; NULL: it is in bytes */
    uint32_t value_length;
    uint64_t length;         /* of the frame */
    uint64_t used, capacity; /* of bytes */
    uint64_t weight;         /* memory that it holds, with its value */
    uint8_t bytes[];
};

struct okv_snapshot_buffer {
    struct okv_heap *heap;                   /* of the values */
    struct okv_snapshot_chunk *first, *last; /* not taken yet */
    uint64_t weight; /* of all, and of those that were taken and are not freed */
};

/* Whether the last chunk has room for a record of `size` bytes. */
bool okv_snapshot_buffer_has_room(const struct okv_snapshot_buffer *buffer, uint64_t size);
/* Adds a chunk for records of `size` bytes, and for more if it is to be filled. False: no memory.
 */
bool okv_snapshot_buffer_add_chunk(struct okv_snapshot_buffer *buffer, uint64_t size,
                                   bool is_to_be_filled);
/* Appends a record to the last chunk, which has room. */
void okv_snapshot_buffer_append(struct okv_snapshot_buffer *buffer,
                                const struct okv_wal_record *record);
/* Ends the last chunk with a record whose value stays in that extent; the chunk has room for the
 * rest. False: another pin has the extent. */
bool okv_snapshot_buffer_append_pinned(struct okv_snapshot_buffer *buffer,
                                       const struct okv_wal_record *record, uint64_t extent);
/* Whether there is a chunk that gets no more records. */
bool okv_snapshot_buffer_has_full_chunk(const struct okv_snapshot_buffer *buffer);
/* Takes all chunks, as a list. */
struct okv_snapshot_chunk *okv_snapshot_buffer_take(struct okv_snapshot_buffer *buffer);
/* Frees all chunks. */
void okv_snapshot_buffer_drop(struct okv_snapshot_buffer *buffer);

/* Seals a chunk as this frame, whose length it sets, and adds it to the snapshot's file. Fails like
 * okv_file_ops.write. */
int okv_snapshot_chunk_write(struct okv_snapshot_chunk *chunk, struct okv_background *output,
                             struct okv_wal_frame *frame, uint64_t number);
/* Frees it, and unpins its value. */
void okv_snapshot_chunk_free(struct okv_snapshot_chunk *chunk, struct okv_heap *heap);

#endif
