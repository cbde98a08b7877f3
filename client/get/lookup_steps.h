/* The steps of a lookup, for lookup.c and lookup_hinted.c. */
#ifndef OKV_CLIENT_GET_LOOKUP_STEPS_H
#define OKV_CLIENT_GET_LOOKUP_STEPS_H

#include "client/handle.h"
#include "shared/base/bytes.h"

/* A bucket under constant writing tears nearly every image for as long as the
 * writer copies it; past this many the server is asked instead. */
#define LOOKUP_ATTEMPTS 16
/* After the server had no room for the value in its answer. */
#define LOOKUP_ATTEMPTS_ALL 64

/* Where STEP_CONFIRM puts the bucket's image: behind the key, in the extent's buffer. */
#define CONFIRM_OFFSET 2048u
_Static_assert(OKV_KEY_MAX <= CONFIRM_OFFSET &&
                   CONFIRM_OFFSET + OKV_BUCKET_SIZE_MAX <= EXTENT_BUFFER_SIZE,
               "room for a key and an image");

/* Fills *result with an item whose value was READ to `value`, NULL when nobody wants it, and copies
 * that to `buffer` unless it is there. OKV_OK, or OKV_ETOOSMALL with the length alone. */
static inline int item_deliver(const struct okv_entry *entry, const uint8_t *value, uint8_t *buffer,
                               size_t size, struct okv_result *result)
{
    result->length = entry->value_length;
    if (entry->value_length > size)
        return OKV_ETOOSMALL;
    if (buffer && value && value != buffer && entry->value_length)
        okv_bytes_copy(buffer, value, entry->value_length);
    result->version = entry->version;
    return OKV_OK;
}

/* READs the bucket from its first page, or the directory's entry when its place is not known. */
void lookup_read_bucket(okv *handle, struct operation *operation, uint64_t bucket);
/* The same as one more attempt; after the last one the server is asked, or the lookup fails. */
void lookup_read_again(okv *handle, struct operation *operation, uint64_t bucket);

/* Each takes what a step brought: the image in operation->image, ... */
void lookup_bucket_done(okv *handle, struct operation *operation);
/* ... the directory's entry in operation->extent, ... */
void lookup_directory_done(okv *handle, struct operation *operation);
/* ... the extent, whole, ... */
void lookup_extent_done(okv *handle, struct operation *operation);
/* ... the key that a long extent begins with, ... */
void lookup_key_done(okv *handle, struct operation *operation);
/* ... and the bucket once more, which says whether that was the key. */
void lookup_confirm_done(okv *handle, struct operation *operation);

/* Ends the operation with this item. `value` is where it was READ to, NULL when it is unwanted. */
void lookup_item_found(okv *handle, struct operation *operation, const struct okv_entry *entry,
                       const uint8_t *value);
/* True when the value itself is of no use to the caller. */
bool lookup_value_is_unwanted(const struct operation *operation, const struct okv_entry *entry);
/* Whether an image is a complete one of this page of the bucket. */
bool lookup_image_is_whole(const okv *handle, const struct lookup *lookup, const uint8_t *image,
                           unsigned page);
/* Whether a whole image has a reference to this very extent, of an item that has not expired; its
 * checksum, version and expiry are then filled in. */
bool lookup_image_refers_to(okv *handle, struct operation *operation, const uint8_t *image,
                            struct okv_entry *reference);

#endif
