/*
 * What a start reads of a log that has copies. Its last batch may not be published: a successor may
 * have gone on without it, and has this copy cut it off.
 *
 * There is one batch at a time, and an epoch takes changes when its first frame is published. So
 * all frames before the last one with changes are published, and so is all before the beginning of
 * a segment. They are applied; the rest stays in the tail, as when it had just come.
 */
#ifndef OKV_SERVER_WAL_COPIES_REPLAY_H
#define OKV_SERVER_WAL_COPIES_REPLAY_H

#include <stdint.h>

struct okv_store_work;
struct okv_wal;
struct okv_wal_frame;

/* The log goes on at wal->position, after a frame of wal->epoch. All before is applied. */
void okv_wal_copies_replay_begin(struct okv_wal *wal);
/* All before `position` is published, as a segment begins there. Fails like okv_wal_apply_frame().
 */
int okv_wal_copies_replay_before(struct okv_wal *wal, struct okv_store_work *work,
                                 uint64_t position);
/* The next frame, of an epoch that is not 0; `bytes` has frame->length of them. Fails likewise. */
int okv_wal_copies_replay_frame(struct okv_wal *wal, struct okv_store_work *work,
                                const struct okv_wal_frame *frame, const uint8_t *bytes);

#endif
