#include "shared/format/wire.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/base/uri.h"
#include "shared/format/bucket.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"
#include "shared/format/superblock.h"

/* Every handshake message starts with the same eight bytes. */
struct preamble {
    okv_le32 magic;
    okv_le16 version;
    okv_le16 length;
};

static int preamble_check(const uint8_t *bytes, size_t length, size_t expected)
{
    struct preamble preamble;

    if (length < sizeof preamble)
        return OKV_EPROTO;
    memcpy(&preamble, bytes, sizeof preamble);
    if (okv_le32_get(preamble.magic) != OKV_WIRE_MAGIC)
        return OKV_EPROTO;
    if (okv_le16_get(preamble.version) != OKV_WIRE_VERSION)
        return OKV_EVERSION;
    if (okv_le16_get(preamble.length) != expected || length < expected)
        return OKV_EPROTO;
    return 0;
}

static int limits_are_sane(uint32_t slot_size, uint32_t credits)
{
    return slot_size >= OKV_SLOT_SIZE_MIN && slot_size <= OKV_SLOT_SIZE_MAX && credits >= 1 &&
           credits <= OKV_CREDITS_MAX;
}

uint32_t okv_database_id(const char *name)
{
    uint32_t id = (uint32_t)okv_hash_key(name, strlen(name), 0);

    if (strcmp(name, OKV_DATABASE_DEFAULT) == 0)
        return 0;
    return id ? id : 1;
}

#define CREDITS_BITS 10

void okv_hello_encode(const struct okv_hello *hello, struct okv_wire_hello *out)
{
    uint32_t credits = (hello->credits - 1) | hello->features << CREDITS_BITS;

    *out = (struct okv_wire_hello){
        .magic = okv_le32_of(OKV_WIRE_MAGIC),
        .version = okv_le16_of(OKV_WIRE_VERSION),
        .length = okv_le16_of(sizeof *out),
        .resume = okv_le32_of(hello->resume),
        .slot_units = okv_le16_of((uint16_t)(hello->slot_size / OKV_SLOT_UNIT - 1)),
        .credits = okv_le16_of((uint16_t)credits),
        .database = okv_le32_of(hello->database),
        .key_id = okv_le32_of(hello->key_id),
    };
    memcpy(out->client_id, hello->client_id, sizeof out->client_id);
    memcpy(out->nonce, hello->nonce, sizeof out->nonce);
    memcpy(out->proof, hello->proof, sizeof out->proof);
}

int okv_hello_decode(const uint8_t *bytes, size_t length, struct okv_hello *out)
{
    struct okv_wire_hello wire;
    struct okv_hello hello;
    int rc = preamble_check(bytes, length, sizeof wire);

    if (rc)
        return rc;
    memcpy(&wire, bytes, sizeof wire);
    uint32_t credits = okv_le16_get(wire.credits);
    hello = (struct okv_hello){
        .resume = okv_le32_get(wire.resume),
        .slot_size = (okv_le16_get(wire.slot_units) + 1u) * OKV_SLOT_UNIT,
        .credits = (credits & ((1u << CREDITS_BITS) - 1)) + 1,
        .features = credits >> CREDITS_BITS,
        .database = okv_le32_get(wire.database),
        .key_id = okv_le32_get(wire.key_id),
    };
    if (!limits_are_sane(hello.slot_size, hello.credits) ||
        (hello.key_id == 0 && !okv_bytes_are_zero(wire.proof, sizeof wire.proof)))
        return OKV_EPROTO;
    memcpy(hello.client_id, wire.client_id, sizeof hello.client_id);
    memcpy(hello.nonce, wire.nonce, sizeof hello.nonce);
    memcpy(hello.proof, wire.proof, sizeof hello.proof);
    *out = hello;
    return 0;
}

void okv_welcome_encode(const struct okv_welcome *welcome, struct okv_wire_welcome *out)
{
    *out = (struct okv_wire_welcome){
        .magic = okv_le32_of(OKV_WIRE_MAGIC),
        .version = okv_le16_of(OKV_WIRE_VERSION),
        .length = okv_le16_of(sizeof *out),
        .features = okv_le32_of(welcome->features),
        .rkey = okv_le32_of(welcome->rkey),
        .boot_id = okv_le64_of(welcome->boot_id),
        .region_address = okv_le64_of(welcome->region_address),
        .region_length = okv_le64_of(welcome->region_length),
        .directory_offset = okv_le64_of(welcome->directory_offset),
        .bucket_count = okv_le64_of(welcome->bucket_count),
        .hash_seed = okv_le64_of(welcome->hash_seed),
        .bucket_size = okv_le32_of(welcome->bucket_size),
        .segment_buckets = okv_le32_of(welcome->segment_buckets),
        .slot_size = okv_le32_of(welcome->slot_size),
        .credits = okv_le32_of(welcome->credits),
        .max_key = okv_le32_of(welcome->max_key),
        .max_value = okv_le32_of(welcome->max_value),
        .session_id = okv_le64_of(welcome->session_id),
        .clock_ms = okv_le64_of(welcome->clock_ms),
        .resumed = okv_le32_of(welcome->resumed),
        .remember_ms = okv_le32_of(welcome->remember_ms),
        .rights = okv_le32_of(welcome->rights),
        .lease_ms = okv_le32_of(welcome->lease_ms),
        .epoch = okv_le64_of(welcome->epoch),
        .map_version = okv_le64_of(welcome->map_version),
        .lease_clock_us = okv_le64_of(welcome->lease_clock_us),
        .valid_until_us = okv_le64_of(welcome->valid_until_us),
    };
    memcpy(out->proof, welcome->proof, sizeof out->proof);
}

static void welcome_unpack(const struct okv_wire_welcome *wire, struct okv_welcome *out)
{
    *out = (struct okv_welcome){
        .features = okv_le32_get(wire->features),
        .rkey = okv_le32_get(wire->rkey),
        .boot_id = okv_le64_get(wire->boot_id),
        .region_address = okv_le64_get(wire->region_address),
        .region_length = okv_le64_get(wire->region_length),
        .directory_offset = okv_le64_get(wire->directory_offset),
        .bucket_count = okv_le64_get(wire->bucket_count),
        .hash_seed = okv_le64_get(wire->hash_seed),
        .bucket_size = okv_le32_get(wire->bucket_size),
        .segment_buckets = okv_le32_get(wire->segment_buckets),
        .slot_size = okv_le32_get(wire->slot_size),
        .credits = okv_le32_get(wire->credits),
        .max_key = okv_le32_get(wire->max_key),
        .max_value = okv_le32_get(wire->max_value),
        .session_id = okv_le64_get(wire->session_id),
        .clock_ms = okv_le64_get(wire->clock_ms),
        .resumed = okv_le32_get(wire->resumed),
        .remember_ms = okv_le32_get(wire->remember_ms),
        .rights = okv_le32_get(wire->rights),
        .lease_ms = okv_le32_get(wire->lease_ms),
        .epoch = okv_le64_get(wire->epoch),
        .map_version = okv_le64_get(wire->map_version),
        .lease_clock_us = okv_le64_get(wire->lease_clock_us),
        .valid_until_us = okv_le64_get(wire->valid_until_us),
    };
    memcpy(out->proof, wire->proof, sizeof out->proof);
}

int okv_welcome_decode(const uint8_t *bytes, size_t length, struct okv_welcome *out)
{
    struct okv_wire_welcome wire;
    struct okv_welcome fields;
    int rc = preamble_check(bytes, length, sizeof wire);

    if (rc)
        return rc;
    memcpy(&wire, bytes, sizeof wire);
    welcome_unpack(&wire, &fields);
    if (!limits_are_sane(fields.slot_size, fields.credits) ||
        !okv_bucket_size_valid(fields.bucket_size) ||
        !okv_range_inside(fields.directory_offset, OKV_DIRECTORY_SIZE, fields.region_length) ||
        fields.bucket_count < 1 || fields.bucket_count > OKV_BUCKETS_MAX ||
        !okv_segment_buckets_valid(fields.segment_buckets) || fields.features & ~OKV_FEATURES_ALL ||
        fields.boot_id == 0 || fields.clock_ms == 0 || okv_le32_get(wire.resumed) > 1 ||
        fields.region_address > UINT64_MAX - fields.region_length || fields.max_key < 1 ||
        fields.max_key > OKV_KEY_MAX || fields.max_value > OKV_VALUE_MAX ||
        !(fields.rights & OKV_RIGHT_READ) || fields.rights > OKV_RIGHTS_ALL ||
        !(fields.features & OKV_FEATURE_LEASE) != !fields.lease_ms)
        return OKV_EPROTO;
    *out = fields;
    return 0;
}

void okv_reject_encode(const struct okv_reject *reject, struct okv_wire_reject *out)
{
    *out = (struct okv_wire_reject){
        .magic = okv_le32_of(OKV_WIRE_MAGIC),
        .version = okv_le16_of(reject->version),
        .length = okv_le16_of(sizeof *out),
        .reason = okv_le32_of(reject->reason),
        .detail = okv_le32_of(reject->detail),
    };
}

/* A rejection has the same form in every version: only so a client learns that its version is the
 * reason. */
int okv_reject_decode(const uint8_t *bytes, size_t length, struct okv_reject *out)
{
    struct okv_wire_reject wire;

    if (length < sizeof wire)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);
    if (okv_le32_get(wire.magic) != OKV_WIRE_MAGIC || okv_le16_get(wire.length) < sizeof wire)
        return OKV_EPROTO;
    *out = (struct okv_reject){
        .version = okv_le16_get(wire.version),
        .reason = okv_le32_get(wire.reason),
        .detail = okv_le32_get(wire.detail),
    };
    return 0;
}

void okv_challenge_encode(const uint8_t cookie[OKV_COOKIE_SIZE], struct okv_wire_challenge *out)
{
    const struct okv_reject reject = {.version = OKV_WIRE_VERSION, .reason = OKV_REJECT_CHALLENGE};

    okv_reject_encode(&reject, &out->reject);
    out->reject.length = okv_le16_of(sizeof *out);
    memcpy(out->cookie, cookie, sizeof out->cookie);
}

int okv_challenge_decode(const uint8_t *bytes, size_t length, uint8_t cookie[OKV_COOKIE_SIZE])
{
    struct okv_wire_challenge wire;
    struct okv_reject reject;
    int rc = preamble_check(bytes, length, sizeof wire);

    if (rc == 0)
        rc = okv_reject_decode(bytes, length, &reject);
    if (rc)
        return rc;
    if (reject.reason != OKV_REJECT_CHALLENGE)
        return OKV_EPROTO;
    memcpy(cookie, bytes + offsetof(struct okv_wire_challenge, cookie), OKV_COOKIE_SIZE);
    return 0;
}

void okv_not_primary_encode(const char *primary, struct okv_wire_not_primary *out)
{
    const struct okv_reject reject = {.version = OKV_WIRE_VERSION,
                                      .reason = OKV_REJECT_NOT_PRIMARY};
    size_t length = strlen(primary);

    *out = (struct okv_wire_not_primary){.primary = ""};
    okv_reject_encode(&reject, &out->reject);
    out->reject.length = okv_le16_of(sizeof *out);
    if (length < sizeof out->primary)
        memcpy(out->primary, primary, length);
}

int okv_not_primary_decode(const uint8_t *bytes, size_t length, char primary[OKV_PRIMARY_SIZE])
{
    struct okv_wire_not_primary wire;
    struct okv_reject reject;
    int rc = preamble_check(bytes, length, sizeof wire);

    if (rc == 0)
        rc = okv_reject_decode(bytes, length, &reject);
    if (rc)
        return rc;
    memcpy(&wire, bytes, sizeof wire);
    if (reject.reason != OKV_REJECT_NOT_PRIMARY || wire.primary[OKV_PRIMARY_SIZE - 1])
        return OKV_EPROTO;
    memcpy(primary, wire.primary, sizeof wire.primary);
    return 0;
}

const char *okv_reject_text(uint32_t reason)
{
    switch (reason) {
#define OKV_REJECT_TEXT(number, name, code, text) \
    case number:                                  \
        return text;
        OKV_REJECT_LIST(OKV_REJECT_TEXT)
#undef OKV_REJECT_TEXT
    default:
        return "the server refused for a reason that this client does not know";
    }
}

int okv_reject_code(uint32_t reason)
{
    switch (reason) {
#define OKV_REJECT_CODE(number, name, code, text) \
    case number:                                  \
        return OKV_E##code;
        OKV_REJECT_LIST(OKV_REJECT_CODE)
#undef OKV_REJECT_CODE
    default:
        return OKV_EREFUSED;
    }
}

uint32_t okv_request_encode(const struct okv_request_message *request, uint8_t *out)
{
    const struct okv_wire_request wire = {
        .sequence = okv_le64_of(request->sequence),
        .argument = okv_le64_of(request->argument),
        .ttl_ms = okv_le48_of(request->ttl_ms),
        .flags = okv_le16_of(request->flags),
        .value_length = okv_le32_of(request->value_length),
        .key_length = okv_le16_of((uint16_t)request->key_length),
    };
    uint8_t *body = out + sizeof wire;

    memcpy(out, &wire, sizeof wire);
    if (request->key_length)
        okv_bytes_copy(body, request->key, request->key_length);
    body += request->key_length;
    if (request->flags & OKV_REQUEST_RENDEZVOUS) {
        const struct okv_wire_rendezvous rendezvous = {
            .address = okv_le64_of(request->rendezvous_address),
            .key = okv_le32_of(request->rendezvous_key),
        };
        memcpy(body, &rendezvous, sizeof rendezvous);
        return (uint32_t)(body - out) + (uint32_t)sizeof rendezvous;
    }
    if (request->value_length && request->value != body)
        okv_bytes_copy(body, request->value, request->value_length);
    return (uint32_t)(body - out) + request->value_length;
}

/* Refuses what the operation does not have, so that a later version can give it a meaning. */
static int request_fields_check(const struct okv_request_message *request)
{
    const struct okv_opcode_facts *facts = okv_opcode_facts(request->opcode);

    if (!facts->right)
        return OKV_EUNSUPPORTED;
    bool both =
        (request->flags & OKV_REQUEST_IF_ABSENT) && (request->flags & OKV_REQUEST_IF_VERSION);
    bool two_ttls = request->flags & OKV_REQUEST_KEEP_TTL && request->ttl_ms;
    bool argument = facts->has_argument || request->flags & OKV_REQUEST_IF_VERSION;
    if (facts->has_key != (request->key_length > 0) ||
        (request->value_length && !facts->has_value) || (request->argument && !argument) ||
        (request->ttl_ms && !facts->has_ttl) || request->ttl_ms > OKV_TTL_MAX ||
        request->flags & ~facts->flags || both || two_ttls)
        return OKV_EPROTO;
    return 0;
}

/* The body of a request: key, then the value or its advertised buffer. */
static int request_body(const uint8_t *body, uint32_t length, struct okv_request_message *out)
{
    bool by_rendezvous = out->flags & OKV_REQUEST_RENDEZVOUS;
    uint64_t rest = by_rendezvous ? sizeof(struct okv_wire_rendezvous) : out->value_length;

    if (out->key_length > OKV_KEY_MAX || (uint64_t)out->key_length + rest != length ||
        (by_rendezvous && out->value_length == 0))
        return OKV_EPROTO;
    out->key = body;
    if (!by_rendezvous) {
        out->value = body + out->key_length;
        return 0;
    }
    struct okv_wire_rendezvous rendezvous;
    memcpy(&rendezvous, body + out->key_length, sizeof rendezvous);
    out->rendezvous_address = okv_le64_get(rendezvous.address);
    out->rendezvous_key = okv_le32_get(rendezvous.key);
    return 0;
}

int okv_request_decode(uint32_t immediate, const uint8_t *bytes, uint32_t length,
                       struct okv_request_message *out)
{
    struct okv_wire_request wire;

    if (length < sizeof wire || immediate & OKV_IMMEDIATE_REPLY || immediate & 0x00ff0000)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);
    *out = (struct okv_request_message){
        .opcode = okv_immediate_opcode(immediate),
        .slot = okv_immediate_slot(immediate),
        .flags = okv_le16_get(wire.flags),
        .sequence = okv_le64_get(wire.sequence),
        .argument = okv_le64_get(wire.argument),
        .ttl_ms = okv_le48_get(wire.ttl_ms),
        .key_length = okv_le16_get(wire.key_length),
        .value_length = okv_le32_get(wire.value_length),
    };
    int rc = okv_le16_get(wire.reserved)
                 ? OKV_EPROTO
                 : request_body(bytes + sizeof wire, length - (uint32_t)sizeof wire, out);
    return rc ? rc : request_fields_check(out);
}

uint32_t okv_reply_encode(const struct okv_reply_message *reply, uint8_t *out)
{
    struct okv_wire_reply wire = {
        .sequence = okv_le64_of(reply->sequence),
        .version = okv_le64_of(reply->version),
        .status = okv_le32_of((uint32_t)-reply->status),
        .value_length = okv_le32_of(reply->value_length),
    };

    memcpy(out, &wire, sizeof wire);
    if (reply->value_length && reply->value != out + sizeof wire)
        memcpy(out + sizeof wire, reply->value, reply->value_length);
    return (uint32_t)sizeof wire + reply->value_length;
}

int okv_reply_decode(uint32_t immediate, const uint8_t *bytes, uint32_t length,
                     struct okv_reply_message *out)
{
    struct okv_wire_reply wire;

    if (length < sizeof wire || !(immediate & OKV_IMMEDIATE_REPLY) || immediate & 0x00ff0000)
        return OKV_EPROTO;
    memcpy(&wire, bytes, sizeof wire);

    uint32_t status = okv_le32_get(wire.status);
    uint32_t value_length = okv_le32_get(wire.value_length);
    if (status > (uint32_t)-OKV_ERROR_LAST ||
        (uint64_t)sizeof wire + value_length != (uint64_t)length)
        return OKV_EPROTO;
    *out = (struct okv_reply_message){
        .opcode = okv_immediate_opcode(immediate),
        .slot = okv_immediate_slot(immediate),
        .status = -(int)status,
        .sequence = okv_le64_get(wire.sequence),
        .version = okv_le64_get(wire.version),
        .value = bytes + sizeof wire,
        .value_length = value_length,
    };
    return 0;
}
