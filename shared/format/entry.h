/*
 * The codec of one entry, an item as it lies in a page (docs/format.md section 3).
 *
 * Entries come from a peer's memory. okv_entry_head_read() checks every length
 * against the end of the page before anything after the head is read.
 */
#ifndef OKV_SHARED_FORMAT_ENTRY_H
#define OKV_SHARED_FORMAT_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/base/bytes.h"

#define OKV_KEY_MAX 1024 /* bytes of a key; the shortest has 1 */
#define OKV_VALUE_MAX (UINT32_C(64) << 20)

/*
 * An entry is a byte of flags, key length, value length, age, an optional expiry
 * and a body that depends on its kind:
 *
 *   inline            key, value
 *   key in extent     tag, extent       the extent holds key and value
 *   key here          key, extent       the extent holds the value
 *
 * The flags tell how many bytes each length and the age take. The age of an entry is
 * the version of its page minus its own.
 */
#define OKV_ENTRY_KIND 0x03u
#define OKV_ENTRY_INLINE 0x00u
#define OKV_ENTRY_KEY_IN_EXTENT 0x01u
#define OKV_ENTRY_KEY_HERE 0x02u
#define OKV_ENTRY_EXPIRY 0x04u     /* a le48 follows the age */
#define OKV_ENTRY_WIDE_KEY 0x08u   /* key length: 2 bytes instead of 1 */
#define OKV_ENTRY_WIDE_VALUE 0x10u /* value length: inline 2 instead of 1; reference 4, not 2 */
#define OKV_ENTRY_AGE_SHIFT 5      /* age: 1, 2, 4 or 6 bytes */
#define OKV_ENTRY_AGE 0x60u
#define OKV_ENTRY_QUIET 0x80u /* the server knows that the item is read often */
/* Flags, two lengths, age and a key of one byte. */
#define OKV_ENTRY_SIZE_MIN 5u

/*
 * Most entries are small: inline, lengths of one byte each, no expiry. Their flags hold nothing
 * but the size of the age, and whether it is quiet.
 */
#define OKV_SMALL_AGE_AT 3u /* after the flags and the two lengths */
/* The head of a small entry with an age of one byte. Read as a little-endian number it is
 * OKV_SMALL_HEAD_OLDEST or more when the age is at its highest. */
#define OKV_SMALL_HEAD 4u
#define OKV_SMALL_HEAD_OLDEST (UINT32_C(0xff) << 24)

/* An extent, as an entry refers to it. */
struct okv_wire_extent {
    okv_le48 offset;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct okv_wire_extent) == 14, "extent of an entry");
_Static_assert(offsetof(struct okv_wire_extent, checksum) == 6, "extent.checksum");

/* An entry, decoded. Pointers set by a read point into the page. */
struct okv_entry {
    uint16_t tag;       /* of the key; a read sets it only when the key is in the extent */
    bool is_reference;  /* the value is in an extent */
    bool key_in_extent; /* references: the key is there too, before the value */
    bool is_quiet;
    uint32_t key_length;
    uint32_t value_length;
    uint64_t version;     /* 48 bits */
    uint64_t expiry_ms;   /* 48 bits, on the server's clock; 0: never */
    const uint8_t *key;   /* read: NULL when the key is in the extent */
    const uint8_t *value; /* read: NULL for a reference */
    uint64_t extent;      /* references: its offset in the region */
    uint64_t checksum;    /* references: of the extent */
};

/* Bytes of the extent of a reference. */
static inline uint64_t okv_entry_extent_length(const struct okv_entry *entry)
{
    return (uint64_t)entry->value_length + (entry->key_in_extent ? entry->key_length : 0);
}

static inline bool okv_entry_is_expired(const struct okv_entry *entry, uint64_t clock_ms)
{
    return entry->expiry_ms != 0 && entry->expiry_ms <= clock_ms;
}

static inline bool okv_entry_flags_small(unsigned flags)
{
    return (flags & ~(OKV_ENTRY_AGE | OKV_ENTRY_QUIET)) == OKV_ENTRY_INLINE;
}

/* Of a small entry with an age of one byte, whose head this is. */
static inline bool okv_entry_head_small(uint32_t head)
{
    return (head & (UINT8_MAX ^ OKV_ENTRY_QUIET)) == OKV_ENTRY_INLINE;
}

/* Bytes of the age. */
static inline unsigned okv_entry_age_size(unsigned flags)
{
    static const uint8_t sizes[] = {1, 2, 4, 6};

    return sizes[(flags & OKV_ENTRY_AGE) >> OKV_ENTRY_AGE_SHIFT];
}

/* ---- reading ---- */

/* The lengths of an entry: enough to step over it. */
struct okv_entry_head {
    unsigned flags;
    uint32_t key_length;
    uint32_t value_length;
    uint32_t size;   /* bytes from the flags to the body */
    uint64_t length; /* bytes of the entry */
};

/* Returns 1 with the head of an entry that lies entirely in the `left` bytes at `bytes`;
 * 0 when `left` is 0; OKV_ECORRUPT. */
int okv_entry_head_read(const uint8_t *bytes, uint32_t left, struct okv_entry_head *out);
/* Decodes the entry whose head was read. Returns 1 or OKV_ECORRUPT. */
int okv_entry_read(const uint8_t *bytes, const struct okv_entry_head *head, uint64_t page_version,
                   struct okv_entry *out);
/* The same for a small entry whose key begins at bytes[key_at]. */
int okv_entry_read_small(const uint8_t *bytes, uint32_t key_at, uint64_t page_version,
                         struct okv_entry *out);
/* True when an entry with a key of the right length has this key, or is a reference that may have
 * it: a key in an extent is compared by its tag. */
bool okv_entry_may_have_key(const uint8_t *bytes, const struct okv_entry_head *head, uint64_t hash,
                            const void *key);
/* The expiry of an entry that has OKV_ENTRY_EXPIRY. */
uint64_t okv_entry_expiry(const uint8_t *bytes, const struct okv_entry_head *head);
/* Bytes that a reference would take as an inline entry. */
uint64_t okv_entry_inline_length(const struct okv_entry_head *head);

/* ---- writing ---- */

/* The flags that an entry needs in a page of this version, which is not below the entry's own. */
unsigned okv_entry_flags(const struct okv_entry *entry, uint64_t page_version);
/* Bytes of an entry with these flags. */
uint32_t okv_entry_size_as(const struct okv_entry *entry, unsigned flags);
/* Bytes of an entry in a page of this version. */
uint32_t okv_entry_size(const struct okv_entry *entry, uint64_t page_version);
/* Writes okv_entry_size_as() bytes. */
void okv_entry_write(uint8_t *bytes, const struct okv_entry *entry, unsigned flags,
                     uint64_t page_version);
/* Bumps the age. False: it needs a further byte, and the bytes no longer make sense. */
bool okv_entry_age_bump(uint8_t *bytes, const struct okv_entry_head *head);

#endif
