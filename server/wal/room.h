/*
 * Space of the disk for the log. Before writes are taken for a batch, the segment has space for the
 * longest one. So the disk can be full only while nothing was written that nobody can take back:
 * writes are refused then, and the log goes on when there is space again.
 *
 * The space is behind the end of the file, whose size stays. A segment that is not written any more
 * gives it back. Where a file system cannot reserve space, the log does without.
 */
#ifndef OKV_SERVER_WAL_ROOM_H
#define OKV_SERVER_WAL_ROOM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"

/* A full disk is tried again after this time. */
#define OKV_WAL_ROOM_RETRY_NS UINT64_C(100000000)

struct okv_wal_room {
    uint64_t longest;  /* bytes that batches may have until the next call */
    uint64_t reserved; /* bytes of the segment, from its beginning */
    uint64_t wanted;   /* bytes, when the disk was full */
    uint64_t tried_ns; /* when it was */
    atomic_bool is_full;
};

/* For a store that takes values of up to `max_value` bytes, and a log of which so many batches wait
 * to be written at a time. */
void okv_wal_room_init(struct okv_wal_room *room, uint32_t max_value, unsigned batches);

/* Reserves space for the longest batch behind `used` bytes of the segment. When the disk was full,
 * it is tried again after some time only. Returns 0, also when the disk is full, or a negative
 * errno value. */
int okv_wal_room_extend(struct okv_wal_room *room, struct okv_files *files, struct okv_file *file,
                        uint64_t used);
/* The same for a segment that begins, of which nothing is reserved. `may_be_full`: that is no
 * failure. -ENOSPC, -EDQUOT: nothing changed. */
int okv_wal_room_begin(struct okv_wal_room *room, struct okv_files *files, struct okv_file *file,
                       uint64_t used, bool may_be_full);

/* MiB that are missing while the disk is full. */
unsigned okv_wal_room_wanted_mib(const struct okv_wal_room *room);
/* The result code for the errno value of a failed call for a file. */
int okv_wal_room_error(int error);

/* Has all segments that a start reads give back what they have reserved. Best effort. */
void okv_wal_room_trim_all(struct okv_files *files);

#endif
