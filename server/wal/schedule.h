/* When a snapshot is made, and how whoever asked for one learns of it. For the log's thread. */
#ifndef OKV_SERVER_WAL_SCHEDULE_H
#define OKV_SERVER_WAL_SCHEDULE_H

#include "server/wal/wal.h"

/* Whether one would begin now. */
bool okv_wal_is_snapshot_due(struct okv_wal *wal);
/* Begins one if it is due. The gate is closed, all of the log is durable, nothing is pending, and
 * the snapshot's lock is held. */
void okv_wal_schedule(struct okv_wal *wal);
/* Begins one if anything changed since the last, at the end of the log. The same holds. */
void okv_wal_schedule_last(struct okv_wal *wal);
/* Reports one that failed. The snapshot's lock is held, or its thread has ended. */
void okv_wal_schedule_report(struct okv_wal *wal);

#endif
