/* When a snapshot is made, and what became of one that was requested. */
#ifndef OKV_SERVER_WAL_SNAPSHOT_SCHEDULE_H
#define OKV_SERVER_WAL_SNAPSHOT_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

struct okv_wal;

/* Requests a snapshot, which begins soon, after one that is being made. It has all that was
 * answered before, and refers to no blob files. Returns the number of its file. Any thread. */
uint64_t okv_wal_snapshot_request(struct okv_wal *wal);
/* The state of a requested snapshot. 0: it is made, and *newest is its number, or that of a later
 * requested one, which replaced it; OKV_ECONFLICT: one that nobody requested replaced it, more than
 * 10 s later or at a stop; OKV_EAGAIN: it is not made yet; OKV_ENOTFOUND: it failed, or the log
 * did. Any thread. */
int okv_wal_snapshot_state(struct okv_wal *wal, uint64_t number, uint64_t *newest);

/* ---- for the log's thread ---- */

/* Whether one is to begin now. */
bool okv_wal_schedule_is_due(struct okv_wal *wal);
/* Begins one, unless the log has failed. The batch is closed, nothing is pending, all of the log is
 * durable, and the snapshot's lock is held. */
void okv_wal_schedule_begin(struct okv_wal *wal);
/* Begins one if anything changed since the last, at the end of the log. The same holds. */
void okv_wal_schedule_last(struct okv_wal *wal);
/* Reports one that failed. The snapshot's lock is held, or its thread has ended. */
void okv_wal_schedule_report(struct okv_wal *wal);

#endif
