#include "server/store.h"

#include <string.h>

#include "shared/clock.h"
#include "shared/error.h"
#include "shared/hash.h"
#include "shared/superblock.h"
#include "shared/wire.h"

#define PAGE 4096u

/* Depth of the largest index that takes at most half of the region and leaves
 * the heap a page; -1 when there is none. */
static int choose_depth(const struct okv_store_params *params)
{
    int depth = -1;

    if (params->length < OKV_SUPERBLOCK_SIZE + PAGE)
        return -1;
    uint64_t most = params->length - OKV_SUPERBLOCK_SIZE - PAGE;
    if (most > params->length / 2)
        most = params->length / 2;
    while (depth < OKV_DEPTH_MAX && (uint64_t)params->bucket_size << (depth + 1) <= most)
        depth++;
    return depth;
}

static uint32_t choose_inline_max(const struct okv_store_params *params)
{
    uint32_t room = okv_bucket_room(params->bucket_size);

    if (params->inline_max == 0)
        return room / 2;
    return params->inline_max < room ? params->inline_max : room;
}

static bool params_valid(const struct okv_store_params *params)
{
    return params->base && (uintptr_t)params->base % PAGE == 0 && params->length % PAGE == 0 &&
           okv_bucket_size_valid(params->bucket_size) && params->boot_id != 0;
}

static void write_superblock(const struct okv_store *store)
{
    const struct okv_table *table = &store->table;
    const struct okv_superblock block = {
        .boot_id = table->boot_id,
        .hash_seed = store->hash_seed,
        .region_length = store->length,
        .index_offset = table->index_offset,
        .index_length = okv_store_index_length(store),
        .boot_clock_ms = okv_clock_wall_ms(),
        .bucket_size = table->bucket_size,
        .depth = table->depth,
    };

    okv_superblock_encode(&block, (struct okv_wire_superblock *)table->base);
}

int okv_store_init(struct okv_store *store, const struct okv_store_params *params)
{
    int depth = params_valid(params) ? choose_depth(params) : -1;

    if (depth < 0)
        return OKV_EINVAL;
    *store = (struct okv_store){
        .table =
            {
                .base = params->base,
                .heap = &store->heap,
                .boot_id = params->boot_id,
                .index_offset = OKV_SUPERBLOCK_SIZE,
                .bucket_size = params->bucket_size,
                .inline_max = choose_inline_max(params),
                .depth = (unsigned)depth,
            },
        .length = params->length,
        .bucket_count = UINT64_C(1) << depth,
        .hash_seed = params->hash_seed,
        .max_value = params->max_value,
    };
    uint64_t floor = store->table.index_offset + okv_store_index_length(store);
    int rc = okv_heap_init(&store->heap, params->base, floor, params->length);
    if (rc)
        return rc;
    for (unsigned i = 0; i < OKV_STORE_LOCKS; i++)
        pthread_mutex_init(&store->locks[i], NULL);
    for (uint64_t bucket = 0; bucket < store->bucket_count; bucket++)
        okv_store_bucket_create_empty(&store->table, bucket);
    write_superblock(store);
    return 0;
}

void okv_store_fini(struct okv_store *store)
{
    for (unsigned i = 0; i < OKV_STORE_LOCKS; i++)
        pthread_mutex_destroy(&store->locks[i]);
    okv_heap_fini(&store->heap);
}

static pthread_mutex_t *lock_bucket(struct okv_store *store, uint64_t bucket)
{
    pthread_mutex_t *lock = &store->locks[bucket % OKV_STORE_LOCKS];

    pthread_mutex_lock(lock);
    return lock;
}

static void add_change(atomic_uint_fast64_t *total, uint64_t before, uint64_t after)
{
    if (before != after) /* a fall is the addition of a number that wraps around */
        atomic_fetch_add_explicit(total, after - before, memory_order_relaxed);
}

/* Commits the working copy and brings the totals up to date. */
static int commit(struct okv_store *store, struct okv_store_bucket *work)
{
    int rc = okv_store_bucket_commit(work, &store->table);

    if (rc)
        return rc;
    const struct okv_store_tally *before = &work->published;
    const struct okv_store_tally *after = &work->changed;
    add_change(&store->totals.items, before->items, after->items);
    add_change(&store->totals.user_bytes, before->user_bytes, after->user_bytes);
    add_change(&store->totals.references, before->references, after->references);
    add_change(&store->totals.overflow_parts, before->overflow_parts, after->overflow_parts);
    return 0;
}

int okv_store_put(struct okv_store *store, struct okv_store_bucket *work, const void *key,
                  uint32_t key_length, const void *value, uint32_t value_length, uint64_t *version)
{
    if (key_length == 0 || key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (value_length > store->max_value)
        return OKV_EVALUESIZE;

    uint64_t hash = okv_hash_key(key, key_length, store->hash_seed);
    uint64_t bucket = okv_hash_bucket(hash, store->table.depth);
    const struct okv_entry entry = {
        .tag = okv_hash_tag(hash),
        .key_length = key_length,
        .value_length = value_length,
        .key = key,
        .value = value,
    };
    pthread_mutex_t *lock = lock_bucket(store, bucket);
    int rc = okv_store_bucket_load(work, &store->table, bucket);
    if (rc)
        goto unlock;
    struct okv_store_item *item = okv_store_bucket_find(work, entry.tag, key, key_length);
    rc = okv_store_bucket_put(work, item, &entry);
    if (rc)
        goto unlock;
    rc = commit(store, work);
    if (!rc)
        *version = okv_store_bucket_next_version(work);
unlock:
    pthread_mutex_unlock(lock);
    return rc;
}

int okv_store_delete(struct okv_store *store, struct okv_store_bucket *work, const void *key,
                     uint32_t key_length)
{
    if (key_length == 0 || key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;

    uint64_t hash = okv_hash_key(key, key_length, store->hash_seed);
    uint64_t bucket = okv_hash_bucket(hash, store->table.depth);
    pthread_mutex_t *lock = lock_bucket(store, bucket);
    int rc = okv_store_bucket_load(work, &store->table, bucket);
    if (rc)
        goto unlock;
    struct okv_store_item *item = okv_store_bucket_find(work, okv_hash_tag(hash), key, key_length);
    if (!item) {
        rc = OKV_ENOTFOUND;
        goto unlock;
    }
    okv_store_bucket_remove(work, item);
    rc = commit(store, work);
unlock:
    pthread_mutex_unlock(lock);
    return rc;
}

/* Finds a key in the published parts, as a client does, but under the lock. */
static int find_published(const struct okv_table *table, uint64_t bucket, uint64_t hash,
                          const void *key, uint32_t key_length, struct okv_entry *out)
{
    uint64_t offset = table->index_offset + bucket * table->bucket_size;

    while (offset) {
        const uint8_t *image = table->base + offset;
        uint32_t position = 0;
        int rc;
        while ((rc = okv_bucket_find(image, hash, key, key_length, &position, out)) == 1) {
            if (!out->is_reference)
                return 0;
            out->key = table->base + out->extent;
            out->value = out->key + key_length;
            if (memcmp(out->key, key, key_length) == 0)
                return 0;
        }
        if (rc)
            return rc;
        offset = okv_bucket_chain(image);
    }
    return OKV_ENOTFOUND;
}

int okv_store_get(struct okv_store *store, const void *key, uint32_t key_length, void *buffer,
                  uint32_t size, uint32_t *length, uint64_t *version)
{
    if (key_length == 0 || key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;

    uint64_t hash = okv_hash_key(key, key_length, store->hash_seed);
    uint64_t bucket = okv_hash_bucket(hash, store->table.depth);
    struct okv_entry entry;
    pthread_mutex_t *lock = lock_bucket(store, bucket);
    int rc = find_published(&store->table, bucket, hash, key, key_length, &entry);
    if (rc)
        goto unlock;
    *length = entry.value_length;
    *version = entry.version;
    if (entry.value_length > size)
        rc = OKV_ETOOSMALL;
    else if (entry.value_length)
        memcpy(buffer, entry.value, entry.value_length);
unlock:
    pthread_mutex_unlock(lock);
    return rc;
}
