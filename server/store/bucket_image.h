/*
 * The working copy of one bucket: load, change, commit.
 *
 * A change is made in steps. Load lists the items of the published pages. Put,
 * remove and expire change that list. Prepare decides anew what is inline, what is
 * an extent and which part holds it, takes the space that this needs and builds all
 * images in private memory. Publish copies them to the region; nothing can fail
 * any more. Finish frees what is no longer referred to. A split or a merge
 * prepares two working copies, publishes both and then finishes both.
 *
 * All calls are made with the bucket's lock held, from load to finish.
 */
#ifndef OKV_SERVER_STORE_BUCKET_IMAGE_H
#define OKV_SERVER_STORE_BUCKET_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/bucket.h"

/* Counts an item that is in this part of an image of this version. What it counts of one that is
 * inline, counts_the_same() in update_in_place.c compares. */
void okv_store_tally_item(struct okv_store_tally *tally, const struct okv_table *table,
                          const struct okv_entry *entry, unsigned page, uint64_t image_version);

/* Room for any bucket of this size. OKV_ENOMEM. */
int okv_store_bucket_init(struct okv_store_bucket *bucket, uint32_t bucket_size);
void okv_store_bucket_fini(struct okv_store_bucket *bucket);

/* Lists what is published as bucket `number`. OKV_ECORRUPT when its images make no sense. */
int okv_store_bucket_load(struct okv_store_bucket *bucket, const struct okv_table *table,
                          uint64_t number);
/* Begins a bucket that nobody has been led to yet, with no items. */
void okv_store_bucket_begin(struct okv_store_bucket *bucket, const struct okv_table *table,
                            uint64_t number, unsigned depth, uint64_t version);

/* The item of a key, or NULL. */
struct okv_store_item *okv_store_bucket_find(struct okv_store_bucket *bucket, const void *key,
                                             uint32_t key_length);

/*
 * Puts an item in place of `item`, which find returned, or besides the others when that
 * is NULL. Its version will be next_version. If `entry->extent` is not 0 it holds
 * the value; it is used up by finish. Key and value stay the caller's, unchanged until
 * publish. OKV_EFULL when the bucket can hold no further item.
 */
int okv_store_bucket_put(struct okv_store_bucket *bucket, struct okv_store_item *item,
                         const struct okv_entry *entry);
void okv_store_bucket_remove(struct okv_store_bucket *bucket, struct okv_store_item *item);
/* Marks the item's extent as one that finish frees. */
void okv_store_bucket_drop_extent(struct okv_store_bucket *bucket,
                                  const struct okv_store_item *item);
/* Removes the items whose time has come and counts them in `expired`. */
void okv_store_bucket_expire(struct okv_store_bucket *bucket, uint64_t clock_ms);
/* Moves an item over to the working copy of another bucket. OKV_EFULL as for put. */
int okv_store_bucket_move(struct okv_store_bucket *from, struct okv_store_item *item,
                          struct okv_store_bucket *to);

/*
 * Lays the items out again and builds the images. OKV_EFULL: there is no room, and
 * nothing was changed; never after removals alone. OKV_ECORRUPT.
 */
int okv_store_bucket_prepare(struct okv_store_bucket *bucket, const struct okv_table *table);
/* Gives back what prepare took. */
void okv_store_bucket_cancel(struct okv_store_bucket *bucket, const struct okv_table *table);
void okv_store_bucket_publish(const struct okv_store_bucket *bucket, const struct okv_table *table);
/* Writes the first `length` bytes of a complete image, and the line that they end in, where clients
 * READ it. */
void okv_store_publish_image(uint8_t *published, const uint8_t *image, uint32_t length);
void okv_store_bucket_finish(struct okv_store_bucket *bucket, const struct okv_table *table);

/* Writes an empty image in a bucket's place: of a table that nobody reads yet, or, with
 * the depth of the bucket that took its items, of a bucket that is given up. */
void okv_store_bucket_write_empty(const struct okv_table *table, uint64_t number, unsigned depth,
                                  uint64_t version);

/* Makes key and value of an entry that was read point to where they are. */
void okv_store_entry_complete(struct okv_entry *entry, const struct okv_table *table);
/* Completes an extent that has its value: the key that it begins with, and the entry's tag and
 * checksum. */
void okv_store_entry_seal_extent(struct okv_entry *entry, const struct okv_table *table);
/* Takes and writes the extent of an entry that is to be a reference. OKV_EFULL. */
int okv_store_entry_write_extent(struct okv_entry *entry, const struct okv_table *table);

#endif
