/*
 * The bucket image: the unit of one READ (docs/format.md section 3), and the
 * extent it may refer to (section 4).
 *
 * Readers take an image that was copied while a writer may have been at work:
 * okv_bucket_check() decides whether it is whole, and only then may anything
 * else look at it. Even a whole image is data from a peer: every length in it
 * is checked against the image's end.
 */
#ifndef OKV_SHARED_FORMAT_BUCKET_H
#define OKV_SHARED_FORMAT_BUCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"
#include "shared/format/linear.h"

#define OKV_BUCKET_LINE 64u /* bytes that are copied at a time: buckets are of whole lines */
#define OKV_BUCKET_SIZE_MIN 256
#define OKV_BUCKET_SIZE_MAX 4096
#define OKV_BUCKET_SIZE_DEFAULT 512
#define OKV_KEY_MAX 1024 /* bytes of a key; the shortest has 1 */
#define OKV_VALUE_MAX (UINT32_C(64) << 20)
/* Parts of one bucket: itself and its overflow buckets. */
#define OKV_BUCKET_PAGES_MAX 64

struct okv_wire_bucket {
    okv_le64 checksum;
    okv_le48 version;
    okv_le16 used; /* bytes of entries */
    okv_le48 chain;
    uint8_t depth;
    uint8_t page;
};
_Static_assert(sizeof(struct okv_wire_bucket) == 24, "bucket header");
_Static_assert(offsetof(struct okv_wire_bucket, version) == 8, "bucket.version");
_Static_assert(offsetof(struct okv_wire_bucket, used) == 14, "bucket.used");
_Static_assert(offsetof(struct okv_wire_bucket, chain) == 16, "bucket.chain");
_Static_assert(offsetof(struct okv_wire_bucket, depth) == 22, "bucket.depth");

/*
 * An entry, after its byte of flags: key length, value length, age, expiry (if
 * there is one) and then, by kind
 *
 *   inline            key, value
 *   key in extent     tag, place        the extent holds key and value
 *   key here          key, place        the extent holds the value
 *
 * Each length takes as few bytes as it needs, which the flags tell. The age of an
 * item is how far its version lies behind its image's.
 */
#define OKV_ENTRY_KIND 0x03u
#define OKV_ENTRY_INLINE 0x00u
#define OKV_ENTRY_KEY_IN_EXTENT 0x01u
#define OKV_ENTRY_KEY_HERE 0x02u
#define OKV_ENTRY_EXPIRY 0x04u     /* a le48 of it follows the age */
#define OKV_ENTRY_WIDE_KEY 0x08u   /* key length: 2 bytes instead of 1 */
#define OKV_ENTRY_WIDE_VALUE 0x10u /* value length: inline 2 instead of 1; reference 4, not 2 */
#define OKV_ENTRY_AGE_SHIFT 5      /* age: 1, 2, 4 or 6 bytes */
#define OKV_ENTRY_AGE 0x60u
#define OKV_ENTRY_RESERVED 0x80u
/* Flags, two lengths, age and a key of one byte. */
#define OKV_ENTRY_SIZE_MIN 5u
/* Of a small item whose age takes a byte: flags, two lengths, the age. Read as a number it is
 * OKV_SMALL_HEAD_OLDEST at least when the age can rise no further. */
#define OKV_SMALL_HEAD 4u
#define OKV_SMALL_HEAD_OLDEST (UINT32_C(0xff) << 24)

struct okv_wire_locator {
    okv_le48 offset;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_locator) == 14, "place of an extent");
_Static_assert(offsetof(struct okv_wire_locator, checksum) == 6, "place.checksum");

/* One entry as it is understood; pointers that a reader gets go into the image. */
struct okv_entry {
    uint16_t tag;       /* of the key; read: only where the key is in the extent */
    bool is_reference;  /* the value is in an extent */
    bool key_in_extent; /* references: the key is there too, before the value */
    uint32_t key_length;
    uint32_t value_length;
    uint64_t version;     /* 48 bits */
    uint64_t expiry_ms;   /* 48 bits, on the server's clock; 0: never */
    const uint8_t *key;   /* read: NULL where it is in the extent */
    const uint8_t *value; /* read: NULL in a reference */
    uint64_t extent;      /* references: its offset in the region */
    uint64_t checksum;    /* references: of the extent */
};

/* Bytes of the extent that a reference refers to. */
static inline uint64_t okv_entry_extent_length(const struct okv_entry *entry)
{
    return (uint64_t)entry->value_length + (entry->key_in_extent ? entry->key_length : 0);
}

static inline bool okv_entry_is_expired(const struct okv_entry *entry, uint64_t clock_ms)
{
    return entry->expiry_ms != 0 && entry->expiry_ms <= clock_ms;
}

_Static_assert(OKV_BUCKET_SIZE_MIN % OKV_BUCKET_LINE == 0, "whole lines");
/* True for a power of two from OKV_BUCKET_SIZE_MIN to OKV_BUCKET_SIZE_MAX. */
bool okv_bucket_size_valid(uint64_t size);

/* ---- reading ---- */

/* 0 when the image is whole and is part `part` of bucket `bucket` of this boot;
 * OKV_ECORRUPT when it is torn, stale, misplaced or malformed. */
int okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                     unsigned page);

/* In one load instead of two, with what is behind it: `image` has a whole header. */
static inline uint64_t okv_bucket_version(const uint8_t *image)
{
    return okv_get_u64(image + offsetof(struct okv_wire_bucket, version)) & OKV_LE48_MAX;
}

/* The same. */
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

_Static_assert(sizeof(struct okv_wire_bucket) <= OKV_BUCKET_LINE, "the first line has the header");
/* Bytes of an image that count, by the header of one that is not checked: up to 64 KiB. The check
 * looks at no others. An okv_used_bytes. */
static inline uint32_t okv_bucket_used_bytes(const uint8_t *image)
{
    return (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
}

/* Walks the entries of a checked image: start with `*position` 0. Returns 1
 * with an entry, 0 at the end, OKV_ECORRUPT when lengths or flags make no sense. */
int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out);

/* The next entry at or after `*position` that is the key, or a reference that
 * may be it (its extent has to be read and compared). Returns as okv_bucket_next, with
 * `*position` behind the entry, at the end, or as it was; of entries that are not it only
 * what says where they end is looked at. */
int okv_bucket_find(const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                    uint32_t *position, struct okv_entry *out);

/* ---- building (in private memory, then copied over the old image) ---- */

/* Bytes that an entry takes in an image of this version, which is not lower than the entry's. */
uint32_t okv_entry_size(const struct okv_entry *entry, uint64_t image_version);

/* Bytes of an image that entries can use. */
static inline uint32_t okv_bucket_room(uint32_t size)
{
    return size - (uint32_t)sizeof(struct okv_wire_bucket);
}

/* Starts an empty image; `version` has 48 bits, `chain` is the offset of the
 * next part or 0. */
void okv_bucket_begin(uint8_t *image, unsigned depth, uint64_t version, uint64_t chain,
                      unsigned page);
/* Adds an entry of all whose fields that apply; OKV_EFULL when it does not fit. */
int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry);

/* Where an entry is to be changed, and what the others are like. */
struct okv_bucket_cursor {
    uint32_t position;        /* of the key's entry; where there is none, the end of all */
    uint32_t length;          /* bytes of it; 0: there is none */
    uint64_t earliest_expiry; /* of all entries; UINT64_MAX: none has one */
    uint32_t inline_need;     /* bytes that another reference whose entry would have inline_max
                                 bytes at most takes more when it is inline; the least of all such,
                                 UINT32_MAX: there is none */
};
/* Copies the lines of a bucket that its first `length` bytes are in: whole ones, so that no call is
 * needed. Both have room for them. */
static inline void okv_bucket_copy(uint8_t *to, const uint8_t *from, uint32_t length)
{
    for (uint32_t at = 0; at < length; at += OKV_BUCKET_LINE)
        memcpy(to + at, from + at, OKV_BUCKET_LINE);
}
/* Copies an image with the lines that it takes, raises its version by one and every entry's age
 * with it, and finds the entry of a key. Returns false when there is more to do than that: an age
 * takes a further byte, several entries may be the key's, or the lengths or flags of entries make
 * no sense. */
bool okv_bucket_bump_ages(uint8_t *image, const uint8_t *from, uint32_t size, uint32_t inline_max,
                          uint64_t hash, const void *key, uint32_t key_length,
                          struct okv_bucket_cursor *cursor);
/* The entry at the spot, where there is one; a reference that has the key in its extent may be
 * another's. Its pointers go into `from`. False: it makes no sense. */
bool okv_bucket_cursor_read(const uint8_t *from, const struct okv_bucket_cursor *cursor,
                            struct okv_entry *out);
/* Puts an entry, whose version is the image's, in the place of the one at the spot, or nothing
 * where it is NULL. Its pointers must not go into `image`. OKV_EFULL: it does not fit. */
int okv_bucket_replace(uint8_t *image, uint32_t size, const struct okv_bucket_cursor *cursor,
                       const struct okv_entry *entry);

/* What the checksum of an image with so many bytes of entries is to be. */
uint64_t okv_bucket_checksum(const uint8_t *image, uint32_t used, uint64_t boot_id, uint64_t bucket,
                             unsigned page);
/* Clears what is unused of the image's first `size` bytes and writes the checksum: the image is
 * complete. */
void okv_bucket_seal(uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket);

/* ---- extents: key bytes unless the entry has them, then value bytes ---- */

uint64_t okv_extent_checksum(const uint8_t *extent, uint64_t length, uint64_t boot_id);
/* 0 when the bytes are what the reference was written for and, where they begin with
 * a key, with this one; OKV_ECORRUPT when they are not whole (torn, freed or
 * reused); OKV_ENOTFOUND when they are whole and another key's. */
int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length);

#endif
