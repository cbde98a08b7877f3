#include "server/store/restore.h"

#include "server/store/bucket_image.h"
#include "server/store/bucket_transaction.h"
#include "server/store/compact.h"
#include "server/store/locking.h"
#include "server/store/resize.h"
#include "shared/base/error.h"

static int change_item(struct okv_store_bucket *bucket, const struct okv_store_restored *restored)
{
    struct okv_store_item *item =
        okv_store_bucket_find(bucket, restored->key, restored->key_length);

    if (item && item->entry.version > restored->version)
        return 0;
    if (!restored->value) {
        if (item)
            okv_store_bucket_remove(bucket, item);
        return 0;
    }
    const struct okv_entry entry = {
        .key = restored->key,
        .key_length = restored->key_length,
        .value = restored->value,
        .value_length = restored->value_length,
        .expiry_ms = restored->expiry_ms,
    };
    int rc = okv_store_bucket_put(bucket, item, &entry);
    if (rc)
        return rc;
    if (!item)
        item = &bucket->items[bucket->item_count - 1];
    item->entry.version = restored->version;
    return 0;
}

static int restore_once(struct okv_store *store, struct okv_store_work *work,
                        const struct okv_store_restored *restored)
{
    struct okv_store_bucket *bucket = &work->bucket;
    uint64_t hash = okv_hash_key(restored->key, restored->key_length, store->table.hash_seed);
    uint64_t number = okv_store_lock_hash(store, hash);
    int rc = okv_store_bucket_load(bucket, &store->table, number);

    if (rc)
        goto unlock;
    if (bucket->next_version < restored->version)
        bucket->next_version = restored->version;
    rc = change_item(bucket, restored);
    bucket->only_shrinks = false;
    if (rc == 0)
        rc = okv_store_transaction_commit(store, work);
unlock:
    okv_store_unlock(store, number);
    return rc;
}

int okv_store_restore(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_restored *restored)
{
    struct okv_store_effort effort = OKV_STORE_EFFORT;
    uint64_t size = (uint64_t)restored->key_length + restored->value_length;
    bool goes_on = true;

    if (restored->key_length == 0 || restored->key_length > OKV_KEY_MAX)
        return OKV_EKEYSIZE;
    if (restored->value_length > store->max_value)
        return OKV_EVALUESIZE;
    int rc = restore_once(store, work, restored);
    while (rc == OKV_EFULL && goes_on) {
        goes_on = okv_store_make_room(store, work, size, &effort);
        rc = restore_once(store, work, restored);
    }
    if (rc == 0)
        okv_store_resize(store, work);
    return rc;
}
