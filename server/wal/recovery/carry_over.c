#include "server/wal/recovery/carry_over.h"

#include "server/wal/frame.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

/* A clean end of version 1, which says nothing about the segment that is to begin. */
static bool is_clean_end(const struct okv_wal_reader *reader, const struct okv_wal_frame *frame)
{
    uint64_t at = OKV_WAL_FRAME_HEADER;
    struct okv_wal_record record;

    return okv_wal_record_decode(reader->bytes, frame->length, &at, &record) == 0 &&
           record.kind == OKV_WAL_CLEAN;
}

/* Copies the frame that was read last to *position, and moves that. They differ only where frames
 * of version 1 become longer. */
static int copy_frame(struct okv_wal *wal, const struct okv_wal_header *segment,
                      struct okv_file *file, const struct okv_wal_reader *reader,
                      struct okv_wal_frame *frame, uint64_t *position)
{
    if (is_clean_end(reader, frame))
        return 0;
    frame->position = frame->durable = *position; /* as it is when the segment has its name */
    *position += frame->length;
    return okv_wal_frame_write(wal->files, file, segment, frame, reader->bytes, &wal->why);
}

int okv_wal_carry_over(struct okv_wal *wal, const struct okv_wal_header *segment,
                       struct okv_file *file)
{
    struct okv_wal_scan scan = {.files = wal->files, .next = wal->segment.number};
    struct okv_wal_reader *reader = &scan.reader;
    struct okv_wal_frame frame;
    uint64_t position = wal->durable;

    if (wal->durable == wal->position)
        return 0;
    int rc = okv_wal_scan_segment(&scan, &wal->why);
    reader->offset = okv_wal_frame_offset(&scan.header, wal->durable);
    while (rc == 0 && okv_wal_reader_position(reader) < wal->position) {
        rc = okv_wal_reader_next(reader, &frame, &wal->why);
        if (rc == 0)
            rc = copy_frame(wal, segment, file, reader, &frame, &position);
    }
    okv_wal_scan_end(&scan);
    if (rc == OKV_WAL_NONE)
        rc = okv_diag_set(&wal->why, OKV_ECORRUPT, "the end of the last segment has changed");
    if (rc == 0)
        wal->position = position;
    return rc;
}
