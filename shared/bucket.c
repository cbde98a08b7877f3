#include "shared/bucket.h"

#include <string.h>

#include "shared/error.h"
#include "shared/hash.h"

/* Bytes before the ones that the checksum covers: the checksum itself. */
#define CHECKSUM_SIZE sizeof(okv_le64)

bool okv_bucket_size_valid(uint64_t size)
{
    return size >= OKV_BUCKET_SIZE_MIN && size <= OKV_BUCKET_SIZE_MAX && (size & (size - 1)) == 0;
}

/* An odd multiplier is one-to-one modulo 2^64: two places never share a seed. */
static uint64_t image_seed(uint64_t boot_id, uint64_t bucket, unsigned part)
{
    return boot_id ^ (bucket | (uint64_t)part << 56) * UINT64_C(0x9e3779b97f4a7c15);
}

static uint64_t image_checksum(const uint8_t *image, uint32_t used, uint64_t seed)
{
    size_t covered = sizeof(struct okv_wire_bucket) - CHECKSUM_SIZE + used;

    return okv_hash_checksum(image + CHECKSUM_SIZE, covered, seed);
}

int okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                     unsigned part)
{
    const struct okv_wire_bucket *header = (const struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);

    if (used > okv_bucket_room(size))
        return OKV_ECORRUPT;
#ifndef OKV_UNSAFE_NO_CHECKSUM /* only the test that shows what the checksum is for defines this \
                                */
    uint64_t seed = image_seed(boot_id, bucket, part);
    if (okv_le64_get(header->checksum) != image_checksum(image, used, seed))
        return OKV_ECORRUPT;
#else
    (void)boot_id, (void)bucket;
#endif
    if (header->part != part || header->depth > OKV_DEPTH_MAX)
        return OKV_ECORRUPT;
    return 0;
}

int okv_bucket_next(const uint8_t *image, uint32_t *position, struct okv_entry *out)
{
    const uint8_t *entries = image + sizeof(struct okv_wire_bucket);
    uint32_t left = okv_bucket_used(image) - *position;
    const struct okv_wire_entry *wire = (const struct okv_wire_entry *)(entries + *position);

    if (left == 0)
        return 0;
    if (*position > okv_bucket_used(image) || left < sizeof *wire)
        return OKV_ECORRUPT;

    uint16_t key_and_flags = okv_le16_get(wire->key_and_flags);
    *out = (struct okv_entry){
        .tag = okv_le16_get(wire->tag),
        .is_reference = key_and_flags & OKV_ENTRY_REFERENCE,
        .key_length = key_and_flags & OKV_ENTRY_KEY_MASK,
        .value_length = okv_le16_get(wire->value_length),
        .version = okv_le48_get(wire->version),
    };
    if (key_and_flags & OKV_ENTRY_RESERVED || out->key_length == 0 ||
        out->key_length > OKV_KEY_MAX || left < okv_entry_size(out) ||
        (out->is_reference && out->value_length != 0))
        return OKV_ECORRUPT;

    const uint8_t *body = (const uint8_t *)(wire + 1);
    *position += okv_entry_size(out);
    if (out->is_reference) {
        const struct okv_wire_reference *reference = (const struct okv_wire_reference *)body;
        out->extent = okv_le48_get(reference->offset);
        out->value_length = okv_le32_get(reference->value_length);
        out->checksum = okv_le64_get(reference->checksum);
    } else {
        out->key = body;
        out->value = body + out->key_length;
    }
    return 1;
}

int okv_bucket_find(const uint8_t *image, uint64_t hash, const void *key, uint32_t key_length,
                    uint32_t *position, struct okv_entry *out)
{
    uint16_t tag = okv_hash_tag(hash);
    int rc;

    while ((rc = okv_bucket_next(image, position, out)) == 1) {
        if (out->tag != tag || out->key_length != key_length)
            continue;
        if (out->is_reference || memcmp(out->key, key, key_length) == 0)
            return 1;
    }
    return rc;
}

void okv_bucket_begin(uint8_t *image, unsigned depth, uint64_t version, uint64_t chain,
                      unsigned part)
{
    *(struct okv_wire_bucket *)image = (struct okv_wire_bucket){
        .version = okv_le48_of(version),
        .chain = okv_le48_of(chain),
        .depth = (uint8_t)depth,
        .part = (uint8_t)part,
    };
}

static void append_body(uint8_t *body, const struct okv_entry *entry)
{
    if (entry->is_reference) {
        *(struct okv_wire_reference *)body = (struct okv_wire_reference){
            .offset = okv_le48_of(entry->extent),
            .value_length = okv_le32_of(entry->value_length),
            .checksum = okv_le64_of(entry->checksum),
        };
        return;
    }
    memcpy(body, entry->key, entry->key_length);
    if (entry->value_length)
        memcpy(body + entry->key_length, entry->value, entry->value_length);
}

int okv_bucket_append(uint8_t *image, uint32_t size, const struct okv_entry *entry)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);
    uint32_t length = okv_entry_size(entry);

    if (length > okv_bucket_room(size) - used)
        return OKV_EFULL;

    struct okv_wire_entry *wire = (struct okv_wire_entry *)(image + sizeof *header + used);
    uint32_t flags = entry->is_reference ? OKV_ENTRY_REFERENCE : 0;
    *wire = (struct okv_wire_entry){
        .tag = okv_le16_of(entry->tag),
        .key_and_flags = okv_le16_of((uint16_t)(entry->key_length | flags)),
        .value_length = okv_le16_of(entry->is_reference ? 0 : (uint16_t)entry->value_length),
        .version = okv_le48_of(entry->version),
    };
    append_body((uint8_t *)(wire + 1), entry);
    header->used = okv_le16_of((uint16_t)(used + length));
    return 0;
}

void okv_bucket_seal(uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    uint32_t used = okv_le16_get(header->used);
    uint64_t seed = image_seed(boot_id, bucket, header->part);

    memset(image + sizeof *header + used, 0, okv_bucket_room(size) - used);
    header->checksum = okv_le64_of(image_checksum(image, used, seed));
}

uint64_t okv_extent_checksum(const uint8_t *extent, uint32_t length, uint64_t boot_id)
{
    return okv_hash_checksum(extent, length, boot_id);
}

int okv_extent_check(const struct okv_entry *reference, const uint8_t *extent, uint64_t boot_id,
                     const void *key, uint32_t key_length)
{
    uint32_t length = reference->key_length + reference->value_length;

#ifndef OKV_UNSAFE_NO_CHECKSUM
    if (okv_extent_checksum(extent, length, boot_id) != reference->checksum)
        return OKV_ECORRUPT;
#else
    (void)boot_id, (void)length;
#endif
    if (reference->key_length != key_length || memcmp(extent, key, key_length) != 0)
        return OKV_ENOTFOUND;
    return 0;
}
