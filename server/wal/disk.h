/* Writes batches to the files, and syncs them. For the log's thread. On failure wal->why says why;
 * all fail like okv_file_ops. */
#ifndef OKV_SERVER_WAL_DISK_H
#define OKV_SERVER_WAL_DISK_H

#include <stdbool.h>
#include <stdint.h>

struct okv_wal;
struct okv_wal_frame;

/* Before the thread: writes the frame that begins an epoch, above that of the log. All before it is
 * durable. Also OKV_ENOMEM. */
int okv_wal_begin_epoch(struct okv_wal *wal, uint64_t epoch);
/* Writes wal->writing as a frame, and syncs if that is due. */
int okv_wal_write_batch(struct okv_wal *wal);
/* The next frame was written. `since_ns` is of its first record. */
void okv_wal_note_written(struct okv_wal *wal, const struct okv_wal_frame *frame,
                          uint64_t since_ns);
/* Syncs what is written. */
int okv_wal_sync(struct okv_wal *wal);
/* Syncs what has to be durable by now. */
int okv_wal_sync_if_due(struct okv_wal *wal);
/* When that is; UINT64_MAX: any time. */
uint64_t okv_wal_sync_due_ns(const struct okv_wal *wal);

#endif
