#include "server/wal/copies/tail.h"

#include <stdlib.h>
#include <string.h>

#include "shared/base/error.h"

/* No file has a segment of this number. */
#define SEGMENT 0

#define HEADER sizeof(struct okv_wal_wire_frame)

void okv_wal_tail_init(struct okv_wal_tail *tail, uint64_t position, uint64_t epoch)
{
    TAILQ_INIT(&tail->frames);
    tail->begin = tail->end = position;
    tail->epoch = tail->epoch_before = epoch;
}

static void drop_first(struct okv_wal_tail *tail)
{
    struct okv_wal_tail_frame *first = TAILQ_FIRST(&tail->frames);

    tail->begin = okv_wal_tail_frame_end(first);
    tail->epoch_before = first->frame.epoch;
    TAILQ_REMOVE(&tail->frames, first, in_tail);
    okv_wal_tail_frame_drop(first);
}

void okv_wal_tail_fini(struct okv_wal_tail *tail)
{
    while (!TAILQ_EMPTY(&tail->frames))
        drop_first(tail);
}

/* ---- frames ---- */

static struct okv_wal_tail_frame *allocate(const struct okv_wal_frame *frame)
{
    struct okv_wal_tail_frame *out = malloc(sizeof *out + frame->length);

    if (!out)
        return NULL;
    out->frame = *frame;
    atomic_init(&out->references, 1);
    return out;
}

struct okv_wal_tail_frame *okv_wal_tail_frame_create(const struct okv_wal_frame *frame,
                                                     const uint8_t *records)
{
    struct okv_wal_tail_frame *out = allocate(frame);

    if (!out)
        return NULL;
    out->frame.durable = 0; /* which each copy says for itself */
    memcpy(out->bytes + HEADER, records, frame->length - HEADER);
    okv_wal_frame_seal(&out->frame, SEGMENT, out->bytes);
    return out;
}

/* Of those that a primary sends: an epoch begins with its first frame, and long values are among
 * the records. */
static bool is_shipped(uint64_t at, const struct okv_wal_frame *frame,
                       const struct okv_wal_record *record)
{
    switch (record->kind) {
    case OKV_WAL_PUT:
    case OKV_WAL_DELETE:
    case OKV_WAL_CLIENT:
    case OKV_WAL_REPLY:
        return true;
    case OKV_WAL_EPOCH:
        return at == HEADER && record->version == frame->epoch;
    default:
        return false;
    }
}

static bool has_sound_records(const struct okv_wal_frame *frame, const uint8_t *bytes)
{
    struct okv_wal_record record;
    uint64_t at = HEADER;

    while (at < frame->length) {
        uint64_t begin = at;
        if (okv_wal_record_decode(bytes, frame->length, &at, &record) ||
            !is_shipped(begin, frame, &record))
            return false;
    }
    return true;
}

int okv_wal_tail_frame_decode(const uint8_t *bytes, uint64_t length,
                              struct okv_wal_tail_frame **out)
{
    uint64_t most = length < OKV_WAL_FRAME_MAX ? length : OKV_WAL_FRAME_MAX;
    struct okv_wal_frame frame;

    if (length < HEADER || !okv_wal_frame_peek(bytes, most, &frame) ||
        frame.epoch > OKV_WAL_EPOCH_MAX || frame.durable != 0 ||
        frame.position > UINT64_MAX - frame.length ||
        !okv_wal_frame_check(&frame, SEGMENT, frame.position, bytes) ||
        !has_sound_records(&frame, bytes))
        return OKV_EPROTO;
    *out = allocate(&frame);
    if (!*out)
        return OKV_ENOMEM;
    memcpy((*out)->bytes, bytes, frame.length);
    return 0;
}

struct okv_wal_tail_frame *okv_wal_tail_frame_hold(struct okv_wal_tail_frame *frame)
{
    atomic_fetch_add(&frame->references, 1);
    return frame;
}

void okv_wal_tail_frame_drop(struct okv_wal_tail_frame *frame)
{
    if (frame && atomic_fetch_sub(&frame->references, 1) == 1)
        free(frame);
}

bool okv_wal_tail_frame_begins_epoch(const struct okv_wal_tail_frame *frame)
{
    struct okv_wal_record first;
    uint64_t at = HEADER;

    return okv_wal_record_decode(frame->bytes, frame->frame.length, &at, &first) == 0 &&
           first.kind == OKV_WAL_EPOCH;
}

/* ---- the tail ---- */

/* The same that a start demands of the files. */
bool okv_wal_tail_accepts(const struct okv_wal_tail *tail, const struct okv_wal_tail_frame *frame)
{
    return frame->frame.position == tail->end &&
           (okv_wal_tail_frame_begins_epoch(frame) ? frame->frame.epoch > tail->epoch
                                                   : frame->frame.epoch == tail->epoch);
}

void okv_wal_tail_append(struct okv_wal_tail *tail, struct okv_wal_tail_frame *frame)
{
    TAILQ_INSERT_TAIL(&tail->frames, frame, in_tail);
    tail->end = okv_wal_tail_frame_end(frame);
    tail->epoch = frame->frame.epoch;
}

/* What comes next is of the epoch of what is left, or of a later one. */
void okv_wal_tail_cut(struct okv_wal_tail *tail, uint64_t position)
{
    struct okv_wal_tail_frame *last;

    while ((last = TAILQ_LAST(&tail->frames, okv_wal_tail_list)) &&
           last->frame.position >= position) {
        TAILQ_REMOVE(&tail->frames, last, in_tail);
        okv_wal_tail_frame_drop(last);
    }
    tail->end = position;
    if (position < tail->begin) {
        tail->begin = position;
        tail->epoch_before = 0;
    }
    tail->epoch = last ? last->frame.epoch : tail->epoch_before;
}

void okv_wal_tail_trim(struct okv_wal_tail *tail, uint64_t position, uint64_t keep)
{
    struct okv_wal_tail_frame *first;

    while ((first = TAILQ_FIRST(&tail->frames)) && okv_wal_tail_frame_end(first) <= position &&
           tail->end - okv_wal_tail_frame_end(first) >= keep)
        drop_first(tail);
}

uint64_t okv_wal_tail_epoch_at(const struct okv_wal_tail *tail, uint64_t position)
{
    struct okv_wal_tail_frame *frame;

    TAILQ_FOREACH_REVERSE(frame, &tail->frames, okv_wal_tail_list, in_tail)
    {
        if (okv_wal_tail_frame_end(frame) == position)
            return frame->frame.epoch;
    }
    return position == tail->begin ? tail->epoch_before : 0;
}

struct okv_wal_tail_frame *okv_wal_tail_find(const struct okv_wal_tail *tail, uint64_t position)
{
    struct okv_wal_tail_frame *frame;

    TAILQ_FOREACH_REVERSE(frame, &tail->frames, okv_wal_tail_list, in_tail)
    {
        if (frame->frame.position <= position)
            return frame->frame.position == position ? frame : NULL;
    }
    return NULL;
}
