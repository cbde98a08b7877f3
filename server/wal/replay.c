#include "server/wal/replay.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/restore.h"
#include "server/store/store.h"
#include "shared/base/error.h"

#define PREFIX "log."
#define DIGITS 16
#define FRAME_HEADER sizeof(struct okv_wal_wire_frame)

void okv_wal_segment_name(uint64_t number, char name[OKV_WAL_NAME_SIZE])
{
    snprintf(name, OKV_WAL_NAME_SIZE, PREFIX "%0*" PRIx64, DIGITS, number);
}

/* ---- the segments ---- */

struct segments {
    uint64_t first, last; /* 0: there is none */
    uint64_t count;
};

static int note_segment(const char *name, void *user)
{
    struct segments *segments = user;
    char canonical[OKV_WAL_NAME_SIZE];

    if (strncmp(name, PREFIX, strlen(PREFIX)) != 0)
        return 0;
    uint64_t number = strtoull(name + strlen(PREFIX), NULL, 16);
    okv_wal_segment_name(number, canonical);
    if (number == 0 || strcmp(name, canonical) != 0)
        return 0;
    segments->count++;
    if (segments->first == 0 || number < segments->first)
        segments->first = number;
    if (number > segments->last)
        segments->last = number;
    return 0;
}

static int read_failed(struct okv_diag *diag, uint64_t number, int error)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_segment_name(number, name);
    return okv_diag_set(diag, okv_error_from_errno(-error), "cannot read %s: %s", name,
                        strerror(-error));
}

static int damaged(struct okv_diag *diag, uint64_t number, uint64_t offset, const char *what)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_segment_name(number, name);
    return okv_diag_set(diag, OKV_ECORRUPT,
                        "%s is damaged at byte %" PRIu64 ": %s: restore it from a copy; nothing "
                        "was changed",
                        name, offset, what);
}

static int list_segments(struct okv_wal *wal, struct segments *segments, struct okv_diag *diag)
{
    *segments = (struct segments){0};
    int rc = wal->files->ops->list(wal->files, note_segment, segments);

    if (rc)
        return okv_diag_set(diag, okv_error_from_errno(-rc), "cannot read the directory: %s",
                            strerror(-rc));
    if (segments->count && segments->last - segments->first + 1 != segments->count)
        return okv_diag_set(diag, OKV_ECORRUPT,
                            "a segment of the log is missing between %" PRIx64 " and %" PRIx64,
                            segments->first, segments->last);
    return 0;
}

/* A reader of one segment. */
struct reader {
    struct okv_wal *wal;
    struct okv_file *file;
    struct okv_wal_segment segment;
    bool is_unwritten; /* its header was not durable when the server died, nor anything else */
    uint64_t offset;   /* in the file */
    uint64_t last;     /* position of the last frame, of this segment or the one before */
    uint8_t *bytes;
    uint64_t capacity;
};

/* The header is synced before the first frame is written. So a file that has more, and no header,
 * is damaged. */
static int check_header(struct reader *reader, const uint8_t *bytes, size_t length, uint64_t number,
                        struct okv_diag *diag)
{
    int rc = length >= OKV_WAL_HEADER_SIZE ? okv_wal_segment_decode(bytes, &reader->segment)
                                           : OKV_ECORRUPT;

    reader->is_unwritten = rc == OKV_ECORRUPT && length <= OKV_WAL_HEADER_SIZE;
    if (reader->is_unwritten)
        return 0;
    if (rc == OKV_EVERSION)
        return okv_diag_set(diag, rc, "its log was written by another version of okv-server");
    if (rc)
        return damaged(diag, number, 0, "it has no header");
    return reader->segment.number == number ? 0 : damaged(diag, number, 0, "it is another segment");
}

static int reader_open(struct reader *reader, uint64_t number, struct okv_diag *diag)
{
    uint8_t header[OKV_WAL_HEADER_SIZE + 1];
    char name[OKV_WAL_NAME_SIZE];
    size_t got;

    okv_wal_segment_name(number, name);
    reader->offset = OKV_WAL_HEADER_SIZE;
    int rc = reader->wal->files->ops->open(reader->wal->files, name, &reader->file);
    if (rc)
        return read_failed(diag, number, rc);
    rc = reader->wal->files->ops->read(reader->file, header, sizeof header, 0, &got);
    rc = rc ? read_failed(diag, number, rc) : check_header(reader, header, got, number, diag);
    if (rc)
        reader->wal->files->ops->close(reader->file);
    return rc;
}

static void reader_close(struct reader *reader)
{
    reader->wal->files->ops->close(reader->file);
}

int okv_wal_find(struct okv_wal *wal, bool *is_there, struct okv_diag *diag)
{
    struct reader reader = {.wal = wal};
    struct segments segments;
    int rc = list_segments(wal, &segments, diag);

    *is_there = false;
    for (uint64_t number = segments.first; rc == 0 && number && number <= segments.last; number++) {
        rc = reader_open(&reader, number, diag);
        if (rc)
            return rc;
        reader_close(&reader);
        if (reader.is_unwritten)
            continue;
        wal->segment = reader.segment;
        *is_there = true;
        break;
    }
    wal->segment.number = segments.last;
    return rc;
}

/* ---- frames ---- */

static int reserve(struct reader *reader, uint64_t length)
{
    if (length <= reader->capacity)
        return 0;
    uint8_t *larger = realloc(reader->bytes, length);
    if (!larger)
        return OKV_ENOMEM;
    reader->bytes = larger;
    reader->capacity = length;
    return 0;
}

/* Reads `length` bytes at the reader's offset. 1: the file has fewer. */
static int read_bytes(struct reader *reader, uint64_t at, uint64_t length, struct okv_diag *diag)
{
    size_t got;
    int rc = reserve(reader, length);

    if (rc)
        return rc;
    rc = reader->wal->files->ops->read(reader->file, reader->bytes, length, at, &got);
    if (rc)
        return read_failed(diag, reader->segment.number, rc);
    return got < length;
}

/* Reads the frame at `offset`, which has `position`, into reader->bytes. 1: there is no valid one.
 */
static int read_frame(struct reader *reader, uint64_t offset, uint64_t position,
                      struct okv_wal_frame *frame, struct okv_diag *diag)
{
    int rc = read_bytes(reader, offset, FRAME_HEADER, diag);

    if (rc)
        return rc;
    if (!okv_wal_frame_peek(reader->bytes, OKV_WAL_FRAME_MAX, frame))
        return 1;
    if (frame->position != position)
        return 1;
    rc = read_bytes(reader, offset, frame->length, diag);
    if (rc)
        return rc;
    return !okv_wal_frame_check(frame, reader->segment.number, position, reader->bytes);
}

/* Whether a valid frame follows behind an invalid one: then that one was whole once. */
static int find_later(struct reader *reader, bool *is_there, struct okv_diag *diag)
{
    uint64_t offset = reader->offset;
    struct okv_wal_frame frame;
    int rc;

    *is_there = false;
    do {
        offset += OKV_WAL_ALIGNMENT;
        uint64_t position = reader->segment.position + offset - OKV_WAL_HEADER_SIZE;
        rc = read_frame(reader, offset, position, &frame, diag);
        if (rc < 0)
            return rc;
        if (rc == 0) {
            *is_there = true;
            return 0;
        }
        rc = read_bytes(reader, offset, FRAME_HEADER, diag);
    } while (rc == 0);
    return rc < 0 ? rc : 0;
}

static int apply_records(struct reader *reader, struct okv_store_work *work, uint64_t length,
                         struct okv_wal_found *found, struct okv_diag *diag)
{
    struct okv_wal_record record;
    uint64_t at = FRAME_HEADER;

    while (at < length) {
        int rc = okv_wal_record_decode(reader->bytes, length, &at, &record);
        if (rc)
            return damaged(diag, reader->segment.number, reader->offset + at,
                           "a record makes no sense");
        const struct okv_store_restored item = {
            .key = record.key,
            .key_length = record.key_length,
            .value = record.kind == OKV_WAL_PUT ? record.value : NULL,
            .value_length = record.value_length,
            .version = record.version,
            .expiry_ms = record.expiry_ms,
        };
        rc = okv_store_restore(reader->wal->store, work, &item);
        if (rc)
            return okv_diag_set(diag, rc,
                                "the items of the log do not fit (%s): give the "
                                "database more memory, as it had",
                                okv_error_text(rc));
        found->records++;
    }
    return 0;
}

/* The next segment writes it again (wal.c). */
static void keep_frame(struct okv_wal *wal, struct reader *reader, uint64_t length)
{
    uint8_t *bytes = wal->bytes;
    uint64_t capacity = wal->capacity;

    wal->bytes = reader->bytes;
    wal->capacity = reader->capacity;
    wal->used = length;
    reader->bytes = bytes;
    reader->capacity = capacity;
}

static int end_of_segment(struct reader *reader, struct okv_wal_found *found, struct okv_diag *diag)
{
    bool is_there;
    int rc = find_later(reader, &is_there, diag);

    if (rc)
        return rc;
    if (is_there)
        return damaged(diag, reader->segment.number, reader->offset,
                       "a batch is not whole, and later ones are");
    rc = read_bytes(reader, reader->offset, 1, diag);
    if (rc < 0)
        return rc;
    found->is_cut = rc == 0; /* of the last segment, in the end */
    return 0;
}

static int replay_segment(struct reader *reader, struct okv_store_work *work,
                          struct okv_wal_found *found, struct okv_diag *diag)
{
    struct okv_wal *wal = reader->wal;
    struct okv_wal_frame frame;
    int rc;

    /* It begins with the last frame of the segment before, which may be lost there. */
    if (reader->segment.position != wal->position && reader->segment.position != reader->last)
        return damaged(diag, reader->segment.number, 0, "it does not follow the one before");
    wal->position = reader->segment.position;
    while ((rc = read_frame(reader, reader->offset, wal->position, &frame, diag)) == 0) {
        rc = apply_records(reader, work, frame.length, found, diag);
        if (rc)
            return rc;
        keep_frame(wal, reader, frame.length);
        reader->last = wal->position;
        reader->offset += frame.length;
        wal->position += frame.length;
        found->frames++;
        found->bytes += frame.length;
        found->clock_ms = frame.clock_ms;
        found->wall_ms = frame.wall_ms;
    }
    return rc < 0 ? rc : end_of_segment(reader, found, diag);
}

static int replay_number(struct reader *reader, uint64_t number, struct okv_store_work *work,
                         struct okv_wal_found *found, struct okv_diag *diag)
{
    int rc = reader_open(reader, number, diag);

    if (rc)
        return rc;
    if (!reader->is_unwritten)
        rc = replay_segment(reader, work, found, diag);
    reader_close(reader);
    found->segments++;
    return rc;
}

int okv_wal_replay(struct okv_wal *wal, struct okv_store *store, struct okv_wal_found *found,
                   struct okv_diag *diag)
{
    struct reader reader = {.wal = wal};
    struct okv_store_work work;
    struct segments segments;

    *found = (struct okv_wal_found){0};
    wal->store = store;
    int rc = list_segments(wal, &segments, diag);
    if (rc || segments.count == 0)
        return rc;
    rc = okv_store_work_init(&work, store->table.bucket_size);
    if (rc)
        return rc;
    wal->position = reader.last = wal->segment.position;
    for (uint64_t number = segments.first; rc == 0 && number <= segments.last; number++)
        rc = replay_number(&reader, number, &work, found, diag);
    if (wal->used > FRAME_HEADER)
        wal->position = reader.last; /* of the frame that the next segment begins with */
    free(reader.bytes);
    okv_store_work_fini(&work);
    return rc;
}
