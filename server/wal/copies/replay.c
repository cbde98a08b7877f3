#include "server/wal/copies/replay.h"

#include <string.h>

#include "server/store/store.h"
#include "server/wal/copies/apply.h"
#include "server/wal/copies/state.h"
#include "server/wal/frame.h"
#include "server/wal/state.h"
#include "shared/base/error.h"

static void add_epoch(struct okv_wal_epochs *epochs, uint64_t epoch, uint64_t begin)
{
    if (epochs->count == OKV_WAL_EPOCHS_MAX)
        memmove(epochs->of, epochs->of + 1, --epochs->count * sizeof epochs->of[0]);
    epochs->of[epochs->count].epoch = epoch;
    epochs->of[epochs->count].begin = begin;
    epochs->count++;
}

void okv_wal_copies_replay_begin(struct okv_wal *wal)
{
    struct okv_wal_copies *copies = wal->copies;

    okv_wal_tail_fini(&copies->tail);
    okv_wal_tail_init(&copies->tail, wal->position, wal->epoch);
    copies->applied = wal->position;
    copies->epochs.count = 0;
    if (wal->epoch)
        add_epoch(&copies->epochs, wal->epoch, 0);
}

int okv_wal_copies_replay_before(struct okv_wal *wal, struct okv_store_work *work,
                                 uint64_t position)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_tail_frame *frame;
    unsigned records;
    int rc = 0;

    while (rc == 0 && copies->applied < position &&
           (frame = okv_wal_tail_find(&copies->tail, copies->applied))) {
        okv_store_set_clock(wal->store, frame->frame.clock_ms, false);
        rc = okv_wal_apply_frame(wal, work, frame, &records);
        copies->applied = okv_wal_tail_frame_end(frame);
        copies->clock_ms = frame->frame.clock_ms;
    }
    okv_wal_tail_trim(&copies->tail, copies->applied, copies->keep);
    return rc;
}

int okv_wal_copies_replay_frame(struct okv_wal *wal, struct okv_store_work *work,
                                const struct okv_wal_frame *frame, const uint8_t *bytes)
{
    struct okv_wal_copies *copies = wal->copies;
    struct okv_wal_tail_frame *kept =
        okv_wal_tail_frame_create(frame, bytes + OKV_WAL_FRAME_HEADER);
    int rc = 0;

    if (!kept)
        return OKV_ENOMEM;
    if (okv_wal_tail_frame_begins_epoch(kept))
        add_epoch(&copies->epochs, frame->epoch, frame->position);
    else
        rc = okv_wal_copies_replay_before(wal, work, frame->position);
    okv_wal_tail_append(&copies->tail, kept);
    return rc;
}
