#include "server/wal/offline/verify.h"

#include "server/wal/blob/files.h"
#include "server/wal/frame.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "shared/format/linear.h"

struct verify {
    struct okv_wal_scan scan;
    int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame, uint8_t *bytes,
                 struct okv_diag *diag);
    void *user;
    struct okv_wal_survey *survey;
};

/* ---- frames ---- */

/* As store/recover.c judges it. Without a header, `size`, of the file, bounds the numbers. */
static bool is_misplaced(const struct okv_wal_header *header, uint64_t size,
                         const struct okv_wal_record *bucket, const struct okv_wal_record *record)
{
    uint64_t count =
        header->bucket_count ? okv_wal_bucket_count(header) : okv_wal_buckets_max(size);

    if (record->kind == OKV_WAL_BUCKET)
        return record->bucket >= count;
    return header->bucket_count && okv_wal_is_change(record) &&
           okv_linear_bucket(okv_hash_key(record->key, record->key_length, header->hash_seed),
                             count) != bucket->bucket;
}

/* Damage to a blob does not make its frame damaged. */
static int check_long(struct verify *verify, const struct okv_wal_record *record, bool *is_lost,
                      struct okv_diag *diag)
{
    struct okv_wal_long at;
    struct okv_diag why;

    *is_lost = false;
    if (record->kind != OKV_WAL_LONG)
        return 0;
    okv_wal_long_decode(record->value, &at);
    int rc = okv_blob_file_check(verify->scan.files, &at, &why);
    *is_lost = rc == OKV_ECORRUPT;
    if (*is_lost)
        return okv_wal_scan_damaged(&verify->scan, 0, 0, &why, diag);
    return rc ? okv_diag_set(diag, rc, "%s", why.text) : 0;
}

/* What the frame adds to the survey counts only if all of it is valid. */
static int check_snapshot_frame(struct verify *verify, uint64_t length, struct okv_diag *why)
{
    const struct okv_wal_reader *reader = &verify->scan.reader;
    struct okv_wal_survey survey = *verify->survey;
    struct okv_wal_record bucket = {.key_length = 0}, record;

    for (uint64_t at = OKV_WAL_FRAME_HEADER; at < length;) {
        uint64_t begin = at;
        bool is_lost;
        int rc = okv_wal_snapshot_record(reader, length, &at, &bucket, &record);
        if (rc || is_misplaced(&survey.header, verify->scan.size, &bucket, &record))
            return okv_wal_reader_damaged(reader, reader->offset - length + begin,
                                          "a record makes no sense", why);
        rc = check_long(verify, &record, &is_lost, why);
        if (rc)
            return rc;
        survey.items += okv_wal_is_change(&record);
        if (record.kind == OKV_WAL_END) {
            survey.is_ended = true;
            survey.expected = record.version;
        }
    }
    *verify->survey = survey;
    return 0;
}

static int check_segment_frame(struct verify *verify, uint64_t length, struct okv_diag *why)
{
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER, records = 0;

    while (at < length) {
        bool is_lost;
        int rc = okv_wal_segment_record(&verify->scan.reader, length, &at, &record, why);
        if (rc == 0)
            rc = check_long(verify, &record, &is_lost, why);
        if (rc)
            return rc;
        records += okv_wal_is_change(&record) && !is_lost;
    }
    verify->survey->records += records;
    verify->survey->frames++;
    return 0;
}

static int check_frame(struct verify *verify, const struct okv_wal_frame *frame,
                       struct okv_diag *diag)
{
    struct okv_wal_scan *scan = &verify->scan;
    struct okv_diag why = {.text = ""};
    int rc = scan->is_snapshot ? check_snapshot_frame(verify, frame->length, &why)
                               : check_segment_frame(verify, frame->length, &why);

    if (rc == OKV_ECORRUPT)
        return okv_wal_scan_damaged(scan, scan->reader.begin, scan->reader.offset, &why, diag);
    if (rc)
        return okv_diag_set(diag, rc, "%s", why.text);
    verify->survey->bytes += frame->length;
    verify->survey->wall_ms = frame->wall_ms;
    return verify->frame
               ? verify->frame(verify->user, scan->is_snapshot, frame, scan->reader.bytes, diag)
               : 0;
}

static int check_frames(struct verify *verify, struct okv_diag *diag)
{
    struct okv_wal_frame frame;
    int rc = 0;

    while (rc == 0 && (rc = okv_wal_scan_frame(&verify->scan, &frame, diag)) == 0)
        rc = check_frame(verify, &frame, diag);
    return rc == OKV_WAL_NONE ? 0 : rc;
}

/* ---- files ---- */

static int check_snapshot(struct verify *verify, struct okv_diag *diag)
{
    struct okv_wal_scan *scan = &verify->scan;
    struct okv_wal_survey *survey = verify->survey;
    int rc = okv_wal_scan_snapshot(scan, NULL, diag);

    survey->snapshot = scan->listing.snapshot;
    if (rc)
        return rc == OKV_WAL_NONE ? 0 : rc;
    if (scan->header.number)
        survey->header = scan->header;
    rc = check_frames(verify, diag);
    return rc ? rc
              : okv_wal_scan_snapshot_end(scan, survey->is_ended, survey->items, survey->expected,
                                          diag);
}

static int check_segments(struct verify *verify, struct okv_diag *diag)
{
    int rc = 0;

    while (rc == 0 && (rc = okv_wal_scan_segment(&verify->scan, diag)) == 0)
        rc = check_frames(verify, diag);
    return rc == OKV_WAL_NONE ? 0 : rc;
}

int okv_wal_verify(struct okv_files *files, const struct okv_wal_damage_report *report,
                   int (*frame)(void *user, bool is_of_snapshot, const struct okv_wal_frame *frame,
                                uint8_t *bytes, struct okv_diag *diag),
                   void *user, struct okv_wal_survey *out, struct okv_diag *diag)
{
    struct verify verify = {.frame = frame, .user = user, .survey = out};
    struct okv_wal_scan *scan = &verify.scan;

    *out = (struct okv_wal_survey){0};
    int rc = okv_wal_scan_begin(scan, files, report, diag);
    if (rc == 0 && scan->listing.snapshot)
        rc = check_snapshot(&verify, diag);
    if (rc == 0)
        rc = check_segments(&verify, diag);
    out->base = scan->base;
    out->has_base = scan->has_base;
    out->segments = scan->segments;
    out->position = scan->position;
    out->cut = scan->cut;
    out->damages = scan->damages;
    okv_wal_scan_end(scan);
    return rc;
}
