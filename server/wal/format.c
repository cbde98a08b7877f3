#include "server/wal/format.h"

#include <string.h>

#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/wire.h"

static const uint8_t segment_magic[8] = "okvlog\0";
static const uint8_t snapshot_magic[8] = "okvsnap";

/* Where version 1 has the checksum of the bytes before it. */
#define OLD_CHECKSUM offsetof(struct okv_wal_wire_header, raise)

static uint64_t header_checksum(const void *header)
{
    return okv_hash_checksum(header, offsetof(struct okv_wal_wire_header, checksum), 0);
}

void okv_wal_header_encode(const struct okv_wal_header *header, uint8_t *out)
{
    struct okv_wal_wire_header wire = {
        .format_version = okv_le32_of(OKV_WAL_FORMAT),
        .bucket_size = okv_le32_of(header->bucket_size),
        .number = okv_le64_of(header->number),
        .position = okv_le64_of(header->position),
        .hash_seed = okv_le64_of(header->hash_seed),
        .bucket_count = okv_le64_of(header->bucket_count),
        .is_relaxed = header->is_relaxed,
        .is_clean = header->is_clean,
        .raise = okv_le64_of(header->raise),
        .epoch = okv_le64_of(header->epoch),
    };

    memcpy(wire.magic, header->bucket_count ? snapshot_magic : segment_magic, sizeof wire.magic);
    memcpy(wire.database_id, header->database_id, sizeof wire.database_id);
    wire.checksum = okv_le64_of(header_checksum(&wire));
    memset(out, 0, OKV_WAL_HEADER_SIZE);
    memcpy(out, &wire, sizeof wire);
}

uint32_t okv_wal_header_format(const uint8_t *bytes)
{
    struct okv_wal_wire_header wire;

    memcpy(&wire, bytes, sizeof wire);
    return okv_le32_get(wire.format_version);
}

static bool is_sane_header(const struct okv_wal_wire_header *wire,
                           const struct okv_wal_header *header, bool is_segment)
{
    uint8_t most = is_segment; /* of a flag */

    return wire->is_relaxed <= most && wire->is_clean <= most &&
           header->raise <= (is_segment ? OKV_LE48_MAX : 0) && header->epoch <= OKV_WAL_EPOCH_MAX &&
           is_segment == (header->bucket_count == 0);
}

int okv_wal_header_decode(const uint8_t *bytes, struct okv_wal_header *out)
{
    struct okv_wal_wire_header wire;

    memcpy(&wire, bytes, sizeof wire);
    bool is_segment = memcmp(wire.magic, segment_magic, sizeof wire.magic) == 0;
    bool is_old = okv_le32_get(wire.format_version) == OKV_WAL_FORMAT_OLD;
    if (!is_segment && memcmp(wire.magic, snapshot_magic, sizeof wire.magic) != 0)
        return OKV_ECORRUPT;
    if (!is_old && okv_le32_get(wire.format_version) != OKV_WAL_FORMAT)
        return OKV_EVERSION;
    *out = (struct okv_wal_header){
        .number = okv_le64_get(wire.number),
        .position = okv_le64_get(wire.position),
        .raise = is_old ? 0 : okv_le64_get(wire.raise),
        .epoch = is_old ? 0 : okv_le64_get(wire.epoch),
        .hash_seed = okv_le64_get(wire.hash_seed),
        .bucket_count = okv_le64_get(wire.bucket_count),
        .bucket_size = okv_le32_get(wire.bucket_size),
        .is_relaxed = wire.is_relaxed,
        .is_clean = wire.is_clean,
        .format = okv_le32_get(wire.format_version),
    };
    memcpy(out->database_id, wire.database_id, sizeof out->database_id);
    bool is_whole =
        is_old ? okv_get_u64(bytes + OLD_CHECKSUM) == okv_hash_checksum(bytes, OLD_CHECKSUM, 0)
               : okv_le64_get(wire.checksum) == header_checksum(bytes);
    return is_whole && is_sane_header(&wire, out, is_segment) ? 0 : OKV_ECORRUPT;
}

/* ---- records ---- */

uint64_t okv_wal_record_size(uint32_t key_length, uint32_t value_length)
{
    uint64_t size = sizeof(struct okv_wal_wire_record) + key_length + (uint64_t)value_length;

    return (size + OKV_WAL_ALIGNMENT - 1) / OKV_WAL_ALIGNMENT * OKV_WAL_ALIGNMENT;
}

void okv_wal_record_encode_head(const struct okv_wal_record *record, uint8_t *out)
{
    const struct okv_wal_wire_record wire = {
        .kind = (uint8_t)record->kind,
        .key_length = okv_le16_of((uint16_t)record->key_length),
        .value_length = okv_le32_of(record->value_length),
        .version = okv_le64_of(record->version),
        .expiry_ms = okv_le64_of(record->expiry_ms),
    };

    memcpy(out, &wire, sizeof wire);
    if (record->key_length)
        memcpy(out + sizeof wire, record->key, record->key_length);
}

void okv_wal_record_encode(const struct okv_wal_record *record, uint8_t *out)
{
    uint64_t size = okv_wal_record_size(record->key_length, record->value_length);

    memset(out + size - OKV_WAL_ALIGNMENT, 0, OKV_WAL_ALIGNMENT); /* the padding */
    okv_wal_record_encode_head(record, out);
    if (record->value_length)
        memcpy(out + sizeof(struct okv_wal_wire_record) + record->key_length, record->value,
               record->value_length);
}

void okv_wal_record_set_version(uint8_t *record, uint64_t version)
{
    okv_put_u64(record + offsetof(struct okv_wal_wire_record, version), version);
}

static bool is_sane(const struct okv_wal_wire_record *wire, const struct okv_wal_record *record)
{
    bool has_key = record->key_length >= 1 && record->key_length <= OKV_KEY_MAX;
    bool has_value = record->value_length > 0;

    if (wire->reserved != 0 || record->value_length > OKV_VALUE_MAX ||
        record->version > OKV_LE48_MAX)
        return false;
    switch (record->kind) {
    case OKV_WAL_PUT:
        return has_key;
    case OKV_WAL_LONG:
        return has_key && record->value_length == OKV_WAL_LONG_SIZE;
    case OKV_WAL_DELETE:
        return has_key && !has_value && record->expiry_ms == 0;
    case OKV_WAL_BUCKET:
        return record->key_length == 0 && !has_value;
    case OKV_WAL_END:
    case OKV_WAL_FORGOTTEN:
    case OKV_WAL_RAISE:
    case OKV_WAL_CLEAN:
        return record->key_length == 0 && !has_value && record->expiry_ms == 0;
    case OKV_WAL_EPOCH:
        return record->key_length == 0 && !has_value && record->raise <= OKV_LE48_MAX &&
               record->version > 0 && record->version <= OKV_WAL_EPOCH_MAX;
    case OKV_WAL_CLIENT:
        return record->key_length == OKV_WAL_CLIENT_SIZE &&
               record->value_length == OKV_WAL_CLIENT_VALUE_SIZE && record->version > 0 &&
               record->slots > 0 && record->slots <= OKV_CREDITS_MAX;
    case OKV_WAL_REPLY:
        return record->key_length == OKV_WAL_REPLY_SIZE && record->sequence > 0 &&
               record->value_length <= OKV_WAL_REPLY_VALUE_MAX;
    }
    return false;
}

struct wire_long {
    okv_le64 number;
    okv_le64 length;
    okv_le64 checksum;
};
_Static_assert(sizeof(struct wire_long) == OKV_WAL_LONG_SIZE, "value of a LONG");

void okv_wal_long_encode(const struct okv_wal_long *at, uint8_t out[OKV_WAL_LONG_SIZE])
{
    const struct wire_long wire = {
        .number = okv_le64_of(at->number),
        .length = okv_le64_of(at->length),
        .checksum = okv_le64_of(at->checksum),
    };

    memcpy(out, &wire, sizeof wire);
}

void okv_wal_long_decode(const uint8_t bytes[OKV_WAL_LONG_SIZE], struct okv_wal_long *out)
{
    struct wire_long wire;

    memcpy(&wire, bytes, sizeof wire);
    *out = (struct okv_wal_long){
        .number = okv_le64_get(wire.number),
        .length = okv_le64_get(wire.length),
        .checksum = okv_le64_get(wire.checksum),
    };
}

uint32_t okv_wal_value_length(const struct okv_wal_record *record)
{
    struct okv_wal_long at;

    if (record->kind != OKV_WAL_LONG)
        return record->value_length;
    okv_wal_long_decode(record->value, &at);
    return (uint32_t)at.length; /* decoding has checked that it is a value's */
}

static bool is_sane_long(const void *value)
{
    struct okv_wal_long at;

    okv_wal_long_decode(value, &at);
    return at.number > 0 && at.length > 0 && at.length <= OKV_VALUE_MAX;
}

struct wire_reply {
    okv_le64 client;
    okv_le32 session;
    okv_le16 slot;
    uint8_t opcode;
    uint8_t reserved;
};
_Static_assert(sizeof(struct wire_reply) == OKV_WAL_REPLY_SIZE, "key of a reply");

static bool is_sane_reply(const void *key)
{
    struct wire_reply wire;

    memcpy(&wire, key, sizeof wire);
    return okv_le16_get(wire.slot) < OKV_CREDITS_MAX && wire.reserved == 0;
}

int okv_wal_record_decode(const uint8_t *bytes, uint64_t end, uint64_t *at,
                          struct okv_wal_record *out)
{
    struct okv_wal_wire_record wire;

    if (end - *at < sizeof wire)
        return OKV_ECORRUPT;
    memcpy(&wire, bytes + *at, sizeof wire);
    *out = (struct okv_wal_record){
        .kind = (enum okv_wal_kind)wire.kind,
        .key = bytes + *at + sizeof wire,
        .key_length = okv_le16_get(wire.key_length),
        .value_length = okv_le32_get(wire.value_length),
        .version = okv_le64_get(wire.version),
        .expiry_ms = okv_le64_get(wire.expiry_ms),
    };
    uint64_t size = okv_wal_record_size(out->key_length, out->value_length);
    if (!is_sane(&wire, out) || size > end - *at)
        return OKV_ECORRUPT;
    if (out->kind == OKV_WAL_REPLY && !is_sane_reply(out->key))
        return OKV_ECORRUPT;
    out->value = (const uint8_t *)out->key + out->key_length;
    if (out->kind == OKV_WAL_LONG && !is_sane_long(out->value))
        return OKV_ECORRUPT;
    *at += size;
    return 0;
}

/* ---- replies ---- */

void okv_wal_reply_encode(const struct okv_wal_reply *reply, uint8_t out[OKV_WAL_REPLY_SIZE])
{
    const struct wire_reply wire = {
        .client = okv_le64_of(reply->client),
        .session = okv_le32_of(reply->session),
        .slot = okv_le16_of(reply->slot),
        .opcode = reply->opcode,
    };

    memcpy(out, &wire, sizeof wire);
}

void okv_wal_reply_decode(const uint8_t bytes[OKV_WAL_REPLY_SIZE], struct okv_wal_reply *out)
{
    struct wire_reply wire;

    memcpy(&wire, bytes, sizeof wire);
    *out = (struct okv_wal_reply){
        .client = okv_le64_get(wire.client),
        .session = okv_le32_get(wire.session),
        .slot = okv_le16_get(wire.slot),
        .opcode = wire.opcode,
    };
}

/* ---- frames ---- */

static uint64_t frame_seed(uint64_t segment, uint64_t position)
{
    return (segment * UINT64_C(0x9e3779b97f4a7c15)) ^ position;
}

static uint64_t frame_checksum(const uint8_t *bytes, uint64_t length, uint64_t segment,
                               uint64_t position)
{
    const size_t before = sizeof(okv_le64);

    return okv_hash_checksum(bytes + before, length - before, frame_seed(segment, position));
}

static void encode_frame(const struct okv_wal_frame *frame, uint8_t *bytes)
{
    struct okv_wal_wire_frame wire = {
        .length = okv_le64_of(frame->length),
        .position = okv_le64_of(frame->position),
        .durable = okv_le64_of(frame->durable),
        .clock_ms = okv_le64_of(frame->clock_ms),
        .wall_ms = okv_le64_of(frame->wall_ms),
        .epoch = okv_le64_of(frame->epoch),
    };

    memcpy(bytes, &wire, sizeof wire);
}

void okv_wal_frame_seal(const struct okv_wal_frame *frame, uint64_t segment, uint8_t *bytes)
{
    encode_frame(frame, bytes);
    okv_put_u64(bytes, frame_checksum(bytes, frame->length, segment, frame->position));
}

void okv_wal_frame_seal_parts(const struct okv_wal_frame *frame, uint64_t segment, uint8_t *bytes,
                              uint64_t length, const uint8_t *rest, uint64_t rest_length)
{
    static const uint8_t zeros[OKV_WAL_ALIGNMENT];
    const size_t before = sizeof(okv_le64);
    struct okv_hash_stream stream;

    encode_frame(frame, bytes);
    okv_hash_stream_begin(&stream);
    okv_hash_stream_add(&stream, bytes + before, length - before);
    okv_hash_stream_add(&stream, rest, rest_length);
    okv_hash_stream_add(&stream, zeros, frame->length - length - rest_length);
    okv_put_u64(bytes, okv_hash_stream_checksum(&stream, frame_seed(segment, frame->position)));
}

bool okv_wal_frame_peek(const uint8_t *bytes, uint64_t most, struct okv_wal_frame *out)
{
    struct okv_wal_wire_frame wire;

    memcpy(&wire, bytes, sizeof wire);
    *out = (struct okv_wal_frame){
        .length = okv_le64_get(wire.length),
        .position = okv_le64_get(wire.position),
        .durable = okv_le64_get(wire.durable),
        .clock_ms = okv_le64_get(wire.clock_ms),
        .wall_ms = okv_le64_get(wire.wall_ms),
        .epoch = okv_le64_get(wire.epoch),
    };
    return out->length >= sizeof wire && out->length <= most &&
           out->length % OKV_WAL_ALIGNMENT == 0;
}

bool okv_wal_frame_check(const struct okv_wal_frame *frame, uint64_t segment, uint64_t position,
                         const uint8_t *bytes)
{
    return frame->position == position && frame->durable <= position &&
           okv_get_u64(bytes) == frame_checksum(bytes, frame->length, segment, position);
}
