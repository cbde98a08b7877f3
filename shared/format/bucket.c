#include "shared/format/bucket.h"

#include <string.h>

#include "shared/base/compiler.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"

/* The checksum covers the bytes after itself. */
#define CHECKSUM_SIZE sizeof(okv_le64)

bool okv_bucket_size_valid(uint64_t size)
{
    return size >= OKV_BUCKET_SIZE_MIN && size <= OKV_BUCKET_SIZE_MAX && (size & (size - 1)) == 0;
}

/* An odd multiplier is one-to-one modulo 2^64: two pages never share a seed. */
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
    if (okv_le64_get(header->checksum) != okv_bucket_checksum(image, used, boot_id, bucket, page))
        return OKV_ECORRUPT;
    if (header->page != page || header->depth > OKV_DEPTH_MAX)
        return OKV_ECORRUPT;
    return 0;
}

int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out)
{
    uint32_t used = okv_bucket_used(image);
    struct okv_entry_head head;

    if (*position > used)
        return OKV_ECORRUPT;
    const uint8_t *entry = okv_bucket_entry(image, *position);
    int rc = okv_entry_head_read(entry, used - *position, &head);
    if (rc == 1)
        rc = okv_entry_read(entry, &head, okv_bucket_version(image), out);
    if (rc == 1)
        *position += (uint32_t)head.length;
    return rc;
}

/* Decodes an entry of any kind if it may have the key. Returns 1 when it may, 0, or OKV_ECORRUPT.
 * Sets `*length` if its lengths make sense. */
static int general_entry_match(const uint8_t *image, const uint8_t *entry, uint32_t left,
                               uint64_t hash, const void *key, uint32_t key_length,
                               uint32_t *length, struct okv_entry *out)
{
    struct okv_entry_head head;
    int rc = okv_entry_head_read(entry, left, &head);

    if (rc != 1)
        return rc;
    *length = (uint32_t)head.length;
    if (head.key_length != key_length || !okv_entry_may_have_key(entry, &head, hash, key))
        return 0;
    return okv_entry_read(entry, &head, okv_bucket_version(image), out);
}

/*
 * The position of an entry depends on the lengths of the one before it, so a walk is one chain of
 * loads. The branch for small entries lets the CPU run ahead on a prediction instead of waiting
 * for the flags, and keeps the chain in registers.
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
    const uint8_t *entry = okv_bucket_entry(image, *position);
    uint32_t left = used - *position;
    for (; left >= OKV_ENTRY_SIZE_MIN; left -= length, entry += length) {
        uint32_t head = okv_get_u32(entry);
        uint32_t key_at = OKV_SMALL_HEAD;
        if (unlikely(!okv_entry_head_small(head))) {
            if (!okv_entry_flags_small((uint8_t)head)) {
                rc = general_entry_match(image, entry, left, hash, key, key_length, &length, out);
                if (rc)
                    break;
                continue;
            }
            key_at = OKV_SMALL_AGE_AT + okv_entry_age_size((uint8_t)head);
        }
        uint32_t entry_key_length = head >> 8 & UINT8_MAX;
        length = key_at + entry_key_length + (head >> 16 & UINT8_MAX);
        if (length > left || entry_key_length == 0)
            return OKV_ECORRUPT;
        if (entry_key_length != key_length || entry[key_at + key_length - 1] != last ||
            !okv_bytes_equal(entry + key_at, key, key_length))
            continue;
        rc = okv_entry_read_small(entry, key_at, okv_bucket_version(image), out);
        break;
    }
    if (rc < 0 || (rc == 0 && left > 0))
        return OKV_ECORRUPT;
    *position = rc ? used - left + length : used;
    return rc;
}

uint64_t okv_extent_checksum(const uint8_t *extent, uint64_t length, uint64_t boot_id)
{
    return okv_hash_checksum(extent, length, boot_id);
}

int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length)
{
    uint64_t length = okv_entry_extent_length(reference);

    if (okv_extent_checksum(extent, length, boot_id) != reference->checksum)
        return OKV_ECORRUPT;
    if (reference->key_in_extent &&
        (reference->key_length != key_length || memcmp(extent, key, key_length) != 0))
        return OKV_ENOTFOUND;
    return 0;
}
