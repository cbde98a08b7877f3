/*
 * Builds and changes the image of a page in private memory. The store copies the result over the
 * published image.
 */
#ifndef OKV_SHARED_FORMAT_BUCKET_EDIT_H
#define OKV_SHARED_FORMAT_BUCKET_EDIT_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "shared/format/bucket.h"

/* ---- a whole image: begin, append, seal ---- */

/* Starts an empty image. `version` has 48 bits; `chain` is the offset of the next page or 0. */
void okv_bucket_begin(uint8_t *image, unsigned depth, uint64_t version, uint64_t chain,
                      unsigned page);
/* Adds an entry; OKV_EFULL when it does not fit. */
int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry);
/* Clears the unused bytes among the image's first `size` and writes the checksum. */
void okv_bucket_seal(uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket);
/* Raises the version of the image and of all entries, to OKV_LE48_MAX at most. Seal it again. */
void okv_bucket_raise(uint8_t *image, uint64_t by);

/* Copies the lines that hold the first `length` bytes. Both sides have room for whole lines;
 * copies of a fixed size need no call. */
static inline void okv_bucket_copy(uint8_t *to, const uint8_t *from, uint32_t length)
{
    for (uint32_t i = 0; i < length; i += OKV_BUCKET_LINE)
        memcpy(to + i, from + i, OKV_BUCKET_LINE);
}

/* ---- one entry of a copy: bump ages, replace, seal ---- */

/* The entry to change, and facts about the others. */
struct okv_bucket_cursor {
    uint32_t position;        /* of the key's entry; the end of all entries when it has none */
    uint32_t length;          /* of that entry; 0: none */
    uint64_t earliest_expiry; /* of all entries; UINT64_MAX: none expires */
    /* The least number of bytes by which the page grows when another entry changes from a
     * reference to an inline entry of `inline_max` bytes or less; UINT32_MAX: no such entry. */
    uint32_t inline_need;
};

/* Copies the used lines of an image, bumps its version and every entry's age, and finds the
 * key's entry. False when the bucket must be laid out anew: an age needs another byte, several
 * entries may have the key, or lengths or flags are invalid. */
bool okv_bucket_bump_ages(uint8_t *image, const uint8_t *from, uint32_t size, uint32_t inline_max,
                          uint64_t hash, const void *key, uint32_t key_length,
                          struct okv_bucket_cursor *cursor);
/* Decodes the entry at a cursor that has one; its pointers point into `from`. A reference with its
 * key in the extent may belong to another key. False: the entry makes no sense. */
bool okv_bucket_cursor_read(const uint8_t *from, const struct okv_bucket_cursor *cursor,
                            struct okv_entry *out);
/* Replaces the entry at the cursor by one with the image's version, or removes it when `entry` is
 * NULL. The entry's pointers must not point into `image`. OKV_EFULL: it does not fit. */
int okv_bucket_replace(uint8_t *image, uint32_t size, const struct okv_bucket_cursor *cursor,
                       const struct okv_entry *entry);

#endif
