/*
 * The working copy of one bucket: load, change, commit.
 *
 * A change is made in three steps. Load lists the items of the published parts.
 * Put and remove change that list. Commit decides anew what is inline, what is
 * an extent and which part holds it, takes the space that this needs, builds
 * all images in private memory and publishes them. Only commit writes to the
 * region, and only after nothing can fail any more.
 *
 * All calls are made with the bucket's lock held, from load to commit.
 */
#ifndef OKV_SERVER_STORE_BUCKET_H
#define OKV_SERVER_STORE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "server/heap.h"
#include "shared/bucket.h"

/* What a bucket needs to know of the table that it belongs to. */
struct okv_table {
    uint8_t *base; /* of the region */
    struct okv_heap *heap;
    uint64_t boot_id;
    uint64_t index_offset;
    uint32_t bucket_size;
    uint32_t inline_max; /* bytes of the largest entry that may be inline */
    unsigned depth;
};

/* One item; `entry` as it is to be published. Its key and value can always be
 * read, wherever they are; `entry.extent` is 0 as long as it has no extent. */
struct okv_store_item {
    struct okv_entry entry;
    uint32_t inline_size; /* bytes of the entry if it is inline */
    uint8_t published_part;
    uint8_t part;
    bool fresh_extent; /* taken by this commit */
};

/* What a bucket holds. */
struct okv_store_tally {
    uint64_t items;
    uint64_t user_bytes; /* of keys and values */
    uint64_t references; /* items that are not inline */
    uint64_t overflow_parts;
};

struct okv_store_bucket {
    uint64_t number;
    uint64_t version; /* published */
    struct okv_store_tally published, changed;

    unsigned published_parts, parts;
    uint64_t published_offset[OKV_BUCKET_PARTS_MAX];
    uint64_t offset[OKV_BUCKET_PARTS_MAX];
    uint32_t used[OKV_BUCKET_PARTS_MAX]; /* bytes of entries in each part to come */

    struct okv_store_item *items;
    unsigned item_count, item_capacity;
    uint64_t dropped_extent; /* of the item that was replaced or removed; 0: none */
    bool only_shrinks;       /* the change is a removal */
    uint8_t *images;         /* OKV_BUCKET_PARTS_MAX of bucket_size */
};

/* Room for any bucket of this size; one per thread that changes the store. OKV_ENOMEM. */
int okv_store_bucket_init(struct okv_store_bucket *bucket, uint32_t bucket_size);
void okv_store_bucket_fini(struct okv_store_bucket *bucket);

/* Lists what is published as bucket `number`. OKV_ECORRUPT when its images make no sense. */
int okv_store_bucket_load(struct okv_store_bucket *bucket, const struct okv_table *table,
                          uint64_t number);

/* The item of a key, or NULL. */
struct okv_store_item *okv_store_bucket_find(struct okv_store_bucket *bucket, uint16_t tag,
                                             const void *key, uint32_t key_length);

/* One put or remove per load. `item` is what find returned; NULL for a new key.
 * Key and value stay the caller's, unchanged until after commit. OKV_EFULL when
 * the bucket can hold no further item. */
int okv_store_bucket_put(struct okv_store_bucket *bucket, struct okv_store_item *item,
                         const struct okv_entry *entry);
void okv_store_bucket_remove(struct okv_store_bucket *bucket, struct okv_store_item *item);

/*
 * Lays the items out again and publishes them with the version that
 * okv_store_bucket_next_version() told. OKV_EFULL: there is no room, and
 * nothing was changed; never after okv_store_bucket_remove().
 */
int okv_store_bucket_commit(struct okv_store_bucket *bucket, const struct okv_table *table);

static inline uint64_t okv_store_bucket_next_version(const struct okv_store_bucket *bucket)
{
    return bucket->version + 1;
}

/* Publishes an empty bucket; for a table that nobody reads yet. */
void okv_store_bucket_create_empty(const struct okv_table *table, uint64_t number);

#endif
