/* The log's thread: ends batches, has them written and synced, and publishes their images. */
#ifndef OKV_SERVER_WAL_WRITER_H
#define OKV_SERVER_WAL_WRITER_H

/* The function of the thread; `user` is the struct okv_wal. */
void *okv_wal_writer_run(void *user);

#endif
