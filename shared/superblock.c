#include "shared/superblock.h"

#include <string.h>

#include "shared/bucket.h"
#include "shared/error.h"
#include "shared/hash.h"

static uint64_t superblock_checksum(const struct okv_wire_superblock *wire)
{
    return okv_hash_checksum(wire, offsetof(struct okv_wire_superblock, checksum), 0);
}

void okv_superblock_encode(const struct okv_superblock *block, struct okv_wire_superblock *out)
{
    *out = (struct okv_wire_superblock){
        .magic = okv_le64_of(OKV_SUPERBLOCK_MAGIC),
        .format_version = okv_le32_of(OKV_FORMAT_VERSION),
        .bucket_size = okv_le32_of(block->bucket_size),
        .boot_id = okv_le64_of(block->boot_id),
        .hash_seed = okv_le64_of(block->hash_seed),
        .region_length = okv_le64_of(block->region_length),
        .index_offset = okv_le64_of(block->index_offset),
        .index_length = okv_le64_of(block->index_length),
        .depth = okv_le32_of(block->depth),
        .boot_clock_ms = okv_le64_of(block->boot_clock_ms),
    };
    out->checksum = okv_le64_of(superblock_checksum(out));
}

int okv_superblock_decode(const uint8_t *bytes, size_t length, struct okv_superblock *out)
{
    struct okv_wire_superblock wire;

    if (length < sizeof wire)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);
    if (okv_le64_get(wire.magic) != OKV_SUPERBLOCK_MAGIC)
        return OKV_EPROTO;
    if (okv_le32_get(wire.format_version) != OKV_FORMAT_VERSION)
        return OKV_EVERSION;
    if (okv_le64_get(wire.checksum) != superblock_checksum(&wire) ||
        !okv_bucket_size_valid(okv_le32_get(wire.bucket_size)) ||
        okv_le32_get(wire.depth) > OKV_DEPTH_MAX || okv_le64_get(wire.boot_id) == 0 ||
        okv_le32_get(wire.reserved) != 0 ||
        okv_le64_get(wire.index_length) % okv_le32_get(wire.bucket_size) != 0 ||
        !okv_range_inside(okv_le64_get(wire.index_offset), okv_le64_get(wire.index_length),
                          okv_le64_get(wire.region_length)))
        return OKV_EPROTO;
    *out = (struct okv_superblock){
        .boot_id = okv_le64_get(wire.boot_id),
        .hash_seed = okv_le64_get(wire.hash_seed),
        .region_length = okv_le64_get(wire.region_length),
        .index_offset = okv_le64_get(wire.index_offset),
        .index_length = okv_le64_get(wire.index_length),
        .boot_clock_ms = okv_le64_get(wire.boot_clock_ms),
        .bucket_size = okv_le32_get(wire.bucket_size),
        .depth = okv_le32_get(wire.depth),
    };
    return 0;
}
