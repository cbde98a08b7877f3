/* The decoders of superblock and status: everything a peer's bytes may get wrong. */
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/bucket.h"
#include "shared/format/hash.h"
#include "shared/format/superblock.h"

static const struct okv_superblock good = {
    .boot_id = 1,
    .hash_seed = 2,
    .region_length = 1 << 20,
    .directory_offset = OKV_DIRECTORY_OFFSET,
    .boot_wall_ms = 3,
    .directory_entries = OKV_DIRECTORY_ENTRIES,
    .segment_buckets = 64,
    .bucket_size = 512,
};

/* With a correct checksum, so that the other checks are reached. */
static int result_of(const struct okv_superblock *block)
{
    struct okv_wire_superblock wire;
    struct okv_superblock back;

    okv_superblock_encode(block, &wire);
    return okv_superblock_decode((const uint8_t *)&wire, sizeof wire, &back);
}

#define REFUSED(field, wrong)                          \
    do {                                               \
        struct okv_superblock bad = good;              \
        bad.field = (wrong);                           \
        assert_int_equal(result_of(&bad), OKV_EPROTO); \
    } while (0)

TEST(fields_are_checked)
{
    assert_int_equal(result_of(&good), 0);
    REFUSED(boot_id, 0);
    REFUSED(bucket_size, 500);
    REFUSED(bucket_size, 0);
    REFUSED(bucket_size, 128);
    REFUSED(bucket_size, 8192);
    REFUSED(directory_entries, OKV_DIRECTORY_ENTRIES - 1);
    REFUSED(directory_entries, 2 * OKV_DIRECTORY_ENTRIES);
    REFUSED(segment_buckets, 0);
    REFUSED(segment_buckets, 32);
    REFUSED(segment_buckets, 65);
    REFUSED(segment_buckets, UINT32_C(1) << 31);
    REFUSED(directory_offset, UINT64_MAX);
    REFUSED(directory_offset, (1 << 20) - OKV_DIRECTORY_SIZE + 1);
    REFUSED(region_length, OKV_HEAP_OFFSET - 1);
}

TEST(limits_are_allowed)
{
    struct okv_superblock block = good;

    block.segment_buckets = OKV_SEGMENT_BUCKETS_MAX;
    block.bucket_size = OKV_BUCKET_SIZE_MAX;
    block.region_length = OKV_HEAP_OFFSET;
    assert_int_equal(result_of(&block), 0);
    block.bucket_size = OKV_BUCKET_SIZE_MIN;
    assert_int_equal(result_of(&block), 0);
}

/* Reserved bytes are for a later format, with whatever checksum they come. */
TEST(reserved_bytes_are_zero)
{
    struct okv_wire_superblock wire;
    struct okv_superblock back;
    const size_t covered = offsetof(struct okv_wire_superblock, checksum);

    for (unsigned bit = 0; bit < 64; bit++) {
        okv_superblock_encode(&good, &wire);
        wire.reserved = okv_le64_of(UINT64_C(1) << bit);
        wire.checksum = okv_le64_of(okv_hash_checksum(&wire, covered, 0));
        assert_int_equal(okv_superblock_decode((const uint8_t *)&wire, sizeof wire, &back),
                         OKV_EPROTO);
    }
}

TEST(damage_is_seen)
{
    struct okv_wire_superblock wire;
    struct okv_superblock back;
    uint8_t *bytes = (uint8_t *)&wire;

    okv_superblock_encode(&good, &wire);
    for (size_t bit = 0; bit < sizeof wire * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_not_equal(okv_superblock_decode(bytes, sizeof wire, &back), 0);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_superblock_decode(bytes, length, &back), OKV_EPROTO);
    wire.format_version = okv_le32_of(OKV_FORMAT_VERSION + 1);
    assert_int_equal(okv_superblock_decode(bytes, sizeof wire, &back), OKV_EVERSION);
}

#define BOOT UINT64_C(0x5eedf00dcafe0001)

static int status_result(uint64_t clock_ms, uint64_t bucket_count, uint64_t boot_id)
{
    const struct okv_table_status status = {.clock_ms = clock_ms, .bucket_count = bucket_count};
    struct okv_wire_status wire;
    struct okv_table_status back;

    okv_status_encode(&status, BOOT, &wire);
    return okv_status_decode((const uint8_t *)&wire, boot_id, &back);
}

TEST(status_is_checked)
{
    assert_int_equal(status_result(1, 1, BOOT), 0);
    assert_int_equal(status_result(UINT64_MAX, OKV_BUCKETS_MAX, BOOT), 0);
    assert_int_equal(status_result(1, 1, BOOT + 1), OKV_ECORRUPT);
    assert_int_equal(status_result(0, 1, BOOT), OKV_ECORRUPT);
    assert_int_equal(status_result(1, 0, BOOT), OKV_ECORRUPT);
    assert_int_equal(status_result(1, OKV_BUCKETS_MAX + 1, BOOT), OKV_ECORRUPT);
}

/* Clients read it while the server writes it: any bit of another state must be noticed. */
TEST(status_damage_is_seen)
{
    const struct okv_table_status status = {.clock_ms = 1000, .bucket_count = 64};
    struct okv_table_status back;
    struct okv_wire_status wire;
    uint8_t *bytes = (uint8_t *)&wire;

    okv_status_encode(&status, BOOT, &wire);
    for (size_t bit = 0; bit < sizeof wire * 8; bit++) {
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        assert_int_equal(okv_status_decode(bytes, BOOT, &back), OKV_ECORRUPT);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    memset(bytes, 0, sizeof wire);
    assert_int_equal(okv_status_decode(bytes, BOOT, &back), OKV_ECORRUPT);
}
