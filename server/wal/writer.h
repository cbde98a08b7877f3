/* The log's thread: ends batches, writes and syncs. */
#ifndef OKV_SERVER_WAL_WRITER_H
#define OKV_SERVER_WAL_WRITER_H

#include "server/wal/wal.h"

/* The function of the log's thread; `user` is the struct okv_wal. */
void *okv_wal_run(void *user);

#endif
