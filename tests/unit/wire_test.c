/* Decoders of the handshake and the messages: everything a peer may get wrong. */
#include <stdbool.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "shared/format/linear.h"
#include "shared/format/superblock.h"
#include "shared/format/wire.h"
#include "tests/support/random.h"

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

TEST(hello_is_checked)
{
    struct okv_wire_hello wire = good_hello();

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
    wire.slot_units = okv_le16_of(OKV_SLOT_SIZE_MIN / OKV_SLOT_UNIT - 2);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire.slot_units = okv_le16_of(OKV_SLOT_SIZE_MAX / OKV_SLOT_UNIT);
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire = good_hello();
    wire.proof[3] = 1; /* of no key */
    assert_int_equal(decode_hello(&wire, sizeof wire), OKV_EPROTO);
    wire.key_id = okv_le32_of(1);
    assert_int_equal(decode_hello(&wire, sizeof wire), 0);
}

static struct okv_welcome good_welcome(void)
{
    return (struct okv_welcome){
        .boot_id = 1,
        .region_length = 1 << 20,
        .directory_offset = OKV_DIRECTORY_OFFSET,
        .bucket_count = 100,
        .bucket_size = 512,
        .segment_buckets = 64,
        .slot_size = OKV_SLOT_SIZE_DEFAULT,
        .credits = 16,
        .max_key = OKV_KEY_MAX,
        .max_value = OKV_VALUE_MAX,
        .clock_ms = 1,
        .rights = OKV_RIGHTS_ALL,
    };
}

static int welcome_result(const struct okv_welcome *welcome)
{
    struct okv_wire_welcome wire;
    struct okv_welcome back;

    okv_welcome_encode(welcome, &wire);
    return okv_welcome_decode((uint8_t *)&wire, sizeof wire, &back);
}

#define WELCOME_WITH(field, wrong)                          \
    do {                                                    \
        struct okv_welcome bad = good_welcome();            \
        bad.field = (wrong);                                \
        assert_int_equal(welcome_result(&bad), OKV_EPROTO); \
    } while (0)

TEST(welcome_is_checked)
{
    struct okv_welcome welcome = good_welcome(), back;
    struct okv_wire_welcome wire;

    assert_int_equal(welcome_result(&welcome), 0);
    WELCOME_WITH(bucket_size, 500);
    WELCOME_WITH(bucket_size, 1 << 30);
    WELCOME_WITH(directory_offset, UINT64_MAX - 100);
    WELCOME_WITH(directory_offset, (1 << 20) - OKV_DIRECTORY_SIZE + 1);
    WELCOME_WITH(region_length, 4096);
    WELCOME_WITH(region_address, UINT64_MAX - 10);
    WELCOME_WITH(bucket_count, 0);
    WELCOME_WITH(bucket_count, OKV_BUCKETS_MAX + 1);
    WELCOME_WITH(segment_buckets, 0);
    WELCOME_WITH(segment_buckets, 32);
    WELCOME_WITH(segment_buckets, 96);
    WELCOME_WITH(segment_buckets, UINT32_C(1) << 31);
    WELCOME_WITH(features, OKV_FEATURES_ALL + 1);
    WELCOME_WITH(features, OKV_FEATURE_LEASE); /* of no length */
    WELCOME_WITH(lease_ms, 1000);
    WELCOME_WITH(boot_id, 0);
    WELCOME_WITH(clock_ms, 0);
    WELCOME_WITH(credits, 0);
    WELCOME_WITH(credits, OKV_CREDITS_MAX + 1);
    WELCOME_WITH(slot_size, OKV_SLOT_SIZE_MIN - 1);
    WELCOME_WITH(slot_size, OKV_SLOT_SIZE_MAX + 1);
    WELCOME_WITH(max_key, 0);
    WELCOME_WITH(max_key, OKV_KEY_MAX + 1);
    WELCOME_WITH(max_value, OKV_VALUE_MAX + 1);
    WELCOME_WITH(rights, OKV_RIGHT_WRITE);
    WELCOME_WITH(rights, OKV_RIGHTS_ALL + 1);
    okv_welcome_encode(&welcome, &wire);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_welcome_decode((uint8_t *)&wire, length, &back), OKV_EPROTO);
}

TEST(reject_survives_versions)
{
    struct okv_reject reject = {.version = 99, .reason = OKV_REJECT_VERSION}, back;
    struct okv_wire_reject wire;

    okv_reject_encode(&reject, &wire);
    assert_int_equal(okv_reject_decode((uint8_t *)&wire, sizeof wire, &back), 0);
    assert_int_equal(back.version, 99);
    assert_int_equal(okv_reject_code(back.reason), OKV_EVERSION);
    assert_int_equal(okv_reject_code(12345), OKV_EREFUSED);
    assert_non_null(strstr(okv_reject_text(12345), "not know"));
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_reject_decode((uint8_t *)&wire, length, &back), OKV_EPROTO);
}

TEST(challenge_has_a_cookie)
{
    static const uint8_t bytes[] = "okv1\x03\0\x20\0\x0b\0\0\0\0\0\0\0"
                                   "ABCDEFGHIJKLMNOP";
    const uint8_t *cookie = bytes + sizeof bytes - 1 - OKV_COOKIE_SIZE;
    uint8_t back[OKV_COOKIE_SIZE];
    struct okv_wire_challenge wire;

    okv_challenge_encode(cookie, &wire);
    assert_int_equal(sizeof wire, sizeof bytes - 1);
    assert_memory_equal(&wire, bytes, sizeof wire);
    assert_int_equal(okv_challenge_decode(bytes, sizeof wire, back), 0);
    assert_memory_equal(back, cookie, sizeof back);
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_challenge_decode(bytes, length, back), OKV_EPROTO);
    wire.reject.reason = okv_le32_of(OKV_REJECT_BUSY);
    assert_int_equal(okv_challenge_decode((uint8_t *)&wire, sizeof wire, back), OKV_EPROTO);
}

TEST(a_copy_names_the_primary)
{
    static const char bytes[sizeof(struct okv_wire_not_primary)] =
        "okv1\x03\0\x94\0\x12\0\0\0\0\0\0\0"
        "10.0.0.1:7471";
    char text[OKV_PRIMARY_SIZE + 1] = "", back[OKV_PRIMARY_SIZE];
    struct okv_wire_not_primary wire;
    const uint8_t *written = (const uint8_t *)&wire;

    okv_not_primary_encode("10.0.0.1:7471", &wire);
    assert_memory_equal(&wire, bytes, sizeof wire);
    assert_int_equal(okv_not_primary_decode(written, sizeof wire, back), 0);
    assert_string_equal(back, "10.0.0.1:7471");
    for (size_t length = 0; length < sizeof wire; length++)
        assert_int_equal(okv_not_primary_decode(written, length, back), OKV_EPROTO);
    wire.primary[OKV_PRIMARY_SIZE - 1] = 'a';
    assert_int_equal(okv_not_primary_decode(written, sizeof wire, back), OKV_EPROTO);
    memset(text, 'a', OKV_PRIMARY_SIZE);
    okv_not_primary_encode(text, &wire);
    assert_int_equal(okv_not_primary_decode(written, sizeof wire, back), 0);
    assert_string_equal(back, "");
    text[OKV_PRIMARY_SIZE - 1] = '\0';
    okv_not_primary_encode(text, &wire);
    assert_int_equal(okv_not_primary_decode(written, sizeof wire, back), 0);
    assert_string_equal(back, text);
    wire.reject.reason = okv_le32_of(OKV_REJECT_BUSY);
    assert_int_equal(okv_not_primary_decode(written, sizeof wire, back), OKV_EPROTO);
    assert_int_equal(okv_reject_code(OKV_REJECT_NOT_PRIMARY), OKV_EREFUSED);
}

/* What each operation may have; the same table as in docs/protocol.md section 2.2. */
enum field { KEY = 1, VALUE = 2, ARGUMENT = 4, TTL = 8 };
#define FLAGS_ALL \
    (OKV_REQUEST_IF_ABSENT | OKV_REQUEST_IF_VERSION | OKV_REQUEST_RENDEZVOUS | OKV_REQUEST_KEEP_TTL)

static const struct operation {
    unsigned opcode;
    unsigned needs, may; /* enum field */
    uint16_t flags;
} operations[] = {
    {OKV_OP_PING, 0, VALUE, 0},
    {OKV_OP_STAT, 0, 0, 0},
    {OKV_OP_GET, KEY, 0, 0},
    {OKV_OP_PUT, KEY, VALUE | TTL, FLAGS_ALL},
    {OKV_OP_DELETE, KEY, 0, OKV_REQUEST_IF_VERSION},
    {OKV_OP_APPEND, KEY, VALUE, 0},
    {OKV_OP_TOUCH, KEY, TTL, 0},
    {OKV_OP_INCR, KEY, ARGUMENT, 0},
    {OKV_OP_INCR_TTL, KEY, ARGUMENT | TTL, 0},
    {OKV_OP_GET_TOUCH, KEY, TTL, 0},
    {OKV_OP_FLUSH, 0, VALUE | ARGUMENT, 0},
    {OKV_OP_ADMIN, 0, VALUE, 0},
    {OKV_OP_REPORT, 0, VALUE, 0},
    {OKV_OP_JOIN, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_SHIP, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_VALUE, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_SNAPSHOT, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_BEAT, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_RELEASED, KEY, VALUE, OKV_REQUEST_RENDEZVOUS},
    {OKV_OP_GOODBYE, 0, VALUE, 0},
};

/* Whether the document allows a request of these fields and flags. */
static bool allowed(const struct operation *operation, unsigned fields, unsigned flags)
{
    unsigned may = operation->needs | operation->may;

    if (flags & OKV_REQUEST_IF_VERSION)
        may |= ARGUMENT;
    if (flags & OKV_REQUEST_RENDEZVOUS && !(fields & VALUE))
        return false;
    if (flags & OKV_REQUEST_IF_ABSENT && flags & OKV_REQUEST_IF_VERSION)
        return false;
    if (flags & OKV_REQUEST_KEEP_TTL && fields & TTL)
        return false;
    return !(fields & ~may) && !(operation->needs & ~fields) && !(flags & ~operation->flags);
}

static struct okv_request_message request_of(unsigned opcode, unsigned fields, unsigned flags)
{
    return (struct okv_request_message){
        .opcode = opcode,
        .slot = 7,
        .flags = (uint16_t)flags,
        .sequence = 1,
        .argument = fields & ARGUMENT ? 5 : 0,
        .ttl_ms = fields & TTL ? 1000 : 0,
        .key = (const uint8_t *)"key",
        .key_length = fields & KEY ? 3 : 0,
        .value = (const uint8_t *)"eight by",
        .value_length = fields & VALUE ? 8 : 0,
        .rendezvous_address = 0x123,
        .rendezvous_key = 9,
    };
}

static int decode_request(unsigned opcode, const uint8_t *bytes, uint32_t length)
{
    struct okv_request_message request;

    return okv_request_decode(okv_immediate(opcode, 7), bytes, length, &request);
}

/* Every operation with every set of fields and every set of the 16 bits of flags. */
TEST(operations_have_their_fields_only)
{
    uint8_t bytes[128];
    unsigned accepted = 0;

    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++) {
        const struct operation *operation = &operations[i];
        for (unsigned fields = 0; fields < 16; fields++) {
            for (unsigned flags = 0; flags <= UINT16_MAX; flags++) {
                struct okv_request_message request = request_of(operation->opcode, fields, flags);
                uint32_t length = okv_request_encode(&request, bytes);
                int expected = allowed(operation, fields, flags) ? 0 : OKV_EPROTO;
                if (decode_request(operation->opcode, bytes, length) != expected)
                    fail_msg("operation %u, fields %#x, flags %#x", operation->opcode, fields,
                             flags);
                accepted += expected == 0;
            }
        }
    }
    /* PING; STAT, GET; PUT alone, IF_ABSENT, IF_VERSION, and the same by rendezvous, then each with
     * KEEP_TTL; DELETE; APPEND, TOUCH, INCR; INCR_TTL, GET_TOUCH; FLUSH; ADMIN, REPORT, GOODBYE;
     * six between servers: with a value or without, and by rendezvous. */
    unsigned puts = (4 + 4 + 8) + (2 + 2 + 4) + (2 + 2 + 4) + (1 + 1 + 2);
    assert_int_equal(accepted, 2 + 2 + puts + 3 + 6 + (4 + 2) + 4 + 3 * 2 + 6 * 3);
}

TEST(unknown_operations_can_be_answered)
{
    struct okv_request_message request = request_of(0, KEY | VALUE, 0), back;
    uint8_t bytes[128];
    uint32_t length;

    request.sequence = 0x123456789;
    length = okv_request_encode(&request, bytes);
    for (unsigned opcode = 0; opcode <= 0x7f; opcode++) {
        if ((opcode >= OKV_OP_PING && opcode <= OKV_OP_HITS) || okv_opcode_is_peer(opcode) ||
            opcode == OKV_OP_GOODBYE)
            continue;
        assert_int_equal(okv_request_decode(okv_immediate(opcode, 7), bytes, length, &back),
                         OKV_EUNSUPPORTED);
        assert_int_equal(back.slot, 7);
        assert_int_equal(back.sequence, 0x123456789);
    }
}

TEST(immediates_are_checked)
{
    struct okv_request_message request = request_of(OKV_OP_GET, KEY, 0), back;
    struct okv_reply_message reply = {.sequence = 1}, reply_back;
    uint8_t bytes[128], reply_bytes[64];
    uint32_t length = okv_request_encode(&request, bytes);
    uint32_t reply_length = okv_reply_encode(&reply, reply_bytes);
    uint32_t get = okv_immediate(OKV_OP_GET, 7);

    assert_int_equal(okv_request_decode(get, bytes, length, &back), 0);
    assert_int_equal(okv_request_decode(get | OKV_IMMEDIATE_REPLY, bytes, length, &back),
                     OKV_EPROTO);
    get |= OKV_IMMEDIATE_REPLY;
    assert_int_equal(okv_reply_decode(get, reply_bytes, reply_length, &reply_back), 0);
    for (unsigned bit = 16; bit < 24; bit++) {
        uint32_t immediate = get | UINT32_C(1) << bit;
        assert_int_equal(okv_reply_decode(immediate, reply_bytes, reply_length, &reply_back),
                         OKV_EPROTO);
        immediate &= ~OKV_IMMEDIATE_REPLY;
        assert_int_equal(okv_request_decode(immediate, bytes, length, &back), OKV_EPROTO);
    }
}

TEST(request_lengths_are_checked)
{
    const unsigned flags[] = {0, OKV_REQUEST_RENDEZVOUS};
    uint8_t bytes[128] = {0};

    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        struct okv_request_message request = request_of(OKV_OP_PUT, KEY | VALUE, flags[i]);
        uint32_t length = okv_request_encode(&request, bytes);
        assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), 0);
        for (uint32_t n = 0; n < length; n++)
            assert_int_equal(decode_request(OKV_OP_PUT, bytes, n), OKV_EPROTO);
        for (uint32_t n = length + 1; n < sizeof bytes; n++)
            assert_int_equal(decode_request(OKV_OP_PUT, bytes, n), OKV_EPROTO);
    }
}

/* Lengths that add up only modulo 2^16 or 2^32. */
TEST(overflowing_lengths_are_refused)
{
    struct okv_request_message request = request_of(OKV_OP_PUT, KEY | VALUE, 0);
    uint8_t bytes[128] = {0};
    struct okv_wire_request *wire = (struct okv_wire_request *)bytes;
    uint32_t length = okv_request_encode(&request, bytes);
    const uint32_t values[] = {UINT32_MAX, UINT32_MAX - 2,
                               UINT32_MAX - 2 - (uint32_t)OKV_REQUEST_HEADER, UINT32_C(1) << 31,
                               8 + (UINT32_C(1) << 16)};

    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        wire->value_length = okv_le32_of(values[i]);
        for (uint32_t n = 0; n < sizeof bytes; n++)
            assert_int_equal(decode_request(OKV_OP_PUT, bytes, n), OKV_EPROTO);
    }
    wire->value_length = okv_le32_of(8 + 4);
    wire->key_length = okv_le16_of(UINT16_MAX);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
}

TEST(key_lengths_are_checked)
{
    static uint8_t key[OKV_KEY_MAX + 1], bytes[OKV_KEY_MAX + 128];
    struct okv_request_message request = request_of(OKV_OP_GET, KEY, 0);
    uint32_t length;

    request.key = key;
    request.key_length = OKV_KEY_MAX;
    length = okv_request_encode(&request, bytes);
    assert_int_equal(decode_request(OKV_OP_GET, bytes, length), 0);
    request.key_length = OKV_KEY_MAX + 1;
    length = okv_request_encode(&request, bytes);
    assert_int_equal(decode_request(OKV_OP_GET, bytes, length), OKV_EPROTO);
}

TEST(reserved_bits_of_requests_are_zero)
{
    struct okv_request_message request = request_of(OKV_OP_GET, KEY, 0);
    uint8_t bytes[128];
    struct okv_wire_request *wire = (struct okv_wire_request *)bytes;
    uint32_t length = okv_request_encode(&request, bytes);

    for (unsigned bit = 0; bit < 16; bit++) {
        wire->reserved = okv_le16_of((uint16_t)(1u << bit));
        assert_int_equal(decode_request(OKV_OP_GET, bytes, length), OKV_EPROTO);
    }
}

TEST(time_to_live_has_a_limit)
{
    const unsigned opcodes[] = {OKV_OP_PUT, OKV_OP_TOUCH};
    uint8_t bytes[128];

    for (size_t i = 0; i < 2; i++) {
        struct okv_request_message request = request_of(opcodes[i], KEY | TTL, 0);
        request.ttl_ms = OKV_TTL_MAX;
        uint32_t length = okv_request_encode(&request, bytes);
        assert_int_equal(decode_request(opcodes[i], bytes, length), 0);
        request.ttl_ms = OKV_TTL_MAX + 1;
        length = okv_request_encode(&request, bytes);
        assert_int_equal(decode_request(opcodes[i], bytes, length), OKV_EPROTO);
        request.ttl_ms = (UINT64_C(1) << 48) - 1;
        length = okv_request_encode(&request, bytes);
        assert_int_equal(decode_request(opcodes[i], bytes, length), OKV_EPROTO);
    }
}

/* The message names the advertised buffer of the value. */
TEST(values_by_rendezvous)
{
    struct okv_request_message request =
        request_of(OKV_OP_PUT, KEY | VALUE, OKV_REQUEST_RENDEZVOUS);
    struct okv_request_message back;
    uint8_t bytes[128];
    uint32_t put = okv_immediate(OKV_OP_PUT, 7);

    request.value = NULL;
    request.value_length = UINT32_MAX; /* the decoder does not check the table's limit */
    request.rendezvous_address = UINT64_MAX;
    request.rendezvous_key = UINT32_MAX;
    uint32_t length = okv_request_encode(&request, bytes);
    assert_int_equal(length, OKV_REQUEST_HEADER + 3 + sizeof(struct okv_wire_rendezvous));
    assert_int_equal(okv_request_decode(put, bytes, length, &back), 0);
    assert_null(back.value);
    assert_int_equal(back.value_length, UINT32_MAX);
    assert_int_equal(back.rendezvous_address, UINT64_MAX);
    assert_int_equal(back.rendezvous_key, UINT32_MAX);
    assert_memory_equal(back.key, "key", 3);

    request.value_length = 0;
    length = okv_request_encode(&request, bytes);
    assert_int_equal(decode_request(OKV_OP_PUT, bytes, length), OKV_EPROTO);
}

TEST(reply_is_checked)
{
    struct okv_reply_message reply = {
        .sequence = 9, .version = 4, .value = (const uint8_t *)"abc", .value_length = 3};
    struct okv_reply_message back;
    uint8_t bytes[64];
    uint32_t length = okv_reply_encode(&reply, bytes);
    struct okv_wire_reply *wire = (struct okv_wire_reply *)bytes;
    uint32_t immediate = OKV_IMMEDIATE_REPLY | okv_immediate(OKV_OP_GET, 3);

    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), 0);
    assert_int_equal(back.status, 0);
    assert_int_equal(back.version, 4);
    assert_memory_equal(back.value, "abc", 3);
    for (uint32_t n = 0; n < length; n++)
        assert_int_equal(okv_reply_decode(immediate, bytes, n, &back), OKV_EPROTO);
    assert_int_equal(okv_reply_decode(immediate, bytes, length + 1, &back), OKV_EPROTO);
    assert_int_equal(okv_reply_decode(okv_immediate(OKV_OP_GET, 3), bytes, length, &back),
                     OKV_EPROTO);
    wire->value_length = okv_le32_of(UINT32_MAX);
    for (uint32_t n = 0; n < sizeof bytes; n++)
        assert_int_equal(okv_reply_decode(immediate, bytes, n, &back), OKV_EPROTO);
    wire->value_length = okv_le32_of(3);
    wire->status = okv_le32_of((uint32_t)-OKV_ERROR_LAST);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), 0);
    assert_int_equal(back.status, OKV_ERROR_LAST);
    wire->status = okv_le32_of((uint32_t)-OKV_ERROR_LAST + 1);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), OKV_EPROTO);
    wire->status = okv_le32_of(UINT32_MAX);
    assert_int_equal(okv_reply_decode(immediate, bytes, length, &back), OKV_EPROTO);
}

TEST(error_texts)
{
    for (int code = OKV_ERROR_LAST; code <= 0; code++) {
        assert_string_not_equal(okv_error_text(code), "unknown error");
        assert_string_not_equal(okv_error_name(code), "OKV_E?");
    }
    assert_string_equal(okv_error_text(OKV_ERROR_LAST - 1), "unknown error");
    assert_string_equal(okv_error_text(1), "unknown error");
    assert_string_equal(okv_error_name(OKV_ENOTFOUND), "OKV_ENOTFOUND");
}

/* Any bytes are either refused or lead nowhere outside them. Runs under the sanitizers. */
TEST(random_messages_stay_inside)
{
    uint64_t random = random_seed();

    for (int round = 0; round < 200000; round++) {
        struct okv_request_message request = request_of(OKV_OP_PUT, KEY | VALUE, 0), back;
        struct okv_reply_message reply;
        uint8_t good[64];
        uint32_t length = okv_request_encode(&request, good);
        for (int spoiled = 0; spoiled < 3; spoiled++) {
            random = random * 6364136223846793005u + 1442695040888963407u;
            good[(random >> 40) % length] = (uint8_t)(random >> 56);
        }
        length -= (uint32_t)(random >> 33) % 4;
        uint8_t *bytes = malloc(length); /* of exactly this size, for the sanitizer */
        memcpy(bytes, good, length);
        if (okv_request_decode((uint32_t)(random >> 20) & 0x0f00ffff, bytes, length, &back) == 0 &&
            back.value)
            assert_ptr_equal(back.value + back.value_length, bytes + length);
        if (okv_reply_decode(OKV_IMMEDIATE_REPLY, bytes, length, &reply) == 0)
            assert_ptr_equal(reply.value + reply.value_length, bytes + length);
        free(bytes);
    }
}
