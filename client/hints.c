/*
 * Where extents were when they were last read, by the hashes of their keys: one place
 * in a table for each hash, the latest wins. A get that finds a hint READs bucket and
 * extent at the same time. A hint is no more than that: whether the extent is still the
 * key's is for the bucket to say (lookup.c).
 */
#include "client/handle.h"

#include <stdlib.h>
#include <string.h>

#include "shared/error.h"
#include "shared/hash.h"

int hints_create(okv *handle, uint32_t count)
{
    uint32_t rounded = 1;

    while (rounded < count)
        rounded *= 2;
    handle->hints = calloc(rounded, sizeof *handle->hints);
    if (!handle->hints)
        return OKV_ENOMEM;
    handle->hint_count = rounded;
    return 0;
}

void hints_clear(okv *handle)
{
    if (handle->hints_kept > 0)
        memset(handle->hints, 0, handle->hint_count * sizeof *handle->hints);
    handle->hints_kept = 0;
}

/* Where a hint is kept. */
static struct hint *hint_place(const okv *handle, uint64_t hash)
{
    return &handle->hints[hash & (handle->hint_count - 1)];
}

bool hints_has(const okv *handle, uint64_t hash)
{
    /* Where no long value was read, none of the table's lines is worth a look. */
    return handle->hints_kept > 0 && hint_place(handle, hash)->hash == hash &&
           hint_place(handle, hash)->key_length > 0;
}

bool hints_find(const okv *handle, const struct operation *operation, struct okv_entry *reference)
{
    if (!hints_has(handle, operation->lookup.hash))
        return false;
    const struct hint *hint = hint_place(handle, operation->lookup.hash);
    if (hint->key_length != operation->key_length)
        return false;
    *reference = (struct okv_entry){
        .is_reference = true,
        .key_in_extent = hint->key_in_extent,
        .key_length = hint->key_length,
        .value_length = hint->value_length,
        .extent = hint->extent,
        .checksum = hint->checksum,
    };
    return true;
}

void hints_remember(okv *handle, const struct operation *operation,
                    const struct okv_entry *reference)
{
    if (handle->hint_count == 0)
        return;
    struct hint *hint = hint_place(handle, operation->lookup.hash);
    handle->hints_kept += hint->key_length == 0;
    *hint = (struct hint){
        .hash = operation->lookup.hash,
        .extent = reference->extent,
        .checksum = reference->checksum,
        .value_length = reference->value_length,
        .key_length = (uint16_t)reference->key_length,
        .key_in_extent = reference->key_in_extent,
    };
}

void hints_forget(okv *handle, const struct operation *operation)
{
    if (handle->hints_kept == 0)
        return;
    uint64_t hash = okv_hash_key(operation->key, operation->key_length, handle->table.hash_seed);
    struct hint *hint = hint_place(handle, hash);
    if (hint->hash != hash || hint->key_length == 0)
        return;
    hint->key_length = 0;
    handle->hints_kept--;
}
