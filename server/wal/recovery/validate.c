#include "server/wal/recovery/validate.h"

#include <stdlib.h>
#include <string.h>

#include "server/wal/listing.h"
#include "shared/base/error.h"

/* Of a snapshot. Its segment is there first: 1 alone would be a database without a snapshot. */
#define NUMBER_MIN 2
/* No server comes to more, and one that went on from there would run out of them. */
#define NUMBER_MAX (UINT64_C(1) << 48)

/* ---- headers ---- */

static int decode(const struct okv_wal_reader *reader, size_t length, struct okv_wal_header *out)
{
    return length == OKV_WAL_HEADER_SIZE ? okv_wal_header_decode(reader->bytes, out) : OKV_ECORRUPT;
}

int okv_wal_snapshot_header(struct okv_wal_reader *reader, size_t length, uint64_t number,
                            struct okv_wal_header *out, struct okv_diag *diag)
{
    int rc = decode(reader, length, out);

    if (rc == OKV_EVERSION)
        return okv_diag_set(diag, rc, "its snapshot was written by another version of okv-server");
    if (rc)
        return okv_wal_reader_damaged(reader, 0, "it has no header", diag);
    if ((number && out->number != number) || out->number < NUMBER_MIN || out->number > NUMBER_MAX ||
        !out->bucket_count)
        return okv_wal_reader_damaged(reader, 0, "it is another file", diag);
    reader->number = out->number;
    reader->first = 0;
    return 0;
}

int okv_wal_segment_header(struct okv_wal_reader *reader, size_t length, uint64_t number,
                           struct okv_wal_header *out, struct okv_diag *diag)
{
    int rc = decode(reader, length, out);

    if (rc == OKV_EVERSION)
        return okv_diag_set(diag, rc, "its log was written by another version of okv-server");
    if (rc)
        return okv_wal_reader_damaged(reader, 0, "it has no header", diag);
    if (out->number != number || out->bucket_count)
        return okv_wal_reader_damaged(reader, 0, "it is another file", diag);
    reader->number = number;
    reader->first = out->position;
    return 0;
}

int okv_wal_segment_database(const struct okv_wal_reader *reader,
                             const struct okv_wal_header *segment,
                             const struct okv_wal_header *base, struct okv_diag *diag)
{
    if (memcmp(segment->database_id, base->database_id, sizeof base->database_id) != 0 ||
        segment->hash_seed != base->hash_seed)
        return okv_wal_reader_damaged(reader, 0, "it is of another database", diag);
    return 0;
}

int okv_wal_segment_follows(const struct okv_wal_reader *reader,
                            const struct okv_wal_header *segment, uint64_t position,
                            struct okv_diag *diag)
{
    if (segment->position != position)
        return okv_wal_reader_damaged(reader, 0, "it does not follow the one before", diag);
    return 0;
}

int okv_wal_segment_limit(struct okv_files *files, const struct okv_wal_header *segment,
                          uint64_t *limit, struct okv_diag *diag)
{
    struct okv_wal_reader reader = {.files = files};
    struct okv_wal_header header;
    char name[OKV_WAL_NAME_SIZE];
    struct okv_diag why;
    uint64_t next = segment->number + 1;
    size_t got;

    *limit = UINT64_MAX;
    int rc = okv_wal_list_from(files, &next, diag);
    if (rc || !next)
        return rc;
    reader.name = name;
    okv_wal_name(OKV_WAL_SEGMENT, next, name);
    rc = okv_wal_reader_open(&reader, files, name, &got, diag);
    if (rc)
        goto free_bytes;
    if (okv_wal_segment_header(&reader, got, next, &header, &why) == 0 &&
        okv_wal_segment_database(&reader, &header, segment, &why) == 0)
        *limit = header.position;
    okv_wal_reader_close(&reader);
free_bytes:
    free(reader.bytes);
    return rc;
}

/* ---- records ---- */

int okv_wal_segment_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                           struct okv_wal_record *out, struct okv_diag *diag)
{
    uint64_t begin = *at;
    int rc = okv_wal_record_decode(reader->bytes, length, at, out);

    if (rc || out->kind == OKV_WAL_BUCKET || out->kind == OKV_WAL_END)
        return okv_wal_reader_damaged(reader, reader->offset - length + begin,
                                      "a record makes no sense", diag);
    return 0;
}

/* ---- ends ---- */

int okv_wal_segment_end(struct okv_wal_reader *reader, uint64_t *cut, struct okv_diag *diag)
{
    uint64_t later;
    /* A later one that says that this place was durable when it was written. */
    int rc = okv_wal_reader_find_later(reader, okv_wal_reader_position(reader) + 1, &later, diag);

    if (rc)
        return rc;
    if (later)
        return okv_wal_reader_damaged(reader, reader->offset,
                                      "a batch is not whole, and later ones are", diag);
    return okv_wal_reader_begun(reader, cut, diag);
}

int okv_wal_snapshot_end(struct okv_wal_reader *reader, bool is_ended, uint64_t items,
                         uint64_t expected, struct okv_diag *diag)
{
    bool is_at_end;
    int rc = okv_wal_reader_is_at_end(reader, &is_at_end, diag);

    if (rc)
        return rc;
    if (!is_at_end || !is_ended || items != expected)
        return okv_wal_reader_damaged(reader, reader->offset, "it is not whole", diag);
    return 0;
}
