/*
 * The working copy of one bucket: load, change, commit.
 *
 *   load      lists the items of the published pages
 *   put, remove, expire, move   change that list
 *   prepare   lays the items out again, allocates what that needs and builds the images in private
 *             memory; the last step that can fail
 *   publish   copies the images to the region, or keeps them until their batch is durable
 *   finish    frees what the bucket no longer refers to
 *
 * A split prepares two working copies, publishes both, then finishes both.
 *
 * The caller holds the bucket's lock from load to finish.
 */
#ifndef OKV_SERVER_STORE_BUCKET_IMAGE_H
#define OKV_SERVER_STORE_BUCKET_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/bucket.h"
#include "server/store/pending.h"

/* Counts an item that is in page `page` of an image of this version. tally_is_unchanged() in
 * update_in_place.c depends on what it counts of an inline item. */
void okv_store_tally_item(struct okv_store_tally *tally, const struct okv_table *table,
                          const struct okv_entry *entry, unsigned page, uint64_t image_version);
/* Counts an item of this heat, if it may be evicted. */
void okv_store_tally_heat(struct okv_store_tally *tally, const struct okv_table *table,
                          const struct okv_entry *entry, uint8_t heat);

/* Allocates for any bucket of this size. OKV_ENOMEM. */
int okv_store_bucket_init(struct okv_store_bucket *bucket, uint32_t bucket_size);
void okv_store_bucket_fini(struct okv_store_bucket *bucket);

/* Lists the items of bucket `number`. OKV_ECORRUPT: its images make no sense. */
int okv_store_bucket_load(struct okv_store_bucket *bucket, const struct okv_table *table,
                          uint64_t number);
/* The same without changes that wait (pending.h). */
int okv_store_bucket_load_published(struct okv_store_bucket *bucket, const struct okv_table *table,
                                    uint64_t number);
/* Begins a new bucket without items, which no published image leads to yet. */
void okv_store_bucket_begin(struct okv_store_bucket *bucket, const struct okv_table *table,
                            uint64_t number, unsigned depth, uint64_t version);

/* The item of a key, or NULL. */
struct okv_store_item *okv_store_bucket_find(struct okv_store_bucket *bucket, const void *key,
                                             uint32_t key_length);

/*
 * Replaces `item`, which find returned, or adds an item if that is NULL. It gets next_version.
 * An `entry->extent` that is not 0 holds the value and belongs to the bucket after finish. Key and
 * value stay the caller's and must not change before publish. OKV_EBUCKETFULL: the bucket can hold
 * no further item.
 */
int okv_store_bucket_put(struct okv_store_bucket *bucket, const struct okv_table *table,
                         struct okv_store_item *item, const struct okv_entry *entry);
void okv_store_bucket_remove(struct okv_store_bucket *bucket, struct okv_store_item *item);
/* The same of one that the log is to have as removed, though no record of the caller says so. After
 * all other changes of the list. */
void okv_store_bucket_remove_logged(struct okv_store_bucket *bucket, struct okv_store_item *item);
/* Has finish free the item's extent. */
void okv_store_bucket_drop_extent(struct okv_store_bucket *bucket,
                                  const struct okv_store_item *item);
/* Removes the items that have expired and counts them in `expired`. */
void okv_store_bucket_expire(struct okv_store_bucket *bucket, uint64_t clock_ms);
/* Moves an item to the working copy of another bucket. OKV_EBUCKETFULL as for put. */
int okv_store_bucket_move(struct okv_store_bucket *from, struct okv_store_item *item,
                          struct okv_store_bucket *to);

/*
 * Lays the items out again and builds the images. OKV_EFULL: the heap has no room, and nothing was
 * allocated; not possible after removals alone. OKV_EBUCKETFULL: likewise, but the pages of the
 * bucket have none; only possible after a put or a move. OKV_ECORRUPT.
 */
int okv_store_bucket_prepare(struct okv_store_bucket *bucket, const struct okv_table *table);
/* Frees what prepare allocated. */
void okv_store_bucket_cancel(struct okv_store_bucket *bucket, const struct okv_table *table);
/* Makes the bucket's next record of heat, and counts it in `tally`. Prepare does. */
void okv_store_bucket_record(struct okv_store_bucket *bucket, const struct okv_table *table,
                             struct okv_store_tally *tally);
void okv_store_bucket_publish(const struct okv_store_bucket *bucket, const struct okv_table *table);
void okv_store_bucket_finish(struct okv_store_bucket *bucket, const struct okv_table *table);
/* Writes the offsets that cancel frees, or those that finish frees, unless `offsets` is NULL.
 * Returns how many there are. */
unsigned okv_store_bucket_fresh(const struct okv_store_bucket *bucket, uint64_t *offsets);
unsigned okv_store_bucket_freed(const struct okv_store_bucket *bucket, uint64_t *offsets);

/* Makes the records of those that okv_store_bucket_remove_logged() removed: bucket->gone, after
 * prepare. */
void okv_store_bucket_gone(const struct okv_store_bucket *bucket, enum okv_store_log_kind kind,
                           struct okv_store_record *records);

/* Points key and value of a decoded entry to their bytes. */
void okv_store_entry_complete(struct okv_entry *entry, const struct okv_table *table);
/* Completes an extent that has its value: writes its key, and sets the entry's tag and checksum. */
void okv_store_entry_seal_extent(struct okv_entry *entry, const struct okv_table *table);
/* Allocates and writes the extent of an entry that becomes a reference. OKV_EFULL. */
int okv_store_entry_write_extent(struct okv_entry *entry, const struct okv_table *table);

#endif
