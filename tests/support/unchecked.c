/*
 * A client that skips its checksum tests, for the programs that show what the checksums are for:
 * the linker puts these in the place of ours (--wrap). The other tests are those of ours.
 */
#include <string.h>

#include "client/engine/operation.h"
#include "client/get/extent.h"
#include "shared/base/error.h"
#include "shared/format/bucket.h"

int __wrap_okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                            unsigned page);
int __wrap_okv_extent_check(const struct okv_entry *reference, const uint8_t *extent,
                            uint64_t boot_id, const void *key, uint32_t key_length);
int __wrap_extent_check(const okv *handle, const struct operation *operation,
                        const struct okv_entry *reference);

int __wrap_okv_bucket_check(const uint8_t *image, uint32_t size, uint64_t boot_id, uint64_t bucket,
                            unsigned page)
{
    const struct okv_wire_bucket *header = (const struct okv_wire_bucket *)image;

    (void)boot_id, (void)bucket;
    if (okv_le16_get(header->used) > okv_bucket_room(size) || header->page != page ||
        header->depth > OKV_DEPTH_MAX)
        return OKV_ECORRUPT;
    return 0;
}

int __wrap_okv_extent_check(const struct okv_entry *reference, const uint8_t *extent,
                            uint64_t boot_id, const void *key, uint32_t key_length)
{
    (void)boot_id;
    if (reference->key_in_extent &&
        (reference->key_length != key_length || memcmp(extent, key, key_length) != 0))
        return OKV_ENOTFOUND;
    return 0;
}

int __wrap_extent_check(const okv *handle, const struct operation *operation,
                        const struct okv_entry *reference)
{
    const struct extent_read *read = &operation->extent_read;

    (void)handle;
    if (read->head > 0)
        return memcmp(operation->extent, operation->key, read->head) == 0 ? 0 : OKV_ENOTFOUND;
    return __wrap_okv_extent_check(reference, read->to, 0, operation->key, operation->key_length);
}
