#include "server/store/iterate.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/turn.h"
#include "server/store/locking.h"
#include "server/store/pending.h"
#include "shared/base/error.h"

/* Work to decode the entry of a key, and to sort it in. */
#define KEY_WORK 100u

/* ---- the entries of a bucket that have not expired ---- */

struct reader {
    const struct okv_table *table;
    uint64_t number; /* of the bucket */
    bool is_newest;
    uint64_t clock_ms;
    const uint8_t *image;
    uint32_t position; /* in the image */
    unsigned pages;    /* so far */
};

static const uint8_t *image_at(const struct reader *reader, unsigned page, uint64_t offset)
{
    return reader->is_newest ? okv_store_current_image(reader->table, reader->number, page, offset)
                             : reader->table->base + offset;
}

/* Returns 1 with an entry, 0 at the end, OKV_ECORRUPT. */
static int read_entry(struct reader *reader, struct okv_entry *entry)
{
    for (;;) {
        int rc = okv_bucket_next(reader->image, &reader->position, entry);
        if (rc < 0 || (rc == 1 && !okv_entry_is_expired(entry, reader->clock_ms)))
            return rc;
        uint64_t next = okv_bucket_chain(reader->image);
        if (rc == 0 && !next)
            return 0;
        if (rc == 0) {
            reader->image = image_at(reader, reader->pages++, next);
            reader->position = 0;
        }
    }
}

/* ---- the keys of a bucket ---- */

struct listed {
    uint64_t position;
    const uint8_t *key; /* in the region, then copied */
    uint32_t length;
};

struct list {
    struct listed *keys; /* followed by their copies */
    unsigned capacity, count;
    uint64_t bytes; /* of all keys */
};

/* Counts keys and bytes, without reading an extent, and returns the work of listing them. */
static int measure(struct reader reader, struct list *list, uint64_t *work)
{
    struct okv_entry entry;
    int rc;

    while ((rc = read_entry(&reader, &entry)) == 1) {
        list->capacity++;
        list->bytes += entry.key_length;
    }
    *work = reader.pages * (uint64_t)OKV_TURN_ITEM + list->bytes;
    *work += list->capacity ? list->capacity * (uint64_t)KEY_WORK + OKV_TURN_ITEM : 0;
    return rc;
}

/* Lists the keys from a position on. */
static int fill(struct reader reader, struct list *list, uint64_t from)
{
    const struct okv_table *table = reader.table;
    struct okv_entry entry;
    int rc;

    while ((rc = read_entry(&reader, &entry)) == 1) {
        const uint8_t *key = entry.key_in_extent ? table->base + entry.extent : entry.key;
        uint64_t hash = okv_hash_key(key, entry.key_length, table->hash_seed);
        uint64_t position = okv_bits_reversed(hash) >> (64 - OKV_STORE_POSITION_BITS);
        if (position >= from)
            list->keys[list->count++] = (struct listed){position, key, entry.key_length};
    }
    return rc;
}

static int compare(const void *a, const void *b)
{
    const struct listed *left = a, *right = b;

    return (left->position > right->position) - (left->position < right->position);
}

/* To copy and visit a key. */
static uint64_t work_of(const struct listed *listed, const struct okv_store_walk *walk)
{
    return listed->length * (uint64_t)(walk->price + 1);
}

/* Copies keys as far as the limit suffices, and drops the others. Returns the position of the first
 * of these; 0: there are none. */
static uint64_t copy_keys(struct list *list, struct okv_store_walk *walk)
{
    uint8_t *to = (uint8_t *)(list->keys + list->capacity);
    uint64_t expected = walk->spent; /* once all copied keys are visited */

    for (unsigned i = 0; i < list->count; i++) {
        struct listed *listed = &list->keys[i];
        expected += work_of(listed, walk);
        if (expected > walk->limit && i > 0 && listed->position != listed[-1].position) {
            list->count = i;
            return listed->position;
        }
        memcpy(to, listed->key, listed->length);
        listed->key = to;
        to += listed->length;
        walk->spent += listed->length;
    }
    return 0;
}

/* ---- a walk ---- */

static bool is_too_much(const struct okv_store_walk *walk, uint64_t work)
{
    return !walk->is_first && walk->spent + work > walk->limit;
}

/* Copies the keys of a locked bucket as far as the limit suffices. */
static int gather(struct reader reader, struct okv_store_walk *walk, struct list *list,
                  uint64_t *next)
{
    uint64_t work;
    int rc = measure(reader, list, &work);

    if (rc)
        return rc;
    if (is_too_much(walk, work))
        return OKV_EAGAIN;
    walk->spent += work;
    if (list->capacity == 0)
        return 0;
    list->keys = malloc(list->capacity * sizeof *list->keys + list->bytes);
    if (!list->keys)
        return OKV_ENOMEM;
    rc = fill(reader, list, walk->position);
    if (rc)
        return rc;
    qsort(list->keys, list->count, sizeof *list->keys, compare);
    if (list->count > 0 && is_too_much(walk, work_of(list->keys, walk)))
        return OKV_EAGAIN;
    *next = copy_keys(list, walk);
    return 0;
}

uint64_t okv_store_interval_end(uint64_t position, unsigned depth)
{
    uint64_t size = UINT64_C(1) << (OKV_STORE_POSITION_BITS - depth);
    uint64_t end = (position | (size - 1)) + 1;

    return end >> OKV_STORE_POSITION_BITS ? 0 : end;
}

int okv_store_iterate(struct okv_store *store, struct okv_store_walk *walk,
                      okv_store_iterate_visit *visit, void *user)
{
    const struct okv_table *table = &store->table;
    struct list list = {.keys = NULL};
    uint64_t hash = okv_bits_reversed(walk->position << (64 - OKV_STORE_POSITION_BITS));
    uint64_t number = okv_store_lock_hash(store, hash), next = 0;
    unsigned depth = okv_linear_depth(number, atomic_load(&store->bucket_count));
    struct reader reader = {.table = table,
                            .number = number,
                            .is_newest = walk->is_newest,
                            .clock_ms = atomic_load(&store->clock_ms),
                            .pages = 1};
    reader.image = image_at(&reader, 0, okv_table_bucket_offset(table, number));
    int rc = gather(reader, walk, &list, &next);

    okv_store_unlock(store, number);
    if (rc == 0) {
        walk->position = next ? next : okv_store_interval_end(walk->position, depth);
        walk->is_first = false;
    }
    for (unsigned i = 0; rc == 0 && i < list.count; i++)
        visit(user, list.keys[i].key, list.keys[i].length);
    free(list.keys);
    return rc;
}
