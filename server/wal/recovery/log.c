#include "server/wal/recovery/log.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/restore.h"
#include "server/store/store.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/import.h"
#include "server/wal/recovery/reader.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/recovery/validate.h"
#include "shared/base/error.h"

#define FRAME_HEADER sizeof(struct okv_wal_wire_frame)

/* The segments, one after the other. */
struct replay {
    struct okv_wal *wal;
    struct okv_wal_reader reader;
    struct okv_wal_header segment; /* that is read */
    char name[OKV_WAL_NAME_SIZE];  /* its file's */
    uint64_t limit;                /* position from which on the next segment counts */
    bool is_clean;                 /* the last record says so, of its segment */
    struct okv_store_work work;
    struct okv_wal_found *found;
};

static int open_segment(struct replay *replay, uint64_t number, struct okv_diag *diag)
{
    size_t got;

    okv_wal_name(OKV_WAL_SEGMENT, number, replay->name);
    int rc = okv_wal_reader_open(&replay->reader, replay->wal->files, replay->name, &got, diag);
    if (rc)
        return rc;
    rc = okv_wal_segment_header(&replay->reader, got, number, &replay->segment, diag);
    if (rc)
        okv_wal_reader_close(&replay->reader);
    return rc;
}

/* ---- what there is ---- */

static int find_segment(struct okv_wal *wal, const struct okv_wal_listing *listing, bool *is_there,
                        struct okv_diag *diag)
{
    struct replay replay = {.wal = wal};

    if (!listing->first)
        return 0;
    int rc = open_segment(&replay, listing->first, diag);
    if (rc == 0) {
        okv_wal_reader_close(&replay.reader);
        wal->segment = replay.segment;
        *is_there = true;
    }
    free(replay.reader.bytes);
    return rc;
}

/* What segments have of the snapshot. */
static int find_snapshot(struct okv_wal *wal, uint64_t number, bool *is_there,
                         struct okv_diag *diag)
{
    int rc = okv_wal_load_header(wal, number, diag);

    wal->segment = wal->loaded;
    wal->segment.bucket_count = wal->segment.bucket_size = 0;
    *is_there = rc == 0;
    return rc;
}

/* The first segment has the snapshot's number. */
static int find_restored(struct okv_wal *wal, bool *is_there, struct okv_diag *diag)
{
    int rc = okv_wal_restore(wal->files, wal->restored, diag);

    if (rc == 0)
        rc = find_snapshot(wal, 0, is_there, diag);
    wal->segment.number--;
    return rc;
}

int okv_wal_find(struct okv_wal *wal, bool *is_there, struct okv_diag *diag)
{
    struct okv_wal_listing listing;

    *is_there = false;
    if (wal->restored)
        return find_restored(wal, is_there, diag);
    int rc = okv_wal_list(wal->files, &listing, diag);
    if (rc)
        return rc;
    if (listing.snapshot) {
        rc = find_snapshot(wal, listing.snapshot, is_there, diag);
    } else {
        rc = find_segment(wal, &listing, is_there, diag);
    }
    wal->segment.number = listing.last;
    return rc;
}

/* ---- frames ---- */

static int raise_versions(struct replay *replay, uint64_t by, struct okv_diag *diag)
{
    int rc = okv_store_raise_versions(replay->wal->store, &replay->work, by);

    okv_values_raise(&replay->wal->values, by);
    return rc ? okv_diag_set(diag, rc, "versions cannot be raised: %s", okv_error_text(rc)) : 0;
}

static int apply_change(struct replay *replay, const struct okv_wal_record *record,
                        struct okv_diag *diag)
{
    struct okv_store_restored item = {
        .key = record->key,
        .key_length = record->key_length,
        .value = record->kind == OKV_WAL_DELETE ? NULL : record->value,
        .value_length = record->value_length,
        .version = record->version,
        .expiry_ms = record->expiry_ms,
    };
    uint8_t *value = NULL;
    int rc = 0;

    if (record->kind == OKV_WAL_LONG) {
        rc = okv_values_recover(&replay->wal->values, record, &value, diag);
        item.value = value;
        item.value_length = okv_wal_value_length(record);
    }
    if (rc)
        return rc;
    rc = okv_store_restore(replay->wal->store, &replay->work, &item);
    free(value);
    return rc ? okv_wal_does_not_fit(rc, diag) : 0;
}

static int apply_record(struct replay *replay, const struct okv_wal_record *record,
                        struct okv_diag *diag)
{
    replay->is_clean = record->kind == OKV_WAL_CLEAN && record->version == replay->segment.number;
    if (record->kind == OKV_WAL_CLEAN)
        return 0;
    if (record->kind == OKV_WAL_RAISE)
        return raise_versions(replay, record->version, diag);
    if (!okv_wal_is_change(record))
        return okv_wal_recover_client(replay->wal, record);
    return apply_change(replay, record, diag);
}

static int apply_records(struct replay *replay, uint64_t length, struct okv_diag *diag)
{
    const struct okv_wal_reader *reader = &replay->reader;
    struct okv_wal_record record;
    uint64_t at = FRAME_HEADER;
    int rc = 0;

    while (at < length && rc == 0) {
        rc = okv_wal_segment_record(reader, length, &at, &record, diag);
        if (rc)
            break;
        rc = apply_record(replay, &record, diag);
        replay->found->records += okv_wal_is_change(&record);
    }
    return rc;
}

static void note_frame(struct replay *replay, const struct okv_wal_frame *frame)
{
    struct okv_wal *wal = replay->wal;
    struct okv_wal_found *found = replay->found;

    wal->position += frame->length;
    if (wal->durable < frame->durable)
        wal->durable = frame->durable;
    found->frames++;
    found->bytes += frame->length;
    if (wal->has_read)
        wal->has_read(wal->has_read_user, found->bytes);
    found->clock_ms = frame->clock_ms;
    found->wall_ms = frame->wall_ms;
}

static int replay_frames(struct replay *replay, struct okv_diag *diag)
{
    struct okv_wal *wal = replay->wal;
    struct okv_wal_reader *reader = &replay->reader;
    struct okv_wal_frame frame;
    uint64_t cut = 0;

    while (wal->position < replay->limit) {
        int rc = okv_wal_reader_next(reader, &frame, diag);
        if (rc == 1) {
            rc = okv_wal_segment_end(reader, &cut, diag);
            replay->found->is_cut = cut > 0; /* of the last segment, in the end */
            return rc;
        }
        if (rc)
            return rc;
        okv_store_set_clock(wal->store, frame.clock_ms, false);
        rc = apply_records(replay, frame.length, diag);
        if (rc)
            return rc;
        note_frame(replay, &frame);
    }
    return 0;
}

/* A segment is begun when all before it is durable. */
static int replay_segment(struct replay *replay, struct okv_diag *diag)
{
    struct okv_wal *wal = replay->wal;
    struct okv_wal_reader *reader = &replay->reader;
    int rc = okv_wal_segment_database(reader, &replay->segment, &wal->segment, diag);

    if (rc == 0)
        rc = okv_wal_segment_follows(reader, &replay->segment, wal->position, diag);
    if (rc)
        return rc;
    wal->durable = wal->position;
    replay->is_clean = false;
    return replay_frames(replay, diag);
}

static int replay_number(struct replay *replay, uint64_t number, struct okv_diag *diag)
{
    int rc = open_segment(replay, number, diag);

    if (rc)
        return rc;
    rc = okv_wal_segment_limit(replay->wal->files, &replay->segment, &replay->limit, diag);
    if (rc == 0)
        rc = replay_segment(replay, diag);
    okv_wal_reader_close(&replay->reader);
    replay->found->segments++;
    return rc;
}

/* Changes that clients were told of may be lost. Their versions must not come again, for then a
 * change that is conditional on one would be made of another value. The next segment says so. */
static int raise_if_unclean(struct replay *replay, struct okv_diag *diag)
{
    struct okv_wal *wal = replay->wal;

    if (!replay->segment.is_relaxed || replay->is_clean)
        return 0;
    wal->has_to_raise = replay->found->is_unclean = true;
    return raise_versions(replay, OKV_WAL_RAISE_BY, diag);
}

static int replay_segments(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag)
{
    struct replay replay = {.wal = wal, .found = found};
    struct okv_wal_listing listing;
    int rc = okv_wal_list(wal->files, &listing, diag);

    if (rc == 0)
        rc = okv_store_work_init(&replay.work, wal->store->table.bucket_size);
    if (rc)
        return rc;
    for (uint64_t number = listing.first; rc == 0 && number && number <= listing.last; number++)
        rc = replay_number(&replay, number, diag);
    if (rc == 0)
        rc = raise_if_unclean(&replay, diag);
    free(replay.reader.bytes);
    okv_store_work_fini(&replay.work);
    return rc;
}

int okv_wal_replay(struct okv_wal *wal, struct okv_store *store, struct okv_wal_found *found,
                   struct okv_diag *diag)
{
    int rc = 0;

    *found = (struct okv_wal_found){0};
    wal->store = store;
    wal->position = wal->durable = wal->segment.position;
    if (wal->loaded.number)
        rc = okv_wal_load(wal, found, diag);
    wal->values_tried = atomic_load(&wal->values.logged); /* these are no log */
    if (rc == 0)
        rc = replay_segments(wal, found, diag);
    found->items = atomic_load(&store->totals.items);
    return rc;
}
