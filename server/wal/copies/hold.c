#include "server/wal/copies/hold.h"

#include <limits.h>
#include <time.h>

#include "server/store/maintain.h"
#include "server/store/pending.h"
#include "server/store/resize.h"
#include "server/store/status.h"
#include "server/store/store.h"
#include "server/wal/await.h"
#include "server/wal/copies/apply.h"
#include "server/wal/copies/load.h"
#include "server/wal/copies/state.h"
#include "server/wal/disk.h"
#include "server/wal/frame.h"
#include "server/wal/null_files.h"
#include "server/wal/recovery/snapshot.h"
#include "server/wal/segment.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Bytes of frames that are written before they are synced. */
#define WRITE_BYTES (UINT64_C(8) << 20)
/* Frames that are applied before the cluster's thread looks. */
#define FRAMES_MAX 64u
/* Resizing steps after a frame. */
#define RESIZES_MAX 256u
/* Between two looks at the lease. */
#define LEASE_STEP_NS 1000000

void okv_wal_copies_tell(struct okv_wal *wal)
{
    wal->copies->params.changed(wal->copies->params.user);
}

/* Under the lock. What is committed comes first, then what this copy has begun itself. */
static bool has_begun(const struct okv_wal_copies *copies)
{
    return copies->leads && !copies->load.is_active && copies->applied >= copies->first;
}

/* Under the lock. A batch is written after all before it. */
static bool may_change(const struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;
    bool is_written = copies->written == copies->tail.end || atomic_load(&wal->failure);

    return has_begun(copies) && !copies->drains && is_written;
}

bool okv_wal_copies_must_hold(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    bool must_hold = !may_change(wal);
    pthread_mutex_unlock(&wal->lock);
    return must_hold;
}

bool okv_wal_copies_is_whole(struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    bool is_whole = !copies->load.is_active && copies->cut == OKV_WAL_NO_CUT &&
                    copies->written == copies->tail.end;
    pthread_mutex_unlock(&wal->lock);
    return is_whole;
}

/* Under the lock. */
static void trim(struct okv_wal_copies *copies)
{
    uint64_t done = copies->applied < copies->durable ? copies->applied : copies->durable;

    done = done < copies->pinned ? done : copies->pinned;
    okv_wal_tail_trim(&copies->tail, done, copies->keep);
}

/* ---- files ---- */

/* Under the lock. A cut that came meanwhile says first what of it is left. */
static void note_durable(struct okv_wal_copies *copies, uint64_t end)
{
    if (end > copies->durable && copies->cut == OKV_WAL_NO_CUT)
        copies->durable = end;
}

/* Frames from `cut` on do not count any more: the next segment has those before. */
static int cut_files(struct okv_wal *wal, uint64_t cut, uint64_t epoch)
{
    wal->position = cut;
    wal->epoch = epoch;
    if (okv_files_keep(wal->files))
        return okv_wal_begin_segment(wal, OKV_WAL_AT_CUT);
    if (wal->durable >= cut)
        okv_wal_note_durable(wal);
    return 0;
}

/* Under the lock, which it leaves meanwhile. */
static void carry_out_cut(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t cut = copies->cut, epoch = copies->cut_epoch;

    copies->cut = OKV_WAL_NO_CUT;
    copies->written = cut;
    pthread_mutex_unlock(&wal->lock);
    int rc = cut_files(wal, cut, epoch);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
    if (rc == 0)
        note_durable(copies, cut);
}

/* An epoch begins when all before it is durable, as a start demands. */
static int write_frame(struct okv_wal *wal, const struct okv_wal_tail_frame *frame)
{
    struct okv_wal_frame header = frame->frame;
    int rc = okv_wal_tail_frame_begins_epoch(frame) ? okv_wal_sync(wal) : 0;

    header.durable = wal->durable;
    if (rc == 0 && okv_files_keep(wal->files))
        rc = okv_wal_frame_write_copy(wal->files, wal->file, &wal->segment, &header, frame->bytes,
                                      &wal->why);
    if (rc == 0)
        okv_wal_note_written(wal, &header, okv_clock_ns());
    return rc;
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
    if (okv_files_keep(wal->files))
        okv_wal_reserve_space(wal); /* for the next one */
    pthread_mutex_lock(&wal->lock);
    return rc;
}

/* Under the lock. */
static bool can_write(const struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;

    return copies->cut == OKV_WAL_NO_CUT && copies->written < copies->tail.end &&
           !atomic_load(&wal->failure) && !atomic_load(&wal->space.is_full);
}

/* Under the lock, which it leaves meanwhile. */
static void write_frames(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t begin = copies->written;
    int rc = 0;

    while (rc == 0 && can_write(wal) && copies->written - begin < WRITE_BYTES)
        rc = write_next(wal);
    uint64_t end = copies->written;
    pthread_mutex_unlock(&wal->lock);
    if (rc == 0)
        rc = okv_wal_sync_if_due(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
    if (rc == 0)
        note_durable(copies, end);
    trim(copies);
}

/* ---- the store ---- */

/* Under the lock. */
static void note_frame(struct okv_wal_copies *copies, const struct okv_wal_tail_frame *frame,
                       int rc)
{
    copies->has_no_room |= rc != 0;
    if (rc)
        return;
    copies->applied = okv_wal_tail_frame_end(frame);
    if (frame->frame.clock_ms > copies->clock_ms)
        copies->clock_ms = frame->frame.clock_ms;
}

/* The primary had room for it, in other places, and may have merged buckets for that. Merges take
 * memory first, which is the slack's. */
static int apply_in_slack(struct okv_wal *wal, const struct okv_wal_tail_frame *frame)
{
    unsigned merges = UINT_MAX, records;
    int rc;

    okv_store_release_slack(wal->store);
    do
        rc = okv_wal_apply_frame(wal, &wal->work, frame, &records);
    while (rc == OKV_EFULL && okv_store_free_segment(wal->store, &wal->work, 1, &merges));
    okv_store_take_slack(wal->store);
    return rc;
}

/* Under the lock, which it leaves meanwhile. */
static void apply_next(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_tail_frame *frame = okv_wal_tail_find(&copies->tail, copies->applied);
    unsigned turn = copies->load.turn, records;

    okv_wal_tail_frame_hold(frame);
    pthread_mutex_unlock(&wal->lock);
    okv_snapshot_lock(&wal->snapshot);
    int rc = okv_wal_apply_frame(wal, &wal->work, frame, &records);
    if (rc == OKV_EFULL)
        rc = apply_in_slack(wal, frame);
    okv_store_maintain(wal->store, &wal->work, records < RESIZES_MAX ? records : RESIZES_MAX);
    okv_snapshot_unlock(&wal->snapshot);
    pthread_mutex_lock(&wal->lock);
    if (turn == copies->load.turn) /* else it is of items that go */
        note_frame(copies, frame, rc);
    okv_wal_tail_frame_drop(frame);
    trim(copies);
}

/* ---- a copy, or a primary that is drained ---- */

static bool can_apply(const struct okv_wal_copies *copies)
{
    return !copies->has_no_room && copies->applied < copies->published &&
           copies->applied < copies->tail.end;
}

/* Under the lock, which it leaves meanwhile. A cut that comes then is carried out before more is
 * applied: the segment that it begins has what is not. */
static void apply_some(struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;
    unsigned turn = copies->load.turn, count = 0;

    do
        apply_next(wal);
    while (++count < FRAMES_MAX && can_apply(copies) && !can_write(wal) &&
           copies->cut == OKV_WAL_NO_CUT && copies->load.turn == turn);
}

/* Under the lock. Nothing is evaluated, and nothing waits to be sealed. True: that is news. */
static bool note_drained(struct okv_wal_copies *copies)
{
    bool was_drained = copies->is_drained;

    copies->is_drained = copies->leads && copies->drains;
    return copies->is_drained && !was_drained;
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
    else if (can_write(wal))
        write_frames(wal);
    else if (can_apply(copies))
        apply_some(wal);
    else
        return note_drained(copies);
    return true;
}

/* The segment that begins has the frames that are not published, which are to be few. */
static bool is_snapshot_due(struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    bool is_due = okv_files_keep(wal->files) && !copies->load.is_active &&
                  copies->cut == OKV_WAL_NO_CUT && copies->written - copies->applied < WRITE_BYTES;
    pthread_mutex_unlock(&wal->lock);
    return is_due && okv_wal_schedule_is_due(wal);
}

static void snapshot(struct okv_wal *wal)
{
    int rc = okv_wal_sync(wal);

    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    okv_snapshot_lock(&wal->snapshot);
    if (rc == 0)
        okv_wal_schedule_begin(wal);
    okv_wal_schedule_report(wal);
    okv_snapshot_unlock(&wal->snapshot);
}

/* Under the lock, which it leaves while it tells. */
static void tell_of_work(struct okv_wal *wal)
{
    pthread_mutex_unlock(&wal->lock);
    okv_wal_copies_tell(wal);
    if (is_snapshot_due(wal))
        snapshot(wal);
    pthread_mutex_lock(&wal->lock);
}

/* Under the lock, which it leaves meanwhile. */
static void do_in_time(struct okv_wal *wal)
{
    pthread_mutex_unlock(&wal->lock);
    int rc = atomic_load(&wal->failure) ? 0 : okv_wal_sync_if_due(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    if (atomic_load(&wal->space.is_full))
        okv_wal_reserve_space(wal);
    if (is_snapshot_due(wal))
        snapshot(wal);
    pthread_mutex_lock(&wal->lock);
}

void okv_wal_copies_hold(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;

    okv_store_pending_set_direct(wal->store, true);
    okv_store_pending_follow(wal->store, true);
    copies->holds = true;
    pthread_mutex_lock(&wal->lock);
    copies->takes_changes = false;
    note_drained(copies);
    tell_of_work(wal);
    while (!may_change(wal)) {
        okv_wal_note_step(wal);
        if (work_off(wal)) {
            tell_of_work(wal);
            continue;
        }
        if (wal->has_to_stop)
            break;
        okv_wal_await_request(wal);
        wal->is_wanted = false;
        do_in_time(wal);
    }
    copies->takes_changes = may_change(wal) && !wal->has_to_stop;
    wal->epoch = copies->tail.epoch;
    pthread_mutex_unlock(&wal->lock);
    copies->holds = false;
    okv_store_pending_follow(wal->store, false);
    okv_store_pending_set_direct(wal->store, false);
    okv_wal_copies_tell(wal);
}

/* ---- a primary ---- */

/* What the log's clients were told is known to whichever copy leads next. */
static void note_clients(struct okv_wal *wal, const struct okv_wal_tail_frame *frame)
{
    uint64_t at = OKV_WAL_FRAME_HEADER, end = frame->frame.length;
    struct okv_wal_record record;

    while (at < end && okv_wal_record_decode(frame->bytes, end, &at, &record) == 0)
        if (record.kind == OKV_WAL_CLIENT || record.kind == OKV_WAL_REPLY)
            okv_wal_recover_client(wal, &record);
}

/* 0; OKV_EREADONLY: another copy leads; OKV_ENOMEM: another copy may lack what clients know. */
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
        return okv_diag_set(&wal->why, OKV_ENOMEM, "%s", okv_error_text(OKV_ENOMEM));
    pthread_mutex_lock(&wal->lock);
    bool leads = copies->leads && copies->tail.end == header.position;
    if (leads) {
        okv_wal_tail_append(&copies->tail, frame);
        copies->written = copies->batch_end = copies->tail.end;
        if (!okv_files_keep(wal->files))
            copies->durable = copies->tail.end;
    }
    pthread_mutex_unlock(&wal->lock);
    if (leads)
        return 0;
    okv_wal_tail_frame_drop(frame);
    return OKV_EREADONLY;
}

/* Under the lock. This copy may lead again before it is noted here that it did not, and its frame
 * may be cut off, and others published in its place. */
static bool await_publication(struct okv_wal *wal, uint64_t end)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t poll_until_ns = okv_wal_poll_until_ns(wal);

    while (copies->published < end && copies->batch_end == end && copies->leads &&
           copies->first < end && !wal->has_to_stop)
        okv_wal_pause(wal, poll_until_ns, UINT64_MAX);
    return copies->published >= end && copies->batch_end == end;
}

enum lease { HOLDS, MAY_COME, IS_LOST };

/* A lease that did not come for so long may wait for this very batch: its clients came in an
 * earlier epoch, and the next one is served when they have gone. */
static enum lease ask_lease(struct okv_wal *wal, uint64_t until_ns)
{
    struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    bool leads = has_begun(copies);
    bool may_come = leads && !copies->drains && !wal->has_to_stop;
    pthread_mutex_unlock(&wal->lock);
    if (leads && okv_store_lease_holds(wal->store))
        return HOLDS;
    return may_come && okv_clock_ns() < until_ns ? MAY_COME : IS_LOST;
}

/* Ends a batch that changed nothing. Its answers rest on what was published, and are true only if
 * no other copy led when they were made. 0; OKV_EREADONLY: nobody knows. */
static int await_lease(struct okv_wal *wal)
{
    const struct timespec pause = {.tv_nsec = LEASE_STEP_NS};
    uint64_t longest_ms = okv_store_get_lease(wal->store).longest_ms;
    uint64_t until_ns = okv_clock_ns() + 2 * longest_ms * UINT64_C(1000000);
    enum lease lease = ask_lease(wal, until_ns);

    while (lease == MAY_COME && okv_wal_is_awaited(wal)) {
        nanosleep(&pause, NULL);
        lease = ask_lease(wal, until_ns);
    }
    return lease == IS_LOST ? OKV_EREADONLY : 0;
}

int okv_wal_copies_commit(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;
    uint64_t end = wal->position + wal->writing.used;

    if (wal->writing.used == OKV_WAL_FRAME_HEADER)
        return await_lease(wal);
    int rc = seal(wal);
    if (rc)
        return rc;
    okv_wal_copies_tell(wal); /* it is on its way while it is written here */
    rc = okv_wal_write_batch(wal);
    if (rc)
        okv_wal_fail(wal, rc, wal->why.text);
    pthread_mutex_lock(&wal->lock);
    if (rc == 0)
        note_durable(copies, end);
    pthread_mutex_unlock(&wal->lock);
    if (rc && wal->sync_within_ns == 0) /* what is not on this disk is never published here */
        return OKV_EREADONLY;
    if (okv_files_keep(wal->files))
        okv_wal_copies_tell(wal);
    pthread_mutex_lock(&wal->lock);
    bool is_published = await_publication(wal, end);
    pthread_mutex_unlock(&wal->lock);
    return is_published ? 0 : OKV_EREADONLY;
}

void okv_wal_copies_note_applied(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;

    if (wal->writing.used == OKV_WAL_FRAME_HEADER)
        return;
    pthread_mutex_lock(&wal->lock);
    struct okv_wal_tail_frame *frame = okv_wal_tail_frame_hold(
        okv_wal_tail_find(&copies->tail, copies->batch_end - wal->writing.used));
    pthread_mutex_unlock(&wal->lock);
    note_clients(wal, frame);
    okv_wal_tail_frame_drop(frame);
    pthread_mutex_lock(&wal->lock);
    copies->applied = copies->batch_end;
    trim(copies);
    pthread_mutex_unlock(&wal->lock);
}
