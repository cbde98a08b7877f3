/* Decoders of the handshake and the messages: everything a peer may get wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shared/error.h"
#include "shared/wire.h"

static struct okv_wire_hello good_hello(void)
{
    struct okv_hello hello = {.slot_size = OKV_SLOT_SIZE_DEFAULT, .credits = 16};
    struct okv_wire_hello wire;

    okv_hello_encode(&hello, &wire);
    return wire;
}

static int decode_hello(const struct okv_wire_hello *wire, size_t length)
{
    struct okv_hello hello;

    return okv_hello_decode((const uint8_t *)wire, length, &hello);
}

static void hello_is_checked(void **state)
{
    struct okv_wire_hello wire = good_hello();

    (void)state;
    assert_int_equal(decode_hello(&wire, sizeof wire), 0);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(decode_hello(&wire, length), OKV_EPROTO);
    wire.magic.bytes[0] ^= 1;
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire = good_hello();
    wire.version = okv_le16_of(OKV_WIRE_VERSION + 1);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EVERSION);
    wire = good_hello();
    wire.length = okv_le16_of(55);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire = good_hello();
    wire.slot_size = okv_le32_of(OKV_SLOT_SIZE_MIN - 1);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire.slot_size = okv_le32_of(OKV_SLOT_SIZE_MAX + 1);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire = good_hello();
    wire.credits = okv_le32_of(0);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire = good_hello();
    wire.reserved[15] = 1;
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
}

static struct okv_welcome_fields good_welcome(void)
{
    return (struct okv_welcome_fields){
        .boot_id = 1,
        .region_length = 1 << 20,
        .index_offset = 4096,
        .index_length = 1 << 19,
        .bucket_size = 512,
        .depth = 10,
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = 16,
        .max_key = OKV_KEY_MAX,
        .max_value = okv_max_value(OKV_SLOT_SIZE_DEFAULT),
    };
}

static int welcome_result(const struct okv_welcome_fields *welcome)
{
    struct okv_wire_welcome wire;
    struct okv_welcome_fields back;

    okv_welcome_encode(welcome, &wire);
    return okv_welcome_decode((uint8_t *)&wire, sizeof wire, &back);
}

#define WELCOME_WITH(field, wrong)                          \
    do {                                                    \
        struct okv_welcome_fields bad = good_welcome();     \
        bad.field = (wrong);                                \
        assert_int_equal(welcome_result(&bad), OKV_EPROTO); \
    } while (0)

static void welcome_is_checked(void **state)
{
    struct okv_welcome_fields welcome = good_welcome(), back;
    struct okv_wire_welcome wire;

    (void)state;
    assert_int_equal(welcome_result(&welcome), 0);
    WELCOME_WITH(bucket_size, 500);
    WELCOME_WITH(bucket_size, 1 << 30);
    WELCOME_WITH(index_offset, UINT64_MAX - 100);
    WELCOME_WITH(index_length, 1 << 20);
    WELCOME_WITH(index_length, 0);
    WELCOME_WITH(index_length, 513);
    WELCOME_WITH(region_length, 4096);
    WELCOME_WITH(region_address, UINT64_MAX - 10);
    WELCOME_WITH(depth, 48);
    WELCOME_WITH(features, 1);
    WELCOME_WITH(boot_id, 0);
    WELCOME_WITH(credits, 0);
    WELCOME_WITH(credits, OKV_CREDITS_MAX + 1);
    WELCOME_WITH(slot_size, 100);
    WELCOME_WITH(max_key, 0);
    WELCOME_WITH(max_key, OKV_KEY_MAX + 1);
    WELCOME_WITH(max_value, OKV_SLOT_SIZE_DEFAULT);
    okv_welcome_encode(&welcome, &wire);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_welcome_decode((uint8_t *)&wire, length, &back), OKV_EPROTO);
}

static void reject_survives_versions(void **state)
{
    struct okv_reject reject = {.version = 99, .reason = OKV_REJECT_VERSION}, back;
    struct okv_wire_reject wire;

    (void)state;
    okv_reject_encode(&reject, &wire);
    assert_int_equal(okv_reject_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_int_equal(back.version, 99);
    assert_int_equal(okv_reject_code(back.reason), OKV_EVERSION);
    assert_int_equal(okv_reject_code(12345), OKV_EREFUSED);
    assert_non_null(strstr(okv_reject_text(12345), "not know"));
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_reject_decode((uint8_t *)&wire, length, &back), OKV_EPROTO);
}

/* A PUT of "key" = "value" with what a case wants to spoil. */
static uint32_t good_put(uint8_t *bytes)
{
    struct okv_request_message request = {
        .sequence = 1,
        .key = (const uint8_t *)"key",
        .key_length = 3,
        .value = (const uint8_t *)"value",
        .value_length = 5,
    };

    return okv_request_encode(&request, bytes);
}

static int decode_request(unsigned opcode, const uint8_t *bytes, uint32_t length)
{
    struct okv_request_message request;

    return okv_request_decode(okv_immediate(opcode, 7), bytes, length, &request);
}

static void request_is_checked(void **state)
{
    uint8_t bytes[2048] = {0};
    struct okv_wire_request *wire = (struct okv_wire_request *)bytes;
    uint32_t length = good_put(bytes);
    struct okv_request_message request;

    (void)state;
    assert_int_equal(okv_request_decode(okv_immediate(OKV_OP_PUT, 7), bytes, length, &request), 0);
    assert_int_equal(request.slot, 7);
    assert_memory_equal(request.key, "key", 3);
    assert_memory_equal(request.value, "value", 5);
    for (uint32_t n = 0; n < length; n++)
        assert_int_equal(decode_request(OKV_OP_PUT, bytes, n), OKV_EPROTO);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length + 1), OKV_EPROTO);
    assert_int_equal(decode_request(99, bytes, length), OKV_EUNSUPPORTED);
    assert_int_equal(decode_request(0, bytes, length), OKV_EUNSUPPORTED);
    assert_int_equal(decode_request(OKV_OP_GET, bytes, length), OKV_EPROTO);
    assert_int_equal(decode_request(OKV_OP_PING, bytes, length), OKV_EPROTO);
    assert_int_equal(okv_request_decode(OKV_IMMEDIATE_REPLY, bytes, length, &request), OKV_EPROTO);
    assert_int_equal(okv_request_decode(0x03010000, bytes, length, &request), OKV_EPROTO);

    wire->value_length = okv_le32_of(UINT32_MAX);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
    wire->value_length = okv_le32_of(UINT32_MAX - 2 - 32); /* adds up modulo 2^32 */
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, 0), OKV_EPROTO);
    good_put(bytes);
    wire->flags = okv_le16_of(1);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
    good_put(bytes);
    wire->argument = okv_le64_of(1);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
    good_put(bytes);
    wire->key_length = okv_le16_of(0);
    wire->value_length = okv_le32_of(8);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
    wire->key_length = okv_le16_of(OKV_KEY_MAX + 1);
    wire->value_length = okv_le32_of(0);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, 32 + OKV_KEY_MAX + 1), OKV_EPROTO);
}

static void reply_is_checked(void **state)
{
    struct okv_reply_message reply = {
        .sequence = 9, .version = 4, .value = (const uint8_t *)"abc", .value_length = 3};
    struct okv_reply_message back;
    uint8_t bytes[64];
    uint32_t length = okv_reply_encode(&reply, bytes);
    struct okv_wire_reply *wire = (struct okv_wire_reply *)bytes;
    uint32_t immediate = OKV_IMMEDIATE_REPLY | okv_immediate(OKV_OP_GET, 3);

    (void)state;
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), 0);
    assert_int_equal(back.status, 0);
    assert_int_equal(back.version, 4);
    assert_memory_equal(back.value, "abc", 3);
    for (uint32_t n = 0; n < length; n++)
        assert_int_equal(okv_reply_decode(immediate, bytes, n, &back), OKV_EPROTO);
    assert_int_equal(okv_reply_decode(immediate, bytes, length + 1, &back), OKV_EPROTO);
    assert_int_equal(okv_reply_decode(okv_immediate(OKV_OP_GET, 3), bytes, length, &back),
                     OKV_EPROTO);
    wire->status = okv_le32_of((uint32_t)-OKV_ERROR_LAST);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), 0);
    assert_int_equal(back.status, OKV_ERROR_LAST);
    wire->status = okv_le32_of((uint32_t)-OKV_ERROR_LAST + 1);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), OKV_EPROTO);
    wire->status = okv_le32_of(UINT32_MAX);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), OKV_EPROTO);
}

static void error_texts(void **state)
{
    (void)state;
    for (int code = OKV_ERROR_LAST; code <= 0; code++) {
        assert_string_not_equal(okv_error_text(code), "unknown error");
        assert_string_not_equal(okv_error_name(code), "OKV_E?");
    }
    assert_string_equal(okv_error_text(OKV_ERROR_LAST - 1), "unknown error");
    assert_string_equal(okv_error_text(1), "unknown error");
    assert_string_equal(okv_error_name(OKV_ENOTFOUND), "OKV_ENOTFOUND");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hello_is_checked),         cmocka_unit_test(welcome_is_checked),
        cmocka_unit_test(request_is_checked),       cmocka_unit_test(reply_is_checked),
        cmocka_unit_test(reject_survives_versions), cmocka_unit_test(error_texts),
    };

    return cmocka_run_group_tests_name("wire", tests, NULL, NULL);
}
