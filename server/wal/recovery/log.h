/* Recovers the changes of the log: its segments, one after the other. */
#ifndef OKV_SERVER_WAL_RECOVERY_LOG_H
#define OKV_SERVER_WAL_RECOVERY_LOG_H

#include "server/wal/recovery/recover.h"

/* Makes the changes in wal->store, which has those of the snapshot. Fails like okv_wal_recover().
 */
int okv_wal_recover_log(struct okv_wal *wal, struct okv_wal_found *found, struct okv_diag *diag);

#endif
