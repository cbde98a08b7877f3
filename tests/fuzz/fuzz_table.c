/* The superblock and the status: raw, and with the checksum made right. */
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"
#include "shared/format/superblock.h"
#include "tests/fuzz/fuzz_input.h"

static void fuzz_superblock(struct fuzz_input *input, uint8_t repair)
{
    struct okv_superblock block;
    struct okv_wire_superblock again;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, 128, &length);

    if (repair && length >= sizeof again) {
        struct okv_wire_superblock *wire = (struct okv_wire_superblock *)bytes;
        wire->magic = okv_le64_of(OKV_SUPERBLOCK_MAGIC);
        wire->format_version = okv_le32_of(OKV_FORMAT_VERSION);
        if (repair & 1)
            wire->bucket_size = okv_le32_of(256u << (repair >> 5));
        if (repair & 2)
            wire->reserved = okv_le64_of(0);
        if (repair & 4)
            wire->directory_entries = okv_le32_of(OKV_DIRECTORY_ENTRIES);
        if (repair & 8)
            wire->segment_buckets = okv_le32_of(OKV_SEGMENT_BUCKETS_MIN << (repair >> 5));
        if (repair & 16)
            wire->directory_offset = okv_le64_of(OKV_DIRECTORY_OFFSET);
        wire->checksum =
            okv_le64_of(okv_hash_checksum(wire, offsetof(struct okv_wire_superblock, checksum), 0));
    }
    int rc = okv_superblock_decode(bytes, length, &block);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc == 0) {
        FUZZ_CHECK(
            okv_range_inside(block.directory_offset, OKV_DIRECTORY_SIZE, block.region_length));
        FUZZ_CHECK(block.boot_id != 0);
        okv_superblock_encode(&block, &again);
        FUZZ_CHECK(memcmp(&again, bytes, sizeof again) == 0);
    }
    free(bytes);
}

static void fuzz_status(struct fuzz_input *input, bool repair)
{
    uint64_t boot_id = fuzz_u64(input);
    struct okv_table_status status;
    struct okv_wire_status *wire = malloc(sizeof *wire);

    FUZZ_CHECK(wire);
    fuzz_copy(input, wire, sizeof *wire);
    if (repair)
        wire->checksum = okv_le64_of(
            okv_hash_checksum(wire, offsetof(struct okv_wire_status, checksum), boot_id));
    int rc = okv_status_decode((uint8_t *)wire, boot_id, &status);
    FUZZ_CHECK(rc == 0 || rc == OKV_ECORRUPT);
    if (rc == 0) {
        FUZZ_CHECK(status.clock_ms >= 1 && status.bucket_count >= 1);
        FUZZ_CHECK(status.bucket_count <= UINT64_C(1) << 47);
        struct okv_wire_status again;
        okv_status_encode(&status, boot_id, &again);
        FUZZ_CHECK(memcmp(&again, wire, sizeof again) == 0);
    }
    free(wire);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    bool of_status = fuzz_u8(&input) & 1;
    uint8_t repair = fuzz_u8(&input);

    if (of_status)
        fuzz_status(&input, repair & 1);
    else
        fuzz_superblock(&input, repair);
    return 0;
}
