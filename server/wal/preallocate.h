/*
 * Space of the disk for the log. Before writes are taken for a batch, the segment has space for the
 * longest one. So the disk can be full only while nothing was written that nobody can take back:
 * writes are refused then, and the log goes on when there is space again.
 *
 * The space is behind the end of the file, whose size stays. A segment that is not written any more
 * gives it back. Where a file system cannot reserve space, the log does without.
 *
 * A segment that a snapshot replaced is kept as the spare, and the next segment writes over it. The
 * file's blocks and its size stay as they are then, so a sync writes the data alone. On ext4 and
 * XFS it would otherwise wait for the journal as well.
 *
 * What the spare has is of segments of this server process, or older ones. A frame is valid only in
 * the segment whose number it was sealed with, so none of the spare's ever is. The same number may
 * come again only at a start, after a crash. So a start removes the spare.
 */
#ifndef OKV_SERVER_WAL_PREALLOCATE_H
#define OKV_SERVER_WAL_PREALLOCATE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "server/wal/file.h"

/* A full disk is tried again after this time. */
#define OKV_WAL_ROOM_RETRY_NS UINT64_C(100000000)
/* Bytes of the spare at most. */
#define OKV_WAL_SPARE_MAX (UINT64_C(1) << 30)

struct okv_wal_room {
    uint64_t batch;    /* bytes that a batch may have */
    uint64_t longest;  /* likewise all batches until the next call */
    uint64_t reserved; /* bytes of the segment, from its beginning */
    uint64_t wanted;   /* bytes, when the disk was full */
    uint64_t tried_ns; /* when it was */
    atomic_bool is_full;
};

/* Creates a file, or gives the spare its name. */
int okv_wal_room_create(struct okv_files *files, const char *name, struct okv_file **out);
/* Limits the size of the spare. Best effort. */
void okv_wal_room_trim_spare(struct okv_files *files);
/* Removes it. Returns 0, also if there is none, or a negative errno value. */
int okv_wal_room_remove_spare(struct okv_files *files);

/* For a store that takes values of up to `max_value` bytes, and a log of which so many batches wait
 * to be written at a time. */
void okv_wal_room_init(struct okv_wal_room *room, uint32_t max_value, unsigned batches);

/* Reserves space for the longest batch behind `used` bytes of the segment. On a full disk the spare
 * goes. When there is none, it is tried again after some time only. Returns 0, also when the disk
 * is full, or a negative errno value. */
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
