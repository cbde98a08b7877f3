#include "server/wal/recovery/truncate.h"

#include "server/wal/recovery/log.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/segment.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

/* Reads the last segment up to the cut. */
static int find_cut(struct okv_wal *wal, struct okv_wal_scan *scan, uint64_t position,
                    struct okv_diag *diag)
{
    struct okv_wal_frame frame;
    int rc = okv_wal_scan_segment(scan, diag);

    if (rc == 0)
        okv_wal_note_segment(wal, &scan->header);
    while (rc == 0 && wal->position < position) {
        rc = okv_wal_scan_frame(scan, &frame, diag);
        if (rc == 0)
            okv_wal_note_frame(wal, &frame, scan->position);
    }
    if (rc == OKV_WAL_NONE || (rc == 0 && wal->position != position))
        rc = okv_diag_set(diag, OKV_EINVAL, "no batch of the last segment ends there");
    return rc;
}

/* As a start does with all of the log: frames before the cut may have to be carried over. */
int okv_wal_truncate(struct okv_wal *wal, uint64_t position, struct okv_diag *diag)
{
    struct okv_wal_scan scan = {.files = wal->files, .next = wal->segment.number};
    struct okv_wal_header first = wal->segment;
    int rc = find_cut(wal, &scan, position, diag);

    if (rc)
        goto end_scan;
    wal->segment = scan.header;
    wal->is_direct = scan.header.is_relaxed; /* the new one is as relaxed, and as unclean */
    rc = okv_wal_begin_segment(wal, OKV_WAL_AT_START);
    wal->is_direct = false;
    if (rc) {
        okv_diag_set(diag, rc, "the log: cannot begin a segment: %s", wal->why.text);
        goto end_scan;
    }
    wal->files->ops->close(wal->file);
    wal->file = NULL;
    first.number = wal->segment.number;
    wal->segment = first;
end_scan:
    okv_wal_scan_end(&scan);
    return rc;
}
