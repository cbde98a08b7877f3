/*
 * All that most puts do to an image, in one straight line: it is run for every such put
 * (docs/architecture.md, What a put costs). Where it is not enough, bucket.c has the parts.
 */
#include "shared/base/compiler.h"
#include "shared/base/error.h"
#include "shared/format/bucket.h"

/* Raises the ages of small items and finds the one with these lengths, as its head has them, and
 * this key. Returns as okv_bucket_overwrite(), with the item, or NULL, in *out. */
static int raise_and_find(uint8_t *entry, uint32_t left, const struct okv_overwrite *put,
                          uint8_t **out)
{
    const uint32_t lengths = put->key_length << 8 | put->value_length << 16;
    /* Keys of one table tend to begin alike and to differ at the end. */
    const uint32_t last_at = OKV_SMALL_HEAD + put->key_length - 1;
    const uint8_t last = ((const uint8_t *)put->key)[put->key_length - 1];
    uint32_t length;

    for (; left >= OKV_ENTRY_SIZE_MIN; left -= length, entry += length) {
        const uint32_t head = okv_get_u32(entry);
        length = OKV_SMALL_HEAD + (head >> 8 & UINT8_MAX) + (head >> 16 & UINT8_MAX);
        if ((uint8_t)head != OKV_ENTRY_INLINE || !(head & 0xff00) ||
            head >= OKV_SMALL_HEAD_OLDEST || length > left)
            return OKV_EAGAIN;
        entry[OKV_SMALL_HEAD - 1]++;
        if ((head & 0xffff00) != lengths || entry[last_at] != last ||
            !okv_bytes_equal(entry + OKV_SMALL_HEAD, put->key, put->key_length))
            continue;
        if (*out)
            return OKV_EAGAIN;
        *out = entry;
    }
    return left == 0 ? 0 : OKV_EAGAIN;
}

int okv_bucket_overwrite(uint8_t *image, const uint8_t *from, uint32_t size, uint64_t boot_id,
                         uint64_t bucket, const struct okv_overwrite *put)
{
    struct okv_wire_bucket *header = (struct okv_wire_bucket *)image;
    const uint32_t used = okv_bucket_used(from);
    const uint32_t extent = (uint32_t)sizeof *header + used;
    uint8_t *entry = NULL;

    if (put->key_length == 0 || put->key_length > UINT8_MAX || put->value_length > UINT8_MAX)
        return 0;
    if (used > okv_bucket_room(size))
        return OKV_EAGAIN;
    okv_bucket_copy(image, from, extent);
    header->version = okv_le48_of(okv_bucket_version(from) + 1);
    int rc = raise_and_find(image + sizeof *header, used, put, &entry);
    if (!OKV_USUALLY(rc == 0 && entry))
        return rc;
    entry[OKV_SMALL_HEAD - 1] = 0;
    if (put->value_length)
        okv_bytes_copy(entry + OKV_SMALL_HEAD + put->key_length, put->value, put->value_length);
    header->checksum = okv_le64_of(okv_bucket_checksum(image, used, boot_id, bucket, 0));
    return (int)extent;
}
