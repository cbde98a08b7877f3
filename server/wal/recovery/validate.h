/*
 * What a start takes for whole. A check and a salvage ask the same functions, so that they never
 * call whole what a start refuses.
 */
#ifndef OKV_SERVER_WAL_RECOVERY_VALIDATE_H
#define OKV_SERVER_WAL_RECOVERY_VALIDATE_H

#include "server/wal/recovery/reader.h"

/* All return OKV_ECORRUPT with a sentence when the file is damaged. */

/* The header of the snapshot of this number, 0: of any number: of `length` bytes, in reader->bytes.
 * Makes the reader ready for frames. OKV_EVERSION. */
int okv_wal_snapshot_header(struct okv_wal_reader *reader, size_t length, uint64_t number,
                            struct okv_wal_header *out, struct okv_diag *diag);
/* The same of a segment. */
int okv_wal_segment_header(struct okv_wal_reader *reader, size_t length, uint64_t number,
                           struct okv_wal_header *out, struct okv_diag *diag);
/* Whether a segment is of the same database as `base`, the header of the snapshot or of another
 * segment. */
int okv_wal_segment_database(const struct okv_wal_reader *reader,
                             const struct okv_wal_header *segment,
                             const struct okv_wal_header *base, struct okv_diag *diag);
/* Whether it goes on from what was read before it: `position` is that behind the last frame so far.
 */
int okv_wal_segment_follows(const struct okv_wal_reader *reader,
                            const struct okv_wal_header *segment, uint64_t position,
                            struct okv_diag *diag);

/* Where the next segment of the same database begins, which supersedes what this one has from there
 * on; UINT64_MAX: there is none that is whole. OKV_EIO, OKV_ENOMEM. */
int okv_wal_segment_limit(struct okv_files *files, const struct okv_wal_header *segment,
                          uint64_t *limit, struct okv_diag *diag);

/* A record of a segment at *at of a frame of `length` bytes, which is in reader->bytes and was read
 * last. */
int okv_wal_segment_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                           struct okv_wal_record *out, struct okv_diag *diag);

/* The reader found no valid frame. *cut: bytes of one that was begun there, as a crash leaves it
 * behind; 0: there is none. OKV_EIO, OKV_ENOMEM. */
int okv_wal_segment_end(struct okv_wal_reader *reader, uint64_t *cut, struct okv_diag *diag);
/* The same of a snapshot, whose records had an end, or not, which tells of `expected` items. */
int okv_wal_snapshot_end(struct okv_wal_reader *reader, bool is_ended, uint64_t items,
                         uint64_t expected, struct okv_diag *diag);

#endif
