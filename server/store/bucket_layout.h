/*
 * Where each item of a bucket goes: inline or to an extent, and into which part.
 *
 *   1. An item is inline while its entry is at most inline_max bytes.
 *   2. What does not fit one image so moves to extents, largest first.
 *   3. If the entries do not even fit then, they are dealt to several pages:
 *      each to the first one that has room.
 *   4. Where a part has room left, its smallest extents come back inline.
 *
 * These functions decide only: they take no memory and write nothing.
 */
#ifndef OKV_SERVER_STORE_BUCKET_LAYOUT_H
#define OKV_SERVER_STORE_BUCKET_LAYOUT_H

#include "server/store/bucket.h"

/* Sets `pages`, `used`, and of each item `part` and `entry.is_reference`.
 * OKV_EFULL when OKV_BUCKET_PAGES_MAX pages do not hold the items. */
int okv_store_layout_plan(struct okv_store_bucket *bucket, const struct okv_table *table);

/* The layout that needs no memory: every item stays as it is where it is. Only
 * for a bucket that has lost items and gained none. The bucket keeps its version, or an age
 * might take another byte: readers may mix pages from before and after, since each item
 * stays in its part or goes, and no part goes, even if it is empty. */
void okv_store_layout_keep(struct okv_store_bucket *bucket);

/* Whether an item of this entry is one that a get should find with one READ. */
bool okv_store_layout_is_small(const struct okv_table *table, const struct okv_entry *entry,
                               uint64_t image_version);
/* Whether an extent of this item begins with the key, rather than the entry having it. */
bool okv_store_key_goes_to_extent(const struct okv_table *table, uint32_t key_length,
                                  uint32_t value_length);

#endif
