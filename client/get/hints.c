/*
 * Where extents were when they were last read, by the hashes of their keys. A get that finds a
 * hint READs bucket and extent at the same time. A hint is no more than that: whether the extent
 * is still the key's, and its bytes are what belongs there, is for the bucket to say (lookup.c).
 *
 * The table is made of sets of a few hints, two cache lines each; a key's hash names its set. In a
 * set hints lie by when they were last right, the latest first, with what is free at the end: a
 * new one comes first, and when the set is full the last one goes.
 *
 * Behind the sets lies a word for each of them with a tag for each of its hints, in any order: the
 * few lines of these that all gets look at stay in the cache, where a set would mostly be a miss.
 */
#include "client/get/hints.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

#define SET_SIZE 8u
#define CACHE_LINE 64u

_Static_assert(SET_SIZE * sizeof(struct hint) == 2 * CACHE_LINE, "a set is two lines");
_Static_assert(OKV_KEY_MAX < 1u << 15, "a key's length fits");

/* Bytes of that many hints and their tags: whole cache lines, as aligned_alloc wants it. */
static size_t table_size(size_t count)
{
    return (count * (sizeof(struct hint) + 1) + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE;
}

int hints_create(okv *handle, uint32_t count)
{
    uint32_t rounded = SET_SIZE;

    while (rounded < count)
        rounded *= 2;
    handle->hints = aligned_alloc(CACHE_LINE, table_size(rounded));
    if (!handle->hints)
        return OKV_ENOMEM;
    memset(handle->hints, 0, table_size(rounded));
    handle->hint_tags = (uint64_t *)(handle->hints + rounded);
    handle->hint_count = rounded;
    return 0;
}

void hints_clear(okv *handle)
{
    if (handle->hints_kept > 0)
        memset(handle->hints, 0, table_size(handle->hint_count));
    handle->hints_kept = 0;
}

/* The half of the hash that does not say which set it is. */
static uint32_t rest_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

static size_t set_number(const okv *handle, uint64_t hash)
{
    return (hash * SET_SIZE & (handle->hint_count - 1)) / SET_SIZE;
}

static struct hint *set_of(const okv *handle, uint64_t hash)
{
    return &handle->hints[set_number(handle, hash) * SET_SIZE];
}

/* A byte of the hash, never 0: that is the tag of a free place. */
static uint64_t tag_of(uint32_t rest)
{
    return rest >> 25 | 0x80;
}

static void set_write_tags(okv *handle, uint64_t hash)
{
    const struct hint *set = set_of(handle, hash);
    uint64_t tags = 0;

    for (unsigned place = 0; place < SET_SIZE && set[place].key_length > 0; place++)
        tags = tags << 8 | tag_of(set[place].hash);
    handle->hint_tags[set_number(handle, hash)] = tags;
}

/* Whether one of the set's tags is the hash's. A byte is 0 where it is, and the lowest byte of 0
 * is the lowest that borrows (Warren, Hacker's Delight, 6-1). */
static bool set_may_have(const okv *handle, uint64_t hash)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t differ = handle->hint_tags[set_number(handle, hash)] ^ ones * tag_of(rest_of(hash));

    return (differ - ones) & ~differ & ones << 7;
}

/* How many of the set's hints are not the hash's: the place of the one that is, or that would be
 * the next. */
static unsigned set_search(const struct hint *set, uint64_t hash)
{
    unsigned place = 0;

    while (place < SET_SIZE && set[place].key_length > 0 && set[place].hash != rest_of(hash))
        place++;
    return place;
}

static bool set_has(const struct hint *set, unsigned place)
{
    return place < SET_SIZE && set[place].key_length > 0;
}

/* NULL: there is none. */
static const struct hint *hint_find(const okv *handle, uint64_t hash)
{
    /* Where no long value was read, none of the table's lines is worth a look. */
    if (handle->hints_kept == 0 || !set_may_have(handle, hash))
        return NULL;
    const struct hint *set = set_of(handle, hash);
    unsigned place = set_search(set, hash);
    return set_has(set, place) ? &set[place] : NULL;
}

bool hints_has(const okv *handle, uint64_t hash)
{
    return hint_find(handle, hash) != NULL;
}

bool hints_find(const okv *handle, const struct operation *operation, struct okv_entry *reference)
{
    const struct hint *hint = hint_find(handle, operation->lookup.hash);

    if (!hint || hint->key_length != operation->key_length)
        return false;
    *reference = (struct okv_entry){
        .is_reference = true,
        .key_in_extent = hint->key_in_extent,
        .key_length = hint->key_length,
        .value_length = hint->value_length,
        .extent = hint->extent,
    };
    return true;
}

void hints_remember(okv *handle, const struct operation *operation,
                    const struct okv_entry *reference)
{
    if (handle->hint_count == 0)
        return;
    struct hint *set = set_of(handle, operation->lookup.hash);
    unsigned place = set_search(set, operation->lookup.hash);
    bool is_new = place == SET_SIZE || !set_has(set, place);
    if (place == SET_SIZE)
        place--;
    handle->hints_kept += !set_has(set, place);
    memmove(set + 1, set, place * sizeof *set);
    set[0] = (struct hint){
        .extent = reference->extent,
        .key_length = reference->key_length,
        .key_in_extent = reference->key_in_extent,
        .hash = rest_of(operation->lookup.hash),
        .value_length = reference->value_length,
    };
    if (is_new)
        set_write_tags(handle, operation->lookup.hash);
}

void hints_forget(okv *handle, const struct operation *operation)
{
    if (handle->hints_kept == 0)
        return;
    uint64_t hash = okv_hash_key(operation->key, operation->key_length, handle->table.hash_seed);
    if (!set_may_have(handle, hash))
        return;
    struct hint *set = set_of(handle, hash);
    unsigned place = set_search(set, hash);
    if (!set_has(set, place))
        return;
    memmove(set + place, set + place + 1, (SET_SIZE - 1 - place) * sizeof *set);
    set[SET_SIZE - 1] = (struct hint){.key_length = 0};
    handle->hints_kept--;
    set_write_tags(handle, hash);
}
