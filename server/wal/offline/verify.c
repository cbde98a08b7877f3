#include "server/wal/offline/verify.h"

#include <stdlib.h>

#include "server/wal/blob/blobs.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/reader.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"

#define FRAME_HEADER sizeof(struct okv_wal_wire_frame)

struct walk {
    struct okv_files *files;
    const struct okv_wal_report *report;
    int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame, uint8_t *bytes,
                 struct okv_diag *diag);
    void *user;
    struct okv_wal_survey *survey;
    struct okv_wal_reader reader; /* of the file that is read */
    char name[OKV_WAL_NAME_SIZE]; /* its name */
    uint64_t size;
    bool is_snapshot;
    bool is_damaged;   /* the file, as far as it was read */
    bool has_position; /* survey->position is known */
    uint64_t limit;    /* position from which on the next segment counts */
};

static void damaged(struct walk *walk, uint64_t from, uint64_t to, const struct okv_diag *why)
{
    walk->survey->damages++;
    walk->is_damaged = true;
    walk->report->damaged(walk->report->user, walk->name, from, to, why->text);
}

/* ---- frames ---- */

/* The bucket whose puts follow, and what a frame of a snapshot adds to the survey. */
struct part {
    bool has_bucket;
    struct okv_wal_record bucket;
    uint64_t items;
    bool is_ended;
    uint64_t expected;
};

/* As recovery/snapshot.c and store/restore.c judge it. */
static int check_snapshot_record(const struct walk *walk, const struct okv_wal_record *record,
                                 struct part *part)
{
    const struct okv_wal_header *header = &walk->survey->header;

    switch (record->kind) {
    case OKV_WAL_BUCKET:
        part->has_bucket = true;
        part->bucket = *record;
        return header->bucket_count && record->bucket >= header->bucket_count ? OKV_ECORRUPT : 0;
    case OKV_WAL_PUT:
    case OKV_WAL_LONG:
        part->items++;
        if (!part->has_bucket || record->version > part->bucket.version)
            return OKV_ECORRUPT;
        if (header->bucket_count == 0)
            return 0;
        return okv_linear_bucket(okv_hash_key(record->key, record->key_length, header->hash_seed),
                                 header->bucket_count) == part->bucket.bucket
                   ? 0
                   : OKV_ECORRUPT;
    case OKV_WAL_END:
        part->has_bucket = false;
        part->is_ended = true;
        part->expected = record->version;
        return 0;
    case OKV_WAL_CLIENT:
    case OKV_WAL_REPLY:
    case OKV_WAL_FORGOTTEN:
        part->has_bucket = false;
        return 0;
    case OKV_WAL_DELETE:
    case OKV_WAL_RAISE:
    case OKV_WAL_CLEAN:
        break;
    }
    return OKV_ECORRUPT;
}

/* Damage to a value is none to its frame. */
static int check_long(struct walk *walk, const struct okv_wal_record *record, bool *is_lost,
                      struct okv_diag *why)
{
    struct okv_wal_long at;

    if (record->kind != OKV_WAL_LONG)
        return 0;
    okv_wal_long_decode(record->value, &at);
    int rc = okv_values_check(walk->files, &at, why);
    *is_lost = rc == OKV_ECORRUPT;
    if (*is_lost)
        damaged(walk, 0, 0, why);
    return *is_lost ? 0 : rc;
}

static int check_snapshot_frame(struct walk *walk, uint64_t length, struct okv_diag *why)
{
    const struct okv_wal_reader *reader = &walk->reader;
    struct okv_wal_survey *survey = walk->survey;
    struct part part = {0};
    struct okv_wal_record record;

    for (uint64_t at = FRAME_HEADER; at < length;) {
        uint64_t begin = at;
        bool is_lost;
        int rc = okv_wal_record_decode(reader->bytes, length, &at, &record);
        if (rc == 0)
            rc = check_snapshot_record(walk, &record, &part);
        if (rc == 0 && (rc = check_long(walk, &record, &is_lost, why)) != 0)
            return rc;
        if (rc)
            return okv_wal_reader_damaged(reader, reader->offset - length + begin,
                                          "a record makes no sense", why);
    }
    survey->items += part.items;
    if (part.is_ended) {
        survey->is_ended = true;
        survey->expected = part.expected;
    }
    return 0;
}

static int check_segment_frame(struct walk *walk, uint64_t length, struct okv_diag *why)
{
    struct okv_wal_record record;
    uint64_t at = FRAME_HEADER, records = 0;

    while (at < length) {
        bool is_lost = false;
        int rc = okv_wal_segment_record(&walk->reader, length, &at, &record, why);
        if (rc == 0)
            rc = check_long(walk, &record, &is_lost, why);
        if (rc)
            return rc;
        records += okv_wal_is_change(&record) && !is_lost;
    }
    walk->survey->records += records;
    walk->survey->frames++;
    return 0;
}

static int take_frame(struct walk *walk, const struct okv_wal_frame *frame, struct okv_diag *diag)
{
    const struct okv_wal_reader *reader = &walk->reader;
    struct okv_wal_survey *survey = walk->survey;
    struct okv_diag why;
    int rc = walk->is_snapshot ? check_snapshot_frame(walk, frame->length, &why)
                               : check_segment_frame(walk, frame->length, &why);

    if (rc && rc != OKV_ECORRUPT) {
        *diag = why;
        return rc;
    }
    if (!walk->is_snapshot) {
        walk->has_position = true;
        survey->position = okv_wal_reader_position(reader);
    }
    if (rc) {
        damaged(walk, reader->offset - frame->length, reader->offset, &why);
        return 0;
    }
    survey->bytes += frame->length;
    survey->wall_ms = frame->wall_ms;
    return walk->frame ? walk->frame(walk->user, walk->is_snapshot, frame, reader->bytes, diag) : 0;
}

/* There is no valid frame at the reader's offset. Moves behind what is damaged there; *goes_on: to
 * another frame. */
static int skip(struct walk *walk, bool *goes_on, struct okv_diag *diag)
{
    struct okv_wal_reader *reader = &walk->reader;
    struct okv_wal_survey *survey = walk->survey;
    struct okv_diag why;
    uint64_t later = 0, cut = 0;
    int rc = walk->is_snapshot ? okv_wal_snapshot_end(reader, survey->is_ended, survey->items,
                                                      survey->expected, &why)
                               : okv_wal_segment_end(reader, &cut, &why);

    *goes_on = false;
    if (rc == 0) {
        survey->cut = cut; /* of the last segment, in the end */
        return 0;
    }
    if (rc != OKV_ECORRUPT) {
        *diag = why;
        return rc;
    }
    rc = okv_wal_reader_find_later(reader, 0, &later, diag);
    if (rc)
        return rc;
    uint64_t to = later ? later : walk->size;
    /* That items are missing at the end is no news then. */
    if (to > reader->offset || !walk->is_damaged)
        damaged(walk, reader->offset, to, &why);
    *goes_on = later != 0;
    reader->offset = to;
    return 0;
}

/* The next segment has what follows. */
static bool is_superseded(const struct walk *walk)
{
    const struct okv_wal_reader *reader = &walk->reader;

    return !reader->is_adrift && okv_wal_reader_position(reader) >= walk->limit;
}

static int walk_frames(struct walk *walk, struct okv_diag *diag)
{
    struct okv_wal_frame frame;
    bool goes_on = true;
    int rc = 0;

    while (rc == 0 && goes_on && !is_superseded(walk)) {
        rc = okv_wal_reader_next(&walk->reader, &frame, diag);
        if (rc == 0)
            rc = take_frame(walk, &frame, diag);
        else if (rc == 1)
            rc = skip(walk, &goes_on, diag);
    }
    return rc;
}

/* ---- files ---- */

static int open_file(struct walk *walk, const char *prefix, uint64_t number, size_t *got,
                     struct okv_diag *diag)
{
    struct okv_wal_reader *reader = &walk->reader;

    okv_wal_name(prefix, number, walk->name);
    walk->is_damaged = false;
    int rc = okv_wal_reader_open(reader, walk->files, walk->name, got, diag);
    if (rc)
        return rc;
    reader->number = number;
    reader->first = 0;
    reader->is_adrift = false;
    rc = walk->files->ops->size(reader->file, &walk->size);
    if (rc == 0)
        return 0;
    okv_wal_reader_close(reader);
    return okv_diag_set(diag, okv_error_from_errno(-rc), "cannot read %s", walk->name);
}

static void take_base(struct walk *walk, const struct okv_wal_header *header)
{
    walk->survey->base = *header;
    walk->survey->has_base = true;
}

static void without_header(struct walk *walk, const struct okv_diag *why)
{
    damaged(walk, 0, walk->size < OKV_WAL_HEADER_SIZE ? walk->size : OKV_WAL_HEADER_SIZE, why);
}

/* Frames of a snapshot have positions from 0 on, and can be read without its header. */
static int walk_snapshot_file(struct walk *walk, size_t got, uint64_t number, struct okv_diag *diag)
{
    struct okv_wal_survey *survey = walk->survey;
    struct okv_wal_header header = {0};
    struct okv_diag why;
    bool has_header =
        got == OKV_WAL_HEADER_SIZE && okv_wal_header_decode(walk->reader.bytes, &header) == 0;
    int rc = okv_wal_snapshot_header(&walk->reader, got, number, &header, &why);

    if (rc == OKV_EVERSION) {
        *diag = why;
        return rc;
    }
    if (rc && has_header) {
        damaged(walk, 0, walk->size, &why);
        return 0;
    }
    if (rc) {
        without_header(walk, &why);
        return walk_frames(walk, diag);
    }
    survey->header = header;
    survey->position = header.position;
    walk->has_position = true;
    take_base(walk, &header);
    return walk_frames(walk, diag);
}

static int walk_snapshot(struct walk *walk, uint64_t number, struct okv_diag *diag)
{
    size_t got;
    int rc = open_file(walk, OKV_WAL_SNAPSHOT, number, &got, diag);

    if (rc)
        return rc;
    walk->is_snapshot = true;
    walk->limit = UINT64_MAX;
    walk->survey->snapshot = number;
    rc = walk_snapshot_file(walk, got, number, diag);
    okv_wal_reader_close(&walk->reader);
    walk->is_snapshot = false;
    return rc;
}

/* The header is whole. False: the file has no place in this log. */
static bool fits(struct walk *walk, const struct okv_wal_header *header)
{
    struct okv_wal_survey *survey = walk->survey;
    struct okv_diag why;
    uint64_t position = walk->has_position ? survey->position : header->position;

    if (!survey->has_base)
        take_base(walk, header);
    int rc = okv_wal_segment_database(&walk->reader, header, &survey->base, &why);
    if (rc) {
        damaged(walk, 0, walk->size, &why);
        return false;
    }
    rc = okv_wal_segment_follows(&walk->reader, header, position, &why);
    if (rc)
        damaged(walk, 0, 0, &why);
    return true;
}

/* Frames say their positions themselves. */
static int walk_adrift(struct walk *walk, uint64_t number, struct okv_diag *diag)
{
    struct okv_wal_header lost = walk->survey->base;
    int rc = 0;

    lost.number = number;
    if (walk->survey->has_base)
        rc = okv_wal_segment_limit(walk->files, &lost, &walk->limit, diag);
    walk->reader.is_adrift = true;
    return rc ? rc : walk_frames(walk, diag);
}

static int walk_segment_file(struct walk *walk, size_t got, uint64_t number, struct okv_diag *diag)
{
    struct okv_wal_header header;
    struct okv_diag why;
    bool has_header =
        got == OKV_WAL_HEADER_SIZE && okv_wal_header_decode(walk->reader.bytes, &header) == 0;
    int rc = okv_wal_segment_header(&walk->reader, got, number, &header, &why);

    if (rc && rc != OKV_ECORRUPT) {
        *diag = why;
        return rc;
    }
    if (rc && has_header) {
        damaged(walk, 0, walk->size, &why);
        return 0;
    }
    if (rc) {
        without_header(walk, &why);
        return walk_adrift(walk, number, diag);
    }
    if (!fits(walk, &header))
        return 0;
    walk->survey->position = header.position;
    walk->has_position = true;
    rc = okv_wal_segment_limit(walk->files, &header, &walk->limit, diag);
    return rc ? rc : walk_frames(walk, diag);
}

static int walk_segment(struct walk *walk, uint64_t number, struct okv_diag *diag)
{
    size_t got;
    int rc = open_file(walk, OKV_WAL_SEGMENT, number, &got, diag);

    if (rc)
        return rc;
    walk->survey->segments++;
    walk->limit = UINT64_MAX;
    rc = walk_segment_file(walk, got, number, diag);
    okv_wal_reader_close(&walk->reader);
    return rc;
}

static int walk_segments(struct walk *walk, uint64_t first, struct okv_diag *diag)
{
    uint64_t number = first;
    int rc;

    while ((rc = okv_wal_list_from(walk->files, &number, diag)) == 0 && number) {
        rc = walk_segment(walk, number, diag);
        if (rc || number++ == UINT64_MAX)
            break;
    }
    return rc;
}

int okv_wal_walk(struct okv_files *files, const struct okv_wal_report *report,
                 int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame,
                              uint8_t *bytes, struct okv_diag *diag),
                 void *user, struct okv_wal_survey *out, struct okv_diag *diag)
{
    struct walk walk = {
        .files = files, .report = report, .frame = frame, .user = user, .survey = out};
    struct okv_wal_listing listing;
    struct okv_diag why;

    *out = (struct okv_wal_survey){0};
    int rc = okv_wal_list(files, &listing, &why);
    if (rc == OKV_ECORRUPT) {
        damaged(&walk, 0, 0, &why);
    } else if (rc) {
        *diag = why;
        return rc;
    }
    rc = listing.snapshot ? walk_snapshot(&walk, listing.snapshot, diag) : 0;
    if (rc == 0)
        rc = walk_segments(&walk, listing.snapshot ? listing.snapshot : 1, diag);
    free(walk.reader.bytes);
    return rc;
}
