/* The bytes of docs/durability-format.md, one example of each, and what a reader refuses. */
#include "tests/support/test.h"

#include "server/wal/format.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/wire.h"

#define CHECKSUM 88     /* offset in a header */
#define OLD_CHECKSUM 72 /* in one of version 1 */

static const uint8_t golden_segment[CHECKSUM] = "okvlog\0\0"
                                                "\x02\0\0\0\0\0\0\0"
                                                "0123456789abcdef"
                                                "\x03\0\0\0\0\0\0\0"
                                                "\xe8\x03\0\0\0\0\0\0"
                                                "\x11\x22\x33\x44\x55\x66\x77\x88"
                                                "\0\0\0\0\0\0\0\0"
                                                "\x01\x01\0\0\0\0\0\0"
                                                "\0\0\0\x10\0\0\0\0"
                                                "\x05\0\0\0\0\0\0";

static const uint8_t golden_snapshot[CHECKSUM] = "okvsnap\0"
                                                 "\x02\0\0\0\0\x04\0\0"
                                                 "0123456789abcdef"
                                                 "\x03\0\0\0\0\0\0\0"
                                                 "\xe8\x03\0\0\0\0\0\0"
                                                 "\x11\x22\x33\x44\x55\x66\x77\x88"
                                                 "\x40\0\0\0\0\0\0\0"
                                                 "\0\0\0\0\0\0\0\0"
                                                 "\0\0\0\0\0\0\0\0"
                                                 "\x05\0\0\0\0\0\0";

static const uint8_t golden_put[40] = "\x01\0\x03\0\x05\0\0\0"
                                      "\x07\0\0\0\0\0\0\0"
                                      "\x64\0\0\0\0\0\0\0"
                                      "keyvalue";

static const uint8_t golden_delete[32] = "\x02\0\x03\0\0\0\0\0"
                                         "\x08\0\0\0\0\0\0\0"
                                         "\0\0\0\0\0\0\0\0"
                                         "key\0\0\0\0";

static const uint8_t golden_bucket[24] = "\x03\0\0\0\0\0\0\0"
                                         "\x09\0\0\0\0\0\0\0"
                                         "\x3f\0\0\0\0\0\0";

static const uint8_t golden_end[24] = "\x04\0\0\0\0\0\0\0"
                                      "\x02\0\0\0\0\0\0\0"
                                      "\0\0\0\0\0\0\0";

static const uint8_t golden_long[56] = "\x0a\0\x03\0\x18\0\0\0"
                                       "\x07\0\0\0\0\0\0\0"
                                       "\0\0\0\0\0\0\0\0"
                                       "key"
                                       "\x05\0\0\0\0\0\0\0"
                                       "\0\0\x20\0\0\0\0\0"
                                       "\x88\x77\x66\x55\x44\x33\x22\x11"
                                       "\0\0\0\0";

static const struct okv_wal_header segment = {.database_id = "0123456789abcde\x66",
                                              .number = 3,
                                              .position = 1000,
                                              .hash_seed = UINT64_C(0x8877665544332211),
                                              .is_relaxed = true,
                                              .is_clean = true,
                                              .raise = 1u << 28,
                                              .epoch = 5};

static struct okv_wal_header make_snapshot(void)
{
    struct okv_wal_header snapshot = segment;

    snapshot.bucket_count = 64;
    snapshot.bucket_size = 1024;
    snapshot.is_relaxed = snapshot.is_clean = false;
    snapshot.raise = 0;
    return snapshot;
}

static void expect_fields(const struct okv_wal_header *header, const uint8_t *bytes,
                          uint32_t format)
{
    struct okv_wal_header back;

    assert_int_equal(okv_wal_header_decode(bytes, &back), 0);
    assert_memory_equal(back.database_id, header->database_id, sizeof back.database_id);
    assert_int_equal(back.number, header->number);
    assert_int_equal(back.position, header->position);
    assert_true(back.hash_seed == header->hash_seed);
    assert_int_equal(back.bucket_count, header->bucket_count);
    assert_int_equal(back.bucket_size, header->bucket_size);
    assert_int_equal(back.is_relaxed, header->is_relaxed);
    assert_int_equal(back.is_clean, header->is_clean);
    assert_int_equal(back.raise, header->raise);
    assert_int_equal(back.epoch, header->epoch);
    assert_int_equal(back.format, format);
}

static void expect_header(const struct okv_wal_header *header, const uint8_t *golden)
{
    uint8_t bytes[OKV_WAL_HEADER_SIZE];

    okv_wal_header_encode(header, bytes);
    assert_memory_equal(bytes, golden, CHECKSUM);
    assert_true(okv_get_u64(bytes + CHECKSUM) == okv_hash_checksum(golden, CHECKSUM, 0));
    for (size_t i = CHECKSUM + 8; i < sizeof bytes; i++)
        assert_int_equal(bytes[i], 0);
    expect_fields(header, bytes, 2);
}

TEST(headers_have_these_bytes)
{
    const struct okv_wal_header snapshot = make_snapshot();

    expect_header(&segment, golden_segment);
    expect_header(&snapshot, golden_snapshot);
}

/* It has neither a clean end, nor a raise, nor an epoch. */
static void make_old_header(uint8_t bytes[OKV_WAL_HEADER_SIZE])
{
    memset(bytes, 0, OKV_WAL_HEADER_SIZE);
    memcpy(bytes, golden_segment, OLD_CHECKSUM);
    bytes[8] = 1;
    bytes[65] = 0;
    okv_put_u64(bytes + OLD_CHECKSUM, okv_hash_checksum(bytes, OLD_CHECKSUM, 0));
}

TEST(a_header_of_version_1_is_read)
{
    uint8_t bytes[OKV_WAL_HEADER_SIZE];
    struct okv_wal_header old = segment, back;

    make_old_header(bytes);
    old.is_clean = false;
    old.raise = old.epoch = 0;
    expect_fields(&old, bytes, 1);
    for (size_t i = 0; i < OLD_CHECKSUM + 8; i++) {
        bytes[i] ^= 4;
        assert_int_equal(okv_wal_header_decode(bytes, &back),
                         i >= 8 && i < 12 ? OKV_EVERSION : OKV_ECORRUPT);
        bytes[i] ^= 4;
    }
}

TEST(a_changed_header_is_refused)
{
    uint8_t bytes[OKV_WAL_HEADER_SIZE];
    struct okv_wal_header back;

    okv_wal_header_encode(&segment, bytes);
    for (size_t i = 0; i < CHECKSUM + 8; i++) {
        bytes[i] ^= 1;
        int rc = okv_wal_header_decode(bytes, &back);
        assert_int_equal(rc, i >= 8 && i < 12 ? OKV_EVERSION : OKV_ECORRUPT);
        bytes[i] ^= 1;
    }
    memcpy(bytes, "okvsnap", 8); /* which has buckets */
    okv_put_u64(bytes + CHECKSUM, okv_hash_checksum(bytes, CHECKSUM, 0));
    assert_int_equal(okv_wal_header_decode(bytes, &back), OKV_ECORRUPT);
}

/* Their checksums are right. */
TEST(a_header_that_makes_no_sense_is_refused)
{
    static const struct {
        size_t at;
        uint8_t to;
        bool is_of_snapshot; /* or of a segment */
    } wrong[] = {{64, 2, false}, {65, 2, false}, {78, 1, false}, {83, 1, false},
                 {64, 1, true},  {65, 1, true},  {72, 1, true},  {83, 1, true}};
    struct okv_wal_header snapshot = make_snapshot(), back;
    uint8_t bytes[OKV_WAL_HEADER_SIZE];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        okv_wal_header_encode(wrong[i].is_of_snapshot ? &snapshot : &segment, bytes);
        bytes[wrong[i].at] = wrong[i].to;
        okv_put_u64(bytes + CHECKSUM, okv_hash_checksum(bytes, CHECKSUM, 0));
        assert_int_equal(okv_wal_header_decode(bytes, &back), OKV_ECORRUPT);
    }
}

/* Its segment alone, all that a crash may leave of its restore, would be a database of no items. */
TEST(a_snapshot_of_number_one_is_refused)
{
    uint8_t bytes[OKV_WAL_HEADER_SIZE];
    struct okv_wal_reader reader = {.bytes = bytes, .header_length = sizeof bytes, .name = "name"};
    struct okv_wal_header snapshot = make_snapshot(), back;
    struct okv_diag diag;

    for (snapshot.number = 1; snapshot.number <= 2; snapshot.number++) {
        okv_wal_header_encode(&snapshot, bytes);
        assert_int_equal(okv_wal_check_header(&reader, true, 0, &back, &diag),
                         snapshot.number == 1 ? OKV_ECORRUPT : 0);
    }
}

static const struct okv_wal_record put = {.kind = OKV_WAL_PUT,
                                          .key = "key",
                                          .key_length = 3,
                                          .value = "value",
                                          .value_length = 5,
                                          .version = 7,
                                          .expiry_ms = 100};

TEST(records_have_these_bytes)
{
    const struct okv_wal_record gone = {
        .kind = OKV_WAL_DELETE, .key = "key", .key_length = 3, .version = 8};
    struct okv_wal_record back;
    uint8_t bytes[40];
    uint64_t at = 0;

    assert_int_equal(okv_wal_record_size(3, 5), 32);
    okv_wal_record_encode(&put, bytes);
    assert_memory_equal(bytes, golden_put, 32);
    assert_int_equal(okv_wal_record_decode(bytes, 32, &at, &back), 0);
    assert_int_equal(at, 32);
    assert_int_equal(back.version, 7);
    assert_int_equal(back.expiry_ms, 100);
    assert_memory_equal(back.value, "value", 5);
    assert_int_equal(okv_wal_record_size(3, 0), 32);
    okv_wal_record_encode(&gone, bytes);
    assert_memory_equal(bytes, golden_delete, 32);
    const struct okv_wal_record bucket = {.kind = OKV_WAL_BUCKET, .version = 9, .bucket = 63};
    const struct okv_wal_record end = {.kind = OKV_WAL_END, .version = 2};
    assert_int_equal(okv_wal_record_size(0, 0), 24);
    okv_wal_record_encode(&bucket, bytes);
    assert_memory_equal(bytes, golden_bucket, 24);
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 24, &at, &back), 0);
    assert_int_equal(back.bucket, 63);
    okv_wal_record_encode(&end, bytes);
    assert_memory_equal(bytes, golden_end, 24);
}

TEST(records_of_clients_have_these_bytes)
{
    static const char owner[OKV_WAL_CLIENT_SIZE + 1] =
        "alice\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
        "\1\2\3\4\5\6\7\x8";
    const struct okv_wal_record client = {.kind = OKV_WAL_CLIENT,
                                          .key = owner,
                                          .key_length = OKV_WAL_CLIENT_SIZE,
                                          .value = "12345678",
                                          .value_length = OKV_WAL_CLIENT_VALUE_SIZE,
                                          .version = 0x100000,
                                          .slots = 16};
    struct okv_wal_record back;
    uint8_t bytes[72];
    uint64_t at = 0;

    okv_wal_record_encode(&client, bytes);
    assert_memory_equal(bytes, "\x05\0\x28\0\x08\0\0\0\0\0\x10\0\0\0\0\0\x10\0\0\0\0\0\0\0", 24);
    assert_memory_equal(bytes + 24, owner, OKV_WAL_CLIENT_SIZE);
    assert_memory_equal(bytes + 64, "12345678", 8);
    assert_int_equal(okv_wal_record_decode(bytes, 72, &at, &back), 0);
    assert_int_equal(back.slots, 16);
    bytes[16] = 0; /* slots */
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 72, &at, &back), OKV_ECORRUPT);
}

TEST(a_long_value_has_these_bytes)
{
    const struct okv_wal_long at = {5, 2 << 20, UINT64_C(0x1122334455667788)};
    uint8_t place[OKV_WAL_LONG_SIZE], bytes[sizeof golden_long];
    struct okv_wal_record back;
    struct okv_wal_long back_at;
    uint64_t end = 0;

    okv_wal_long_encode(&at, place);
    const struct okv_wal_record record = {.kind = OKV_WAL_LONG,
                                          .key = "key",
                                          .key_length = 3,
                                          .value = place,
                                          .value_length = sizeof place,
                                          .version = 7};
    okv_wal_record_encode(&record, bytes);
    assert_memory_equal(bytes, golden_long, sizeof bytes);
    assert_int_equal(okv_wal_record_decode(bytes, sizeof bytes, &end, &back), 0);
    okv_wal_long_decode(back.value, &back_at);
    assert_int_equal(back_at.number, at.number);
    assert_int_equal(back_at.length, at.length);
    assert_int_equal(back_at.checksum, at.checksum);
    bytes[27] = 0; /* number of the file */
    end = 0;
    assert_int_equal(okv_wal_record_decode(bytes, sizeof bytes, &end, &back), OKV_ECORRUPT);
    bytes[27] = 5;
    bytes[39] = 8; /* 128 MiB */
    assert_int_equal(okv_wal_record_decode(bytes, sizeof bytes, &end, &back), OKV_ECORRUPT);
}

TEST(records_of_replies_have_these_bytes)
{
    const struct okv_wal_reply of = {
        .client = 0x100000, .session = 2, .slot = 3, .opcode = OKV_OP_INCR};
    const struct okv_wal_record forgotten = {.kind = OKV_WAL_FORGOTTEN, .version = 4};
    struct okv_wal_record back;
    struct okv_wal_reply back_of;
    uint8_t bytes[72], key[OKV_WAL_REPLY_SIZE];
    uint64_t at;

    okv_wal_reply_encode(&of, key);
    const struct okv_wal_record reply = {.kind = OKV_WAL_REPLY,
                                         .key = key,
                                         .key_length = sizeof key,
                                         .value = "12345678",
                                         .value_length = 8,
                                         .version = 9,
                                         .sequence = 77};
    assert_int_equal(okv_wal_record_size(reply.key_length, reply.value_length), 48);
    okv_wal_record_encode(&reply, bytes);
    assert_memory_equal(bytes,
                        "\x06\0\x10\0\x08\0\0\0\x09\0\0\0\0\0\0\0\x4d\0\0\0\0\0\0\0"
                        "\0\0\x10\0\0\0\0\0\x02\0\0\0\x03\0\x08\0"
                        "12345678",
                        48);
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 48, &at, &back), 0);
    okv_wal_reply_decode(back.key, &back_of);
    assert_int_equal(back_of.client, of.client);
    assert_int_equal(back_of.session, of.session);
    assert_int_equal(back_of.slot, of.slot);
    assert_int_equal(back_of.opcode, of.opcode);
    bytes[37] = 4; /* slot 1027 */
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 48, &at, &back), OKV_ECORRUPT);
    bytes[37] = 0;
    bytes[4] = 17; /* bytes of the value */
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 64, &at, &back), OKV_ECORRUPT);

    at = 0;
    okv_wal_record_encode(&forgotten, bytes);
    assert_memory_equal(bytes, "\x07\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
}

TEST(a_record_that_makes_no_sense_is_refused)
{
    static const struct {
        size_t at;
        uint8_t to;
    } wrong[] = {{0, 0}, {0, 3}, {0, 4},  {0, 5},  {0, OKV_WAL_DELETE}, {1, 1}, {2, 0}, {3, 5},
                 {4, 9}, {7, 5}, {14, 1}, {2, 200}};
    struct okv_wal_record back;
    uint8_t bytes[40];

    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        uint64_t at = 0;
        memcpy(bytes, golden_put, sizeof bytes);
        bytes[wrong[i].at] = wrong[i].to;
        assert_int_equal(okv_wal_record_decode(bytes, 32, &at, &back), OKV_ECORRUPT);
    }
    for (uint64_t end = 0; end < 32; end++) {
        uint64_t at = 0;
        memcpy(bytes, golden_put, sizeof bytes);
        assert_int_equal(okv_wal_record_decode(bytes, end, &at, &back), OKV_ECORRUPT);
    }
}

TEST(an_epoch_has_these_bytes)
{
    const struct okv_wal_record epoch = {.kind = OKV_WAL_EPOCH, .version = 5};
    struct okv_wal_record back;
    uint8_t bytes[24];
    uint64_t at = 0;

    okv_wal_record_encode(&epoch, bytes);
    assert_memory_equal(bytes, "\x0b\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 24);
    assert_int_equal(okv_wal_record_decode(bytes, 24, &at, &back), 0);
    assert_int_equal(back.version, 5);
    bytes[11] = 1; /* more than 24 bits */
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 24, &at, &back), OKV_ECORRUPT);
    bytes[11] = bytes[8] = 0; /* that no frame begins */
    at = 0;
    assert_int_equal(okv_wal_record_decode(bytes, 24, &at, &back), OKV_ECORRUPT);
}

TEST(a_frame_is_whole_or_not_valid)
{
    const struct okv_wal_frame frame = {
        .length = 88, .position = 1000, .durable = 900, .clock_ms = 5, .wall_ms = 6, .epoch = 7};
    struct okv_wal_frame back;
    uint8_t bytes[88];

    okv_wal_record_encode(&put, bytes + 56);
    okv_wal_frame_seal(&frame, 3, bytes);
    assert_memory_equal(bytes + 8,
                        "\x58\0\0\0\0\0\0\0\xe8\x03\0\0\0\0\0\0\x84\x03\0\0\0\0\0\0"
                        "\x05\0\0\0\0\0\0\0\x06\0\0\0\0\0\0\0\x07\0\0\0\0\0\0\0",
                        48);
    assert_true(okv_get_u64(bytes) ==
                okv_hash_checksum(bytes + 8, 80, (3 * UINT64_C(0x9e3779b97f4a7c15)) ^ 1000));
    assert_true(okv_wal_frame_peek(bytes, 88, &back));
    assert_memory_equal(&back, &frame, sizeof back);
    assert_true(okv_wal_frame_check(&frame, 3, 1000, bytes));
    assert_false(okv_wal_frame_check(&frame, 4, 1000, bytes));
    assert_false(okv_wal_frame_check(&frame, 3, 1008, bytes));
    assert_false(okv_wal_frame_peek(bytes, 87, &back));
    for (size_t i = 0; i < sizeof bytes; i++) {
        bytes[i] ^= 1;
        assert_false(okv_wal_frame_peek(bytes, 88, &back) && back.length == 88 &&
                     okv_wal_frame_check(&back, 3, 1000, bytes));
        bytes[i] ^= 1;
    }
}

/* ---- where records may be ---- */

/* What a reader of this format makes of a segment's frame with these two records. */
static int read_records(uint32_t format, enum okv_wal_kind first, enum okv_wal_kind second)
{
    const struct okv_wal_record records[] = {{.kind = first, .version = 1},
                                             {.kind = second, .version = 1}};
    uint8_t bytes[56 + 2 * 24] = {0};
    const struct okv_wal_reader reader = {.format = format, .bytes = bytes, .name = "name"};
    struct okv_wal_record record;
    struct okv_diag diag;
    uint64_t at = 56;
    int rc = 0;

    for (unsigned i = 0; i < 2; i++)
        okv_wal_record_encode(&records[i], bytes + 56 + i * 24);
    while (rc == 0 && at < sizeof bytes)
        rc = okv_wal_segment_record(&reader, sizeof bytes, &at, &record, &diag);
    return rc;
}

TEST(records_that_a_segment_may_not_have)
{
    const enum okv_wal_kind any = OKV_WAL_FORGOTTEN;

    assert_int_equal(read_records(2, any, any), 0);
    assert_int_equal(read_records(2, any, OKV_WAL_END), OKV_ECORRUPT);
    assert_int_equal(read_records(2, OKV_WAL_EPOCH, any), 0);
    assert_int_equal(read_records(2, any, OKV_WAL_EPOCH), OKV_ECORRUPT);
    for (unsigned kind = OKV_WAL_RAISE; kind <= OKV_WAL_CLEAN; kind++) {
        assert_int_equal(read_records(1, any, kind), 0);
        assert_int_equal(read_records(2, any, kind), OKV_ECORRUPT);
    }
}

/* A frame of an epoch after one of `before`. */
static int read_epoch(uint64_t before, uint64_t epoch, enum okv_wal_kind first, uint64_t version,
                      uint64_t durable)
{
    const struct okv_wal_record record = {.kind = first, .version = version};
    const struct okv_wal_frame frame = {
        .length = 56 + 24, .position = 800, .durable = durable, .epoch = epoch};
    uint8_t bytes[56 + 24] = {0};
    const struct okv_wal_reader reader = {.format = 2, .bytes = bytes, .name = "name"};
    struct okv_diag diag;

    okv_wal_record_encode(&record, bytes + 56);
    return okv_wal_check_epoch(&reader, &frame, before, &diag);
}

TEST(an_epoch_begins_with_its_record)
{
    assert_int_equal(read_epoch(3, 3, OKV_WAL_FORGOTTEN, 1, 0), 0);
    assert_int_equal(read_epoch(3, 5, OKV_WAL_EPOCH, 5, 800), 0);
    assert_int_equal(read_epoch(3, 5, OKV_WAL_EPOCH, 4, 800), OKV_ECORRUPT);
    assert_int_equal(read_epoch(3, 5, OKV_WAL_EPOCH, 5, 792),
                     OKV_ECORRUPT); /* not all is durable */
    assert_int_equal(read_epoch(3, 5, OKV_WAL_FORGOTTEN, 5, 800), OKV_ECORRUPT);
    assert_int_equal(read_epoch(3, 3, OKV_WAL_EPOCH, 3, 800), OKV_ECORRUPT);
    assert_int_equal(read_epoch(3, 2, OKV_WAL_FORGOTTEN, 1, 800), OKV_ECORRUPT);
    assert_int_equal(read_epoch(3, 2, OKV_WAL_EPOCH, 2, 800), OKV_ECORRUPT);
}
