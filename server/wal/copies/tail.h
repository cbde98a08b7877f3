/*
 * The latest frames of a log that has copies, in memory: what is on its way to other copies, to the
 * files and to the store.
 *
 * Frames here are sealed as those of segment 0, which no file has. So they travel between servers
 * as they are, and each server seals them anew for its own segment.
 *
 * The caller locks the tail. A frame lives until its last reference is dropped, without the lock.
 */
#ifndef OKV_SERVER_WAL_COPIES_TAIL_H
#define OKV_SERVER_WAL_COPIES_TAIL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "server/wal/format.h"

struct okv_wal_tail_frame {
    TAILQ_ENTRY(okv_wal_tail_frame) in_tail;
    atomic_uint references;
    struct okv_wal_frame frame;
    uint8_t bytes[]; /* [frame.length] */
};

TAILQ_HEAD(okv_wal_tail_list, okv_wal_tail_frame);

struct okv_wal_tail {
    struct okv_wal_tail_list frames;
    uint64_t begin, end;   /* positions: of the first frame, and after the last one */
    uint64_t epoch_before; /* of the frame before `begin` */
    uint64_t epoch;        /* of the last frame, that before `begin` included */
};

/* Empty, after a frame of `epoch` that ends at `position`. */
void okv_wal_tail_init(struct okv_wal_tail *tail, uint64_t position, uint64_t epoch);
void okv_wal_tail_fini(struct okv_wal_tail *tail);

/* A frame with one reference. `records` has frame->length bytes less those of the header. NULL:
 * there is no memory. */
struct okv_wal_tail_frame *okv_wal_tail_frame_create(const struct okv_wal_frame *frame,
                                                     const uint8_t *records);
/* The frame at the beginning of `length` bytes that a peer sent. OKV_EPROTO: there is none that is
 * whole, or its records make no sense; OKV_ENOMEM. */
int okv_wal_tail_frame_decode(const uint8_t *bytes, uint64_t length,
                              struct okv_wal_tail_frame **out);
struct okv_wal_tail_frame *okv_wal_tail_frame_hold(struct okv_wal_tail_frame *frame);
/* Accepts NULL. */
void okv_wal_tail_frame_drop(struct okv_wal_tail_frame *frame);

/* Whether the frame may come next: it begins at `end`, and is of the last epoch, or begins a later
 * one. */
bool okv_wal_tail_accepts(const struct okv_wal_tail *tail, const struct okv_wal_tail_frame *frame);
/* Appends one that is accepted. The reference is the tail's. */
void okv_wal_tail_append(struct okv_wal_tail *tail, struct okv_wal_tail_frame *frame);
/* Drops all from `position` on, where a frame begins, or which is `end`. Before `begin`, the epoch
 * is not known any more, and is 0. */
void okv_wal_tail_cut(struct okv_wal_tail *tail, uint64_t position);
/* Drops frames that end at `position` or before, the oldest first, until `keep` bytes are left. */
void okv_wal_tail_trim(struct okv_wal_tail *tail, uint64_t position, uint64_t keep);
/* Of the frame that ends at `position`; 0: it is not known. */
uint64_t okv_wal_tail_epoch_at(const struct okv_wal_tail *tail, uint64_t position);
/* The frame that begins at `position`; NULL: there is none. */
struct okv_wal_tail_frame *okv_wal_tail_find(const struct okv_wal_tail *tail, uint64_t position);

/* Whether it is the first one of its epoch. */
bool okv_wal_tail_frame_begins_epoch(const struct okv_wal_tail_frame *frame);

static inline uint64_t okv_wal_tail_frame_end(const struct okv_wal_tail_frame *frame)
{
    return frame->frame.position + frame->frame.length;
}

#endif
