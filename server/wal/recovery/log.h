/* Recovers the changes of the log: its segments, one after the other. */
#ifndef OKV_SERVER_WAL_RECOVERY_LOG_H
#define OKV_SERVER_WAL_RECOVERY_LOG_H

#include "server/wal/format.h"
#include "server/wal/recovery/recover.h"

/* Makes the changes in wal->store, which has those of the snapshot. Fails like okv_wal_recover().
 */
int okv_wal_recover_log(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag);

/* A segment was opened: all before it is durable. */
void okv_wal_note_segment(struct okv_wal *wal, const struct okv_wal_header *header);
/* Its next frame, which ends at position `end`, was read. */
void okv_wal_note_frame(struct okv_wal *wal, const struct okv_wal_frame *frame, uint64_t end);

#endif
