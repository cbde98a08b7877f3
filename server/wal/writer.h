/* The log's thread: ends batches, writes and syncs them, and publishes their images. */
#ifndef OKV_SERVER_WAL_WRITER_H
#define OKV_SERVER_WAL_WRITER_H

#include <stdint.h>

struct okv_wal;

/* Before the thread: writes the frame that begins an epoch, above that of the log. All before it is
 * durable. On failure wal->why says why. Fails like okv_file_ops; OKV_ENOMEM. */
int okv_wal_begin_epoch(struct okv_wal *wal, uint64_t epoch);
/* The function of the thread; `user` is the struct okv_wal. */
void *okv_wal_writer_run(void *user);

#endif
