#include "server/wal/recovery/carry_over.h"

#include "server/wal/frame.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

int okv_wal_carry_over(struct okv_wal *wal, const struct okv_wal_header *segment,
                       struct okv_file *file)
{
    struct okv_wal_scan scan = {.files = wal->files, .next = wal->segment.number};
    struct okv_wal_reader *reader = &scan.reader;
    struct okv_wal_frame frame;

    if (wal->durable == wal->position)
        return 0;
    int rc = okv_wal_scan_segment(&scan, &wal->why);
    reader->offset = okv_wal_frame_offset(&scan.header, wal->durable);
    while (rc == 0 && okv_wal_reader_position(reader) < wal->position) {
        rc = okv_wal_reader_next(reader, &frame, &wal->why);
        frame.durable = frame.position; /* as it is when the segment has its name */
        if (rc == 0)
            rc = okv_wal_frame_write(wal->files, file, segment, &frame, reader->bytes, &wal->why);
    }
    okv_wal_scan_end(&scan);
    if (rc == OKV_WAL_NONE)
        rc = okv_diag_set(&wal->why, OKV_ECORRUPT, "the end of the last segment has changed");
    return rc;
}
