#include "shared/format/bucket.h"

#include <string.h>

#include "shared/base/compiler.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* Bytes before the ones that the checksum covers: the checksum itself. */
#define CHECKSUM_SIZE sizeof(okv_le64)

bool okv_bucket_size_valid(uint64_t size)
{
    return size >= OKV_BUCKET_SIZE_MIN && size <= OKV_BUCKET_SIZE_MAX && (size & (size - 1)) == 0;
}

/* An odd multiplier is one-to-one modulo 2^64: two places never share a seed. */
static uint64_t image_seed(uint64_t boot_id, uint64_t bucket, unsigned page)
{
    return boot_id ^ (bucket | (uint64_t)page << 56) * UINT64_C(0x9e3779b97f4a7c15);
}

uint64_t okv_bucket_checksum(const uint8_t *image, uint32_t used, uint64_t boot_id, uint64_t bucket,
                             unsigned page)
{
    size_t covered = sizeof(struct okv_wire_bucket) - CHECKSUM_SIZE + used;

    return okv_hash_checksum(image + CHECKSUM_SIZE, covered, image_seed(boot_id, bucket, page));
}

int okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                     unsigned page)
{
    const struct okv_wire_bucket *header = (const struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);

    if (used > okv_bucket_room(size))
        return OKV_ECORRUPT;
#ifndef OKV_UNSAFE_NO_CHECKSUM /* only the test that shows what the checksum is for defines this \
                                */
    if (okv_le64_get(header->checksum) != okv_bucket_checksum(image, used, boot_id, bucket, page))
        return OKV_ECORRUPT;
#else
    (void)boot_id, (void)bucket;
#endif
    if (header->page != page || header->depth > OKV_DEPTH_MAX)
        return OKV_ECORRUPT;
    return 0;
}

/* ---- entries ---- */

static const uint8_t age_sizes[] = {1, 2, 4, 6};

static unsigned age_code(uint64_t age)
{
    if (age <= UINT8_MAX)
        return 0;
    if (age <= UINT16_MAX)
        return 1;
    return age <= UINT32_MAX ? 2 : 3;
}

static unsigned age_size(unsigned flags)
{
    return age_sizes[(flags & OKV_ENTRY_AGE) >> OKV_ENTRY_AGE_SHIFT];
}

/* Most entries are items whose lengths take a byte each and that do not expire. */
static inline bool is_small(unsigned flags)
{
    return (flags & ~OKV_ENTRY_AGE) == OKV_ENTRY_INLINE;
}

static unsigned value_length_size(unsigned flags)
{
    unsigned narrow = (flags & OKV_ENTRY_KIND) == OKV_ENTRY_INLINE ? 1 : 2;

    return flags & OKV_ENTRY_WIDE_VALUE ? 2 * narrow : narrow;
}

static unsigned entry_flags(const struct okv_entry *entry, uint64_t image_version)
{
    uint32_t narrow = entry->is_reference ? UINT16_MAX : UINT8_MAX;
    unsigned flags = age_code(image_version - entry->version) << OKV_ENTRY_AGE_SHIFT;

    if (entry->is_reference)
        flags |= entry->key_in_extent ? OKV_ENTRY_KEY_IN_EXTENT : OKV_ENTRY_KEY_HERE;
    if (entry->expiry_ms)
        flags |= OKV_ENTRY_EXPIRY;
    if (entry->key_length > UINT8_MAX)
        flags |= OKV_ENTRY_WIDE_KEY;
    if (entry->value_length > narrow)
        flags |= OKV_ENTRY_WIDE_VALUE;
    return flags;
}

/* Bytes from the flags to the key, tag or place. */
static unsigned head_size(unsigned flags)
{
    return 1 + (flags & OKV_ENTRY_WIDE_KEY ? 2 : 1) + value_length_size(flags) + age_size(flags) +
           (flags & OKV_ENTRY_EXPIRY ? (unsigned)sizeof(okv_le48) : 0);
}

static uint64_t body_size(unsigned flags, uint32_t key_length, uint32_t value_length)
{
    switch (flags & OKV_ENTRY_KIND) {
    case OKV_ENTRY_INLINE:
        return (uint64_t)key_length + value_length;
    case OKV_ENTRY_KEY_IN_EXTENT:
        return sizeof(okv_le16) + sizeof(struct okv_wire_locator);
    default:
        return key_length + sizeof(struct okv_wire_locator);
    }
}

static uint32_t size_with(const struct okv_entry *entry, unsigned flags)
{
    if (is_small(flags))
        return 3 + age_size(flags) + entry->key_length + entry->value_length;
    return head_size(flags) + (uint32_t)body_size(flags, entry->key_length, entry->value_length);
}

uint32_t okv_entry_size(const struct okv_entry *entry, uint64_t image_version)
{
    return size_with(entry, entry_flags(entry, image_version));
}

/* A number of 1, 2, 4 or 6 bytes. */
static uint64_t get_number(const uint8_t *bytes, unsigned size)
{
    switch (size) {
    case 1:
        return bytes[0];
    case 2:
        return okv_get_u16(bytes);
    case 4:
        return okv_get_u32(bytes);
    default:
        return okv_get_u32(bytes) | (uint64_t)okv_get_u16(bytes + 4) << 32;
    }
}

static uint8_t *put_number(uint8_t *bytes, unsigned size, uint64_t number)
{
    if (size == 1)
        bytes[0] = (uint8_t)number;
    else
        for (unsigned i = 0; i < size; i++)
            bytes[i] = (uint8_t)(number >> 8 * i);
    return bytes + size;
}

/* The beginning of an entry: what it is, and where it ends. */
struct head {
    unsigned flags;
    uint32_t key_length;
    uint32_t value_length;
    uint32_t size;   /* bytes from the flags to the key, tag or place */
    uint64_t length; /* bytes of the entry */
};

/* Where the entry at `position` begins. */
static const uint8_t *entry_at(const uint8_t *image, uint32_t position)
{
    return image + sizeof(struct okv_wire_bucket) + position;
}

/* Returns 1 with the head of an entry, all of which lies in the `left` bytes from its
 * beginning; 0 when there are none; OKV_ECORRUPT. */
static int head_read(const uint8_t *entry, uint32_t left, struct head *out)
{
    if (left < OKV_ENTRY_SIZE_MIN)
        return left == 0 ? 0 : OKV_ECORRUPT;
    unsigned flags = entry[0];
    out->flags = flags;
    if (is_small(entry[0])) {
        out->size = 3 + age_size(flags);
        out->key_length = entry[1];
        out->value_length = entry[2];
        out->length = out->size + out->key_length + out->value_length;
    } else {
        unsigned key_size = flags & OKV_ENTRY_WIDE_KEY ? 2 : 1;
        out->size = head_size(flags);
        if (flags & OKV_ENTRY_RESERVED || (flags & OKV_ENTRY_KIND) > OKV_ENTRY_KEY_HERE ||
            out->size > left)
            return OKV_ECORRUPT;
        out->key_length = (uint32_t)get_number(entry + 1, key_size);
        out->value_length = (uint32_t)get_number(entry + 1 + key_size, value_length_size(flags));
        out->length = out->size + body_size(flags, out->key_length, out->value_length);
    }
    if (out->length > left || out->key_length == 0 || out->key_length > OKV_KEY_MAX)
        return OKV_ECORRUPT;
    return 1;
}

/* What comes after the head. */
static void body_read(unsigned flags, const uint8_t *body, struct okv_entry *out)
{
    switch (flags & OKV_ENTRY_KIND) {
    case OKV_ENTRY_INLINE:
        out->key = body;
        out->value = body + out->key_length;
        return;
    case OKV_ENTRY_KEY_IN_EXTENT:
        out->key_in_extent = true;
        out->tag = okv_get_u16(body);
        body += sizeof(okv_le16);
        break;
    default:
        out->key = body;
        body += out->key_length;
        break;
    }
    const struct okv_wire_locator *place = (const struct okv_wire_locator *)body;
    out->is_reference = true;
    out->extent = okv_le48_get(place->offset);
    out->checksum = okv_le64_get(place->checksum);
}

/* The entry at `position`, whose head was read. Returns 1 or OKV_ECORRUPT. */
static int entry_read(const uint8_t *image, uint32_t position, const struct head *head,
                      struct okv_entry *out)
{
    const uint8_t *body = entry_at(image, position) + head->size;
    bool expires = head->flags & OKV_ENTRY_EXPIRY;
    const uint8_t *expiry = body - (expires ? sizeof(okv_le48) : 0);
    unsigned size = age_size(head->flags);
    uint64_t age = get_number(expiry - size, size);
    uint64_t version = okv_bucket_version(image);

    *out = (struct okv_entry){
        .key_length = head->key_length,
        .value_length = head->value_length,
        .version = version - age,
        .expiry_ms = expires ? get_number(expiry, sizeof(okv_le48)) : 0,
    };
    body_read(head->flags, body, out);
    if (age > version || (expires && out->expiry_ms == 0) ||
        (out->is_reference && okv_entry_extent_length(out) == 0))
        return OKV_ECORRUPT;
    return 1;
}

int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out)
{
    uint32_t used = okv_bucket_used(image);
    struct head head;

    if (*position > used)
        return OKV_ECORRUPT;
    int rc = head_read(entry_at(image, *position), used - *position, &head);
    if (rc == 1)
        rc = entry_read(image, *position, &head, out);
    if (rc == 1)
        *position += (uint32_t)head.length;
    return rc;
}

/* A small item whose key is at entry[key_at]. Returns 1 or OKV_ECORRUPT. */
static int small_item_read(const uint8_t *image, const uint8_t *entry, uint32_t key_at,
                           struct okv_entry *out)
{
    uint64_t age = get_number(entry + 3, key_at - 3);
    uint64_t version = okv_bucket_version(image);

    *out = (struct okv_entry){
        .key_length = entry[1],
        .value_length = entry[2],
        .version = version - age,
        .key = entry + key_at,
        .value = entry + key_at + entry[1],
    };
    return age > version ? OKV_ECORRUPT : 1;
}

/* Whether an entry with a key of this length is the key's, or a reference that may be. */
static bool head_may_be(const struct head *head, const uint8_t *body, uint64_t hash,
                        const void *key)
{
    uint32_t last = head->key_length - 1;

    if ((head->flags & OKV_ENTRY_KIND) == OKV_ENTRY_KEY_IN_EXTENT)
        return okv_get_u16(body) == okv_hash_tag(hash);
    return body[last] == ((const uint8_t *)key)[last] && memcmp(body, key, last) == 0;
}

/* Whether the entry at `at`, of any kind, may be the key's: 1, and it was read; 0; OKV_ECORRUPT.
 * Fills in its length unless it makes no sense. */
static int any_entry_find(const uint8_t *image, uint32_t at, uint64_t hash, const void *key,
                          uint32_t key_length, uint32_t *length, struct okv_entry *out)
{
    const uint8_t *entry = entry_at(image, at);
    struct head head;
    int rc = head_read(entry, okv_bucket_used(image) - at, &head);

    if (rc != 1)
        return rc;
    *length = (uint32_t)head.length;
    if (head.key_length != key_length || !head_may_be(&head, entry + head.size, hash, key))
        return 0;
    return entry_read(image, at, &head, out);
}

/*
 * Where the next entry is depends on this one's lengths, so a walk is one chain of
 * loads. The branch for small items lets the CPU go ahead with what it foresees instead
 * of waiting for the flags, and the chain stays in registers.
 */
int okv_bucket_find(const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                    uint32_t *position, struct okv_entry *out)
{
    uint32_t used = okv_bucket_used(image);
    /* Keys of one table tend to begin alike and to differ at the end. */
    uint8_t last = key_length ? ((const uint8_t *)key)[key_length - 1] : 0;
    uint32_t length = 0;
    int rc = 0;

    if (*position > used)
        return OKV_ECORRUPT;
    const uint8_t *entry = entry_at(image, *position);
    uint32_t left = used - *position;
    for (; left >= OKV_ENTRY_SIZE_MIN; left -= length, entry += length) {
        uint32_t head = okv_get_u32(entry);
        uint32_t key_at = OKV_SMALL_HEAD;
        if (unlikely((uint8_t)head != OKV_ENTRY_INLINE)) {
            if (!is_small((uint8_t)head)) {
                rc = any_entry_find(image, used - left, hash, key, key_length, &length, out);
                if (rc)
                    break; /* found, or without sense */
                continue;
            }
            key_at = 3 + age_size((uint8_t)head);
        }
        uint32_t its_key_length = head >> 8 & UINT8_MAX;
        length = key_at + its_key_length + (head >> 16 & UINT8_MAX);
        if (length > left || its_key_length == 0)
            return OKV_ECORRUPT;
        if (its_key_length != key_length || entry[key_at + key_length - 1] != last ||
            !okv_bytes_equal(entry + key_at, key, key_length))
            continue;
        rc = small_item_read(image, entry, key_at, out);
        break;
    }
    if (rc < 0 || (rc == 0 && left > 0))
        return OKV_ECORRUPT;
    *position = rc ? used - left + length : used;
    return rc;
}

void okv_bucket_begin(uint8_t *image, unsigned depth, uint64_t version, uint64_t chain,
                      unsigned page)
{
    *(struct okv_wire_bucket *)image = (struct okv_wire_bucket){
        .version = okv_le48_of(version),
        .chain = okv_le48_of(chain),
        .depth = (uint8_t)depth,
        .page = (uint8_t)page,
    };
}

static void append_body(uint8_t *body, const struct okv_entry *entry)
{
    if (!entry->is_reference || !entry->key_in_extent) {
        memcpy(body, entry->key, entry->key_length);
        body += entry->key_length;
    } else {
        okv_put_u16(body, entry->tag);
        body += sizeof(okv_le16);
    }
    if (entry->is_reference)
        *(struct okv_wire_locator *)body = (struct okv_wire_locator){
            .offset = okv_le48_of(entry->extent),
            .checksum = okv_le64_of(entry->checksum),
        };
    else if (entry->value_length)
        memcpy(body, entry->value, entry->value_length);
}

static void entry_write(uint8_t *at, const struct okv_entry *entry, unsigned flags,
                        uint64_t image_version)
{
    *at++ = (uint8_t)flags;
    at = put_number(at, flags & OKV_ENTRY_WIDE_KEY ? 2 : 1, entry->key_length);
    at = put_number(at, value_length_size(flags), entry->value_length);
    at = put_number(at, age_size(flags), image_version - entry->version);
    if (entry->expiry_ms)
        at = put_number(at, sizeof(okv_le48), entry->expiry_ms);
    append_body(at, entry);
}

int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);
    uint64_t version = okv_le48_get(header->version);
    unsigned flags = entry_flags(entry, version);
    uint32_t length = size_with(entry, flags);

    if (length > okv_bucket_room(size) - used)
        return OKV_EFULL;
    entry_write(image + sizeof *header + used, entry, flags, version);
    header->used = okv_le16_of((uint16_t)(used + length));
    return 0;
}

/* ---- changing one entry ---- */

/* False when it takes a further byte. */
static bool age_bump(uint8_t *age, unsigned size)
{
    if (size == 1)
        return ++*age != 0;
    uint64_t raised = get_number(age, size) + 1;
    put_number(age, size, raised);
    return raised >> 8 * size == 0;
}

static void note_reference(struct okv_bucket_cursor *cursor, const struct head *head,
                           uint32_t inline_max)
{
    unsigned flags = head->flags & ~(OKV_ENTRY_KIND | OKV_ENTRY_WIDE_VALUE);
    uint64_t size = (uint64_t)head->key_length + head->value_length;

    if ((head->flags & OKV_ENTRY_KIND) == OKV_ENTRY_INLINE)
        return;
    size += head_size(flags | (head->value_length > UINT8_MAX ? OKV_ENTRY_WIDE_VALUE : 0));
    if (size > inline_max)
        return;
    uint32_t need = size > head->length ? (uint32_t)(size - head->length) : 0;
    if (need < cursor->inline_need)
        cursor->inline_need = need;
}

static void note_expiry(struct okv_bucket_cursor *cursor, uint64_t expiry_ms)
{
    if (expiry_ms < cursor->earliest_expiry)
        cursor->earliest_expiry = expiry_ms;
}

/* What is raised: an image, its copy in which the ages go up, and the key that is looked for. */
struct bumping {
    const uint8_t *from;
    uint8_t *image;
    uint32_t inline_max;
    uint64_t hash;
    const void *key;
    uint32_t key_length;
};

/* An entry of any kind. Returns the bytes of it, or 0 when there is more to do than to raise it. */
static uint32_t any_entry_bump(const struct bumping *bumping, uint32_t at,
                               struct okv_bucket_cursor *cursor)
{
    const uint8_t *entry = entry_at(bumping->from, at);
    struct head head;

    if (head_read(entry, okv_bucket_used(bumping->from) - at, &head) != 1)
        return 0;
    const uint8_t *body = entry + head.size;
    bool expires = head.flags & OKV_ENTRY_EXPIRY;
    unsigned size = age_size(head.flags);
    uint32_t age_at = at + head.size - (expires ? (uint32_t)sizeof(okv_le48) : 0) - size;
    if (expires)
        note_expiry(cursor, get_number(body - sizeof(okv_le48), sizeof(okv_le48)));
    if (!age_bump(bumping->image + sizeof(struct okv_wire_bucket) + age_at, size))
        return 0;
    if (head.key_length != bumping->key_length ||
        !head_may_be(&head, body, bumping->hash, bumping->key)) {
        note_reference(cursor, &head, bumping->inline_max);
        return (uint32_t)head.length;
    }
    if (cursor->length > 0)
        return 0;
    cursor->position = at;
    cursor->length = (uint32_t)head.length;
    return cursor->length;
}

bool okv_bucket_bump_ages(uint8_t *image, const uint8_t *from, uint32_t size, uint32_t inline_max,
                          uint64_t hash, const void *key, uint32_t key_length,
                          struct okv_bucket_cursor *cursor)
{
    uint8_t *entry = image + sizeof(struct okv_wire_bucket);
    uint32_t used = okv_bucket_used(from);
    uint32_t left, length;

    if (used > okv_bucket_room(size) || key_length == 0)
        return false;
    uint8_t last = ((const uint8_t *)key)[key_length - 1];
    okv_bucket_copy(image, from, (uint32_t)sizeof(struct okv_wire_bucket) + used);
    ((struct okv_wire_bucket *)image)->version = okv_le48_of(okv_bucket_version(from) + 1);
    *cursor = (struct okv_bucket_cursor){
        .position = used, .earliest_expiry = UINT64_MAX, .inline_need = UINT32_MAX};
    /* It goes fast over small items whose age takes a byte: their flags are 0, and all of their
     * head is in four bytes. */
    for (left = used; left >= OKV_ENTRY_SIZE_MIN; left -= length, entry += length) {
        uint32_t head = okv_get_u32(entry);
        if (unlikely((uint8_t)head != OKV_ENTRY_INLINE)) {
            const struct bumping bumping = {from, image, inline_max, hash, key, key_length};
            length = any_entry_bump(&bumping, used - left, cursor);
            if (length == 0)
                return false;
            continue;
        }
        uint32_t its_key_length = head >> 8 & UINT8_MAX;
        length = OKV_SMALL_HEAD + its_key_length + (head >> 16 & UINT8_MAX);
        if (length > left || its_key_length == 0 || head >= OKV_SMALL_HEAD_OLDEST)
            return false;
        entry[OKV_SMALL_HEAD - 1]++;
        if (its_key_length != key_length || entry[OKV_SMALL_HEAD + key_length - 1] != last ||
            !okv_bytes_equal(entry + OKV_SMALL_HEAD, key, key_length))
            continue;
        if (cursor->length > 0)
            return false;
        cursor->position = used - left;
        cursor->length = length;
    }
    return left == 0;
}

bool okv_bucket_cursor_read(const uint8_t *from, const struct okv_bucket_cursor *cursor,
                            struct okv_entry *out)
{
    uint32_t position = cursor->position;

    return okv_bucket_next(from, &position, out) == 1;
}

int okv_bucket_replace(uint8_t *image, uint32_t size, const struct okv_bucket_cursor *cursor,
                       const struct okv_entry *entry)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint64_t version = okv_le48_get(header->version);
    uint32_t left = okv_le16_get(header->used) - cursor->length;
    unsigned flags = entry ? entry_flags(entry, version) : 0;
    uint32_t length = entry ? size_with(entry, flags) : 0;
    uint8_t *at = image + sizeof *header + cursor->position;

    if (length > okv_bucket_room(size) - left)
        return OKV_EFULL;
    if (length != cursor->length)
        memmove(at + length, at + cursor->length, left - cursor->position);
    if (entry)
        entry_write(at, entry, flags, version);
    header->used = okv_le16_of((uint16_t)(left + length));
    return 0;
}

void okv_bucket_seal(uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);

    if (used < okv_bucket_room(size))
        memset(image + sizeof *header + used, 0, okv_bucket_room(size) - used);
    header->checksum = okv_le64_of(okv_bucket_checksum(image, used, boot_id, bucket, header->page));
}

uint64_t okv_extent_checksum(const uint8_t *extent, uint64_t length, uint64_t boot_id)
{
    return okv_hash_checksum(extent, length, boot_id);
}

int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length)
{
    uint64_t length = okv_entry_extent_length(reference);

#ifndef OKV_UNSAFE_NO_CHECKSUM
    if (okv_extent_checksum(extent, length, boot_id) != reference->checksum)
        return OKV_ECORRUPT;
#else
    (void)boot_id, (void)length;
#endif
    if (reference->key_in_extent &&
        (reference->key_length != key_length || memcmp(extent, key, key_length) != 0))
        return OKV_ENOTFOUND;
    return 0;
}
