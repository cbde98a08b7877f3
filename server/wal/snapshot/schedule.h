/* When a snapshot is made, and how whoever asked for one learns of it. For the log's thread. */
#ifndef OKV_SERVER_WAL_SNAPSHOT_SCHEDULE_H
#define OKV_SERVER_WAL_SNAPSHOT_SCHEDULE_H

#include "server/wal/wal.h"

/* Whether one is to begin now. Whoever wished for one gets this one. */
bool okv_wal_schedule_take(struct okv_wal *wal);
/* Begins one, unless the log has failed. The gate is closed, nothing is pending, all of the log is
 * durable, and the snapshot's lock is held. */
void okv_wal_schedule_begin(struct okv_wal *wal);
/* Begins one if anything changed since the last, at the end of the log. The same holds. */
void okv_wal_schedule_last(struct okv_wal *wal);
/* Reports one that failed. The snapshot's lock is held, or its thread has ended. */
void okv_wal_schedule_report(struct okv_wal *wal);

#endif
