#include "server/wal/recovery/scan.h"

#include <stdlib.h>

#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"

int okv_wal_scan_damaged(struct okv_wal_scan *scan, uint64_t from, uint64_t to,
                         const struct okv_diag *why, struct okv_diag *diag)
{
    if (!scan->report)
        return okv_diag_set(diag, OKV_ECORRUPT, "%s", why->text);
    scan->damages++;
    scan->is_damaged = true;
    scan->report->damaged(scan->report->user, scan->name, from, to, why->text);
    return 0;
}

int okv_wal_scan_begin(struct okv_wal_scan *scan, struct okv_files *files,
                       const struct okv_wal_damage_report *report, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};

    *scan = (struct okv_wal_scan){.files = files, .report = report};
    int rc = okv_wal_list(files, &scan->listing, &why);
    scan->next = scan->listing.first;
    if (rc == OKV_ECORRUPT)
        return okv_wal_scan_damaged(scan, 0, 0, &why, diag);
    return rc ? okv_diag_set(diag, rc, "%s", why.text) : 0;
}

void okv_wal_scan_end(struct okv_wal_scan *scan)
{
    okv_wal_reader_close(&scan->reader);
    free(scan->reader.bytes);
}

/* ---- files ---- */

static int get_size(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    int rc = scan->files->ops->size(scan->reader.file, &scan->size, NULL);

    return rc ? okv_diag_set(diag, rc, "cannot read %s", scan->name) : 0;
}

static int open_file(struct okv_wal_scan *scan, bool is_snapshot, uint64_t number,
                     struct okv_diag *diag)
{
    okv_wal_reader_close(&scan->reader);
    okv_wal_name(is_snapshot ? OKV_WAL_SNAPSHOT : OKV_WAL_SEGMENT, number, scan->name);
    scan->is_snapshot = is_snapshot;
    scan->is_damaged = false;
    scan->limit = UINT64_MAX;
    int rc =
        okv_wal_reader_open(&scan->reader, scan->files, number ? scan->name : OKV_WAL_PART, diag);
    return rc || !scan->report ? rc : get_size(scan, diag);
}

/* OKV_WAL_NONE: nothing of the file can be used. */
static int take_header(struct okv_wal_scan *scan, uint64_t number, struct okv_diag *diag)
{
    struct okv_diag why = {.text = ""};
    int rc = okv_wal_check_header(&scan->reader, scan->is_snapshot, number, &scan->header, &why);

    if (rc && rc != OKV_ECORRUPT)
        return okv_diag_set(diag, rc, "%s", why.text);
    if (rc == 0 || scan->header.number == 0) {
        uint64_t end = scan->size < OKV_WAL_HEADER_SIZE ? scan->size : OKV_WAL_HEADER_SIZE;
        return rc ? okv_wal_scan_damaged(scan, 0, end, &why, diag) : 0;
    }
    rc = okv_wal_scan_damaged(scan, 0, scan->size, &why, diag);
    return rc ? rc : OKV_WAL_NONE;
}

static void take_base(struct okv_wal_scan *scan)
{
    if (!scan->has_base)
        scan->base = scan->header;
    scan->has_base = true;
}

static void take_position(struct okv_wal_scan *scan)
{
    scan->position = scan->header.position;
    scan->epoch = scan->header.epoch;
    scan->has_position = scan->has_epoch = true;
}

/* Frames of a snapshot have positions from 0 on, and can be read without its header. */
int okv_wal_scan_snapshot(struct okv_wal_scan *scan, const char *import, struct okv_diag *diag)
{
    uint64_t number = import ? 0 : scan->listing.snapshot;
    int rc = open_file(scan, true, number, diag);

    if (import)
        scan->reader.name = import;
    if (rc == 0)
        rc = take_header(scan, number, diag);
    if (rc || scan->header.number == 0)
        return rc;
    take_base(scan);
    take_position(scan);
    return 0;
}

/* Where the next segment of the same database begins, which supersedes what this one has from there
 * on; UINT64_MAX: there is no valid one. */
static int find_limit(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    struct okv_wal_reader reader = {.files = scan->files};
    struct okv_wal_header header;
    char name[OKV_WAL_NAME_SIZE];
    struct okv_diag why;

    if (!scan->next)
        return 0;
    okv_wal_name(OKV_WAL_SEGMENT, scan->next, name);
    int rc = okv_wal_reader_open(&reader, scan->files, name, diag);
    if (rc == 0 && okv_wal_check_header(&reader, false, scan->next, &header, &why) == 0 &&
        okv_wal_check_database(&reader, &header, &scan->base, &why) == 0)
        scan->limit = header.position;
    okv_wal_reader_close(&reader);
    free(reader.bytes);
    return rc;
}

/* Frames tell their positions themselves. */
static int go_adrift(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    scan->reader.is_adrift = true;
    scan->has_epoch = false;
    return scan->has_base ? find_limit(scan, diag) : 0;
}

/* The header is valid. OKV_WAL_NONE: the file does not belong to this log. */
static int take_place(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    struct okv_diag why;

    take_base(scan);
    int rc = okv_wal_check_database(&scan->reader, &scan->header, &scan->base, &why);
    if (rc) {
        rc = okv_wal_scan_damaged(scan, 0, scan->size, &why, diag);
        return rc ? rc : OKV_WAL_NONE;
    }
    if ((scan->has_position && scan->header.position != scan->position) ||
        (scan->has_epoch && scan->header.epoch != scan->epoch)) {
        okv_wal_reader_damaged(&scan->reader, 0, "it does not follow the one before", &why);
        rc = okv_wal_scan_damaged(scan, 0, 0, &why, diag);
    }
    take_position(scan);
    return rc ? rc : find_limit(scan, diag);
}

static int take_segment(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    uint64_t number = scan->next++;
    int rc = open_file(scan, false, number, diag);

    if (rc)
        return rc;
    scan->segments++;
    rc = scan->next ? okv_wal_list_from(scan->files, &scan->next, diag) : 0;
    if (rc == 0)
        rc = take_header(scan, number, diag);
    if (rc)
        return rc;
    return scan->header.number ? take_place(scan, diag) : go_adrift(scan, diag);
}

int okv_wal_scan_segment(struct okv_wal_scan *scan, struct okv_diag *diag)
{
    int rc = OKV_WAL_NONE;

    while (rc == OKV_WAL_NONE && scan->next)
        rc = take_segment(scan, diag);
    return rc;
}

/* ---- frames ---- */

/* Whether the next segment has what follows. */
static bool is_superseded(const struct okv_wal_scan *scan)
{
    return !scan->reader.is_adrift && okv_wal_reader_position(&scan->reader) >= scan->limit;
}

/* There is no valid frame. OKV_WAL_NONE: it is the end of the file. */
static int check_end(struct okv_wal_scan *scan, struct okv_diag *why)
{
    struct okv_wal_reader *reader = &scan->reader;
    bool is_at_end;
    int rc = scan->is_snapshot ? okv_wal_reader_is_at_end(reader, &is_at_end, why)
                               : okv_wal_check_segment_end(reader, &scan->cut, why);

    if (rc)
        return rc;
    if (scan->is_snapshot && !is_at_end)
        return okv_wal_reader_damaged(reader, reader->offset, "it is not whole", why);
    return OKV_WAL_NONE;
}

/* Moves past what is damaged at the reader's offset. OKV_WAL_NONE: there is no later frame. */
static int skip(struct okv_wal_scan *scan, const struct okv_diag *why, struct okv_diag *diag)
{
    struct okv_wal_reader *reader = &scan->reader;
    uint64_t later;

    if (!scan->report)
        return okv_wal_scan_damaged(scan, 0, 0, why, diag);
    int rc = okv_wal_reader_find_later(reader, 0, &later, diag);
    if (rc)
        return rc;
    uint64_t to = later ? later : scan->size;
    okv_wal_scan_damaged(scan, reader->offset, to, why, diag);
    reader->offset = to;
    scan->has_epoch = false; /* one may have begun there */
    return later ? 0 : OKV_WAL_NONE;
}

/* The reader moved past a valid frame. */
static int take_frame(struct okv_wal_scan *scan, const struct okv_wal_frame *frame,
                      struct okv_diag *diag)
{
    uint64_t begin = scan->reader.begin;
    struct okv_diag why;
    int rc = scan->has_epoch ? okv_wal_check_epoch(&scan->reader, frame, scan->epoch, &why) : 0;

    scan->epoch = frame->epoch;
    scan->has_epoch = true;
    if (!scan->is_snapshot) {
        scan->position = okv_wal_reader_position(&scan->reader);
        scan->has_position = true;
    }
    return rc ? okv_wal_scan_damaged(scan, begin, begin, &why, diag) : 0;
}

int okv_wal_scan_frame(struct okv_wal_scan *scan, struct okv_wal_frame *frame,
                       struct okv_diag *diag)
{
    struct okv_diag why;
    int rc = 0;

    while (rc == 0 && !is_superseded(scan)) {
        rc = okv_wal_reader_next(&scan->reader, frame, diag);
        if (rc == 0)
            return take_frame(scan, frame, diag);
        if (rc != OKV_WAL_NONE)
            return rc;
        rc = check_end(scan, &why);
        if (rc == OKV_ECORRUPT)
            rc = skip(scan, &why, diag);
        else if (rc != OKV_WAL_NONE)
            okv_diag_set(diag, rc, "%s", why.text);
    }
    return rc ? rc : OKV_WAL_NONE;
}

int okv_wal_scan_snapshot_end(struct okv_wal_scan *scan, bool is_ended, uint64_t items,
                              uint64_t expected, struct okv_diag *diag)
{
    uint64_t at = scan->reader.offset;
    struct okv_diag why;

    /* That items are missing is no news in a file that is damaged. */
    if ((is_ended && items == expected) || scan->is_damaged)
        return 0;
    okv_wal_reader_damaged(&scan->reader, at, "it is not whole", &why);
    return okv_wal_scan_damaged(scan, at, at, &why, diag);
}
