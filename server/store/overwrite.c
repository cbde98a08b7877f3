/*
 * The usual put: a value in the place of one that is as long, in a bucket of one part. Nothing but
 * the value and ages changes: no total, no size, nothing by which the index grows. What is more, or
 * may be, goes the ways of store_update.c.
 */
#include "server/store/bucket_transaction.h"
#include "shared/base/compiler.h"
#include "shared/base/error.h"
#include "shared/base/ordering.h"

/* An overwrite moves nothing by which the index grows or shrinks; it is left to some of them to go
 * on with what was not finished before. */
#define OVERWRITES_PER_RESIZE 16

void okv_store_publish_image(uint8_t *published, const uint8_t *image, uint32_t length)
{
    okv_publish_fence(); /* the extent before what refers to it */
    okv_bucket_copy(published, image, length);
    okv_publish_fence(); /* the image before what was freed is written again */
}

/* In bucket `number`, among entries of other kinds: as okv_bucket_overwrite(), but 0 instead of
 * OKV_EAGAIN. What has expired there is to go. The bucket stays as full as it is, so nothing that
 * was put out of it finds room that it did not have; what a removal left so when the heap was full
 * waits for another change. */
OKV_APART static int overwrite_among_others(const struct okv_store *store, uint64_t number,
                                            uint8_t *image, const struct okv_overwrite *put)
{
    const struct okv_table *table = &store->table;
    const uint8_t *published = table->base + okv_table_bucket_offset(table, number);
    uint64_t hash = okv_hash_key(put->key, put->key_length, table->hash_seed);
    struct okv_bucket_spot spot;

    if (!okv_bucket_raise(image, published, table->bucket_size, table->inline_max, hash, put->key,
                          put->key_length, &spot) ||
        spot.earliest_expiry <= atomic_load(&store->clock_ms) ||
        !okv_bucket_replace_value(image, &spot, put->value, put->value_length))
        return 0;
    uint32_t length = okv_bucket_extent(image);
    okv_bucket_seal(image, length, table->boot_id, number);
    return (int)length;
}

/* In bucket `number`, which is locked. */
static bool overwrite(const struct okv_store *store, uint64_t number, uint8_t *image,
                      const struct okv_overwrite *put)
{
    const struct okv_table *table = &store->table;
    uint8_t *published = table->base + okv_table_bucket_offset(table, number);

    if (okv_bucket_chain(published))
        return false;
    int length =
        okv_bucket_overwrite(image, published, table->bucket_size, table->boot_id, number, put);
    if (length == OKV_EAGAIN) {
        /* A copy: as long as no call is given its address, `put` is in registers. */
        const struct okv_overwrite again = *put;
        length = overwrite_among_others(store, number, image, &again);
    }
    if (!OKV_USUALLY(length > 0))
        return false;
    okv_store_publish_image(published, image, (uint32_t)length);
    return true;
}

bool okv_store_overwrite(struct okv_store *store, struct okv_store_work *work,
                         const struct okv_overwrite *put, uint64_t *version)
{
    uint8_t *image = work->patch.image;
    uint64_t hash = okv_hash_key(put->key, put->key_length, store->table.hash_seed);
    uint64_t number = okv_store_lock_hash(store, hash);
    bool is_done = overwrite(store, number, image, put);

    okv_store_unlock(store, number);
    if (!is_done)
        return false;
    *version = okv_bucket_version(image);
    if (++work->overwrites % OVERWRITES_PER_RESIZE == 0)
        okv_store_resize(store, work);
    return true;
}
