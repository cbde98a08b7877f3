/* Reading the segments of a log. Callers use wal.h. */
#ifndef OKV_SERVER_WAL_REPLAY_H
#define OKV_SERVER_WAL_REPLAY_H

#include "server/wal/wal.h"

#define OKV_WAL_NAME_SIZE 24

void okv_wal_segment_name(uint64_t number, char name[OKV_WAL_NAME_SIZE]);
/* Finds the segments. Sets wal->segment to the first that is there, but its number to that of the
 * last. */
int okv_wal_find(struct okv_wal *wal, bool *is_there, struct okv_diag *diag);

#endif
