#include "server/wal/recovery/log.h"

#include <stdlib.h>

#include "server/store/recover.h"
#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/copies/replay.h"
#include "server/wal/frame.h"
#include "server/wal/recovery/scan.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/recovery/validate.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

struct replay {
    struct okv_wal *wal;
    struct okv_wal_scan scan;
    bool is_clean; /* nothing is lost after what was read last */
    struct okv_store_work work;
    struct okv_wal_found *found;
};

static int raise_versions(struct replay *replay, uint64_t by, struct okv_diag *diag)
{
    int rc = okv_store_raise_versions(replay->wal->store, &replay->work, by);

    okv_blobs_raise_versions(&replay->wal->blobs, by);
    okv_wal_batch_raise(&replay->wal->staged, by);
    return rc ? okv_diag_set(diag, rc, "versions cannot be raised: %s", okv_error_text(rc)) : 0;
}

/* Of version 1. It was durable before its segment had a name. */
static int replay_raise(struct replay *replay, uint64_t by, struct okv_diag *diag)
{
    replay->wal->durable = replay->scan.position;
    return raise_versions(replay, by, diag);
}

static bool has_copies(const struct replay *replay, const struct okv_wal_frame *frame)
{
    return replay->wal->copies && frame->epoch != 0;
}

static int apply_change(struct replay *replay, const struct okv_wal_record *record,
                        struct okv_diag *diag)
{
    struct okv_store_recovered item = okv_wal_item_of(record);
    uint8_t *value = NULL;
    int rc = 0;

    if (record->kind == OKV_WAL_LONG) {
        rc = okv_blobs_recover(&replay->wal->blobs, record, &value, diag);
        item.value = value;
        item.value_length = okv_wal_value_length(record);
    }
    if (rc)
        return rc;
    rc = okv_store_recover(replay->wal->store, &replay->work, &item);
    free(value);
    return rc ? okv_wal_does_not_fit(rc, diag) : 0;
}

static int apply_record(struct replay *replay, const struct okv_wal_record *record,
                        struct okv_diag *diag)
{
    replay->is_clean =
        record->kind == OKV_WAL_CLEAN && record->version == replay->scan.header.number;
    if (record->kind == OKV_WAL_CLEAN)
        return 0;
    if (record->kind == OKV_WAL_EPOCH)
        return record->raise ? raise_versions(replay, record->raise, diag) : 0;
    if (record->kind == OKV_WAL_RAISE)
        return replay_raise(replay, record->version, diag);
    if (!okv_wal_is_change(record))
        return okv_wal_recover_client(replay->wal, record);
    return apply_change(replay, record, diag);
}

/* Where there are copies, records of an epoch are only read here. */
static int apply_records(struct replay *replay, const struct okv_wal_frame *frame,
                         struct okv_diag *diag)
{
    const struct okv_wal_reader *reader = &replay->scan.reader;
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    bool is_kept = has_copies(replay, frame);
    int rc = 0;

    while (at < frame->length && rc == 0) {
        rc = okv_wal_segment_record(reader, frame->length, &at, &record, diag);
        if (rc)
            break;
        rc = is_kept ? 0 : apply_record(replay, &record, diag);
        replay->found->records += okv_wal_is_change(&record);
    }
    return rc;
}

/* The epochs before a cluster had the log are 0: all of that is applied. */
static int take_frame(struct replay *replay, const struct okv_wal_frame *frame,
                      struct okv_diag *diag)
{
    struct okv_wal *wal = replay->wal;
    int rc = apply_records(replay, frame, diag);

    if (rc || !has_copies(replay, frame))
        return rc;
    rc = okv_wal_copies_replay_frame(wal, &replay->work, frame, replay->scan.reader.bytes);
    return rc ? okv_wal_does_not_fit(rc, diag) : 0;
}

/* An epoch begins when all before it is durable: news of what is durable never lies in an earlier
 * one. */
void okv_wal_note_frame(struct okv_wal *wal, const struct okv_wal_frame *frame, uint64_t end)
{
    if (frame->durable > wal->durable) {
        wal->durable = frame->durable;
        wal->durable_epoch = wal->epoch;
    }
    wal->epoch = frame->epoch;
    wal->position = end;
}

static void note_frame(struct replay *replay, const struct okv_wal_frame *frame)
{
    struct okv_wal *wal = replay->wal;
    struct okv_wal_found *found = replay->found;

    okv_wal_note_frame(wal, frame, replay->scan.position);
    found->frames++;
    found->bytes += frame->length;
    if (wal->progress)
        wal->progress(wal->progress_user, found->bytes);
    found->clock_ms = frame->clock_ms;
    found->wall_ms = frame->wall_ms;
}

static int recover_frames(struct replay *replay, struct okv_diag *diag)
{
    struct okv_wal_frame frame;
    int rc;

    while ((rc = okv_wal_scan_frame(&replay->scan, &frame, diag)) == 0) {
        okv_store_set_clock(replay->wal->store, frame.clock_ms, false);
        rc = take_frame(replay, &frame, diag);
        if (rc)
            return rc;
        note_frame(replay, &frame);
        if (replay->wal->copies && frame.epoch == 0)
            okv_wal_copies_replay_begin(replay->wal);
    }
    return rc == OKV_WAL_NONE ? 0 : rc;
}

void okv_wal_note_segment(struct okv_wal *wal, const struct okv_wal_header *header)
{
    wal->position = wal->durable = header->position;
    wal->epoch = wal->durable_epoch = header->epoch;
}

static int begin_segment(struct replay *replay, struct okv_diag *diag)
{
    const struct okv_wal_header *header = &replay->scan.header;
    struct okv_wal *wal = replay->wal;

    okv_wal_note_segment(wal, header);
    replay->is_clean = header->is_clean;
    if (header->raise)
        return raise_versions(replay, header->raise, diag);
    int rc = wal->copies ? okv_wal_copies_replay_before(wal, &replay->work, header->position) : 0;
    return rc ? okv_wal_does_not_fit(rc, diag) : 0;
}

static int recover_segments(struct replay *replay, struct okv_diag *diag)
{
    int rc = 0;

    while (rc == 0 && (rc = okv_wal_scan_segment(&replay->scan, diag)) == 0) {
        rc = begin_segment(replay, diag);
        if (rc == 0)
            rc = recover_frames(replay, diag);
    }
    return rc == OKV_WAL_NONE ? 0 : rc;
}

/* Answered changes may be lost. Their versions must not come again, or a change that is conditional
 * on one would be made to another value. Copies have the versions of the others. */
static int raise_if_unclean(struct replay *replay, struct okv_diag *diag)
{
    struct okv_wal *wal = replay->wal;

    replay->found->is_unclean = replay->scan.header.is_relaxed && !replay->is_clean;
    if (!replay->found->is_unclean || (wal->copies && wal->epoch != 0))
        return 0;
    wal->raise = OKV_WAL_RAISE_BY;
    return raise_versions(replay, wal->raise, diag);
}

int okv_wal_recover_log(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag)
{
    struct replay replay = {.wal = wal, .found = found};
    struct okv_wal_scan *scan = &replay.scan;
    int rc = okv_wal_scan_begin(scan, wal->files, NULL, diag);

    if (rc == 0)
        rc = okv_store_work_init(&replay.work, wal->store->table.bucket_size);
    if (rc)
        goto end_scan;
    scan->base = wal->segment;
    scan->position = wal->position;
    scan->epoch = wal->epoch;
    scan->has_base = scan->has_position = scan->has_epoch = true;
    rc = recover_segments(&replay, diag);
    found->segments = scan->segments;
    found->is_cut = scan->cut > 0; /* of the last segment */
    if (rc == 0)
        rc = raise_if_unclean(&replay, diag);
    okv_store_work_fini(&replay.work);
end_scan:
    okv_wal_scan_end(scan);
    return rc;
}
