#include "server/wal/copies/copies.h"

#include <stdlib.h>
#include <string.h>

#include "server/store/store.h"
#include "server/wal/append.h"
#include "server/wal/copies/replay.h"
#include "server/wal/copies/state.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

bool okv_wal_is_empty_log(const struct okv_wal *wal)
{
    return !wal->snapshot_header.number && wal->position == wal->segment.position;
}

void okv_wal_get_identity(const struct okv_wal *wal, struct okv_wal_identity *out)
{
    memcpy(out->database_id, wal->segment.database_id, OKV_WAL_ID_SIZE);
    out->hash_seed = wal->segment.hash_seed;
    out->position = okv_wal_is_empty_log(wal) ? wal->segment.position : 0;
}

int okv_wal_set_identity(struct okv_wal *wal, const struct okv_wal_identity *identity)
{
    struct okv_wal_header *segment = &wal->segment;

    if (segment->number)
        return segment->hash_seed == identity->hash_seed &&
                       memcmp(segment->database_id, identity->database_id, OKV_WAL_ID_SIZE) == 0
                   ? 0
                   : OKV_EEXISTS;
    memcpy(segment->database_id, identity->database_id, OKV_WAL_ID_SIZE);
    segment->hash_seed = identity->hash_seed;
    segment->position = wal->position = wal->durable = identity->position;
    if (wal->copies)
        okv_wal_copies_replay_begin(wal);
    return 0;
}

int okv_wal_copies_create(struct okv_wal *wal, uint64_t keep)
{
    struct okv_wal_copies *copies = calloc(1, sizeof *copies);

    if (!copies)
        return OKV_ENOMEM;
    copies->keep = keep;
    copies->cut = OKV_WAL_NO_CUT;
    copies->pinned = UINT64_MAX;
    okv_wal_tail_init(&copies->tail, 0, 0);
    STAILQ_INIT(&copies->load.waiting);
    wal->copies = copies;
    return 0;
}

void okv_wal_copies_begin(struct okv_wal *wal, const struct okv_wal_copies_params *params)
{
    struct okv_wal_copies *copies = wal->copies;

    copies->params = *params;
    copies->written = copies->durable = copies->tail.end;
    copies->published = copies->applied;
    wal->blobs.min_length = UINT64_MAX;
}

void okv_wal_copies_get_epochs(const struct okv_wal *wal, struct okv_wal_epochs *out)
{
    *out = wal->copies->epochs;
}

static void drop_pieces(struct okv_wal_copies *copies)
{
    struct okv_wal_piece *piece;

    while ((piece = STAILQ_FIRST(&copies->load.waiting))) {
        STAILQ_REMOVE_HEAD(&copies->load.waiting, next);
        free(piece->bytes);
        free(piece);
    }
}

void okv_wal_copies_end(struct okv_wal *wal)
{
    if (!wal->copies)
        return;
    drop_pieces(wal->copies);
    okv_wal_tail_fini(&wal->copies->tail);
    free(wal->copies);
}

/* Under the lock. */
static struct okv_wal_copies_state state_of(struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_copies_state state = {
        .is_failed = atomic_load(&wal->failure) != 0,
        .has_no_room = copies->has_no_room,
        .is_disk_full = atomic_load(&wal->space.is_full),
        .step_ns = atomic_load(&wal->step_ns),
        .is_loading = copies->load.is_active,
        .pieces = copies->load.pieces,
    };

    if (copies->load.is_active)
        return state;
    state.begin = copies->tail.begin;
    state.sealed = copies->tail.end;
    state.epoch = copies->tail.epoch;
    state.durable = copies->durable;
    state.applied = copies->applied;
    state.clock_ms = copies->clock_ms;
    state.is_drained = copies->is_drained;
    state.takes_changes = copies->takes_changes;
    return state;
}

void okv_wal_copies_get(struct okv_wal *wal, struct okv_wal_copies_state *out)
{
    pthread_mutex_lock(&wal->lock);
    *out = state_of(wal);
    pthread_mutex_unlock(&wal->lock);
}

/* Under the lock: the log's thread looks at what has changed. */
static void wake(struct okv_wal *wal)
{
    wal->is_wanted = true;
    pthread_cond_signal(&wal->wanted);
}

int okv_wal_copies_lead(struct okv_wal *wal, uint64_t epoch, uint64_t raise)
{
    struct okv_wal_copies *copies = wal->copies;
    uint8_t record[sizeof(struct okv_wal_wire_record)];
    const struct okv_wal_record begins = {.kind = OKV_WAL_EPOCH, .version = epoch, .raise = raise};
    struct okv_wal_frame header = {
        .length = sizeof(struct okv_wal_wire_frame) + sizeof record,
        .epoch = epoch,
        .clock_ms = atomic_load(&wal->store->clock_ms),
        .wall_ms = okv_store_clock_wall_ms(wal->store),
    };

    okv_wal_record_encode(&begins, record);
    pthread_mutex_lock(&wal->lock);
    header.position = copies->tail.end;
    struct okv_wal_tail_frame *frame = okv_wal_tail_frame_create(&header, record);
    if (frame) {
        okv_wal_tail_append(&copies->tail, frame);
        copies->first = copies->tail.end;
        copies->leads = true;
        copies->drains = copies->is_drained = false;
        wake(wal);
    }
    pthread_mutex_unlock(&wal->lock);
    return frame ? 0 : OKV_ENOMEM;
}

void okv_wal_copies_follow(struct okv_wal *wal)
{
    pthread_mutex_lock(&wal->lock);
    wal->copies->leads = false;
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_copies_drain(struct okv_wal *wal, bool drains)
{
    pthread_mutex_lock(&wal->lock);
    wal->copies->drains = drains;
    wal->copies->is_drained = false;
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
}

/* Under the lock. Frames before the end of the tail are there already. */
static int append(struct okv_wal_copies *copies, struct okv_wal_tail_frame *frame)
{
    if (!copies->leads && okv_wal_tail_accepts(&copies->tail, frame)) {
        okv_wal_tail_append(&copies->tail, frame);
        return 0;
    }
    bool is_known = okv_wal_tail_frame_end(frame) <= copies->tail.end;
    okv_wal_tail_frame_drop(frame);
    return is_known ? 0 : OKV_EPROTO;
}

int okv_wal_copies_append(struct okv_wal *wal, const uint8_t *bytes, size_t length)
{
    struct okv_wal_tail_frame *frame;
    int rc = 0;

    for (size_t at = 0; at < length && rc == 0;) {
        rc = okv_wal_tail_frame_decode(bytes + at, length - at, &frame);
        if (rc)
            break;
        at += frame->frame.length;
        pthread_mutex_lock(&wal->lock);
        rc = append(wal->copies, frame);
        pthread_mutex_unlock(&wal->lock);
    }
    okv_wal_wake(wal);
    return rc;
}

void okv_wal_copies_cut(struct okv_wal *wal, uint64_t position)
{
    struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    okv_wal_tail_cut(&copies->tail, position);
    if (position < copies->batch_end)
        copies->batch_end = 0;
    if (position < copies->written && position < copies->cut) {
        copies->cut = position;
        copies->cut_epoch = copies->tail.epoch;
    }
    if (position < copies->durable)
        copies->durable = position;
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_copies_publish(struct okv_wal *wal, uint64_t position)
{
    pthread_mutex_lock(&wal->lock);
    if (position > wal->copies->published)
        wal->copies->published = position;
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_copies_pin(struct okv_wal *wal, uint64_t position)
{
    pthread_mutex_lock(&wal->lock);
    wal->copies->pinned = position;
    pthread_mutex_unlock(&wal->lock);
}

void okv_wal_copies_load(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    drop_pieces(copies);
    copies->load.is_active = copies->load.must_clear = true;
    copies->load.has_interval = copies->load.is_whole = false;
    copies->load.pieces = 0;
    copies->load.snapshot = 0;
    copies->load.turn++;
    copies->has_no_room = false;
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
}

int okv_wal_copies_add_piece(struct okv_wal *wal, uint8_t *bytes, size_t length, uint64_t end,
                             uint64_t epoch)
{
    struct okv_wal_piece *piece = malloc(sizeof *piece);

    if (!piece) {
        free(bytes);
        return OKV_ENOMEM;
    }
    *piece = (struct okv_wal_piece){.bytes = bytes, .length = length, .end = end, .epoch = epoch};
    pthread_mutex_lock(&wal->lock);
    STAILQ_INSERT_TAIL(&wal->copies->load.waiting, piece, next);
    wake(wal);
    pthread_mutex_unlock(&wal->lock);
    return 0;
}

void okv_wal_copies_refuse(struct okv_wal *wal, int code)
{
    atomic_store(&wal->copies->refusal, code);
}

int okv_wal_copies_read(struct okv_wal *wal, uint64_t position, uint64_t end, uint8_t *bytes,
                        size_t room, size_t *used)
{
    int rc = OKV_ENOTFOUND;

    *used = 0;
    pthread_mutex_lock(&wal->lock);
    for (struct okv_wal_tail_frame *frame = okv_wal_tail_find(&wal->copies->tail, position);
         frame && okv_wal_tail_frame_end(frame) <= end; frame = TAILQ_NEXT(frame, in_tail)) {
        if (frame->frame.length > room - *used) {
            rc = *used ? 0 : OKV_EVALUESIZE;
            *used += *used ? 0 : frame->frame.length;
            break;
        }
        memcpy(bytes + *used, frame->bytes, frame->frame.length);
        *used += frame->frame.length;
        rc = 0;
    }
    pthread_mutex_unlock(&wal->lock);
    return rc;
}

/* ---- for the log ---- */

/* A later cut may reach them, and stays within the segment. */
void okv_wal_copies_carry_unpublished(struct okv_wal *wal)
{
    const struct okv_wal_copies *copies = wal->copies;

    pthread_mutex_lock(&wal->lock);
    if (wal->durable > copies->applied) {
        wal->durable = copies->applied;
        wal->durable_epoch = okv_wal_tail_epoch_at(&copies->tail, copies->applied);
    }
    pthread_mutex_unlock(&wal->lock);
}
