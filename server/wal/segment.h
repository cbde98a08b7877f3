/* Segments of the log: begins one, ends one, and reserves its disk space. For the log's thread, and
 * a start. Failures leave their description in wal->why. */
#ifndef OKV_SERVER_WAL_SEGMENT_H
#define OKV_SERVER_WAL_SEGMENT_H

#include "server/wal/wal.h"

/* Truncates the segment after its last frame. Best effort. */
void okv_wal_trim_segment(struct okv_wal *wal);

enum okv_wal_occasion {
    OKV_WAL_AT_START, /* without space for a batch the disk is full, which is no failure */
    OKV_WAL_MEANWHILE,
    OKV_WAL_AT_CUT, /* likewise */
    OKV_WAL_AT_END, /* nothing comes any more */
};
/* Begins the segment after wal->segment; two, if a start has frames to carry over and raised
 * versions. All frames are committed, but those that are carried over: so an uncommitted one is
 * always in the last segment. Where there are copies, all are carried over that are not published.
 * On failure the log stays in the segment that it has. Fails like okv_file_ops. */
int okv_wal_begin_segment(struct okv_wal *wal, enum okv_wal_occasion occasion);
/* All that was written is durable. */
void okv_wal_note_durable(struct okv_wal *wal);
/* Reserves space for the next batch, or finds that the disk is full. The batch is closed. */
void okv_wal_reserve_space(struct okv_wal *wal);
/* The log has failed permanently. Any thread. */
void okv_wal_fail(struct okv_wal *wal, int rc, const char *why);
/* Reports an event (okv_wal_set_report). Any thread. */
void okv_wal_raise_event(struct okv_wal *wal, enum okv_wal_event event, const char *why);

#endif
