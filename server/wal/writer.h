/* The log's thread: ends batches, writes and syncs them, and publishes their images. */
#ifndef OKV_SERVER_WAL_WRITER_H
#define OKV_SERVER_WAL_WRITER_H

#include <stdbool.h>
#include <stdint.h>

struct okv_wal;
struct okv_wal_frame;

/* Before the thread: writes the frame that begins an epoch, above that of the log. All before it is
 * durable. On failure wal->why says why. Fails like okv_file_ops; OKV_ENOMEM. */
int okv_wal_begin_epoch(struct okv_wal *wal, uint64_t epoch);
/* False: it is of null_files.h. */
bool okv_wal_has_files(const struct okv_wal *wal);
/* Writes wal->writing as a frame, and syncs if that is due. Fails likewise. */
int okv_wal_write_batch(struct okv_wal *wal);
/* The next frame was written. `since_ns` is of its first record. */
void okv_wal_note_written(struct okv_wal *wal, const struct okv_wal_frame *frame,
                          uint64_t since_ns);
/* Syncs what is written. Fails likewise. */
int okv_wal_sync(struct okv_wal *wal);
/* Syncs what has to be durable by now. Fails likewise. */
int okv_wal_sync_if_due(struct okv_wal *wal);
/* Whether an answer waits for the batch in wal->writing. */
bool okv_wal_is_awaited(const struct okv_wal *wal);
/* Under the lock: waits until the thread is wanted, or something is due without a request. */
void okv_wal_await_request(struct okv_wal *wal);
/* The function of the thread; `user` is the struct okv_wal. */
void *okv_wal_writer_run(void *user);

#endif
