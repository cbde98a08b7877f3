#include "server/store/long_value.h"

#include <string.h>

#include "server/store/bucket_layout.h"
#include "server/store/commands.h"
#include "server/store/heap_range.h"
#include "server/store/pending.h"
#include "server/store/room.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

int okv_store_long_reserve(struct okv_store *store, struct okv_store_work *work,
                           struct okv_store_long_value *value, uint32_t key_length,
                           uint32_t value_length, bool has_no_batch)
{
    const struct okv_store_room_terms terms = {
        .waits_for_log = has_no_batch || okv_store_is_collecting(&store->table),
        .has_no_batch = has_no_batch};
    struct okv_store_search search;
    int rc;

    okv_store_search_begin(&search, store, work, &terms);
    value->value_length = value_length;
    value->key_length =
        okv_store_key_goes_to_extent(&store->table, key_length, value_length) ? key_length : 0;
    value->length = (uint64_t)value->key_length + value_length;
    value->done = 0;
    value->extent = 0;
    while ((okv_store_room_is_kept(store, work) && !search.is_over) ||
           !(value->extent = okv_heap_alloc(&store->heap, value->length))) {
        rc = okv_store_search_room(store, work, value->length, &search);
        if (rc)
            return rc;
    }
    return 0;
}

uint64_t okv_store_long_offset(const struct okv_store_long_value *value)
{
    return value->extent + value->key_length;
}

uint8_t *okv_store_long_bytes(const struct okv_store *store,
                              const struct okv_store_long_value *value)
{
    return value->extent ? store->table.base + value->extent + value->key_length : NULL;
}

void okv_store_long_compose(struct okv_store_long_value *value, const uint8_t *patch,
                            uint32_t patch_length, uint32_t patch_offset)
{
    value->patch = patch;
    value->patch_length = patch_length;
    value->patch_offset = patch_offset;
}

void okv_store_long_begin(const struct okv_store *store, struct okv_store_long_value *value,
                          const struct okv_store_write *write)
{
    uint8_t *extent = store->table.base + value->extent;

    memcpy(extent, write->key, value->key_length);
    uint64_t hash = okv_hash_key(write->key, write->key_length, store->table.hash_seed);
    okv_heap_set_owner(store->table.heap, value->extent, value->length, (uint32_t)hash);
    if (value->before)
        okv_store_long_compose(value, write->value, write->value_length, value->before_length);
    okv_hash_stream_begin(&value->checksum);
}

/* Fills those of the bytes [from, to) of the value that are in [first, last), from `bytes`, or with
 * zeros. */
static void fill(uint8_t *value, uint64_t from, uint64_t to, const uint8_t *bytes, uint64_t first,
                 uint64_t last)
{
    uint64_t begin = from > first ? from : first, end = to < last ? to : last;

    if (begin >= end)
        return;
    if (bytes)
        memcpy(value + begin, bytes + (begin - first), end - begin);
    else
        memset(value + begin, 0, end - begin);
}

/* Bytes [from, to) of the value. */
static void compose(const struct okv_store_long_value *long_value, uint8_t *value, uint64_t from,
                    uint64_t to)
{
    uint64_t before = long_value->before_length, patch = long_value->patch_offset;

    if (long_value->before)
        fill(value, from, to, long_value->before, 0, before);
    if (long_value->patch)
        fill(value, from, to, NULL, before, patch);
    if (long_value->patch)
        fill(value, from, to, long_value->patch, patch, patch + long_value->patch_length);
}

uint64_t okv_store_long_step(const struct okv_store *store, struct okv_store_long_value *value,
                             uint64_t most)
{
    uint8_t *extent = store->table.base + value->extent;
    uint64_t left = value->length - value->done, key = value->key_length;
    uint64_t length = left < most ? left : most, end = value->done + length;

    if (end > key)
        compose(value, extent + key, value->done > key ? value->done - key : 0, end - key);
    okv_hash_stream_add(&value->checksum, extent + value->done, length);
    value->done += length;
    return length;
}

void okv_store_long_release(struct okv_store *store, struct okv_store_long_value *value)
{
    if (value->extent)
        okv_heap_free(&store->heap, value->extent);
    okv_heap_unpin(&store->heap, &value->source);
    *value = (struct okv_store_long_value){.extent = 0};
}
