#include "shared/format/entry.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"

/* ---- numbers of 1, 2, 4 or 6 bytes ---- */

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

/* ---- flags and sizes ---- */

static unsigned age_code(uint64_t age)
{
    if (age <= UINT8_MAX)
        return 0;
    if (age <= UINT16_MAX)
        return 1;
    return age <= UINT32_MAX ? 2 : 3;
}

static unsigned key_length_size(unsigned flags)
{
    return flags & OKV_ENTRY_WIDE_KEY ? 2 : 1;
}

static unsigned value_length_size(unsigned flags)
{
    unsigned narrow = (flags & OKV_ENTRY_KIND) == OKV_ENTRY_INLINE ? 1 : 2;

    return flags & OKV_ENTRY_WIDE_VALUE ? 2 * narrow : narrow;
}

static unsigned expiry_size(unsigned flags)
{
    return flags & OKV_ENTRY_EXPIRY ? (unsigned)sizeof(okv_le48) : 0;
}

static unsigned head_size(unsigned flags)
{
    return 1 + key_length_size(flags) + value_length_size(flags) + okv_entry_age_size(flags) +
           expiry_size(flags);
}

static uint64_t body_size(unsigned flags, uint32_t key_length, uint32_t value_length)
{
    switch (flags & OKV_ENTRY_KIND) {
    case OKV_ENTRY_INLINE:
        return (uint64_t)key_length + value_length;
    case OKV_ENTRY_KEY_IN_EXTENT:
        return sizeof(okv_le16) + sizeof(struct okv_wire_extent);
    default:
        return key_length + sizeof(struct okv_wire_extent);
    }
}

unsigned okv_entry_flags(const struct okv_entry *entry, uint64_t page_version)
{
    uint32_t narrow = entry->is_reference ? UINT16_MAX : UINT8_MAX;
    unsigned flags = age_code(page_version - entry->version) << OKV_ENTRY_AGE_SHIFT;

    if (entry->is_reference)
        flags |= entry->key_in_extent ? OKV_ENTRY_KEY_IN_EXTENT : OKV_ENTRY_KEY_HERE;
    if (entry->expiry_ms)
        flags |= OKV_ENTRY_EXPIRY;
    if (entry->is_quiet)
        flags |= OKV_ENTRY_QUIET;
    if (entry->key_length > UINT8_MAX)
        flags |= OKV_ENTRY_WIDE_KEY;
    if (entry->value_length > narrow)
        flags |= OKV_ENTRY_WIDE_VALUE;
    return flags;
}

uint32_t okv_entry_size_as(const struct okv_entry *entry, unsigned flags)
{
    if (okv_entry_flags_small(flags))
        return OKV_SMALL_AGE_AT + okv_entry_age_size(flags) + entry->key_length +
               entry->value_length;
    return head_size(flags) + (uint32_t)body_size(flags, entry->key_length, entry->value_length);
}

uint32_t okv_entry_size(const struct okv_entry *entry, uint64_t page_version)
{
    return okv_entry_size_as(entry, okv_entry_flags(entry, page_version));
}

uint64_t okv_entry_inline_length(const struct okv_entry_head *head)
{
    unsigned flags = head->flags & ~(OKV_ENTRY_KIND | OKV_ENTRY_WIDE_VALUE);

    if (head->value_length > UINT8_MAX)
        flags |= OKV_ENTRY_WIDE_VALUE;
    return head_size(flags) + (uint64_t)head->key_length + head->value_length;
}

/* ---- reading ---- */

int okv_entry_head_read(const uint8_t *bytes, uint32_t left, struct okv_entry_head *out)
{
    if (left < OKV_ENTRY_SIZE_MIN)
        return left == 0 ? 0 : OKV_ECORRUPT;
    unsigned flags = bytes[0];
    out->flags = flags;
    if (okv_entry_flags_small(flags)) {
        out->size = OKV_SMALL_AGE_AT + okv_entry_age_size(flags);
        out->key_length = bytes[1];
        out->value_length = bytes[2];
        out->length = out->size + out->key_length + out->value_length;
    } else {
        unsigned key_size = key_length_size(flags);
        out->size = head_size(flags);
        if ((flags & OKV_ENTRY_KIND) > OKV_ENTRY_KEY_HERE || out->size > left)
            return OKV_ECORRUPT;
        out->key_length = (uint32_t)get_number(bytes + 1, key_size);
        out->value_length = (uint32_t)get_number(bytes + 1 + key_size, value_length_size(flags));
        out->length = out->size + body_size(flags, out->key_length, out->value_length);
    }
    if (out->length > left || out->key_length == 0 || out->key_length > OKV_KEY_MAX)
        return OKV_ECORRUPT;
    return 1;
}

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
    const struct okv_wire_extent *extent = (const struct okv_wire_extent *)body;
    out->is_reference = true;
    out->extent = okv_le48_get(extent->offset);
    out->checksum = okv_le64_get(extent->checksum);
}

uint64_t okv_entry_expiry(const uint8_t *bytes, const struct okv_entry_head *head)
{
    return get_number(bytes + head->size - sizeof(okv_le48), sizeof(okv_le48));
}

/* Bytes from the flags to the age. */
static uint32_t age_position(const struct okv_entry_head *head)
{
    return head->size - expiry_size(head->flags) - okv_entry_age_size(head->flags);
}

int okv_entry_read(const uint8_t *bytes, const struct okv_entry_head *head, uint64_t page_version,
                   struct okv_entry *out)
{
    bool expires = head->flags & OKV_ENTRY_EXPIRY;
    uint64_t age = get_number(bytes + age_position(head), okv_entry_age_size(head->flags));

    *out = (struct okv_entry){
        .is_quiet = head->flags & OKV_ENTRY_QUIET,
        .key_length = head->key_length,
        .value_length = head->value_length,
        .version = page_version - age,
        .expiry_ms = expires ? okv_entry_expiry(bytes, head) : 0,
    };
    body_read(head->flags, bytes + head->size, out);
    if (age > page_version || (expires && out->expiry_ms == 0) ||
        (out->is_reference && okv_entry_extent_length(out) == 0))
        return OKV_ECORRUPT;
    return 1;
}

int okv_entry_read_small(const uint8_t *bytes, uint32_t key_at, uint64_t page_version,
                         struct okv_entry *out)
{
    uint64_t age = get_number(bytes + OKV_SMALL_AGE_AT, key_at - OKV_SMALL_AGE_AT);

    *out = (struct okv_entry){
        .is_quiet = bytes[0] & OKV_ENTRY_QUIET,
        .key_length = bytes[1],
        .value_length = bytes[2],
        .version = page_version - age,
        .key = bytes + key_at,
        .value = bytes + key_at + bytes[1],
    };
    return age > page_version ? OKV_ECORRUPT : 1;
}

bool okv_entry_may_have_key(const uint8_t *bytes, const struct okv_entry_head *head, uint64_t hash,
                            const void *key)
{
    const uint8_t *body = bytes + head->size;
    uint32_t last = head->key_length - 1;

    if ((head->flags & OKV_ENTRY_KIND) == OKV_ENTRY_KEY_IN_EXTENT)
        return okv_get_u16(body) == okv_hash_tag(hash);
    return body[last] == ((const uint8_t *)key)[last] && memcmp(body, key, last) == 0;
}

/* ---- writing ---- */

static void body_write(uint8_t *body, const struct okv_entry *entry)
{
    if (!entry->is_reference || !entry->key_in_extent) {
        memcpy(body, entry->key, entry->key_length);
        body += entry->key_length;
    } else {
        okv_put_u16(body, entry->tag);
        body += sizeof(okv_le16);
    }
    if (entry->is_reference)
        *(struct okv_wire_extent *)body = (struct okv_wire_extent){
            .offset = okv_le48_of(entry->extent),
            .checksum = okv_le64_of(entry->checksum),
        };
    else if (entry->value_length)
        memcpy(body, entry->value, entry->value_length);
}

void okv_entry_write(uint8_t *bytes, const struct okv_entry *entry, unsigned flags,
                     uint64_t page_version)
{
    *bytes++ = (uint8_t)flags;
    bytes = put_number(bytes, key_length_size(flags), entry->key_length);
    bytes = put_number(bytes, value_length_size(flags), entry->value_length);
    bytes = put_number(bytes, okv_entry_age_size(flags), page_version - entry->version);
    if (entry->expiry_ms)
        bytes = put_number(bytes, sizeof(okv_le48), entry->expiry_ms);
    body_write(bytes, entry);
}

bool okv_entry_age_bump(uint8_t *bytes, const struct okv_entry_head *head)
{
    uint8_t *age = bytes + age_position(head);
    unsigned size = okv_entry_age_size(head->flags);

    if (size == 1)
        return ++*age != 0;
    uint64_t bumped = get_number(age, size) + 1;
    put_number(age, size, bumped);
    return bumped >> 8 * size == 0;
}
