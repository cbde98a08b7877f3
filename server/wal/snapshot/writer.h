/* The snapshot's thread: saves the buckets that did not change, and writes the file. */
#ifndef OKV_SERVER_WAL_SNAPSHOT_WRITER_H
#define OKV_SERVER_WAL_SNAPSHOT_WRITER_H

#include "server/wal/snapshot/saver.h"

/* Initializes the snapshot and starts the thread. `files` and `store` are borrowed. `notify` is
 * called when one has ended, or when changes are not throttled any more. The caller sets `made`,
 * `self_contained` and `ended` to what is true before the first. OKV_ENOMEM; what
 * okv_thread_start() returns. */
int okv_snapshot_init(struct okv_snapshot *snapshot, struct okv_files *files,
                      struct okv_store *store, void (*notify)(void *user), void *user,
                      struct okv_diag *why);
/* Waits for the end of one that is being made. */
void okv_snapshot_fini(struct okv_snapshot *snapshot);

#endif
