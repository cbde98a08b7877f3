/* The log's thread: ends batches, writes and syncs. */
#ifndef OKV_SERVER_WAL_BATCH_H
#define OKV_SERVER_WAL_BATCH_H

#include "server/wal/wal.h"

/* Of a thread; `user` is the log. */
void *okv_wal_run(void *user);

#endif
