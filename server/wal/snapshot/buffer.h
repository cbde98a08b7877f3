/* What a snapshot has saved and not written yet: chunks of records, each a frame of its file. */
#ifndef OKV_SERVER_WAL_SNAPSHOT_BUFFER_H
#define OKV_SERVER_WAL_SNAPSHOT_BUFFER_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/heap.h"
#include "server/wal/file.h"
#include "server/wal/format.h"

struct okv_chunk {
    struct okv_chunk *next;
    struct okv_heap_pin pin; /* of the value */
    const uint8_t *value;    /* of the last record, which is not in bytes; NULL: all is there */
    uint32_t value_length;
    uint64_t length;         /* of the frame */
    uint64_t used, capacity; /* of bytes */
    uint64_t weight;         /* of the memory that it holds, its value's as well */
    uint8_t bytes[];
};

/* Those that get records, or wait. */
struct okv_chunks {
    struct okv_heap *heap; /* of the values */
    struct okv_chunk *first, *last;
    uint64_t weight; /* of all, and of those that were taken and have not ended */
};

/* Whether the last chunk has room for a record of so many bytes. */
bool okv_chunks_have_room(const struct okv_chunks *chunks, uint64_t size);
/* Begins a chunk for records of `size` bytes; one that is to be filled has room for more. False: no
 * memory. */
bool okv_chunks_begin(struct okv_chunks *chunks, uint64_t size, bool is_to_be_filled);
/* The last chunk, which has room, gets a record. */
void okv_chunks_append(struct okv_chunks *chunks, const struct okv_wal_record *record);
/* The last chunk, which has room for it without its value, ends with a record whose value stays
 * where it is, in that extent. False: another pin has it. */
bool okv_chunks_append_pinned(struct okv_chunks *chunks, const struct okv_wal_record *record,
                              uint64_t extent);
/* Whether there is a chunk that gets no more records. */
bool okv_chunks_has_whole(const struct okv_chunks *chunks);
/* Takes all, a list. */
struct okv_chunk *okv_chunks_take(struct okv_chunks *chunks);
/* Frees all. */
void okv_chunks_drop(struct okv_chunks *chunks);

/* Seals a chunk as this frame, whose length it sets, and writes it to `offset` of the snapshot's
 * file. Returns 0 or a negative errno. */
int okv_chunk_write(struct okv_chunk *chunk, struct okv_files *files, struct okv_file *file,
                    struct okv_wal_frame *frame, uint64_t number, uint64_t offset,
                    bool is_in_hurry);
/* Its memory, and its value's, is free for others. */
void okv_chunk_free(struct okv_chunk *chunk, struct okv_heap *heap);

#endif
