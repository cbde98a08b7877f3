/*
 * The handle's copy of the directory (docs/format.md section 2.3). A stale entry leads to bytes
 * that fail the checks of a bucket; then the lookup READs the entry again (steps.c).
 */
#include "client/get/directory.h"

#include "client/engine/read_blocking.h"
#include "shared/base/error.h"

/* okv_welcome_decode() ensures that segment_buckets is a power of two. A shift saves two divisions
 * per get. */
static unsigned segment_shift(const okv *handle)
{
    return (unsigned)__builtin_ctz(handle->table.segment_buckets);
}

/* Clamped: no real bucket is beyond the last entry. */
static uint64_t segment_of(const okv *handle, uint64_t bucket)
{
    uint64_t segment = bucket >> segment_shift(handle);

    return segment < OKV_DIRECTORY_ENTRIES ? segment : OKV_DIRECTORY_ENTRIES - 1;
}

uint64_t directory_entry_offset(const okv *handle, uint64_t bucket)
{
    return handle->table.directory_offset + segment_of(handle, bucket) * sizeof(okv_le64);
}

bool directory_locate(const okv *handle, uint64_t bucket, uint64_t *offset)
{
    const struct okv_welcome *table = &handle->table;
    uint64_t segment = bucket >> segment_shift(handle);
    uint64_t segment_size = (uint64_t)table->segment_buckets * table->bucket_size;

    if (segment >= OKV_DIRECTORY_ENTRIES)
        return false;
    uint64_t begin = handle->directory[segment];
    if (begin == 0 || !okv_range_inside(begin, segment_size, table->region_length))
        return false;
    *offset = begin + (bucket & (table->segment_buckets - 1)) * table->bucket_size;
    return true;
}

void directory_learn(okv *handle, uint64_t bucket, const uint8_t *entry)
{
    handle->directory[segment_of(handle, bucket)] = okv_get_u64(entry);
}

int directory_read(okv *handle)
{
    int rc = read_blocking(handle, READ_DIRECTORY, handle->table.directory_offset, handle->staging,
                           handle->memory, OKV_DIRECTORY_SIZE);

    if (rc)
        return rc;
    directory_load(handle);
    return 0;
}

void directory_load(okv *handle)
{
    for (unsigned i = 0; i < OKV_DIRECTORY_ENTRIES; i++)
        handle->directory[i] = okv_get_u64(handle->staging + i * sizeof(okv_le64));
}
