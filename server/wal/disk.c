#include "server/wal/disk.h"

#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/frame.h"
#include "server/wal/null_files.h"
#include "server/wal/segment.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Weight 1 / SYNC_WEIGHT of the last sync in the mean time of a sync. */
#define SYNC_WEIGHT 8
/* Most bytes of the log that are not durable, as a start has to copy them. They hold fewer changes
 * than OKV_WAL_RAISE_BY. */
#define UNSYNCED_MAX (UINT64_C(1) << 30)

void okv_wal_note_written(struct okv_wal *wal, const struct okv_wal_frame *frame, uint64_t since_ns)
{
    wal->position = frame->position + frame->length;
    wal->epoch = frame->epoch;
    atomic_store(&wal->length, wal->position - wal->snapshot_begun);
    if (!wal->oldest_ns)
        wal->oldest_ns = since_ns;
}

static int write_frame(struct okv_wal *wal)
{
    struct okv_wal_batch *batch = &wal->writing;
    const struct okv_wal_frame frame = {
        .length = batch->used,
        .position = wal->position,
        .durable = wal->durable,
        .epoch = wal->epoch,
        .clock_ms = atomic_load(&wal->store->clock_ms),
        .wall_ms = okv_store_clock_wall_ms(wal->store),
    };
    int rc = okv_files_keep(wal->files) ? okv_wal_frame_write(wal->files, wal->file, &wal->segment,
                                                              &frame, batch->bytes, &wal->why)
                                        : 0;
    if (rc == 0)
        okv_wal_note_written(wal, &frame, batch->since_ns);
    return rc;
}

int okv_wal_sync(struct okv_wal *wal)
{
    uint64_t begin = okv_clock_ns();
    int rc = wal->position == wal->durable ? 0 : wal->files->ops->sync(wal->file, &wal->why);
    uint64_t taken = okv_clock_ns() - begin;

    if (rc || wal->position == wal->durable)
        return rc;
    okv_wal_histogram_add(&wal->syncs, taken);
    wal->sync_ns = (wal->sync_ns * (SYNC_WEIGHT - 1) + taken) / SYNC_WEIGHT;
    okv_wal_note_durable(wal);
    return 0;
}

int okv_wal_begin_epoch(struct okv_wal *wal, uint64_t epoch)
{
    const struct okv_wal_record record = {.kind = OKV_WAL_EPOCH, .version = epoch};

    if (okv_wal_batch_add(&wal->writing, &record))
        return okv_diag_set(&wal->why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    wal->epoch = epoch;
    int rc = write_frame(wal);
    wal->writing.used = OKV_WAL_FRAME_HEADER;
    return rc ? rc : okv_wal_sync(wal);
}

/* When to sync the oldest record that is not durable; UINT64_MAX: any time. Half of the time is
 * left for the sync itself. */
uint64_t okv_wal_sync_due_ns(const struct okv_wal *wal)
{
    bool is_timed = wal->oldest_ns && wal->sync_within_ns != OKV_WAL_NEVER;

    return is_timed ? wal->oldest_ns + wal->sync_within_ns / 2 : UINT64_MAX;
}

static bool is_sync_due(const struct okv_wal *wal)
{
    return wal->sync_within_ns == 0 || wal->position - wal->durable >= UNSYNCED_MAX ||
           okv_clock_ns() >= okv_wal_sync_due_ns(wal);
}

int okv_wal_sync_if_due(struct okv_wal *wal)
{
    return is_sync_due(wal) ? okv_wal_sync(wal) : 0;
}

/* Writes wal->writing. Nothing of a batch that lacks a reply may be recovered: its write would be
 * applied twice. Nothing is written after a failure: a later sync may succeed without what an
 * earlier one lost. */
int okv_wal_write_batch(struct okv_wal *wal)
{
    bool has_records = wal->writing.used > OKV_WAL_FRAME_HEADER;
    bool is_too_long = wal->writing.used > OKV_WAL_FRAME_MAX; /* no start would read it */
    int rc = 0;

    if (atomic_load(&wal->failure))
        return has_records ? OKV_EIO : 0;
    if (wal->writing.lacks_reply || is_too_long)
        rc = okv_diag_set(&wal->why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    if (rc == 0 && has_records)
        rc = write_frame(wal);
    if (rc == 0)
        rc = okv_wal_sync_if_due(wal);
    if (wal->writing.records) {
        wal->records_before = wal->writing.records;
        okv_wal_histogram_add(&wal->batches, wal->writing.records);
    }
    okv_wal_batch_shrink(&wal->writing);
    return rc;
}
