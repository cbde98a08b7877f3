#include "server/resp/run/watches.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

#define UNIT 8u
#define SLOTS_MIN 16u

static size_t size_of(uint32_t key_length)
{
    return (sizeof(struct okv_resp_watched) + key_length + UNIT - 1) / UNIT * UNIT;
}

static struct okv_resp_watched *watched_at(const struct okv_resp_watches *watches, uint32_t at)
{
    return (struct okv_resp_watched *)(watches->keys.bytes + (size_t)(at - 1) * UNIT);
}

static bool is_key(const struct okv_resp_watched *watched, unsigned database,
                   const struct okv_resp_arg *key)
{
    return watched->database == database && watched->key_length == key->length &&
           memcmp(watched->key, key->text, key->length) == 0;
}

static uint32_t hash_of(uint64_t hash_seed, unsigned database, const struct okv_resp_arg *key)
{
    return (uint32_t)(okv_hash_key(key->text, key->length, hash_seed + database) >> 32);
}

/* The first free slot for the hash. */
static struct okv_resp_watch_slot *free_slot(struct okv_resp_watch_slot *slots, uint32_t count,
                                             uint32_t hash)
{
    uint32_t i = hash & (count - 1);

    while (slots[i].at)
        i = (i + 1) & (count - 1);
    return &slots[i];
}

bool okv_resp_watches_have(const struct okv_resp_watches *watches, uint64_t hash_seed,
                           unsigned database, const struct okv_resp_arg *key)
{
    if (watches->count == 0)
        return false;
    uint32_t hash = hash_of(hash_seed, database, key), mask = watches->slot_count - 1;
    const struct okv_resp_watch_slot *slots = watches->slots;

    for (uint32_t i = hash & mask; slots[i].at; i = (i + 1) & mask)
        if (slots[i].hash == hash && is_key(watched_at(watches, slots[i].at), database, key))
            return true;
    return false;
}

/* Makes room for one more. Returns the work, or OKV_ENOMEM. */
static int64_t make_room(struct okv_resp_watches *watches)
{
    uint32_t count = watches->slot_count ? 2 * watches->slot_count : SLOTS_MIN;

    if (2 * (watches->count + 1) <= watches->slot_count)
        return 0;
    struct okv_resp_watch_slot *slots = calloc(count, sizeof *slots);
    if (!slots)
        return OKV_ENOMEM;
    for (uint32_t i = 0; i < watches->slot_count; i++)
        if (watches->slots[i].at)
            *free_slot(slots, count, watches->slots[i].hash) = watches->slots[i];
    free(watches->slots);
    watches->slots = slots;
    watches->slot_count = count;
    return (int64_t)(count * sizeof *slots);
}

int64_t okv_resp_watches_add(struct okv_resp_watches *watches, uint64_t hash_seed, size_t most,
                             unsigned database, const struct okv_resp_arg *key, uint64_t version)
{
    size_t size = size_of(key->length);
    int64_t work = make_room(watches);

    if (work < 0)
        return work;
    watches->keys.most = most;
    struct okv_resp_watched *watched = (void *)okv_resp_buffer_room(&watches->keys, size);
    if (!watched) {
        watches->keys.has_failed = false; /* those before it stay */
        return OKV_ENOMEM;
    }
    *watched = (struct okv_resp_watched){version, database, key->length};
    memcpy(watched->key, key->text, key->length);
    uint32_t hash = hash_of(hash_seed, database, key);
    *free_slot(watches->slots, watches->slot_count, hash) =
        (struct okv_resp_watch_slot){hash, (uint32_t)(watches->keys.used / UNIT) + 1};
    watches->keys.used += size;
    watches->count++;
    return work + (int64_t)size;
}

const struct okv_resp_watched *okv_resp_watches_next(const struct okv_resp_watches *watches,
                                                     const struct okv_resp_watched *watched)
{
    const struct okv_resp_buffer *keys = &watches->keys;
    const uint8_t *next =
        watched ? (const uint8_t *)watched + size_of(watched->key_length) : keys->bytes;

    return next && next < keys->bytes + keys->used ? (const void *)next : NULL;
}

size_t okv_resp_watches_bytes(const struct okv_resp_watches *watches)
{
    return watches->keys.capacity + watches->slot_count * sizeof *watches->slots;
}

void okv_resp_watches_drop(struct okv_resp_watches *watches, struct okv_resp_trash *trash)
{
    okv_resp_buffer_discard(&watches->keys, trash);
    free(watches->slots);
    *watches = (struct okv_resp_watches){.count = 0};
}
