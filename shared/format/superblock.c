#include "shared/format/superblock.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/bucket.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"

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
        .directory_offset = okv_le64_of(block->directory_offset),
        .directory_entries = okv_le32_of(block->directory_entries),
        .segment_buckets = okv_le32_of(block->segment_buckets),
        .boot_wall_ms = okv_le64_of(block->boot_wall_ms),
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
        !okv_bucket_size_valid(okv_le32_get(wire.bucket_size)) || okv_le64_get(wire.boot_id) == 0 ||
        okv_le64_get(wire.reserved) != 0 ||
        okv_le32_get(wire.directory_entries) != OKV_DIRECTORY_ENTRIES ||
        !okv_segment_buckets_valid(okv_le32_get(wire.segment_buckets)) ||
        !okv_range_inside(okv_le64_get(wire.directory_offset), OKV_DIRECTORY_SIZE,
                          okv_le64_get(wire.region_length)))
        return OKV_EPROTO;
    *out = (struct okv_superblock){
        .boot_id = okv_le64_get(wire.boot_id),
        .hash_seed = okv_le64_get(wire.hash_seed),
        .region_length = okv_le64_get(wire.region_length),
        .directory_offset = okv_le64_get(wire.directory_offset),
        .boot_wall_ms = okv_le64_get(wire.boot_wall_ms),
        .directory_entries = okv_le32_get(wire.directory_entries),
        .segment_buckets = okv_le32_get(wire.segment_buckets),
        .bucket_size = okv_le32_get(wire.bucket_size),
    };
    return 0;
}

static uint64_t status_checksum(const struct okv_wire_status *wire, uint64_t boot_id)
{
    return okv_hash_checksum(wire, offsetof(struct okv_wire_status, checksum), boot_id);
}

void okv_status_encode(const struct okv_table_status *status, uint64_t boot_id,
                       struct okv_wire_status *out)
{
    *out = (struct okv_wire_status){
        .clock_ms = okv_le64_of(status->clock_ms),
        .bucket_count = okv_le64_of(status->bucket_count),
        .valid_until_us = okv_le64_of(status->lease.valid_until_us),
        .epoch = okv_le64_of(status->lease.epoch),
        .map_version = okv_le64_of(status->lease.map_version),
        .applied = okv_le64_of(status->lease.applied),
        .flags = okv_le64_of(status->lease.flags),
    };
    out->checksum = okv_le64_of(status_checksum(out, boot_id));
}

int okv_status_decode(const uint8_t *bytes, uint64_t boot_id, struct okv_table_status *out)
{
    struct okv_wire_status wire;

    memcpy(&wire, bytes, sizeof wire);
    *out = (struct okv_table_status){
        .clock_ms = okv_le64_get(wire.clock_ms),
        .bucket_count = okv_le64_get(wire.bucket_count),
        .lease = {.valid_until_us = okv_le64_get(wire.valid_until_us),
                  .epoch = okv_le64_get(wire.epoch),
                  .map_version = okv_le64_get(wire.map_version),
                  .applied = okv_le64_get(wire.applied),
                  .flags = okv_le64_get(wire.flags)},
    };
    if (okv_le64_get(wire.checksum) != status_checksum(&wire, boot_id) || out->clock_ms == 0 ||
        out->bucket_count == 0 || out->bucket_count > OKV_BUCKETS_MAX)
        return OKV_ECORRUPT;
    return 0;
}
