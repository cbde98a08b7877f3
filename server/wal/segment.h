/* Segments of the log: how one begins, and its room on the disk. For the log's thread, and a start.
 */
#ifndef OKV_SERVER_WAL_SEGMENT_H
#define OKV_SERVER_WAL_SEGMENT_H

#include "server/wal/wal.h"

/* Takes away what the segment has behind its last frame. Best effort. */
void okv_wal_trim_segment(struct okv_wal *wal);
/* Begins the segment after wal->segment. Returns 0 or a negative errno: the log stays in the one
 * that it has. */
int okv_wal_begin_segment(struct okv_wal *wal);
/* All that was written is durable. */
void okv_wal_note_durable(struct okv_wal *wal);
/* Reserves space for the next batch, or finds that the disk is full. The gate is closed. */
void okv_wal_make_room(struct okv_wal *wal);
/* The log has failed, for good. */
void okv_wal_fail(struct okv_wal *wal, int error);
/* Tells whoever runs the server. */
void okv_wal_report(struct okv_wal *wal, enum okv_wal_event event, int error);

#endif
