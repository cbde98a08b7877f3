/* What a bucket is to the store: the table that it belongs to, its items, and its working copy. */
#ifndef OKV_SERVER_STORE_BUCKET_H
#define OKV_SERVER_STORE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/heap.h"
#include "shared/format/bucket.h"
#include "shared/format/superblock.h"

/* What a bucket needs to know of the table that it belongs to. */
struct okv_table {
    uint8_t *base; /* of the region */
    struct okv_heap *heap;
    uint64_t boot_id;
    uint64_t hash_seed;
    uint32_t bucket_size;
    uint32_t inline_max; /* bytes of the largest entry that may be inline */
    uint32_t segment_buckets;
    uint64_t segments[OKV_DIRECTORY_ENTRIES]; /* what the directory says: offsets, 0: none */
};

/* Where a bucket of an existing segment lies. */
static inline uint64_t okv_table_bucket_offset(const struct okv_table *table, uint64_t number)
{
    /* A power of two: no division, which takes longer than all else here. */
    unsigned shift = (unsigned)__builtin_ctz(table->segment_buckets);

    return table->segments[number >> shift] +
           (number & (table->segment_buckets - 1)) * table->bucket_size;
}

/* One item; `entry` as it is to be published. Its key and value can always be
 * read, wherever they are; `entry.extent` is 0 as long as it has no extent. */
struct okv_store_item {
    struct okv_entry entry;
    uint32_t inline_size; /* bytes of the entry if it is inline, in the image to come */
    uint8_t published_page;
    uint8_t page;
    bool fresh_extent; /* taken by this commit */
};

/* What a bucket holds. */
struct okv_store_tally {
    uint64_t items;
    uint64_t user_bytes;  /* of keys and values */
    uint64_t entry_bytes; /* of all entries in its pages */
    uint64_t references;  /* items that are not inline */
    uint64_t extra_reads; /* see struct okv_store_totals */
    uint64_t expiring;
    uint64_t overflow_pages;
};

struct okv_store_bucket {
    uint64_t number;
    uint64_t version;      /* published */
    uint64_t next_version; /* of the images to come */
    unsigned depth;        /* of the images to come */
    struct okv_store_tally published, changed;

    unsigned published_pages, pages;
    uint64_t published_offset[OKV_BUCKET_PAGES_MAX];
    uint64_t offset[OKV_BUCKET_PAGES_MAX];
    uint32_t used[OKV_BUCKET_PAGES_MAX]; /* bytes of entries in each part to come */

    struct okv_store_item *items;
    unsigned item_count, item_capacity;
    struct okv_store_item **order; /* item_capacity: for sorting */
    uint64_t *dropped; /* item_capacity: extents of items that were replaced or removed */
    unsigned dropped_count;
    unsigned expired;  /* items that expire removed */
    bool only_shrinks; /* nothing but removals */
    uint8_t *images;   /* OKV_BUCKET_PAGES_MAX of bucket_size */
};

#endif
