/*
 * Bulk writes of snapshots and blob files, which run beside the log. The log goes first, on the
 * disk and on processors.
 */
#ifndef OKV_SERVER_WAL_BACKGROUND_H
#define OKV_SERVER_WAL_BACKGROUND_H

#include <stdbool.h>

#include "server/wal/file.h"

/* Lowers the priority of the calling thread where the log's thread wants the same processor. Not to
 * the lowest: it sometimes holds a lock that the log's thread needs. */
void okv_background_begin(void);

/* A file that is written from its begin to its end, in pieces, each to the disk before the next: a
 * sync of the log waits for at most one piece. */
struct okv_background {
    struct okv_files *files;
    struct okv_file *file;
    uint64_t end;     /* where the next bytes go */
    uint64_t on_disk; /* bytes that were written to the disk */
    bool is_alone;    /* no sync of the log comes, and the kernel writes them when it likes */
};

/* Adds bytes, which are not durable. Fails like okv_file_ops.write. */
int okv_background_write(struct okv_background *output, const struct iovec *bytes,
                         struct okv_diag *why);

#endif
