#include "server/store/recover.h"

#include <limits.h>

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/clear.h"
#include "server/store/compact.h"
#include "server/store/evict.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "server/store/resize.h"
#include "server/store/room.h"
#include "shared/base/error.h"
#include "shared/format/bucket_edit.h"

/* Ranges of memory that are emptied for an item, by moves. */
#define RANGES 512u
/* Steps for one change, after the reserve is there. */
#define EVICTIONS 256

/* Heat is not in the log. Of a full cache about a tenth are new items; as new ones all others would
 * go, too, that are not used within a round of the hand. So one of eight in a bucket is new, those
 * that were written last. */
static void choose_new(struct okv_store_bucket *bucket)
{
    struct okv_store_item *oldest = NULL;
    unsigned count = 0;

    for (unsigned i = 0; i < bucket->item_count; i++) {
        struct okv_store_item *item = &bucket->items[i];
        if (!okv_heat_is_new(item->heat))
            continue;
        count++;
        if (!oldest || item->entry.version < oldest->entry.version)
            oldest = item;
    }
    if (count > bucket->item_count / 8 + 1)
        oldest->heat = okv_heat_make(OKV_HEAT_MAIN, okv_heat_counter_of(oldest->heat));
}

/* Replaces `item`, or adds one if that is NULL. */
static int put_item(struct okv_store_bucket *bucket, const struct okv_table *table,
                    struct okv_store_item *item, const struct okv_store_recovered *recovered)
{
    const struct okv_entry entry = {
        .key = recovered->key,
        .key_length = recovered->key_length,
        .value = recovered->value,
        .value_length = recovered->value_length,
        .expiry_ms = recovered->expiry_ms,
    };
    int rc = okv_store_bucket_put(bucket, table, item, &entry);

    if (rc)
        return rc;
    if (!item)
        item = &bucket->items[bucket->item_count - 1];
    item->entry.version = recovered->version;
    if (table->heat)
        choose_new(bucket);
    return 0;
}

static int change_item(struct okv_store_bucket *bucket, const struct okv_table *table,
                       const struct okv_store_recovered *recovered)
{
    struct okv_store_item *item =
        okv_store_bucket_find(bucket, recovered->key, recovered->key_length);

    if (item && item->entry.version > recovered->version)
        return 0;
    if (!recovered->value) {
        if (item)
            okv_store_bucket_remove(bucket, item);
        return 0;
    }
    bucket->only_shrinks = false;
    return put_item(bucket, table, item, recovered);
}

static int recover_once(struct okv_store *store, struct okv_store_work *work,
                        const struct okv_store_recovered *recovered)
{
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t hash = okv_hash_key(recovered->key, recovered->key_length, store->table.hash_seed);
    uint64_t number = okv_store_lock_hash(store, hash);
    int rc = okv_store_transaction_load(store, work, number);

    if (rc)
        goto unlock;
    if (bucket->next_version < recovered->version)
        bucket->next_version = recovered->version;
    rc = change_item(bucket, &store->table, recovered);
    if (rc == 0)
        rc = okv_store_transaction_commit(store, work);
unlock:
    okv_store_unlock(store, number);
    return rc;
}

struct okv_effort okv_store_recover_effort(const struct okv_store *store)
{
    bool evicts = okv_store_may_evict(store);

    return (struct okv_effort){
        .compactions = evicts ? okv_store_compactions(store, false) : UINT_MAX, .has_begun = true};
}

void okv_store_recover_force(struct okv_store *store, struct okv_store_work *work,
                             struct okv_effort *effort)
{
    okv_store_compact_again(store);
    okv_store_evict_at_start(store, work);
    effort->evictions = EVICTIONS;
}

/* The log has no moves, so memory is in other pieces than it was. */
static bool move_together(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                          unsigned *ranges)
{
    if (!store->table.heat || *ranges == 0)
        return false;
    --*ranges;
    okv_store_clear_by_moves(store, work, size);
    return true;
}

/* What no effort finds room for gets a pass of compaction of its own, the place of what it
 * replaces, the reserve, and in a cache the place of other items. */
static int recover_with_room(struct okv_store *store, struct okv_store_work *work,
                             const struct okv_store_recovered *recovered)
{
    const struct okv_store_recovered gone = {
        .key = recovered->key, .key_length = recovered->key_length, .version = recovered->version};
    struct okv_effort effort = okv_store_recover_effort(store);
    uint64_t size = (uint64_t)recovered->key_length + recovered->value_length;
    int rc = recover_once(store, work, recovered);
    unsigned ranges = RANGES;
    bool was_forced = false;

    effort.merges = effort.sweeps = UINT_MAX;
    while (rc == OKV_EFULL) {
        if (okv_heap_wipe(&store->heap, UINT64_MAX) == 0 &&
            !move_together(store, work, size, &ranges) &&
            !okv_store_make_room(store, work, size, &effort)) {
            if (was_forced)
                return rc;
            was_forced = true;
            okv_store_reserve_release(store);
            recover_once(store, work, &gone);
            okv_store_recover_force(store, work, &effort);
        }
        rc = recover_once(store, work, recovered);
    }
    return rc;
}

int okv_store_recover(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_recovered *recovered)
{
    if (recovered->key_length == 0 || recovered->key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (recovered->value_length > store->max_value)
        return OKV_EVALUESIZE;
    int rc = recover_with_room(store, work, recovered);
    if (rc == 0)
        okv_store_resize(store, work);
    return rc;
}

/* In place: a heap that is full may have no room for a second image, and no reader counts what it
 * READs yet. Entries hold their age below the version of their page, so pages stay as long as they
 * are. */
static int raise_bucket(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                        uint64_t by)
{
    const struct okv_table *table = &store->table;
    const struct okv_store_bucket *bucket = &work->bucket;

    okv_store_lock(store, number);
    okv_store_before_change(table, number);
    int rc = okv_store_bucket_load(&work->bucket, table, number);
    if (rc == 0 && bucket->version > OKV_LE48_MAX - by)
        rc = OKV_ENUMBER;
    for (unsigned page = 0; rc == 0 && page < bucket->published_pages; page++) {
        uint8_t *image = table->base + bucket->published_offset[page];
        okv_bucket_raise(image, by);
        okv_bucket_seal(image, table->bucket_size, table->boot_id, number);
    }
    okv_store_unlock(store, number);
    return rc;
}

int okv_store_raise_versions(struct okv_store *store, struct okv_store_work *work, uint64_t by)
{
    int rc = 0;

    for (uint64_t number = 0; rc == 0 && number < atomic_load(&store->bucket_count); number++)
        rc = raise_bucket(store, work, number, by);
    return rc;
}

/* ---- buckets of a snapshot ---- */

int okv_store_recover_bucket_begin(struct okv_store *store, struct okv_store_work *work,
                                   uint64_t number, uint64_t version)
{
    struct okv_store_bucket *bucket = &work->bucket;

    if (number >= atomic_load(&store->bucket_count))
        return OKV_ECORRUPT;
    okv_store_lock(store, number);
    int rc = okv_store_bucket_load(bucket, &store->table, number);
    if (rc) {
        okv_store_unlock(store, number);
        return rc;
    }
    bucket->next_version = version;
    return 0;
}

int okv_store_recover_bucket_add(struct okv_store *store, struct okv_store_work *work,
                                 const struct okv_store_recovered *recovered)
{
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t hash = okv_hash_key(recovered->key, recovered->key_length, store->table.hash_seed);

    if (okv_linear_bucket(hash, atomic_load(&store->bucket_count)) != bucket->number ||
        recovered->version > bucket->next_version ||
        okv_store_bucket_find(bucket, recovered->key, recovered->key_length))
        return OKV_ECORRUPT;
    if (recovered->value_length > store->max_value)
        return OKV_EVALUESIZE;
    return put_item(bucket, &store->table, NULL, recovered);
}

int okv_store_recover_bucket_end(struct okv_store *store, struct okv_store_work *work)
{
    uint64_t number = work->bucket.number;

    work->bucket.only_shrinks = false;
    int rc = okv_store_transaction_commit(store, work);
    okv_store_unlock(store, number);
    return rc;
}

void okv_store_recover_bucket_cancel(struct okv_store *store, struct okv_store_work *work)
{
    okv_store_unlock(store, work->bucket.number);
}
