/*
 * The bucket image: the unit of one READ (docs/format.md section 3), and the
 * extent it may refer to (section 4).
 *
 * Readers take an image that was copied while a writer may have been at work:
 * okv_bucket_check() decides whether it is whole, and only then may anything
 * else look at it. Even a whole image is data from a peer: every length in it
 * is checked against the image's end.
 */
#ifndef OKV_SHARED_BUCKET_H
#define OKV_SHARED_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/bytes.h"

#define OKV_BUCKET_SIZE_MIN 256
#define OKV_BUCKET_SIZE_MAX 4096
#define OKV_BUCKET_SIZE_DEFAULT 512
#define OKV_DEPTH_MAX 47
#define OKV_KEY_MAX 1024 /* bytes of a key; the shortest has 1 */
/* Parts of one bucket: itself and its overflow buckets. */
#define OKV_BUCKET_PARTS_MAX 64

struct okv_wire_bucket {
    okv_le64 checksum;
    okv_le48 version;
    okv_le16 used; /* bytes of entries */
    okv_le48 chain;
    uint8_t depth;
    uint8_t part;
};
_Static_assert(sizeof(struct okv_wire_bucket) == 24, "bucket header");
_Static_assert(offsetof(struct okv_wire_bucket, version) == 8, "bucket.version");
_Static_assert(offsetof(struct okv_wire_bucket, used) == 14, "bucket.used");
_Static_assert(offsetof(struct okv_wire_bucket, chain) == 16, "bucket.chain");
_Static_assert(offsetof(struct okv_wire_bucket, depth) == 22, "bucket.depth");

struct okv_wire_entry {
    okv_le16 tag;
    okv_le16 key_and_flags; /* key length in bits 0-10, flags above */
    okv_le16 value_length;  /* inline value; 0 in a reference */
    okv_le48 version;
};
_Static_assert(sizeof(struct okv_wire_entry) == 12, "entry header");
_Static_assert(offsetof(struct okv_wire_entry, version) == 6, "entry.version");

struct okv_wire_reference {
    okv_le48 offset;
    okv_le32 value_length;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_reference) == 18, "entry reference");
_Static_assert(offsetof(struct okv_wire_reference, checksum) == 10, "reference.checksum");

#define OKV_ENTRY_KEY_MASK 0x07ffu
#define OKV_ENTRY_REFERENCE 0x0800u
#define OKV_ENTRY_RESERVED 0xf000u

/* One entry as it is understood; the pointers go into the image. */
struct okv_entry {
    uint16_t tag;
    bool is_reference;
    uint32_t key_length;
    uint32_t value_length;
    uint64_t version;     /* 48 bits */
    const uint8_t *key;   /* inline entries only */
    const uint8_t *value; /* inline entries only */
    uint64_t extent;      /* references: offset of key and value in the region */
    uint64_t checksum;    /* references: of the extent */
};

/* True for a power of two from OKV_BUCKET_SIZE_MIN to OKV_BUCKET_SIZE_MAX. */
bool okv_bucket_size_valid(uint64_t size);

/* ---- reading ---- */

/* 0 when the image is whole and is part `part` of bucket `bucket` of this boot;
 * OKV_ECORRUPT when it is torn, stale, misplaced or malformed. */
int okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                     unsigned part);

static inline uint64_t okv_bucket_version(const uint8_t *image)
{
    return okv_le48_get(((const struct okv_wire_bucket *)image)->version);
}

static inline uint64_t okv_bucket_chain(const uint8_t *image)
{
    return okv_le48_get(((const struct okv_wire_bucket *)image)->chain);
}

static inline unsigned okv_bucket_depth(const uint8_t *image)
{
    return ((const struct okv_wire_bucket *)image)->depth;
}

static inline uint32_t okv_bucket_used(const uint8_t *image)
{
    return okv_le16_get(((const struct okv_wire_bucket *)image)->used);
}

/* Walks the entries of a checked image: start with `*position` 0. Returns 1
 * with an entry, 0 at the end, OKV_ECORRUPT when lengths or flags make no sense. */
int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out);

/* The next entry at or after `*position` that is the key, or a reference that
 * may be it (its extent has to be read and compared). Returns as okv_bucket_next. */
int okv_bucket_find(const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                    uint32_t *position, struct okv_entry *out);

/* ---- building (in private memory, then copied over the old image) ---- */

/* Bytes an entry takes in an image. */
static inline uint32_t okv_entry_size(const struct okv_entry *entry)
{
    return (uint32_t)sizeof(struct okv_wire_entry) +
           (entry->is_reference ? (uint32_t)sizeof(struct okv_wire_reference)
                                : entry->key_length + entry->value_length);
}

/* Bytes of an image that entries can use. */
static inline uint32_t okv_bucket_room(uint32_t size)
{
    return size - (uint32_t)sizeof(struct okv_wire_bucket);
}

/* Starts an empty image; `version` has 48 bits, `chain` is the offset of the
 * next part or 0. */
void okv_bucket_begin(uint8_t *image, unsigned depth, uint64_t version, uint64_t chain,
                      unsigned part);
/* Adds an entry; OKV_EFULL when it does not fit. */
int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry);
/* Clears what is unused and writes the checksum: the image is complete. */
void okv_bucket_seal(uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket);

/* ---- extents: key bytes, then value bytes ---- */

uint64_t okv_extent_checksum(const uint8_t *extent, uint32_t length, uint64_t boot_id);
/* 0 when the bytes are what the reference was written for and hold the key;
 * OKV_ECORRUPT when they are not whole (torn, freed or reused);
 * OKV_ENOTFOUND when they are whole and another key's. */
int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length);

#endif
