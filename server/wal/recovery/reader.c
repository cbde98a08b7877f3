#include "server/wal/recovery/reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/wal/frame.h"
#include "shared/base/error.h"

#define WINDOW (UINT64_C(1) << 16)

static int read_failed(const struct okv_wal_reader *reader, int rc, const struct okv_diag *why,
                       struct okv_diag *diag)
{
    return rc ? okv_diag_set(diag, rc, "cannot read %s: %s", reader->name, why->text) : 0;
}

int okv_wal_reader_damaged(const struct okv_wal_reader *reader, uint64_t offset, const char *what,
                           struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_ECORRUPT, "%s is damaged at byte %" PRIu64 ": %s", reader->name,
                        offset, what);
}

static int reserve(struct okv_wal_reader *reader, uint64_t length, struct okv_diag *diag)
{
    if (length <= reader->capacity)
        return 0;
    uint8_t *larger = realloc(reader->bytes, length);
    if (!larger)
        return okv_diag_set(diag, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    reader->bytes = larger;
    reader->capacity = length;
    return 0;
}

/* Reads up to `length` bytes to `place` bytes after reader->bytes. */
static int read_bytes_to(struct okv_wal_reader *reader, uint64_t place, uint64_t at,
                         uint64_t length, size_t *got, struct okv_diag *diag)
{
    struct okv_diag why;
    int rc = reserve(reader, place + length, diag);

    if (rc)
        return rc;
    rc = reader->files->ops->read(reader->file, reader->bytes + place, length, at, got, &why);
    return read_failed(reader, rc, &why, diag);
}

static int read_bytes(struct okv_wal_reader *reader, uint64_t at, uint64_t length, size_t *got,
                      struct okv_diag *diag)
{
    return read_bytes_to(reader, 0, at, length, got, diag);
}

int okv_wal_reader_open(struct okv_wal_reader *reader, struct okv_files *files, const char *name,
                        struct okv_diag *diag)
{
    struct okv_diag why;

    reader->files = files;
    reader->name = name;
    reader->offset = OKV_WAL_HEADER_SIZE;
    reader->is_adrift = false;
    int rc = files->ops->open(files, name, &reader->file, &why);
    if (rc) {
        reader->file = NULL;
        return read_failed(reader, rc, &why, diag);
    }
    rc = read_bytes(reader, 0, OKV_WAL_HEADER_SIZE, &reader->header_length, diag);
    if (rc)
        okv_wal_reader_close(reader);
    return rc;
}

void okv_wal_reader_close(struct okv_wal_reader *reader)
{
    if (reader->file)
        reader->files->ops->close(reader->file);
    reader->file = NULL;
}

uint64_t okv_wal_reader_position(const struct okv_wal_reader *reader)
{
    return reader->first + reader->offset - OKV_WAL_HEADER_SIZE;
}

/* Whether the frame may be the one at reader->offset. */
static bool fits(struct okv_wal_reader *reader, const struct okv_wal_frame *frame)
{
    if (reader->is_adrift)
        reader->first = frame->position - (reader->offset - OKV_WAL_HEADER_SIZE);
    return frame->position == okv_wal_reader_position(reader);
}

/* By how much the header of a frame is shorter in the file than in memory. */
static uint64_t shorter(const struct okv_wal_reader *reader)
{
    return reader->format == OKV_WAL_FORMAT_OLD ? OKV_WAL_FRAME_HEADER - OKV_WAL_OLD_FRAME_HEADER
                                                : 0;
}

/* Reads the frame at reader->offset. Its records begin at OKV_WAL_FRAME_HEADER in either format. */
static int read_frame(struct okv_wal_reader *reader, struct okv_wal_frame *frame,
                      struct okv_diag *diag)
{
    uint64_t place = shorter(reader);
    size_t got;
    int rc = read_bytes(reader, reader->offset, OKV_WAL_FRAME_HEADER, &got, diag);

    if (rc)
        return rc;
    if (got < OKV_WAL_FRAME_HEADER ||
        !okv_wal_frame_peek(reader->bytes, OKV_WAL_FRAME_MAX, frame) || !fits(reader, frame))
        return OKV_WAL_NONE;
    rc = read_bytes_to(reader, place, reader->offset, frame->length, &got, diag);
    if (rc)
        return rc;
    if (got < frame->length ||
        !okv_wal_frame_check(frame, reader->number, frame->position, reader->bytes + place))
        return OKV_WAL_NONE;
    if (place)
        frame->epoch = 0;
    frame->length += place;
    reader->is_adrift = false;
    return 0;
}

int okv_wal_reader_next(struct okv_wal_reader *reader, struct okv_wal_frame *frame,
                        struct okv_diag *diag)
{
    int rc = read_frame(reader, frame, diag);

    if (rc)
        return rc;
    reader->begin = reader->offset;
    reader->offset += frame->length - shorter(reader);
    return 0;
}

static bool has_zeros(const uint8_t *bytes, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (bytes[i])
            return false;
    return true;
}

int okv_wal_reader_begun(struct okv_wal_reader *reader, uint64_t *out, struct okv_diag *diag)
{
    struct okv_wal_frame frame;
    struct okv_diag why;
    uint64_t size = 0;
    size_t got;

    *out = 0;
    int rc = read_bytes(reader, reader->offset, OKV_WAL_FRAME_HEADER, &got, diag);
    if (rc || got == 0)
        return rc;
    rc = reader->files->ops->size(reader->file, &size, &why);
    if (rc)
        return read_failed(reader, rc, &why, diag);
    uint64_t left = size - reader->offset;
    bool is_padding = got < OKV_WAL_FRAME_HEADER && has_zeros(reader->bytes, got);
    bool has_length =
        got == OKV_WAL_FRAME_HEADER && okv_wal_frame_peek(reader->bytes, left, &frame);
    if (got < OKV_WAL_FRAME_HEADER ? !is_padding
                                   : frame.position == okv_wal_reader_position(reader))
        *out = has_length ? frame.length : left;
    return 0;
}

int okv_wal_reader_is_at_end(struct okv_wal_reader *reader, bool *is_at_end, struct okv_diag *diag)
{
    size_t got;
    int rc = read_bytes(reader, reader->offset, 1, &got, diag);

    *is_at_end = got == 0;
    return rc;
}

/* Moves to the first place in `window`, the bytes of the file at the reader's offset, where the
 * header of a frame may be. False: there is none, and it moved past the window. */
static bool seek(struct okv_wal_reader *reader, const uint8_t *window, size_t length)
{
    struct okv_wal_frame frame;

    for (size_t at = 0; length - at >= OKV_WAL_FRAME_HEADER; at += OKV_WAL_ALIGNMENT) {
        if (okv_wal_frame_peek(window + at, OKV_WAL_FRAME_MAX, &frame) && fits(reader, &frame))
            return true;
        reader->offset += OKV_WAL_ALIGNMENT;
    }
    return false;
}

int okv_wal_reader_find_later(struct okv_wal_reader *reader, uint64_t durable, uint64_t *offset,
                              struct okv_diag *diag)
{
    uint64_t before = reader->offset;
    uint8_t *window = malloc(WINDOW);
    struct okv_wal_frame frame;
    struct okv_diag why;
    size_t got = WINDOW;
    int rc = window ? 0 : OKV_ENOMEM;

    *offset = 0;
    reader->offset += OKV_WAL_ALIGNMENT;
    while (rc == 0 && !*offset && got >= OKV_WAL_FRAME_HEADER) {
        rc = reader->files->ops->read(reader->file, window, WINDOW, reader->offset, &got, &why);
        if (rc) {
            rc = read_failed(reader, rc, &why, diag);
        } else if (got >= OKV_WAL_FRAME_HEADER && seek(reader, window, got)) {
            rc = read_frame(reader, &frame, diag);
            *offset = rc || frame.durable < durable ? 0 : reader->offset;
            reader->offset += OKV_WAL_ALIGNMENT;
            rc = rc == OKV_WAL_NONE ? 0 : rc;
        }
    }
    free(window);
    reader->offset = before;
    return rc;
}
