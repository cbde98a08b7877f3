/* The decoders of the handshake and of messages: raw, and with the fields that are compared
 * with something made right, so that what is behind them is reached. */
#include "shared/base/error.h"
#include "shared/format/bucket.h"
#include "shared/format/hits.h"
#include "shared/format/report.h"
#include "shared/format/wire.h"
#include "tests/fuzz/fuzz_input.h"

#define WELCOME_ROOM 196 /* of a REP */

/* Magic, version and length, as every handshake message begins. */
static void repair_preamble(uint8_t *bytes, size_t length, size_t expected)
{
    if (length < 8)
        return;
    okv_put_u32(bytes, OKV_WIRE_MAGIC);
    okv_put_u16(bytes + 4, OKV_WIRE_VERSION);
    okv_put_u16(bytes + 6, (uint16_t)expected);
}

static void fuzz_hello(struct fuzz_input *input, bool repair)
{
    struct okv_hello hello;
    struct okv_wire_hello again;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, 80, &length);

    if (repair && length >= sizeof again) {
        struct okv_wire_hello *wire = (struct okv_wire_hello *)bytes;
        repair_preamble(bytes, length, sizeof again);
        if (wire->client_id[0] & 1)
            memset(wire->proof, 0, sizeof wire->proof);
    }
    int rc = okv_hello_decode(bytes, length, &hello);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc == 0) {
        FUZZ_CHECK(hello.credits >= 1 && hello.credits <= OKV_CREDITS_MAX);
        FUZZ_CHECK(hello.slot_size >= OKV_SLOT_SIZE_MIN && hello.slot_size <= OKV_SLOT_SIZE_MAX);
        okv_hello_encode(&hello, &again);
        FUZZ_CHECK(memcmp(&again, bytes, sizeof again) == 0);
    }
    free(bytes);
}

/* Each bit of `mask` makes one field what a server would say. */
static void repair_welcome(struct okv_wire_welcome *wire, uint16_t mask)
{
    if (mask & 1)
        wire->features = wire->lease_ms = okv_le32_of(0);
    if (mask & 2)
        wire->slot_size = okv_le32_of(OKV_SLOT_SIZE_DEFAULT);
    if (mask & 4)
        wire->credits = okv_le32_of(16);
    if (mask & 8)
        wire->bucket_size = okv_le32_of(OKV_BUCKET_SIZE_DEFAULT);
    if (mask & 16)
        wire->segment_buckets = okv_le32_of(OKV_SEGMENT_BUCKETS_MIN);
    if (mask & 32)
        wire->directory_offset = okv_le64_of(4096);
    if (mask & 64)
        wire->region_length = okv_le64_of(1u << 20);
    if (mask & 128)
        wire->bucket_count = okv_le64_of(4);
    if (mask & 256)
        wire->region_address = okv_le64_of(0);
    if (mask & 512)
        wire->max_key = okv_le32_of(OKV_KEY_MAX);
    if (mask & 1024)
        wire->max_value = okv_le32_of(1u << 16);
    if (mask & 2048)
        wire->resumed = okv_le32_of(1);
}

static void fuzz_welcome(struct fuzz_input *input, bool repair)
{
    struct okv_welcome welcome;
    struct okv_wire_welcome again;
    uint16_t mask = repair ? fuzz_u16(input) : 0;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, WELCOME_ROOM, &length);

    if (repair && length >= sizeof again) {
        repair_preamble(bytes, length, sizeof again);
        repair_welcome((struct okv_wire_welcome *)bytes, mask);
    }
    int rc = okv_welcome_decode(bytes, length, &welcome);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc == 0) {
        FUZZ_CHECK(welcome.credits >= 1 && welcome.credits <= OKV_CREDITS_MAX);
        FUZZ_CHECK(okv_bucket_size_valid(welcome.bucket_size));
        FUZZ_CHECK(welcome.bucket_count >= 1 && welcome.bucket_count <= OKV_BUCKETS_MAX);
        FUZZ_CHECK(welcome.region_address + welcome.region_length >= welcome.region_address);
        FUZZ_CHECK(welcome.max_value <= OKV_VALUE_MAX);
        okv_welcome_encode(&welcome, &again);
        FUZZ_CHECK(memcmp(&again, bytes, sizeof again) == 0);
    }
    free(bytes);
}

static void fuzz_challenge(uint8_t *bytes, size_t length)
{
    struct okv_wire_challenge again;
    uint8_t cookie[OKV_COOKIE_SIZE];
    int rc = okv_challenge_decode(bytes, length, cookie);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc == 0) {
        okv_challenge_encode(cookie, &again);
        FUZZ_CHECK(memcmp(again.cookie, bytes + offsetof(struct okv_wire_challenge, cookie),
                          sizeof cookie) == 0);
    }
}

static void fuzz_not_primary(const uint8_t *bytes, size_t length)
{
    struct okv_wire_not_primary again;
    char primary[OKV_PRIMARY_SIZE], back[OKV_PRIMARY_SIZE];
    int rc = okv_not_primary_decode(bytes, length, primary);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EVERSION);
    if (rc == 0) {
        okv_not_primary_encode(primary, &again);
        FUZZ_CHECK(okv_not_primary_decode((uint8_t *)&again, sizeof again, back) == 0);
        FUZZ_CHECK(strcmp(back, primary) == 0);
    }
}

static void fuzz_reject(struct fuzz_input *input, bool repair)
{
    struct okv_reject reject, again;
    struct okv_wire_reject wire;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, sizeof(struct okv_wire_not_primary) + 8, &length);

    if (repair)
        repair_preamble(bytes, length, length);
    fuzz_challenge(bytes, length);
    fuzz_not_primary(bytes, length);
    int rc = okv_reject_decode(bytes, length, &reject);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO);
    if (rc == 0) {
        FUZZ_CHECK(okv_reject_text(reject.reason)[0]);
        FUZZ_CHECK(okv_reject_code(reject.reason) < 0);
        okv_reject_encode(&reject, &wire);
        FUZZ_CHECK(okv_reject_decode((uint8_t *)&wire, sizeof wire, &again) == 0);
        FUZZ_CHECK(again.version == reject.version && again.reason == reject.reason &&
                   again.detail == reject.detail);
    }
    free(bytes);
}

static bool is_inside(const uint8_t *part, uint32_t length, const uint8_t *bytes, size_t all)
{
    return part >= bytes && part <= bytes + all && length <= (size_t)(bytes + all - part);
}

static void check_request(const struct okv_request_message *request, uint32_t immediate,
                          const uint8_t *bytes, size_t length)
{
    uint8_t *again = malloc(length);

    FUZZ_CHECK(again);
    FUZZ_CHECK(request->key_length <= OKV_KEY_MAX && request->ttl_ms <= OKV_TTL_MAX);
    FUZZ_CHECK(is_inside(request->key, request->key_length, bytes, length));
    if (request->flags & OKV_REQUEST_RENDEZVOUS)
        FUZZ_CHECK(!request->value && request->value_length > 0);
    else
        FUZZ_CHECK(is_inside(request->value, request->value_length, bytes, length));
    FUZZ_CHECK(okv_immediate(request->opcode, request->slot) == immediate);
    FUZZ_CHECK(okv_request_encode(request, again) == length);
    FUZZ_CHECK(memcmp(again, bytes, length) == 0);
    free(again);
}

static void check_report(const uint8_t *bytes, size_t length)
{
    struct okv_report report;
    struct okv_wire_report again;
    int rc = okv_report_decode(bytes, length, &report);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO);
    if (rc)
        return;
    FUZZ_CHECK(report.hits + report.misses <= report.gets);
    okv_report_encode(&report, &again);
    FUZZ_CHECK(memcmp(&again, bytes, sizeof again) == 0);
}

static void check_hits(const uint8_t *bytes, size_t length)
{
    struct okv_hits hits;
    int rc = okv_hits_decode(bytes, length, &hits);

    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO);
    if (rc)
        return;
    FUZZ_CHECK(hits.batch >= 1 && hits.batch <= OKV_HITS_MAX);
    FUZZ_CHECK(hits.thinning <= OKV_HITS_THINNING_MAX);
    const struct okv_wire_hits again = okv_hits_encode(&hits);
    FUZZ_CHECK(memcmp(&again, bytes, offsetof(struct okv_wire_hits, reserved)) == 0);
}

static void fuzz_request(struct fuzz_input *input, bool repair)
{
    struct okv_request_message request;
    uint32_t immediate =
        repair ? (uint32_t)fuzz_below(input, OKV_OP_RELEASED + 1) << 24 | fuzz_u16(input)
               : fuzz_u32(input);
    uint32_t key_length = repair ? fuzz_u8(input) & 31 : 0;
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, 4096, &length);

    if (repair && length >= OKV_REQUEST_HEADER + key_length) {
        struct okv_wire_request *wire = (struct okv_wire_request *)bytes;
        bool rendezvous = okv_le16_get(wire->flags) & OKV_REQUEST_RENDEZVOUS;
        wire->key_length = okv_le16_of((uint16_t)key_length);
        wire->reserved = okv_le16_of(0);
        if (!rendezvous)
            wire->value_length = okv_le32_of((uint32_t)(length - OKV_REQUEST_HEADER - key_length));
    }
    int rc = okv_request_decode(immediate, bytes, (uint32_t)length, &request);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO || rc == OKV_EUNSUPPORTED);
    if (rc == 0)
        check_request(&request, immediate, bytes, length);
    if (rc == 0 && request.value)
        check_report(request.value, request.value_length);
    free(bytes);
}

static void fuzz_reply(struct fuzz_input *input, bool repair)
{
    struct okv_reply_message reply;
    uint32_t immediate = fuzz_u32(input);
    size_t length;
    uint8_t *bytes = fuzz_bytes(input, 4096, &length);

    if (repair && length >= OKV_REPLY_HEADER) {
        struct okv_wire_reply *wire = (struct okv_wire_reply *)bytes;
        immediate = (immediate | OKV_IMMEDIATE_REPLY) & ~UINT32_C(0x00ff0000);
        wire->value_length = okv_le32_of((uint32_t)(length - OKV_REPLY_HEADER));
        if (okv_le32_get(wire->status) > 64)
            wire->status = okv_le32_of(okv_le32_get(wire->status) % 40);
    }
    int rc = okv_reply_decode(immediate, bytes, (uint32_t)length, &reply);
    FUZZ_CHECK(rc == 0 || rc == OKV_EPROTO);
    if (rc == 0) {
        uint8_t *again = malloc(length);
        FUZZ_CHECK(again);
        FUZZ_CHECK(reply.status <= 0 && reply.status >= OKV_ERROR_LAST);
        FUZZ_CHECK(is_inside(reply.value, reply.value_length, bytes, length));
        FUZZ_CHECK(okv_reply_encode(&reply, again) == length);
        FUZZ_CHECK(memcmp(again, bytes, length) == 0);
        check_hits(reply.value, reply.value_length);
        free(again);
    }
    free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    uint8_t choice = fuzz_u8(&input);
    bool repair = choice & 0x80;

    switch ((choice & 0x7f) % 5) {
    case 0:
        fuzz_hello(&input, repair);
        break;
    case 1:
        fuzz_welcome(&input, repair);
        break;
    case 2:
        fuzz_reject(&input, repair);
        break;
    case 3:
        fuzz_request(&input, repair);
        break;
    default:
        fuzz_reply(&input, repair);
        break;
    }
    return 0;
}
