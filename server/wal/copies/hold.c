#include "server/wal/copies/hold.h"

#include "server/store/maintain.h"
#include "server/store/pending.h"
#include "server/store/recover.h"
#include "server/store/store.h"
#include "server/wal/copies/load.h"
#include "server/wal/copies/state.h"
#include "server/wal/frame.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/segment.h"
#include "server/wal/state.h"
#include "server/wal/writer.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Bytes of frames that are written before they are synced. */
#define WRITE_BYTES (UINT64_C(8) << 20)
/* Resizing steps after a frame. */
#define RESIZES_MAX 256u

static void tell(struct okv_wal *wal)
{
    wal->copies->params.changed(wal->copies->params.user);
}

/* Under the lock. What is committed comes first, then what this copy has begun itself. */
static bool may_change(const struct okv_wal_copies *copies)
{
    return copies->leads && !copies->drains && !copies->load.is_active &&
           copies->applied >= copies->first;
}

bool okv_wal_copies_must_hold(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    bool must_hold = !may_change(wal->copies);
    pthread_mutex_unlock(&wal->lock);
    return must_hold;
}

/* Under the lock. */
static void trim(struct okv_wal_copies *copies)
{
    uint64_t done = copies->applied < copies->durable ? copies->applied : copies->durable;

    done = done < copies->pinned ? done : copies->pinned;
    okv_wal_tail_trim(&copies->tail, done, copies->params.keep);
}

/* ---- files ---- */

/* Frames from `cut` on do not count any more. The next segment begins there. */
static int cut_files(struct okv_wal *wal, uint64_t cut, uint64_t epoch)
{
    wal->position = cut;
    wal->epoch = epoch;
    if (wal->durable > cut) {
        wal->durable = cut;
        wal->durable_epoch = epoch;
    }
    return okv_wal_has_files(wal) ? okv_wal_begin_segment(wal, OKV_WAL_MEANWHILE) : 0;
}

/* Under the lock, which it leaves meanwhile. */
static void carry_out_cut(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t cut = copies->cut, epoch = copies->tail.epoch;

    copies->cut = OKV_WAL_NO_CUT;
    copies->written = cut;
    pthread_mutex_unlock(&wal->lock);
    int rc = cut_files(wal, cut, epoch);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
}

static int write_frame(struct okv_wal *wal, const struct okv_wal_tail_frame *frame)
{
    struct okv_wal_frame header = frame->frame;

    header.durable = wal->durable;
    int rc = okv_wal_has_files(wal) ? okv_wal_frame_write_copy(wal->files, wal->file, &wal->segment,
                                                               &header, frame->bytes, &wal->why)
                                    : 0;
    if (rc)
        return rc;
    okv_wal_note_written(wal, &header, okv_clock_ns());
    return 0;
}

/* Under the lock, which it leaves meanwhile. `written` moves first: a cut sees what the files are
 * about to have. */
static int write_next(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_tail_frame *frame = okv_wal_tail_find(&copies->tail, copies->written);

    okv_wal_tail_frame_hold(frame);
    copies->written = okv_wal_tail_frame_end(frame);
    pthread_mutex_unlock(&wal->lock);
    int rc = write_frame(wal, frame);
    okv_wal_tail_frame_drop(frame);
    pthread_mutex_lock(&wal->lock);
    return rc;
}

/* Under the lock, which it leaves meanwhile. */
static void write_frames(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t begin = copies->written;
    int rc = 0;

    while (rc == 0 && copies->cut == OKV_WAL_NO_CUT && copies->written < copies->tail.end &&
           copies->written - begin < WRITE_BYTES)
        rc = write_next(wal);
    uint64_t end = copies->written;
    pthread_mutex_unlock(&wal->lock);
    if (rc == 0)
        rc = okv_wal_sync_if_due(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    if (okv_wal_has_files(wal))
        okv_wal_reserve_space(wal);
    pthread_mutex_lock(&wal->lock);
    if (rc == 0 && end > copies->durable && copies->cut == OKV_WAL_NO_CUT)
        copies->durable = end;
    trim(copies);
}

/* ---- the store ---- */

static int apply_record(struct okv_wal *wal, const struct okv_wal_record *record)
{
    const struct okv_store_recovered item = {
        .key = record->key,
        .key_length = record->key_length,
        .value = record->kind == OKV_WAL_DELETE ? NULL : record->value,
        .value_length = record->value_length,
        .version = record->version,
        .expiry_ms = record->expiry_ms,
    };

    if (record->kind == OKV_WAL_EPOCH)
        return 0;
    if (!okv_wal_is_change(record))
        return okv_wal_recover_client(wal, record);
    return okv_store_recover(wal->store, &wal->work, &item);
}

static int apply_frame(struct okv_wal *wal, const struct okv_wal_tail_frame *frame)
{
    struct okv_wal_record record;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    unsigned records = 0;
    int rc = 0;

    while (rc == 0 && at < frame->frame.length) {
        rc = okv_wal_record_decode(frame->bytes, frame->frame.length, &at, &record);
        if (rc == 0)
            rc = apply_record(wal, &record);
        records++;
    }
    okv_store_maintain(wal->store, &wal->work, records < RESIZES_MAX ? records : RESIZES_MAX);
    return rc;
}

/* Under the lock, which it leaves meanwhile. */
static void apply_next(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_tail_frame *frame = okv_wal_tail_find(&copies->tail, copies->applied);

    okv_wal_tail_frame_hold(frame);
    pthread_mutex_unlock(&wal->lock);
    int rc = apply_frame(wal, frame);
    pthread_mutex_lock(&wal->lock);
    copies->is_failed |= rc != 0;
    if (rc == 0) {
        copies->applied = okv_wal_tail_frame_end(frame);
        copies->clock_ms = frame->frame.clock_ms;
    }
    okv_wal_tail_frame_drop(frame);
    trim(copies);
}

/* ---- a copy, or a primary that is drained ---- */

static bool can_apply(const struct okv_wal_copies *copies)
{
    return !copies->is_failed && copies->applied < copies->published &&
           copies->applied < copies->tail.end;
}

/* Under the lock. False: there is nothing to do. */
static bool work_off(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    bool has_failed = atomic_load(&wal->failure);

    if (copies->load.is_active)
        return okv_wal_load_some(wal);
    if (copies->cut != OKV_WAL_NO_CUT && !has_failed)
        carry_out_cut(wal);
    else if (copies->written < copies->tail.end && !has_failed)
        write_frames(wal);
    else if (can_apply(copies))
        apply_next(wal);
    else
        return false;
    return true;
}

/* Under the lock, which it leaves while it tells. */
static void tell_of_work(struct okv_wal *wal)
{
    pthread_mutex_unlock(&wal->lock);
    tell(wal);
    pthread_mutex_lock(&wal->lock);
}

/* Under the lock, which it leaves meanwhile. */
static void sync_in_time(struct okv_wal *wal)
{
    pthread_mutex_unlock(&wal->lock);
    int rc = atomic_load(&wal->failure) ? 0 : okv_wal_sync_if_due(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
}

void okv_wal_copies_hold(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;

    okv_store_pending_set_direct(wal->store, true);
    pthread_mutex_lock(&wal->lock);
    copies->takes_changes = false;
    copies->is_drained = copies->leads && copies->drains;
    tell_of_work(wal);
    while (!wal->has_to_stop && !may_change(copies)) {
        if (work_off(wal)) {
            tell_of_work(wal);
            continue;
        }
        okv_wal_await_request(wal);
        wal->is_wanted = false;
        sync_in_time(wal);
    }
    copies->takes_changes = may_change(copies);
    wal->epoch = copies->tail.epoch;
    pthread_mutex_unlock(&wal->lock);
    okv_store_pending_set_direct(wal->store, false);
    tell(wal);
}

/* ---- a primary ---- */

/* What the log's clients were told is known to whichever copy leads next. */
static void note_clients(struct okv_wal *wal)
{
    const struct okv_wal_batch *batch = &wal->writing;
    uint64_t at = OKV_WAL_FRAME_HEADER;
    struct okv_wal_record record;

    while (at < batch->used && okv_wal_record_decode(batch->bytes, batch->used, &at, &record) == 0)
        if (record.kind == OKV_WAL_CLIENT || record.kind == OKV_WAL_REPLY)
            okv_wal_recover_client(wal, &record);
}

/* 0; OKV_EREADONLY: another copy leads; OKV_ENOMEM. */
static int seal(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_batch *batch = &wal->writing;
    const struct okv_wal_frame header = {
        .length = batch->used,
        .position = wal->position,
        .epoch = wal->epoch,
        .clock_ms = atomic_load(&wal->store->clock_ms),
        .wall_ms = okv_store_clock_wall_ms(wal->store),
    };
    struct okv_wal_tail_frame *frame =
        batch->lacks_reply || batch->used > OKV_WAL_FRAME_MAX
            ? NULL
            : okv_wal_tail_frame_create(&header, batch->bytes + OKV_WAL_FRAME_HEADER);

    if (!frame)
        return OKV_ENOMEM;
    pthread_mutex_lock(&wal->lock);
    bool leads = copies->leads && copies->tail.end == header.position;
    if (leads) {
        okv_wal_tail_append(&copies->tail, frame);
        copies->written = copies->tail.end;
    }
    pthread_mutex_unlock(&wal->lock);
    if (leads)
        return 0;
    okv_wal_tail_frame_drop(frame);
    return OKV_EREADONLY;
}

/* Under the lock. */
static bool await_publication(struct okv_wal *wal, uint64_t end)
{
    struct okv_wal_copies *copies = wal->copies;

    while (copies->published < end && copies->leads && !wal->has_to_stop)
        pthread_cond_wait(&wal->wanted, &wal->lock);
    return copies->published >= end;
}

int okv_wal_copies_commit(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t end = wal->position + wal->writing.used;
    int rc = wal->writing.used > OKV_WAL_FRAME_HEADER ? seal(wal) : 0;

    if (rc || wal->writing.used == OKV_WAL_FRAME_HEADER)
        return rc;
    tell(wal); /* it is on its way while it is written here */
    rc = okv_wal_write_batch(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
    if (rc == 0 && copies->cut == OKV_WAL_NO_CUT)
        copies->durable = end;
    pthread_mutex_unlock(&wal->lock);
    tell(wal);
    pthread_mutex_lock(&wal->lock);
    bool is_published = await_publication(wal, end);
    if (is_published) {
        copies->applied = end;
        trim(copies);
    }
    pthread_mutex_unlock(&wal->lock);
    if (is_published)
        note_clients(wal);
    return is_published ? 0 : OKV_EREADONLY;
}
