/*
 * Writes images to the region, where clients READ them without a lock.
 *
 * The order is what readers rely on (docs/consistency.md section 4):
 *
 *   1. extents that the new images refer to
 *   2. overflow pages, the last one first
 *   3. the primary page, which leads readers to all of the others
 *   4. memory that the old images referred to is freed and written again
 *
 * A fence separates each step from the next one.
 */
#ifndef OKV_SERVER_STORE_PUBLISH_H
#define OKV_SERVER_STORE_PUBLISH_H

#include <stdint.h>

#include "server/store/bucket.h"

/* The next images of a bucket, sealed and in private memory. */
struct okv_store_images {
    uint64_t number;        /* of the bucket */
    unsigned pages;         /* 1 to OKV_BUCKET_PAGES_MAX */
    const uint8_t *bytes;   /* [pages][bucket_size]; the primary page is the first */
    const uint64_t *offset; /* [pages], of each page in the region */
    uint32_t primary_lines; /* bytes of the primary page that may differ from the published one,
                               from its beginning to the end of a cache line */
};

/* Publishes a bucket. The caller wrote its extents, holds the bucket's lock, and frees what the
 * old images referred to afterwards. */
void okv_store_publish(const struct okv_table *table, const struct okv_store_images *images);

/* Publishes bucket `number` as empty: in a new table, or after its items were merged into the
 * bucket that has this depth now. */
void okv_store_publish_empty(const struct okv_table *table, uint64_t number, unsigned depth,
                             uint64_t version);

/* Enters the segment at `offset` into the directory, after its buckets were published; 0: none. The
 * caller holds the lock of resizing. */
void okv_store_publish_segment(struct okv_table *table, uint64_t segment, uint64_t offset);

#endif
