/*
 * What the short ways of okv_get(), okv_get_many() and okv_submit() have in common: from a key to
 * the READ of its bucket, and from the image to the result. Inline, as nearly every get goes
 * through it.
 */
#ifndef OKV_CLIENT_GET_SHORT_WAY_H
#define OKV_CLIENT_GET_SHORT_WAY_H

#include "client/handle.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

/* ---- short_get.c ---- */

/* The arguments of okv_get(), checked. */
struct get_call {
    const void *key;
    size_t key_length;
    void *buffer;
    size_t size;
};

/* Runs the get to its end, with status, length and version in *result. False when it has to go
 * another way from its beginning: nothing has happened then. */
bool short_get(okv *handle, const struct get_call *call, struct okv_result *result);

/* ---- submit.c ---- */

/* The gets of one okv_get_many(). */
struct many {
    const struct okv_command *commands;
    struct okv_result *results;
    size_t count;
    size_t next; /* the first that was not started */
    uint64_t begun_ns;
};

/* Starts the next one as an operation; one that is wrong, or whose time is over before its turn
 * came, has its result at once. False when the handle takes none now. */
bool many_start_next(okv *handle, struct many *many, uint64_t now);

/* ---- short_many.c ---- */

/* Runs them as far as the short way goes. What is left then is operations, and the commands from
 * many->next on; READs may be in the batch. */
void short_many(okv *handle, struct many *many);

/* ---- short_submit.c ---- */

/* Starts a get of okv_submit() whose time began at `begun_ns`: its READ is in the batch. False when
 * it has to go another way: nothing has happened then. */
bool short_submit(okv *handle, const struct okv_command *command, uint64_t begun_ns);
/* The READ of an operation that is_short ended well. True when the operation ended with it; else it
 * is short no more, and to be told of its READ as any other. */
bool short_submit_end(okv *handle, struct operation *operation);

/* ---- all ---- */

/* Where a key should be. */
struct short_place {
    uint64_t hash;
    uint64_t bucket;
};

/* No event is owed to anybody else, nothing waits to be posted, and what is posted leaves. */
static inline bool short_is_free(const okv *handle)
{
    return link_is_up(handle) && handle->free.count == handle->slot_count && handle->reads == 0 &&
           !handle->unflushed && !handle->lost && !handle->failure;
}

/* Fills in the READ of the key's bucket to the image of a slot. False when it has to be another
 * READ. */
static inline bool short_aim(okv *handle, const void *key, size_t key_length,
                             const struct operation *slot, struct short_place *place,
                             struct okv_read *read)
{
    place->hash = okv_hash_key(key, key_length, handle->table.hash_seed);
    place->bucket = okv_linear_bucket(place->hash, handle->bucket_count);
    if (handle->hints_kept > 0 && hints_has(handle, place->hash))
        return false;
    read->destination = slot->image;
    read->memory = handle->memory;
    read->length = handle->table.bucket_size;
    read->cookie = read_cookie(slot, READ_IMAGE);
    return directory_locate(handle, place->bucket, &read->offset);
}

/* So many such READs leave. */
static inline void short_count_reads(okv *handle, uint32_t count)
{
    handle->counters.reads += count;
    handle->counters.bucket_reads += count;
    handle->counters.read_bytes += (uint64_t)count * handle->table.bucket_size;
}

/* Whether the image says how the get ends: then that is in *result, but for the tag, and counted.
 * An item that expires is none of those, as it takes a look at the clock. */
static inline bool short_answer(okv *handle, const struct get_call *call,
                                const struct short_place *place, const uint8_t *image,
                                struct okv_result *result)
{
    struct okv_entry entry;
    uint32_t position = 0;

    if (okv_bucket_check(image, handle->table.bucket_size, handle->table.boot_id, place->bucket, 0))
        return false;
    unsigned depth = okv_bucket_depth(image);
    if (okv_hash_bucket(place->hash, depth) != place->bucket)
        return false;
    if (!okv_linear_agrees(handle->bucket_count, place->bucket, depth))
        handle->bucket_count = okv_linear_learn(handle->bucket_count, place->bucket, depth);
    int found = okv_bucket_find(image, place->hash, call->key, (uint32_t)call->key_length,
                                &position, &entry);
    if (found < 0 || (found == 0 && okv_bucket_chain(image) != 0) ||
        (found == 1 && (entry.is_reference || entry.expiry_ms)))
        return false;
    handle->counters.gets++;
    handle->counters.misses += found == 0;
    handle->counters.hits += found == 1;
    *result = (struct okv_result){.status = OKV_ENOTFOUND};
    if (found == 0)
        return true;
    result->length = entry.value_length;
    result->status = OKV_ETOOSMALL;
    if (entry.value_length > call->size)
        return true;
    if (entry.value_length)
        okv_bytes_copy(call->buffer, entry.value, entry.value_length);
    result->version = entry.version;
    result->ttl_ms = OKV_TTL_NONE;
    result->status = OKV_OK;
    return true;
}

#endif
