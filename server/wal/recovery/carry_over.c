#include "server/wal/recovery/carry_over.h"

#include <errno.h>
#include <stdlib.h>

#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/reader.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"

/* Reads at wal->durable next. */
static int open_last(struct okv_wal *wal, struct okv_wal_reader *reader,
                     char name[OKV_WAL_NAME_SIZE])
{
    struct okv_wal_header header;
    struct okv_diag why;
    size_t got;

    okv_wal_name(OKV_WAL_SEGMENT, wal->segment.number, name);
    int rc = okv_wal_reader_open(reader, wal->files, name, &got, &why);
    if (rc)
        return rc;
    rc = okv_wal_segment_header(reader, got, wal->segment.number, &header, &why);
    if (rc)
        okv_wal_reader_close(reader);
    reader->offset += wal->durable - reader->first;
    return rc;
}

static int copy_frame(struct okv_wal *wal, struct okv_wal_reader *reader,
                      const struct okv_wal_header *segment, struct okv_file *file)
{
    struct okv_wal_frame frame;
    struct okv_diag why;

    int rc = okv_wal_reader_next(reader, &frame, &why);
    if (rc)
        return rc == OKV_ENOMEM ? -ENOMEM : -EIO;
    frame.durable = frame.position; /* as it is when the segment has its name */
    return okv_wal_frame_write(wal->files, file, segment, &frame, reader->bytes);
}

int okv_wal_tail_copy(struct okv_wal *wal, const struct okv_wal_header *segment,
                      struct okv_file *file)
{
    struct okv_wal_reader reader = {.number = 0};
    char name[OKV_WAL_NAME_SIZE];

    if (wal->durable == wal->position)
        return 0;
    int rc = open_last(wal, &reader, name);
    if (rc) {
        rc = rc == OKV_ENOMEM ? -ENOMEM : -EIO;
        goto free_bytes;
    }
    while (rc == 0 && okv_wal_reader_position(&reader) < wal->position)
        rc = copy_frame(wal, &reader, segment, file);
    okv_wal_reader_close(&reader);
free_bytes:
    free(reader.bytes);
    return rc;
}
