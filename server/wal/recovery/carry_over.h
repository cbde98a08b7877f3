/* The end of the log, which may not be durable at a start. */
#ifndef OKV_SERVER_WAL_RECOVERY_CARRY_OVER_H
#define OKV_SERVER_WAL_RECOVERY_CARRY_OVER_H

#include "server/wal/file.h"
#include "server/wal/format.h"

struct okv_wal;

/* At a start: copies the frames of the last segment from wal->durable on to `file`, the segment
 * that is to begin. They may be in the page cache only, so a crash after the start would otherwise
 * revert what clients saw. Sets wal->position to the end of
 * the copies. On failure wal->why says why. OKV_ECORRUPT, and as okv_file_ops. */
int okv_wal_carry_over(struct okv_wal *wal, const struct okv_wal_header *segment,
                       struct okv_file *file);

#endif
