/* The end of the log, of which nobody knows whether it is durable. */
#ifndef OKV_SERVER_WAL_RECOVERY_CARRY_OVER_H
#define OKV_SERVER_WAL_RECOVERY_CARRY_OVER_H

#include "server/wal/wal.h"

/* At a start: copies the frames of the last segment from wal->durable on to `file`, the segment
 * that is to begin. Only the page cache may have them, so a crash after the start would otherwise
 * take back what clients saw. Returns 0 or a negative errno value. */
int okv_wal_tail_copy(struct okv_wal *wal, const struct okv_wal_header *segment,
                      struct okv_file *file);

#endif
