/* A table, an item and the working copy of a bucket, as the files of the store share them. */
#ifndef OKV_SERVER_STORE_BUCKET_H
#define OKV_SERVER_STORE_BUCKET_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/heap.h"
#include "shared/format/bucket.h"
#include "shared/format/superblock.h"

struct okv_ages;
struct okv_heat;
struct okv_store_pending;

/* Bytes of a bucket's record of heat (heat.h), at most. */
#define OKV_HEAT_RECORD_MAX 384u

/* The table as its buckets see it. */
struct okv_table {
    uint8_t *base; /* of the region */
    struct okv_heap *heap;
    struct okv_store_pending *pending; /* NULL: changes are published at once */
    struct okv_heat *heat;             /* NULL: nothing is evicted */
    struct okv_ages *ages;             /* likewise */
    bool evicts_expiring;              /* items with an expiry alone are evicted */
    uint64_t boot_id;
    uint64_t hash_seed;
    uint32_t bucket_size;
    uint32_t inline_max; /* bytes of the largest entry that may be inline */
    uint32_t segment_buckets;
    uint64_t segments[OKV_DIRECTORY_ENTRIES]; /* as in the directory: offsets, 0: none */
};

/* Offset of a bucket, whose segment exists. */
static inline uint64_t okv_table_bucket_offset(const struct okv_table *table, uint64_t number)
{
    /* A shift, because a division would take longer than all the rest. */
    unsigned shift = (unsigned)__builtin_ctz(table->segment_buckets);

    return table->segments[number >> shift] +
           (number & (table->segment_buckets - 1)) * table->bucket_size;
}

/* An item, with its entry as the next image will have it. The entry's key and value pointers are
 * always valid; `entry.extent` is 0 while the item has no extent. */
struct okv_store_item {
    struct okv_entry entry;
    uint32_t inline_size; /* bytes of the entry if inline, in the next image */
    uint8_t published_page;
    uint8_t page;
    bool fresh_extent; /* allocated by this commit */
    uint8_t heat;      /* where items are evicted, as is the tag */
    uint16_t tag;      /* of the key's hash (okv_hash_tag) */
};

/* Sums over the items of a bucket. */
struct okv_store_tally {
    uint64_t items;
    uint64_t user_bytes;  /* of keys and values */
    uint64_t entry_bytes; /* of the entries in its pages */
    uint64_t references;  /* items that are not inline */
    uint64_t extra_reads; /* see struct okv_store_totals */
    uint64_t expiring;
    uint64_t overflow_pages;
    uint64_t heat_bytes, new_bytes; /* of items that may be evicted, and of new ones of these */
};

struct okv_store_bucket {
    uint64_t number;
    uint64_t version;      /* published */
    uint64_t next_version; /* of the next images */
    unsigned depth;        /* of the next images */
    struct okv_store_tally published, changed;

    unsigned published_pages, pages;
    uint64_t published_offset[OKV_BUCKET_PAGES_MAX];
    uint64_t offset[OKV_BUCKET_PAGES_MAX];
    uint32_t used[OKV_BUCKET_PAGES_MAX]; /* bytes of entries in each next page */

    struct okv_store_item *items;
    unsigned item_count, item_capacity;
    struct okv_store_item **order; /* [item_capacity], for sorting */
    uint64_t *dropped; /* [item_capacity], extents of items that were replaced or removed */
    unsigned dropped_count;
    unsigned expired; /* items that okv_store_bucket_expire() removed */
    struct okv_store_evicted {
        unsigned of_new, of_main; /* items */
        unsigned in_bucket;       /* of these, for room in the bucket */
        uint64_t bytes;           /* of keys and values */
        unsigned came_back;       /* items that were put and had been evicted while they were new */
    } evicted;
    unsigned gone;     /* items that were removed last, and that the log is to have: they follow the
                          others, and no item is added any more */
    bool only_shrinks; /* removals are the only changes */
    uint8_t *images;   /* OKV_BUCKET_PAGES_MAX of bucket_size bytes */
    uint8_t heat[OKV_HEAT_RECORD_MAX]; /* where items are evicted: the next record */
};

#endif
