/* The superblock's decoder: everything a peer's bytes may get wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/error.h"
#include "shared/superblock.h"

static const struct okv_superblock good = {
    .boot_id = 1,
    .hash_seed = 2,
    .region_length = 1 << 20,
    .index_offset = OKV_SUPERBLOCK_SIZE,
    .index_length = 1 << 19,
    .bucket_size = 512,
    .depth = 10,
};

/* With its checksum made right: what is behind it must hold as well. */
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

static void fields_are_checked(void **state)
{
    (void)state;
    assert_int_equal(result_of(&good), 0);
    REFUSED(boot_id, 0);
    REFUSED(bucket_size, 500);
    REFUSED(bucket_size, 0);
    REFUSED(depth, 48);
    REFUSED(index_length, (1 << 19) + 1);
    REFUSED(index_length, 1 << 20);
    REFUSED(index_offset, UINT64_MAX);
    REFUSED(region_length, 4096);
}

static void damage_is_seen(void **state)
{
    struct okv_wire_superblock wire;
    struct okv_superblock back;
    uint8_t *bytes = (uint8_t *)&wire;

    (void)state;
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fields_are_checked),
        cmocka_unit_test(damage_is_seen),
    };

    return cmocka_run_group_tests_name("superblock", tests, NULL, NULL);
}
