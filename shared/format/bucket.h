/*
 * The image of one page of a bucket: the unit of one READ (docs/format.md section 3), and the
 * extent that an entry may refer to (section 4). This header reads; bucket_edit.h writes.
 *
 * A reader's copy may have been made while a writer was at work. okv_bucket_check() decides
 * whether the image is whole; nothing else may use it before. Even a whole image is data from a
 * peer: every length in it is checked against the image's end.
 */
#ifndef OKV_SHARED_FORMAT_BUCKET_H
#define OKV_SHARED_FORMAT_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/format/entry.h"
#include "shared/format/linear.h"

#define OKV_BUCKET_LINE 64u /* a page is a number of whole cache lines */
#define OKV_BUCKET_SIZE_MIN 256
#define OKV_BUCKET_SIZE_MAX 4096
#define OKV_BUCKET_SIZE_DEFAULT 512
#define OKV_BUCKET_PAGES_MAX 64 /* the primary page and its overflow pages */

struct okv_wire_bucket {
    okv_le64 checksum;
    okv_le48 version;
    okv_le16 used;  /* bytes of entries */
    okv_le48 chain; /* offset of the next page; 0: none */
    uint8_t depth;
    uint8_t page;
};
_Static_assert(sizeof(struct okv_wire_bucket) == 24, "bucket header");
_Static_assert(offsetof(struct okv_wire_bucket, version) == 8, "bucket.version");
_Static_assert(offsetof(struct okv_wire_bucket, used) == 14, "bucket.used");
_Static_assert(offsetof(struct okv_wire_bucket, chain) == 16, "bucket.chain");
_Static_assert(offsetof(struct okv_wire_bucket, depth) == 22, "bucket.depth");
_Static_assert(sizeof(struct okv_wire_bucket) <= OKV_BUCKET_LINE, "the first line has the header");
_Static_assert(OKV_BUCKET_SIZE_MIN % OKV_BUCKET_LINE == 0, "whole lines");

/* True for a power of two from OKV_BUCKET_SIZE_MIN to OKV_BUCKET_SIZE_MAX. */
bool okv_bucket_size_valid(uint64_t size);

/* 0 when the image is whole and is page `page` of bucket `bucket` of this boot;
 * OKV_ECORRUPT when it is torn, stale, misplaced or malformed. */
int okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                     unsigned page);

/* The checksum that an image with `used` bytes of entries must have. */
uint64_t okv_bucket_checksum(const uint8_t *image, uint32_t used, uint64_t boot_id, uint64_t bucket,
                             unsigned page);

/* Two more header bytes follow each of these six-byte fields, so one eight-byte load reads each. */
static inline uint64_t okv_bucket_version(const uint8_t *image)
{
    return okv_get_u64(image + offsetof(struct okv_wire_bucket, version)) & OKV_LE48_MAX;
}

static inline uint64_t okv_bucket_chain(const uint8_t *image)
{
    return okv_get_u64(image + offsetof(struct okv_wire_bucket, chain)) & OKV_LE48_MAX;
}

static inline unsigned okv_bucket_depth(const uint8_t *image)
{
    return ((const struct okv_wire_bucket *)image)->depth;
}

static inline uint32_t okv_bucket_used(const uint8_t *image)
{
    return okv_le16_get(((const struct okv_wire_bucket *)image)->used);
}

/* Bytes of header and entries, all that the checksum covers. Works on an unchecked image, where the
 * result may be up to 64 KiB. An okv_used_bytes. */
static inline uint32_t okv_bucket_used_bytes(const uint8_t *image)
{
    return (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
}

/* Bytes of an image that entries can use. */
static inline uint32_t okv_bucket_room(uint32_t size)
{
    return size - (uint32_t)sizeof(struct okv_wire_bucket);
}

/* The entry at `position`, counted from the first. */
static inline const uint8_t *okv_bucket_entry(const uint8_t *image, uint32_t position)
{
    return image + sizeof(struct okv_wire_bucket) + position;
}

/* Walks the entries of a checked image: start with `*position` 0. Returns 1
 * with an entry, 0 at the end, OKV_ECORRUPT when lengths or flags make no sense. */
int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out);

/* Finds the next entry at or after `*position` that has the key, or is a reference that may have
 * it: the caller has to read the extent and compare. Returns as okv_bucket_next, and moves
 * `*position` past the entry, to the end, or not at all. Of skipped entries it checks only the
 * lengths. */
int okv_bucket_find(const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                    uint32_t *position, struct okv_entry *out);

/* ---- extents: key bytes unless the entry has them, then value bytes ---- */

uint64_t okv_extent_checksum(const uint8_t *extent, uint64_t length, uint64_t boot_id);
/* 0 when the bytes are whole and belong to the key; OKV_ECORRUPT when they are torn, freed or
 * reused; OKV_ENOTFOUND when they are whole and begin with another key. */
int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length);

#endif
