/*
 * Hints, by the hashes of their keys. A get with a hint READs bucket and extent at once. A hint may
 * be stale: the bucket decides whether the extent still belongs to the key, and its checksum
 * whether the bytes do (hinted.c).
 *
 * The table consists of sets of eight hints, two cache lines each; a key's hash selects its set. A
 * set is ordered by last use, the latest first, with free entries at the end. A new hint goes to
 * the front, and a full set loses its last one.
 *
 * Behind the sets lies one word for each set, with a tag for each of its hints. Every get checks
 * the tags: their few cache lines stay in the cache, where a set would usually miss.
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

/* Bytes of `count` hints and their tags, in whole cache lines as aligned_alloc() requires. */
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

/* The half of the hash that does not select the set. */
static uint32_t upper_half(uint64_t hash)
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

/* A byte of the hash, never 0: a free entry has tag 0. */
static uint64_t tag_of(uint32_t upper)
{
    return upper >> 25 | 0x80;
}

static void set_write_tags(okv *handle, uint64_t hash)
{
    const struct hint *set = set_of(handle, hash);
    uint64_t tags = 0;

    for (unsigned index = 0; index < SET_SIZE && set[index].key_length > 0; index++)
        tags = tags << 8 | tag_of(set[index].hash);
    handle->hint_tags[set_number(handle, hash)] = tags;
}

/* True when one of the set's tags equals the hash's. The XOR has a zero byte there, and the lowest
 * zero byte is the lowest that borrows (Warren, Hacker's Delight, 6-1). */
static bool set_may_have(const okv *handle, uint64_t hash)
{
    const uint64_t ones = UINT64_C(0x0101010101010101);
    uint64_t differ = handle->hint_tags[set_number(handle, hash)] ^ ones * tag_of(upper_half(hash));

    return (differ - ones) & ~differ & ones << 7;
}

/* The index of the hint with this hash, or else of the first free entry, or SET_SIZE. */
static unsigned set_search(const struct hint *set, uint64_t hash)
{
    unsigned index = 0;

    while (index < SET_SIZE && set[index].key_length > 0 && set[index].hash != upper_half(hash))
        index++;
    return index;
}

static bool set_has(const struct hint *set, unsigned index)
{
    return index < SET_SIZE && set[index].key_length > 0;
}

/* NULL: there is none. */
static const struct hint *hint_find(const okv *handle, uint64_t hash)
{
    /* The first test saves the cache lines of the tags where no long value is ever READ. */
    if (handle->hints_kept == 0 || !set_may_have(handle, hash))
        return NULL;
    const struct hint *set = set_of(handle, hash);
    unsigned index = set_search(set, hash);
    return set_has(set, index) ? &set[index] : NULL;
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
    unsigned index = set_search(set, operation->lookup.hash);
    bool is_new = index == SET_SIZE || !set_has(set, index);
    if (index == SET_SIZE)
        index--;
    handle->hints_kept += !set_has(set, index);
    memmove(set + 1, set, index * sizeof *set);
    set[0] = (struct hint){
        .extent = reference->extent,
        .key_length = reference->key_length,
        .key_in_extent = reference->key_in_extent,
        .hash = upper_half(operation->lookup.hash),
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
    unsigned index = set_search(set, hash);
    if (!set_has(set, index))
        return;
    memmove(set + index, set + index + 1, (SET_SIZE - 1 - index) * sizeof *set);
    set[SET_SIZE - 1] = (struct hint){.key_length = 0};
    handle->hints_kept--;
    set_write_tags(handle, hash);
}
