/*
 * The layout of a bucket: which items are inline, and on which page each entry lies.
 *
 *   1. An item is inline if its entry is at most inline_max bytes.
 *   2. If the entries do not fit one page, items move to extents, largest first.
 *   3. If they still do not fit, entries go to several pages, each to the first with room.
 *   4. If a page has room left, its smallest extents return inline.
 *
 * A bucket counts as full when a later layout of the same items, or of a subset, could need more
 * than OKV_BUCKET_PAGES_MAX pages: versions rise, so ages need more bytes, and a split divides the
 * items in another order. Therefore later layouts of a bucket never fail, and a full bucket cannot
 * stop the growth of the index.
 *
 * These functions only decide: they allocate nothing and write no image.
 */
#ifndef OKV_SERVER_STORE_BUCKET_LAYOUT_H
#define OKV_SERVER_STORE_BUCKET_LAYOUT_H

#include "server/store/bucket.h"

/* Sets `pages`, `used`, and `page` and `entry.is_reference` of each item.
 * OKV_EBUCKETFULL: the bucket would be more than full. */
int okv_store_layout_plan(struct okv_store_bucket *bucket, const struct okv_table *table);

/* The layout that needs no memory: every item stays on its page, inline or not. Only for a bucket
 * that lost items and gained none. The bucket keeps its version, because an older age might need
 * another byte. Readers may then mix pages from before and after. That is safe: no item changes its
 * page, and no page is removed, even if it is empty. */
void okv_store_layout_keep(struct okv_store_bucket *bucket);

/* Whether a get should find this item with one READ: it is small enough to be inline. */
bool okv_store_layout_is_small(const struct okv_table *table, const struct okv_entry *entry,
                               uint64_t image_version);
/* Whether the key of such an item goes to its extent, instead of its entry. */
bool okv_store_key_goes_to_extent(const struct okv_table *table, uint32_t key_length,
                                  uint32_t value_length);

#endif
