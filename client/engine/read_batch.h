/*
 * The batch: the READs of one call or one pass, posted with one doorbell. A READ takes its room
 * when it is added, so the batch always fits. Inline, as every get uses it.
 */
#ifndef OKV_CLIENT_ENGINE_READ_BATCH_H
#define OKV_CLIENT_ENGINE_READ_BATCH_H

#include "client/handle.h"

/* Cookies identify the READ that an event ends. An operation's cookie has its slot and the kind. */
#define READ_STATUS_COOKIE (UINT64_C(1) << 62)
#define READ_ATTEMPT_COOKIE (UINT64_C(1) << 61)
static inline uint16_t read_slot(uint64_t cookie)
{
    return (uint16_t)cookie;
}
static inline enum read_kind read_kind(uint64_t cookie)
{
    return (enum read_kind)(cookie >> 16 & 0xff);
}

static inline uint64_t read_cookie(const struct operation *operation, enum read_kind kind)
{
    return operation->index | (uint64_t)kind << 16;
}

/* Counts a READ, which is posted now or with the batch. */
static inline void read_count(okv *handle, enum read_kind kind, uint32_t length)
{
    handle->counters.reads++;
    handle->counters.read_bytes += length;
    handle->counters.bucket_reads += kind == READ_IMAGE;
    handle->counters.extent_reads += kind == READ_EXTENT;
    handle->counters.directory_reads += kind == READ_DIRECTORY;
    handle->counters.status_reads += kind == READ_STATUS;
}
/* How many more READs may be under way. */
static inline unsigned reads_room(const okv *handle)
{
    return handle->conn->max_reads - handle->reads;
}
/* Adds a READ of `length` bytes to the batch; the caller fills in offset, destination and memory.
 * NULL: no room. */
static inline struct okv_read *reads_add(okv *handle, uint64_t cookie, enum read_kind kind,
                                         uint32_t length)
{
    if (reads_room(handle) == 0)
        return NULL;
    struct okv_read *read = &handle->batch.reads[handle->batch.count++];
    handle->reads++;
    read_count(handle, kind, length);
    read->length = length;
    read->cookie = cookie;
    return read;
}
/* Likewise for a READ of an operation. */
static inline struct okv_read *reads_add_for(okv *handle, struct operation *operation,
                                             enum read_kind kind, uint32_t length)
{
    struct okv_read *read = reads_add(handle, read_cookie(operation, kind), kind, length);

    operation->reads += read != NULL;
    return read;
}

#endif
