#include "server/wal/recovery/validate.h"

#include <string.h>

#include "server/store/state.h"
#include "server/wal/frame.h"
#include "shared/base/error.h"
#include "shared/format/bucket.h"

/* Of a snapshot. Its segment is there first: 1 alone would be a database without a snapshot. */
#define NUMBER_MIN 2
/* No server gets further, and one that went on from there would run out of numbers. */
#define NUMBER_MAX (UINT64_C(1) << 48)

/* ---- headers ---- */

uint64_t okv_wal_buckets_max(uint64_t size)
{
    return size / okv_wal_record_size(0, 0);
}

uint64_t okv_wal_bucket_count(const struct okv_wal_header *snapshot)
{
    return snapshot->bucket_count > OKV_STORE_BUCKETS_MIN ? snapshot->bucket_count
                                                          : OKV_STORE_BUCKETS_MIN;
}

/* A forged header has a valid checksum, too, and a salvage writes a record of each lost bucket. */
static int check_buckets(struct okv_wal_reader *reader, const struct okv_wal_header *header,
                         struct okv_diag *diag)
{
    struct okv_diag why;
    uint64_t size;

    if (header->bucket_count && !okv_bucket_size_valid(header->bucket_size))
        return okv_wal_reader_damaged(reader, 0, "its buckets have no valid size", diag);
    int rc = reader->file ? reader->files->ops->size(reader->file, &size, &why) : 0;
    if (rc)
        return okv_diag_set(diag, rc, "cannot read %s: %s", reader->name, why.text);
    if (!reader->file || header->bucket_count <= okv_wal_buckets_max(size))
        return 0;
    return okv_wal_reader_damaged(reader, 0, "it counts more buckets than it can have", diag);
}

int okv_wal_check_header(struct okv_wal_reader *reader, bool is_snapshot, uint64_t number,
                         struct okv_wal_header *out, struct okv_diag *diag)
{
    bool has_header = reader->header_length == OKV_WAL_HEADER_SIZE;
    int rc = has_header ? okv_wal_header_decode(reader->bytes, out) : OKV_ECORRUPT;

    reader->number = number;
    reader->first = 0;
    reader->format = has_header && okv_wal_header_format(reader->bytes) == OKV_WAL_FORMAT_OLD
                         ? OKV_WAL_FORMAT_OLD
                         : OKV_WAL_FORMAT;
    if (rc == OKV_EVERSION)
        return okv_diag_set(diag, rc, "its %s was written by another version of okv-server",
                            is_snapshot ? "snapshot" : "log");
    if (rc) {
        out->number = out->bucket_count = 0;
        return okv_wal_reader_damaged(reader, 0, "it has no header", diag);
    }
    bool is_sane = !is_snapshot || (out->number >= NUMBER_MIN && out->number <= NUMBER_MAX);
    if ((number && out->number != number) || !is_sane || is_snapshot != (out->bucket_count != 0))
        return okv_wal_reader_damaged(reader, 0, "it is another file", diag);
    rc = check_buckets(reader, out, diag);
    if (rc) {
        out->number = out->bucket_count = 0;
        return rc;
    }
    reader->number = out->number;
    reader->first = is_snapshot ? 0 : out->position;
    return 0;
}

int okv_wal_check_database(const struct okv_wal_reader *reader,
                           const struct okv_wal_header *segment, const struct okv_wal_header *base,
                           struct okv_diag *diag)
{
    if (memcmp(segment->database_id, base->database_id, sizeof base->database_id) != 0 ||
        segment->hash_seed != base->hash_seed)
        return okv_wal_reader_damaged(reader, 0, "it is of another database", diag);
    return 0;
}

/* ---- records ---- */

/* Whether a segment of this format may have such a record at this place of a frame. */
static bool is_of_segment(uint32_t format, uint64_t at, enum okv_wal_kind kind)
{
    switch (kind) {
    case OKV_WAL_BUCKET:
    case OKV_WAL_END:
        return false;
    case OKV_WAL_RAISE:
    case OKV_WAL_CLEAN:
        return format == OKV_WAL_FORMAT_OLD;
    case OKV_WAL_EPOCH:
        return at == OKV_WAL_FRAME_HEADER;
    default:
        return true;
    }
}

int okv_wal_segment_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                           struct okv_wal_record *out, struct okv_diag *diag)
{
    uint64_t begin = *at;
    int rc = okv_wal_record_decode(reader->bytes, length, at, out);

    if (rc || !is_of_segment(reader->format, begin, out->kind))
        return okv_wal_reader_damaged(reader, reader->offset - length + begin,
                                      "a record makes no sense", diag);
    return 0;
}

int okv_wal_snapshot_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                            struct okv_wal_record *bucket, struct okv_wal_record *out)
{
    int rc = okv_wal_record_decode(reader->bytes, length, at, out);

    if (rc)
        return rc;
    switch (out->kind) {
    case OKV_WAL_BUCKET:
        *bucket = *out;
        return 0;
    case OKV_WAL_PUT:
    case OKV_WAL_LONG:
        return bucket->kind && out->version <= bucket->version ? 0 : OKV_ECORRUPT;
    case OKV_WAL_END:
    case OKV_WAL_CLIENT:
    case OKV_WAL_REPLY:
    case OKV_WAL_FORGOTTEN:
        *bucket = (struct okv_wal_record){.key_length = 0};
        return 0;
    case OKV_WAL_DELETE:
    case OKV_WAL_RAISE:
    case OKV_WAL_CLEAN:
    case OKV_WAL_EPOCH:
        break;
    }
    return OKV_ECORRUPT;
}

int okv_wal_check_epoch(const struct okv_wal_reader *reader, const struct okv_wal_frame *frame,
                        uint64_t before, struct okv_diag *diag)
{
    struct okv_wal_record first;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    bool begins = okv_wal_record_decode(reader->bytes, frame->length, &at, &first) == 0 &&
                  first.kind == OKV_WAL_EPOCH;

    if (begins ? frame->epoch > before && first.version == frame->epoch &&
                     frame->durable == frame->position
               : frame->epoch == before)
        return 0;
    return okv_wal_reader_damaged(reader, reader->begin, "its epoch does not follow", diag);
}

/* ---- ends ---- */

int okv_wal_check_segment_end(struct okv_wal_reader *reader, uint64_t *cut, struct okv_diag *diag)
{
    uint64_t later;
    /* A later frame that says that this place was durable when it was written. */
    int rc = okv_wal_reader_find_later(reader, okv_wal_reader_position(reader) + 1, &later, diag);

    if (rc)
        return rc;
    if (later)
        return okv_wal_reader_damaged(reader, reader->offset,
                                      "a batch is not whole, and later ones are", diag);
    return okv_wal_reader_begun(reader, cut, diag);
}
