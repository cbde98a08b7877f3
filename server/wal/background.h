/*
 * What writes much beside the log, for snapshots and long values. The log's batches go first: on
 * the disk and on processors.
 */
#ifndef OKV_SERVER_WAL_BACKGROUND_H
#define OKV_SERVER_WAL_BACKGROUND_H

#include <stdbool.h>

#include "server/wal/file.h"

/* Gives the calling thread a lower priority, where the log's thread wants the same processor. At
 * times it has a lock that the log's thread needs, so it is not the last to run. */
void okv_background_begin(void);
/* Writes the bytes in pieces, each to the disk before the next: a sync of the log waits for one
 * piece at most. `is_alone`: no sync of the log comes, and the kernel writes them when it likes.
 * They are not durable. Returns 0 or a negative errno. */
int okv_background_write(struct okv_files *files, struct okv_file *file, const uint8_t *bytes,
                         uint64_t length, uint64_t offset, bool is_alone);

#endif
