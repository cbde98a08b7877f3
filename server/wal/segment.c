#include "server/wal/segment.h"

#include "server/store/store.h"
#include "server/wal/copies/copies.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/carry_over.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

void okv_wal_raise_event(struct okv_wal *wal, enum okv_wal_event event, const char *why)
{
    if (wal->report)
        wal->report(wal->report_user, event, why);
}

void okv_wal_fail(struct okv_wal *wal, int rc, const char *why)
{
    if (!atomic_exchange(&wal->failure, rc))
        okv_wal_raise_event(wal, OKV_WAL_FAILED, why);
}

/* ---- disk space ---- */

static void report_space(struct okv_wal *wal, bool was_full)
{
    if (wal->space.is_full && !was_full)
        okv_wal_raise_event(wal, OKV_WAL_DISK_FULL, "");
    if (!wal->space.is_full && was_full)
        okv_wal_raise_event(wal, OKV_WAL_DISK_HAS_ROOM, "");
}

void okv_wal_reserve_space(struct okv_wal *wal)
{
    uint64_t used = okv_wal_frame_offset(&wal->segment, wal->position);
    bool was_full = wal->space.is_full;

    if (atomic_load(&wal->failure))
        return;
    int rc = okv_wal_preallocate(&wal->space, wal->files, wal->file, used, &wal->why);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    report_space(wal, was_full);
}

/* ---- segments ---- */

void okv_wal_trim_segment(struct okv_wal *wal)
{
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_SEGMENT, wal->segment.number, name);
    wal->files->ops->trim(wal->files, name, okv_wal_frame_offset(&wal->segment, wal->position),
                          NULL);
}

/* The header, and those frames of the segment before that may not be durable. */
static int write_segment(struct okv_wal *wal, const struct okv_wal_header *segment,
                         struct okv_file *file)
{
    int rc = okv_wal_header_write(wal->files, file, segment, &wal->why);

    if (rc == 0)
        rc = okv_wal_carry_over(wal, segment, file);
    if (rc == 0)
        rc = wal->files->ops->sync(file, &wal->why);
    return rc;
}

/* A segment that was not begun must not be there at the next start. */
static void remove_segment(struct okv_wal *wal, const char *name)
{
    struct okv_diag why;
    int rc = wal->files->ops->remove(wal->files, name, &why);

    if (rc == 0)
        rc = wal->files->ops->sync_names(wal->files, &why);
    if (rc)
        okv_wal_fail(wal, rc, why.text);
}

/* It gets its name when all of it is durable. */
static int create_segment(struct okv_wal *wal, const struct okv_wal_header *segment,
                          enum okv_wal_occasion occasion, struct okv_file **out)
{
    const struct okv_file_ops *ops = wal->files->ops;
    char name[OKV_WAL_NAME_SIZE];

    okv_wal_name(OKV_WAL_SEGMENT, segment->number, name);
    ops->remove(wal->files, OKV_WAL_SEGMENT_PART, NULL); /* of one that failed */
    int rc = okv_wal_recycled_create(wal->files, OKV_WAL_SEGMENT_PART, out, &wal->why);
    if (rc)
        return rc;
    rc = write_segment(wal, segment, *out);
    if (rc == 0)
        rc = okv_wal_preallocate_segment(&wal->space, wal->files, *out,
                                         okv_wal_frame_offset(segment, wal->position),
                                         occasion != OKV_WAL_MEANWHILE, &wal->why);
    if (rc == 0)
        rc = ops->rename(wal->files, OKV_WAL_SEGMENT_PART, name, &wal->why);
    if (rc) {
        ops->remove(wal->files, OKV_WAL_SEGMENT_PART, NULL);
        goto close;
    }
    rc = ops->sync_names(wal->files, &wal->why);
    if (rc == 0)
        return 0;
    remove_segment(wal, name);
close:
    ops->close(*out);
    return rc;
}

void okv_wal_note_durable(struct okv_wal *wal)
{
    wal->durable = wal->position;
    wal->durable_epoch = wal->epoch;
    wal->oldest_ns = 0;
    atomic_store(&wal->written_unsynced, 0);
}

/* Frames that are carried over have the versions from before a raise. That is for the segment after
 * them: a crash before it leaves one whose end is not clean. */
static struct okv_wal_header next_header(const struct okv_wal *wal, enum okv_wal_occasion occasion)
{
    struct okv_wal_header next = wal->segment;

    next.number++;
    next.position = wal->durable;
    next.epoch = wal->durable_epoch;
    next.raise = wal->durable == wal->position ? wal->raise : 0;
    next.is_relaxed =
        wal->is_direct || next.raise != wal->raise || (wal->copies && wal->sync_within_ns != 0);
    next.is_clean = occasion == OKV_WAL_AT_END;
    return next;
}

static int begin_segment(struct okv_wal *wal, enum okv_wal_occasion occasion)
{
    struct okv_wal_header segment = next_header(wal, occasion);
    bool was_full = wal->space.is_full;
    struct okv_file *file;
    int rc = create_segment(wal, &segment, occasion, &file);

    if (rc)
        return rc;
    if (wal->file) {
        wal->files->ops->close(wal->file);
        okv_wal_trim_segment(wal);
    }
    wal->file = file;
    wal->raise -= segment.raise;
    wal->segment = segment;
    okv_wal_note_durable(wal);
    report_space(wal, was_full);
    return 0;
}

/* What a start has read may have names that are not durable. What a server that died had reserved
 * may be what fills the disk. */
static int prepare_start(struct okv_wal *wal)
{
    okv_wal_trim_segments(wal->files);
    int rc = wal->files->ops->sync_names(wal->files, &wal->why);

    return rc ? rc : okv_wal_recycled_remove(wal->files, &wal->why);
}

int okv_wal_begin_segment(struct okv_wal *wal, enum okv_wal_occasion occasion)
{
    int rc = occasion == OKV_WAL_AT_START ? prepare_start(wal) : 0;

    if (wal->copies)
        okv_wal_copies_carry_unpublished(wal);
    if (rc == 0)
        rc = begin_segment(wal, occasion);
    return rc == 0 && wal->raise ? begin_segment(wal, occasion) : rc;
}
