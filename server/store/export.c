#include "server/store/export.h"

#include <stdlib.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/iterate.h"
#include "server/store/locking.h"
#include "server/store/resize.h"
#include "shared/base/error.h"

/* ---- out ---- */

struct place {
    uint64_t position;
    const struct okv_entry *entry;
};

static uint64_t hash_at(uint64_t position)
{
    return okv_bits_reversed(position << (64 - OKV_STORE_POSITION_BITS));
}

static int by_position(const void *a, const void *b)
{
    const struct place *left = a, *right = b;

    return (left->position > right->position) - (left->position < right->position);
}

/* The items from a position on, in order. */
static unsigned list_items(struct okv_store *store, struct okv_store_bucket *bucket, uint64_t from,
                           struct place *out)
{
    unsigned count = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_entry *entry = &bucket->items[i].entry;
        okv_store_entry_complete(entry, &store->table);
        uint64_t hash = okv_hash_key(entry->key, entry->key_length, store->table.hash_seed);
        uint64_t position = okv_bits_reversed(hash) >> (64 - OKV_STORE_POSITION_BITS);
        if (position >= from)
            out[count++] = (struct place){position, entry};
    }
    qsort(out, count, sizeof *out, by_position);
    return count;
}

/* Returns the position of the first item that is left; 0: none is. */
static uint64_t tell_items(const struct place *places, unsigned count, uint64_t limit,
                           const struct okv_store_export_visitor *visitor)
{
    uint64_t told = 0;

    for (unsigned i = 0; i < count; i++) {
        const struct okv_entry *entry = places[i].entry;
        if (told >= limit && places[i].position != places[i - 1].position)
            return places[i].position;
        visitor->item(visitor->user, entry);
        told += entry->key_length + (uint64_t)entry->value_length;
    }
    return 0;
}

int okv_store_export(struct okv_store *store, struct okv_store_work *work, uint64_t *position,
                     uint64_t limit, const struct okv_store_export_visitor *visitor)
{
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t number = okv_store_lock_hash(store, hash_at(*position)), next = 0;
    unsigned depth = okv_linear_depth(number, atomic_load(&store->bucket_count));
    int rc = okv_store_bucket_load_published(bucket, &store->table, number);
    struct place *places = rc ? NULL : malloc((bucket->item_count + 1) * sizeof *places);

    if (rc == 0 && !places)
        rc = OKV_ENOMEM;
    if (rc == 0) {
        unsigned count = list_items(store, bucket, *position, places);
        visitor->interval(visitor->user, *position, bucket->version);
        next = tell_items(places, count, limit, visitor);
    }
    okv_store_unlock(store, number);
    free(places);
    if (rc == 0)
        *position = next ? next : okv_store_interval_end(*position, depth);
    return rc;
}

/* ---- in ---- */

static int raise_version(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                         uint64_t version)
{
    int rc = okv_store_transaction_load(store, work, number);

    if (rc || work->bucket.next_version >= version)
        return rc;
    work->bucket.next_version = version;
    return okv_store_transaction_commit(store, work);
}

int okv_store_import_version(struct okv_store *store, struct okv_store_work *work, uint64_t begin,
                             uint64_t end, uint64_t version)
{
    uint64_t position = begin;
    int rc;

    do {
        uint64_t number = okv_store_lock_hash(store, hash_at(position));
        unsigned depth = okv_linear_depth(number, atomic_load(&store->bucket_count));
        rc = raise_version(store, work, number, version);
        okv_store_unlock(store, number);
        position = okv_store_interval_end(position, depth);
    } while (rc == 0 && position != 0 && (end == 0 || position < end));
    return rc;
}

static int empty_bucket(struct okv_store *store, struct okv_store_work *work, uint64_t number)
{
    struct okv_store_bucket *bucket = &work->bucket;

    okv_store_lock(store, number);
    int rc = okv_store_transaction_load(store, work, number);
    while (rc == 0 && bucket->item_count > 0)
        okv_store_bucket_remove(bucket, &bucket->items[bucket->item_count - 1]);
    if (rc == 0)
        rc = okv_store_transaction_commit(store, work);
    okv_store_unlock(store, number);
    return rc;
}

int okv_store_import_begin(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t count = atomic_load(&store->bucket_count);
    int rc = 0;

    for (uint64_t number = 0; number < count && rc == 0; number++)
        rc = empty_bucket(store, work, number);
    if (rc == 0)
        okv_store_shrink(store, work, (unsigned)count);
    return rc;
}
