/*
 * Walks a whole table that no thread writes, and checks what no client can: every image, the bucket
 * of each key, that keys are unique and that allocations do not overlap.
 */
#ifndef OKV_TESTS_STORE_AUDIT_H
#define OKV_TESTS_STORE_AUDIT_H

#include <stdint.h>

#include "shared/format/bucket.h"
#include "shared/format/superblock.h"

struct store_audit {
    uint64_t buckets;
    uint64_t segments;
    uint64_t items;
    uint64_t user_bytes;
    uint64_t entry_bytes;
    uint64_t references;
    uint64_t small_references; /* references whose inline entry would be at most inline_max */
    uint64_t later_pages;      /* sum over all items of their page number */
    uint64_t extra_reads;      /* items in overflow pages, or small references */
    uint64_t overflow_pages;
    uint64_t expiring;
    uint64_t longest_chain; /* pages of the longest bucket */
    uint64_t piece_bytes;   /* of segments, extents and overflow pages, without rounding */
    uint64_t class_bytes;   /* the same, each rounded up to its size class */
};

/* Called for each item; `entry` points to key and value. */
typedef void store_audit_visit(void *context, const struct okv_entry *entry);

/* Fails the test if anything is wrong. `visit` may be NULL. */
void store_audit_run(const uint8_t *region, uint64_t length, uint32_t inline_max,
                     store_audit_visit *visit, void *context, struct store_audit *out);

/* The size class of jemalloc: multiples of 16 up to 128, then four classes per power of two. */
uint64_t store_size_class(uint64_t size);

/* Mean READs of a get beyond the first, or beyond the second for large items. */
static inline double store_audit_extra(const struct store_audit *audit)
{
    return audit->items
               ? (double)(audit->small_references + audit->later_pages) / (double)audit->items
               : 0;
}

#endif
