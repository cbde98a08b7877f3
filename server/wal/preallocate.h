/*
 * Disk space for the log. Before a batch accepts writes, the segment has space for the longest
 * possible batch. So the disk can only be full while nothing irrevocable was written: writes are
 * refused then, and accepted again when there is space.
 *
 * The space lies after the end of the file, whose size stays. A segment that is complete releases
 * it. Where a file system cannot reserve space, the log does without.
 *
 * A segment that a snapshot replaced is recycled: it is kept under another name, and the next
 * segment overwrites it. Its blocks and its size stay, so a sync writes data only. On ext4 and XFS
 * it would otherwise wait for the journal as well.
 *
 * A recycled file has frames of this server process, or of older ones. A frame is valid only in the
 * segment whose number it was sealed with, so none of those is. A number can be used again only by
 * a start after a crash, so each start removes the recycled file.
 */
#ifndef OKV_SERVER_WAL_PREALLOCATE_H
#define OKV_SERVER_WAL_PREALLOCATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"

/* Soft limit of a batch. A single larger record, deletions, and one command of several keys
 * (okv_wal_batch_reserve) may exceed it. */
#define OKV_WAL_BATCH_BYTES (UINT64_C(8) << 20)
/* Bytes of a batch that are kept for the records of replies. */
#define OKV_WAL_REPLIES_BYTES (UINT64_C(1) << 16)

/* A full disk is tried again after this time. */
#define OKV_WAL_SPACE_RETRY_NS UINT64_C(100000000)

struct okv_wal_space {
    uint64_t batch;              /* the most bytes of one batch */
    uint64_t longest;            /* of all batches until the next call */
    uint64_t reserved;           /* bytes of the segment, from its beginning */
    uint64_t tried_ns;           /* when the disk was full */
    atomic_uint_fast64_t wanted; /* bytes, when it was */
    atomic_bool is_full;
};

/* For a store that takes values of up to `max_value` bytes, and a log with up to `batches`
 * unwritten batches. */
void okv_wal_space_init(struct okv_wal_space *space, uint32_t max_value, unsigned batches);
/* Reserves space for the longest batch after `used` bytes of the segment. On a full disk the
 * recycled file is removed. Without one, the disk is not tried again for OKV_WAL_SPACE_RETRY_NS.
 * Returns 0 also when the disk is full; fails like okv_file_ops.reserve otherwise. */
int okv_wal_preallocate(struct okv_wal_space *space, struct okv_files *files, struct okv_file *file,
                        uint64_t used, struct okv_diag *why);
/* The same for a new segment, of which nothing is reserved. OKV_EDISKFULL, unless `may_be_full`:
 * nothing changed. */
int okv_wal_preallocate_segment(struct okv_wal_space *space, struct okv_files *files,
                                struct okv_file *file, uint64_t used, bool may_be_full,
                                struct okv_diag *why);

/* Renames the recycled file to `name`, or creates a file. Fails like okv_file_ops.create. */
int okv_wal_recycled_create(struct okv_files *files, const char *name, struct okv_file **out,
                            struct okv_diag *why);
/* Limits the size of the recycled file. Best effort. */
void okv_wal_recycled_trim(struct okv_files *files);
/* Removes it. 0 also if there is none; fails like okv_file_ops.remove otherwise. */
int okv_wal_recycled_remove(struct okv_files *files, struct okv_diag *why);

/* Releases the reserved space of all segments that a start reads. Best effort. */
void okv_wal_trim_segments(struct okv_files *files);

#endif
