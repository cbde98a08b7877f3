/*
 * The bytes of docs/format.md, one example of each. A change here is a change
 * of the format: it needs a new version number.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shared/bucket.h"
#include "shared/error.h"
#include "shared/hash.h"
#include "shared/superblock.h"
#include "shared/wire.h"

/* Turns "6f6b 7631" into bytes; returns how many. */
static size_t unhex(const char *text, uint8_t *out)
{
    size_t n = 0;
    unsigned high = 16;

    for (; *text; text++) {
        const char *digits = "0123456789abcdef";
        const char *digit = strchr(digits, *text);
        if (!digit || *text == ' ')
            continue;
        if (high == 16) {
            high = (unsigned)(digit - digits);
        } else {
            out[n++] = (uint8_t)(high << 4 | (unsigned)(digit - digits));
            high = 16;
        }
    }
    return n;
}

static void assert_bytes(const void *actual, size_t length, const char *expected)
{
    uint8_t bytes[1024];

    assert_int_equal(unhex(expected, bytes), length);
    assert_memory_equal(actual, bytes, length);
}

static void hello_bytes(void **state)
{
    struct okv_hello hello = {
        .required = 0x01020304,
        .offered = 0x11121314,
        .client_id = "0123456789abcde",
        .slot_size = 16384,
        .credits = 16,
    };
    struct okv_wire_hello wire;
    struct okv_hello back;

    (void)state;
    okv_hello_encode(&hello, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7631 0100 3800 04030201 14131211 30313233343536373839616263646500"
                 "00400000 10000000 00000000000000000000000000000000");
    assert_int_equal(okv_hello_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &hello, sizeof hello);
}

static struct okv_welcome_fields example_welcome(void)
{
    return (struct okv_welcome_fields){
        .features = 0,
        .rkey = 0x0a0b0c0d,
        .boot_id = 0x1122334455667788,
        .region_address = 0,
        .region_length = 0x100000,
        .index_offset = 4096,
        .index_length = 0x80000,
        .hash_seed = 0x99aabbccddeeff00,
        .bucket_size = 512,
        .depth = 10,
        .slot_size = 16384,
        .credits = 8,
        .max_key = 1024,
        .max_value = 15328,
        .session_id = 7,
        .clock_ms = 0x18f00000000,
    };
}

static void welcome_bytes(void **state)
{
    struct okv_welcome_fields welcome = example_welcome(), back;
    struct okv_wire_welcome wire;

    (void)state;
    okv_welcome_encode(&welcome, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b7631 0100 6800 00000000 0d0c0b0a 8877665544332211 0000000000000000"
                 "0000100000000000 0010000000000000 0000080000000000 00ffeeddccbbaa99"
                 "00020000 0a000000 00400000 08000000 00040000 e03b0000"
                 "0700000000000000 000000008f010000");
    assert_int_equal(okv_welcome_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_memory_equal(&back, &welcome, sizeof welcome);
}

static void reject_bytes(void **state)
{
    struct okv_reject reject = {.version = 1, .reason = OKV_REJECT_BUSY, .detail = 64}, back;
    struct okv_wire_reject wire;

    (void)state;
    okv_reject_encode(&reject, &wire);
    assert_bytes(&wire, sizeof wire, "6f6b7631 0100 1000 04000000 40000000");
    assert_int_equal(okv_reject_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_int_equal(back.reason, OKV_REJECT_BUSY);
    assert_int_equal(back.detail, 64);
}

static void request_bytes(void **state)
{
    struct okv_request_message request = {
        .opcode = OKV_OP_PUT,
        .slot = 5,
        .sequence = 0x0102,
        .first_incomplete = 0x0101,
        .key = (const uint8_t *)"key",
        .key_length = 3,
        .value = (const uint8_t *)"value",
        .value_length = 5,
    };
    uint8_t bytes[64];
    uint32_t length = okv_request_encode(&request, bytes);

    (void)state;
    assert_int_equal(okv_immediate(OKV_OP_PUT, 5), 0x03000005);
    assert_bytes(bytes, length,
                 "0201000000000000 0101000000000000 0000000000000000 05000000 0300 0000"
                 "6b6579 76616c7565");
}

static void reply_bytes(void **state)
{
    struct okv_reply_message reply = {
        .sequence = 0x0102,
        .version = 0x0304,
        .status = OKV_ENOTFOUND,
        .value = (const uint8_t *)"v",
        .value_length = 1,
    };
    uint8_t bytes[64];
    uint32_t length = okv_reply_encode(&reply, bytes);

    (void)state;
    assert_bytes(bytes, length, "0201000000000000 0403000000000000 01000000 01000000 76");
}

static void superblock_bytes(void **state)
{
    struct okv_superblock block = {
        .boot_id = 0x1122334455667788,
        .hash_seed = 0x99aabbccddeeff00,
        .region_length = 0x100000,
        .index_offset = 4096,
        .index_length = 0x80000,
        .boot_clock_ms = 0x18f00000000,
        .bucket_size = 512,
        .depth = 10,
    };
    struct okv_wire_superblock wire;

    (void)state;
    okv_superblock_encode(&block, &wire);
    assert_bytes(&wire, sizeof wire,
                 "6f6b767461626c65 01000000 00020000 8877665544332211 00ffeeddccbbaa99"
                 "0000100000000000 0010000000000000 0000080000000000 0a000000 00000000"
                 "000000008f010000 1383d417414cb24f");
}

static void bucket_bytes(void **state)
{
    struct okv_entry inline_entry = {
        .tag = 0xabcd,
        .key_length = 3,
        .value_length = 5,
        .version = 0x010203040506,
        .key = (const uint8_t *)"key",
        .value = (const uint8_t *)"value",
    };
    struct okv_entry reference = {
        .tag = 0x1234,
        .is_reference = true,
        .key_length = 1024,
        .value_length = 0x3ba0,
        .version = 0x42,
        .extent = 0x0000fedcba98,
        .checksum = 0x1122334455667788,
    };
    uint8_t image[256];

    (void)state;
    memset(image, 0xee, sizeof image);
    okv_bucket_begin(image, 10, 0x010203040506, 0xabcdef, 1);
    assert_int_equal(okv_bucket_append(image, sizeof image, &inline_entry), 0);
    assert_int_equal(okv_bucket_append(image, sizeof image, &reference), 0);
    okv_bucket_seal(image, sizeof image, 0x1122334455667788, 99);
    assert_bytes(image, 24 + 20 + 30,
                 "e9eb46a41b0a2b98 060504030201 3200 efcdab000000 0a 01"
                 "cdab 0300 0500 060504030201 6b6579 76616c7565"
                 "3412 000c 0000 420000000000 98badcfe0000 a03b0000 8877665544332211");
    for (size_t i = 24 + 20 + 30; i < sizeof image; i++)
        assert_int_equal(image[i], 0);
}

/* Published values of XXH3-64 pin the hash itself: an empty input, seed 0. */
static void hash_values(void **state)
{
    (void)state;
    assert_int_equal(okv_hash_checksum("", 0, 0), 0x2d06800538d394c2);
    assert_int_equal(okv_hash_checksum("", 0, 1), 0x2d06800538d394c3);
    assert_int_equal(okv_hash_bucket(0xffffffffffffffff, 3), 7);
    assert_int_equal(okv_hash_bucket(0xffffffffffffffff, 0), 0);
    assert_int_equal(okv_hash_tag(0xabcd000000000000), 0xabcd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_bytes),  cmocka_unit_test(welcome_bytes),
        cmocka_unit_test(reject_bytes), cmocka_unit_test(request_bytes),
        cmocka_unit_test(reply_bytes),  cmocka_unit_test(superblock_bytes),
        cmocka_unit_test(bucket_bytes), cmocka_unit_test(hash_values),
    };

    return cmocka_run_group_tests_name("golden bytes", tests, NULL, NULL);
}
