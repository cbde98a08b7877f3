/* A copy without a log that could be continued loads a snapshot, piece by piece. */
#ifndef OKV_SERVER_WAL_COPIES_LOAD_H
#define OKV_SERVER_WAL_COPIES_LOAD_H

#include <stdbool.h>

struct okv_wal;

/* For the log's thread, under the log's lock, which it leaves meanwhile: removes what was there, or
 * loads a piece. False: there is nothing to do yet. */
bool okv_wal_load_some(struct okv_wal *wal);

#endif
