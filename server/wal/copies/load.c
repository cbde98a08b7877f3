#include "server/wal/copies/load.h"

#include <stdlib.h>

#include "server/store/export.h"
#include "server/store/recover.h"
#include "server/wal/copies/state.h"
#include "server/wal/null_files.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

/* The interval that was told last ends at `end`. */
static int end_interval(struct okv_wal *wal, uint64_t end)
{
    struct okv_wal_copies *copies = wal->copies;

    if (!copies->load.has_interval)
        return 0;
    copies->load.has_interval = false;
    return okv_store_import_version(wal->store, &wal->work, copies->load.begin, end,
                                    copies->load.version);
}

static int begin_interval(struct okv_wal *wal, const struct okv_wal_record *record)
{
    struct okv_wal_copies *copies = wal->copies;
    int rc = end_interval(wal, record->bucket);

    copies->load.begin = record->bucket;
    copies->load.version = record->version;
    copies->load.has_interval = true;
    return rc;
}

static int load_item(struct okv_wal *wal, const struct okv_wal_record *record)
{
    const struct okv_store_recovered item = okv_wal_item_of(record);

    return okv_store_recover(wal->store, &wal->work, &item);
}

static int load_record(struct okv_wal *wal, const struct okv_wal_record *record)
{
    switch (record->kind) {
    case OKV_WAL_BUCKET:
        return begin_interval(wal, record);
    case OKV_WAL_PUT:
        return load_item(wal, record);
    case OKV_WAL_CLIENT:
    case OKV_WAL_REPLY:
    case OKV_WAL_FORGOTTEN:
        return okv_wal_recover_client(wal, record);
    default:
        return OKV_EPROTO;
    }
}

static int load_piece(struct okv_wal *wal, const struct okv_wal_piece *piece)
{
    struct okv_wal_record record;
    uint64_t at = 0;
    int rc = 0;

    while (rc == 0 && at < piece->length) {
        rc = okv_wal_record_decode(piece->bytes, piece->length, &at, &record);
        if (rc == 0)
            rc = load_record(wal, &record);
    }
    return rc == 0 && piece->end ? end_interval(wal, 0) : rc;
}

/* Under the lock. The log goes on where the snapshot began. */
static void begin_log(struct okv_wal *wal, const struct okv_wal_piece *piece)
{
    struct okv_wal_copies *copies = wal->copies;

    okv_wal_tail_fini(&copies->tail);
    okv_wal_tail_init(&copies->tail, piece->end, piece->epoch);
    copies->written = copies->durable = copies->published = copies->applied = piece->end;
    copies->cut = OKV_WAL_NO_CUT;
    wal->position = piece->end;
    wal->epoch = piece->epoch;
    okv_wal_note_durable(wal);
    copies->load.is_whole = true;
}

/* Under the lock. Another snapshot may have been asked for meanwhile. */
static void note_loaded(struct okv_wal *wal, const struct okv_wal_piece *piece, unsigned turn,
                        int rc)
{
    struct okv_wal_copies *copies = wal->copies;

    if (turn != copies->load.turn)
        return;
    copies->has_no_room |= rc != 0;
    copies->load.pieces += rc == 0;
    if (rc == 0 && piece->end)
        begin_log(wal, piece);
}

/* A segment and its snapshot, in place of what the files have. False: it could not begin. */
static bool begin_saving(struct okv_wal *wal)
{
    uint64_t before = wal->segment.number;

    okv_snapshot_await(&wal->snapshot); /* one of items that are gone */
    okv_snapshot_lock(&wal->snapshot);
    okv_wal_schedule_begin(wal);
    okv_wal_schedule_report(wal);
    okv_snapshot_unlock(&wal->snapshot);
    return wal->segment.number != before;
}

/* Under the lock, which it leaves meanwhile. Frames come when the files have the items, too. False:
 * there is nothing to do. */
static bool save(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t number = copies->load.snapshot;
    unsigned turn = copies->load.turn;

    if (!okv_files_keep(wal->files) || (number && atomic_load(&wal->snapshot.made) >= number)) {
        copies->load.is_active = false;
        return true;
    }
    if (number) {
        copies->has_no_room |=
            !okv_snapshot_is_active(&wal->snapshot) && atomic_load(&wal->snapshot.made) < number;
        return copies->has_no_room;
    }
    pthread_mutex_unlock(&wal->lock);
    bool has_begun = begin_saving(wal);
    pthread_mutex_lock(&wal->lock);
    if (turn != copies->load.turn)
        return true;
    copies->load.snapshot = wal->segment.number;
    copies->has_no_room |= !has_begun;
    return true;
}

static void clear(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    unsigned turn = copies->load.turn;

    pthread_mutex_unlock(&wal->lock);
    okv_snapshot_lock(&wal->snapshot);
    int rc = okv_store_import_begin(wal->store, &wal->work);
    okv_snapshot_unlock(&wal->snapshot);
    pthread_mutex_lock(&wal->lock);
    if (turn != copies->load.turn)
        return;
    copies->load.must_clear = false;
    copies->has_no_room |= rc != 0;
}

bool okv_wal_load_some(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_piece *piece = STAILQ_FIRST(&copies->load.waiting);
    unsigned turn = copies->load.turn;

    if (copies->has_no_room)
        return false;
    if (copies->load.must_clear) {
        clear(wal);
        return true;
    }
    if (copies->load.is_whole)
        return save(wal);
    if (!piece)
        return false;
    STAILQ_REMOVE_HEAD(&copies->load.waiting, next);
    pthread_mutex_unlock(&wal->lock);
    okv_snapshot_lock(&wal->snapshot);
    int rc = load_piece(wal, piece);
    okv_snapshot_unlock(&wal->snapshot);
    pthread_mutex_lock(&wal->lock);
    note_loaded(wal, piece, turn, rc);
    free(piece->bytes);
    free(piece);
    return true;
}
