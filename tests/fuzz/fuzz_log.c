/*
 * Logs and snapshots of both versions as a check, a salvage and a start read them: headers, frames
 * and records made of the input, most with right checksums, so that what is behind them is reached.
 */
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/offline/salvage.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/crash_disk.h"

#define FILES_MAX 4u
#define FRAMES_MAX 6u
#define RECORDS_MAX 6u
#define BYTES_MAX (1u << 17)
#define BUCKETS 64u

/* Where an old header has its checksum. */
#define OLD_CHECKSUM offsetof(struct okv_wal_wire_header, raise)

struct log {
    struct fuzz_input *input;
    struct crash_disk disk;
    uint64_t position, epoch; /* of the next frame */
};

static void flip_rarely(struct fuzz_input *input, uint8_t *bytes, uint64_t length)
{
    if (fuzz_rarely(input, 32))
        bytes[fuzz_u16(input) % length] ^= 1u << fuzz_below(input, 8);
}

/* ---- records ---- */

static struct okv_wal_record any_record(struct fuzz_input *input, const uint8_t *bytes)
{
    struct okv_wal_record record = {
        .kind = (enum okv_wal_kind)(1 + fuzz_below(input, OKV_WAL_EPOCH)),
        .key = bytes,
        .value = bytes + fuzz_below(input, 256),
        .version = fuzz_rarely(input, 8) ? fuzz_number(input) : fuzz_u8(input)};

    switch (record.kind) {
    case OKV_WAL_PUT:
    case OKV_WAL_DELETE:
    case OKV_WAL_LONG:
        record.key_length = 1 + fuzz_below(input, 20);
        record.value_length = record.kind == OKV_WAL_PUT    ? fuzz_u8(input)
                              : record.kind == OKV_WAL_LONG ? OKV_WAL_LONG_SIZE
                                                            : 0;
        break;
    case OKV_WAL_CLIENT:
        record.key_length = OKV_WAL_CLIENT_SIZE;
        record.value_length = OKV_WAL_CLIENT_VALUE_SIZE;
        record.slots = fuzz_u8(input);
        break;
    case OKV_WAL_REPLY:
        record.key_length = OKV_WAL_REPLY_SIZE;
        record.value_length = fuzz_below(input, 20);
        record.sequence = fuzz_u8(input);
        break;
    case OKV_WAL_BUCKET:
        record.bucket = fuzz_u8(input) % (BUCKETS + 1);
        break;
    default:
        break;
    }
    return record;
}

/* Returns where they end. */
static uint64_t add_records(struct fuzz_input *input, uint8_t *bytes, uint64_t at)
{
    static const uint8_t source[512] = "key and value";

    for (unsigned left = 1 + fuzz_below(input, RECORDS_MAX); left > 0; left--) {
        const struct okv_wal_record record = any_record(input, source);
        okv_wal_record_encode(&record, bytes + at);
        at += okv_wal_record_size(record.key_length, record.value_length);
    }
    return at;
}

/* ---- files ---- */

/* Returns where it ends. */
static uint64_t add_frame(struct log *log, const struct okv_wal_header *header, bool is_old,
                          uint8_t *bytes, uint64_t at)
{
    struct fuzz_input *input = log->input;
    uint64_t begin = is_old ? OKV_WAL_OLD_FRAME_HEADER : OKV_WAL_FRAME_HEADER;
    uint8_t *frame = bytes + at, head[OKV_WAL_FRAME_HEADER];
    uint64_t length = add_records(input, frame, begin);

    log->epoch += fuzz_rarely(input, 16) ? fuzz_u8(input) : 0;
    flip_rarely(input, frame + begin, length - begin);
    const struct okv_wal_frame like = {.length = length,
                                       .position = fuzz_rarely(input, 32) ? fuzz_number(input)
                                                                          : log->position,
                                       .durable = log->position - fuzz_below(input, 4) * 8,
                                       .epoch = log->epoch};
    memcpy(head, frame, sizeof head);
    okv_wal_frame_seal(&like, header->number, frame);
    if (is_old) { /* there the epoch is a record's */
        memcpy(frame + begin, head + begin, sizeof head - begin);
        uint64_t seed = header->number * UINT64_C(0x9e3779b97f4a7c15) ^ like.position;
        okv_put_u64(frame, okv_hash_checksum(frame + 8, length - 8, seed));
    }
    flip_rarely(input, frame, length);
    log->position += length;
    return at + length;
}

static void make_old(uint8_t *bytes)
{
    bytes[offsetof(struct okv_wal_wire_header, format_version)] = OKV_WAL_FORMAT_OLD;
    bytes[offsetof(struct okv_wal_wire_header, is_clean)] = 0;
    memset(bytes + OLD_CHECKSUM, 0, OKV_WAL_HEADER_SIZE - OLD_CHECKSUM);
    okv_put_u64(bytes + OLD_CHECKSUM, okv_hash_checksum(bytes, OLD_CHECKSUM, 0));
}

static void write_file(struct log *log, const char *name, uint8_t *bytes, uint64_t length)
{
    struct okv_files *files = &log->disk.files;
    struct iovec vector = {bytes, length};
    struct okv_file *file;

    FUZZ_CHECK(files->ops->create(files, name, &file, NULL) == 0);
    FUZZ_CHECK(files->ops->write(file, &vector, 1, 0, NULL) == 0);
    files->ops->close(file);
}

static void make_file(struct log *log, uint64_t number, bool is_snapshot)
{
    static uint8_t bytes[BYTES_MAX];
    struct fuzz_input *input = log->input;
    uint8_t choice = fuzz_u8(input);
    bool is_old = choice & 1;
    const struct okv_wal_header header = {
        .number = number,
        .position = log->position - (choice & 2 ? fuzz_u8(input) * 8u : 0),
        .epoch = log->epoch,
        .hash_seed = 1,
        .bucket_count = is_snapshot ? BUCKETS : 0,
        .bucket_size = is_snapshot ? 256 : 0,
        .is_relaxed = !is_snapshot && choice & 4,
        .is_clean = !is_snapshot && choice & 8,
        .raise = !is_snapshot && choice & 16 ? fuzz_u16(input) : 0};
    char name[OKV_WAL_NAME_SIZE];
    uint64_t at = OKV_WAL_HEADER_SIZE, before = header.position;

    memset(bytes, 0, sizeof bytes);
    okv_wal_header_encode(&header, bytes);
    if (is_old)
        make_old(bytes);
    flip_rarely(input, bytes, sizeof(struct okv_wal_wire_header));
    log->position = is_snapshot ? 0 : header.position;
    for (unsigned frames = fuzz_below(input, FRAMES_MAX); frames > 0; frames--)
        at = add_frame(log, &header, is_old, bytes, at);
    if (is_snapshot)
        log->position = before;
    okv_wal_name(is_snapshot ? OKV_WAL_SNAPSHOT : OKV_WAL_SEGMENT, number, name);
    write_file(log, name, bytes, at + fuzz_u8(input) % 100);
}

/* ---- readers ---- */

static void damaged(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    (void)user, (void)name, (void)text;
    FUZZ_CHECK(from <= to);
}

static const struct okv_wal_damage_report report = {damaged, NULL};

/* What comes out has no damage. */
static void salvage(struct log *log)
{
    struct okv_wal_survey survey;
    struct okv_wal_salvaged salvaged;
    struct crash_disk saved;
    struct okv_diag diag;

    crash_disk_init(&saved, 1);
    int rc =
        okv_wal_salvage(&log->disk.files, &saved.files, 256, &report, &survey, &salvaged, &diag);
    FUZZ_CHECK(rc == 0 || rc == OKV_ENUMBER);
    if (rc == 0) {
        FUZZ_CHECK(okv_wal_verify(&saved.files, &report, NULL, NULL, &survey, &diag) == 0);
        FUZZ_CHECK(survey.damages == 0);
    }
    crash_disk_fini(&saved);
}

/* A start stops where a check reports. */
static void read_all(struct log *log)
{
    struct okv_wal_survey survey;
    struct okv_diag diag;
    int rc = okv_wal_verify(&log->disk.files, &report, NULL, NULL, &survey, &diag);

    FUZZ_CHECK(rc == 0 || rc == OKV_EVERSION);
    if (rc)
        return;
    uint64_t damages = survey.damages;
    rc = okv_wal_verify(&log->disk.files, NULL, NULL, NULL, &survey, &diag);
    FUZZ_CHECK(rc == (damages ? OKV_ECORRUPT : 0));
    salvage(log);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct log log = {.input = &input, .position = 1 << 16};
    bool has_snapshot = fuzz_u8(&input) & 1;
    unsigned files = 1 + fuzz_below(&input, FILES_MAX);

    crash_disk_init(&log.disk, 1);
    if (has_snapshot)
        make_file(&log, 2, true);
    for (unsigned i = 0; i < files; i++)
        make_file(&log, 1 + has_snapshot + i, false);
    read_all(&log);
    crash_disk_fini(&log.disk);
    return 0;
}
