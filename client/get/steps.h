/* The steps of a lookup: lookup.c has the picture. */
#ifndef OKV_CLIENT_GET_STEPS_H
#define OKV_CLIENT_GET_STEPS_H

#include "client/handle.h"

/* READs the bucket's primary page, or its directory entry when its offset is unknown. */
void lookup_read_bucket(okv *handle, struct operation *operation, uint64_t bucket);
/* The same as one more attempt. After the last one it asks the server, or fails the lookup. */
void lookup_read_again(okv *handle, struct operation *operation, uint64_t bucket);

/* A step has ended: the image is in operation->image. */
void lookup_bucket_done(okv *handle, struct operation *operation);
/* The directory entry is in operation->extent. */
void lookup_directory_done(okv *handle, struct operation *operation);
/* All pieces of the extent have come. */
void lookup_extent_done(okv *handle, struct operation *operation);
/* The key at the start of a long extent has come, or a part of the value, or both. */
void lookup_part_done(okv *handle, struct operation *operation);
/* The bucket has come again, to confirm them. */
void lookup_confirm_done(okv *handle, struct operation *operation);

/* Ends the operation with this item. `value`: where it was READ to, or NULL if unwanted. */
void lookup_item_found(okv *handle, struct operation *operation, const struct okv_entry *entry,
                       const uint8_t *value);
/* True for a head, when the value does not fit the caller's buffer, and for a part with no bytes.
 */
bool lookup_value_is_unwanted(const struct operation *operation, const struct okv_entry *entry);
/* True when an image is complete and belongs to this page of the bucket. */
bool lookup_image_is_whole(const okv *handle, const struct lookup *lookup, const uint8_t *image,
                           unsigned page);
/* True when a whole image refers to this extent for an item that has not expired. Fills in
 * checksum, version and expiry. */
bool lookup_image_refers_to(okv *handle, struct operation *operation, const uint8_t *image,
                            struct okv_entry *reference);

#endif
