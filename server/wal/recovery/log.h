/* Reading a log at a start. Callers use wal.h. */
#ifndef OKV_SERVER_WAL_RECOVERY_LOG_H
#define OKV_SERVER_WAL_RECOVERY_LOG_H

#include "server/wal/wal.h"

/* Reads the headers. Sets wal->loaded, and wal->segment to what is the same in all segments, its
 * number to that of the last; 0: there is none. */
int okv_wal_find(struct okv_wal *wal, bool *is_there, struct okv_diag *diag);

#endif
