#include "shared/format/bucket_edit.h"

#include <string.h>

#include "shared/base/compiler.h"
#include "shared/base/error.h"

/* ---- a whole image ---- */

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

int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);
    uint64_t version = okv_le48_get(header->version);
    unsigned flags = okv_entry_flags(entry, version);
    uint32_t length = okv_entry_size_as(entry, flags);

    if (length > okv_bucket_room(size) - used)
        return OKV_EFULL;
    okv_entry_write(image + sizeof *header + used, entry, flags, version);
    header->used = okv_le16_of((uint16_t)(used + length));
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

void okv_bucket_raise(uint8_t *image, uint64_t by)
{
    ((struct okv_wire_bucket *)image)->version = okv_le48_of(okv_bucket_version(image) + by);
}

/* ---- one entry of a copy ---- */

static void note_reference(struct okv_bucket_cursor *cursor, const struct okv_entry_head *head,
                           uint32_t inline_max)
{
    if ((head->flags & OKV_ENTRY_KIND) == OKV_ENTRY_INLINE)
        return;
    uint64_t size = okv_entry_inline_length(head);
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

/* What the walk of okv_bucket_bump_ages() works on. */
struct bumping {
    const uint8_t *from; /* the published image */
    uint8_t *image;      /* its copy, in which the ages go up */
    uint32_t inline_max;
    uint64_t hash;
    const void *key;
    uint32_t key_length;
};

/* Bumps an entry of any kind. Returns its length, or 0 when a bump is not enough. */
static uint32_t general_entry_bump(const struct bumping *bumping, uint32_t position,
                                   struct okv_bucket_cursor *cursor)
{
    const uint8_t *entry = okv_bucket_entry(bumping->from, position);
    uint8_t *copy = bumping->image + sizeof(struct okv_wire_bucket) + position;
    struct okv_entry_head head;

    if (okv_entry_head_read(entry, okv_bucket_used(bumping->from) - position, &head) != 1)
        return 0;
    if (head.flags & OKV_ENTRY_EXPIRY)
        note_expiry(cursor, okv_entry_expiry(entry, &head));
    if (!okv_entry_age_bump(copy, &head))
        return 0;
    if (head.key_length != bumping->key_length ||
        !okv_entry_may_have_key(entry, &head, bumping->hash, bumping->key)) {
        note_reference(cursor, &head, bumping->inline_max);
        return (uint32_t)head.length;
    }
    if (cursor->length > 0)
        return 0;
    cursor->position = position;
    cursor->length = (uint32_t)head.length;
    return cursor->length;
}

/* The loop is short for small entries with an age of one byte: their flags are 0, and the whole
 * head is in four bytes. */
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
    for (left = used; left >= OKV_ENTRY_SIZE_MIN; left -= length, entry += length) {
        uint32_t head = okv_get_u32(entry);
        if (unlikely(!okv_entry_head_small(head))) {
            const struct bumping bumping = {from, image, inline_max, hash, key, key_length};
            length = general_entry_bump(&bumping, used - left, cursor);
            if (length == 0)
                return false;
            continue;
        }
        uint32_t entry_key_length = head >> 8 & UINT8_MAX;
        length = OKV_SMALL_HEAD + entry_key_length + (head >> 16 & UINT8_MAX);
        if (length > left || entry_key_length == 0 || head >= OKV_SMALL_HEAD_OLDEST)
            return false;
        entry[OKV_SMALL_AGE_AT]++;
        if (entry_key_length != key_length || entry[OKV_SMALL_HEAD + key_length - 1] != last ||
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
    unsigned flags = entry ? okv_entry_flags(entry, version) : 0;
    uint32_t length = entry ? okv_entry_size_as(entry, flags) : 0;
    uint8_t *bytes = image + sizeof *header + cursor->position;

    if (length > okv_bucket_room(size) - left)
        return OKV_EFULL;
    if (length != cursor->length)
        memmove(bytes + length, bytes + cursor->length, left - cursor->position);
    if (entry)
        okv_entry_write(bytes, entry, flags, version);
    header->used = okv_le16_of((uint16_t)(left + length));
    return 0;
}
