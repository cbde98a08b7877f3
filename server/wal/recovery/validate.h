/*
 * What recovery accepts as valid. A check and a salvage call the same functions, so they never
 * accept what a start refuses.
 */
#ifndef OKV_SERVER_WAL_RECOVERY_VALIDATE_H
#define OKV_SERVER_WAL_RECOVERY_VALIDATE_H

#include "server/wal/recovery/reader.h"

/* All return OKV_ECORRUPT with a sentence when the file is damaged. */

/* Checks the header in reader->bytes, of a snapshot or a segment of this number, 0: of any number,
 * and makes the reader ready for frames. If the file has no header, or one whose buckets have no
 * valid size or are more than the file can have, out->number is 0 and the reader only lacks
 * reader->first. OKV_EVERSION, OKV_EIO. */
int okv_wal_check_header(struct okv_wal_reader *reader, bool is_snapshot, uint64_t number,
                         struct okv_wal_header *out, struct okv_diag *diag);
/* How many buckets a snapshot of `size` bytes has at most: it has a record of each. */
uint64_t okv_wal_buckets_max(uint64_t size);
/* How many buckets the table has into which a start reads a snapshot; if bucket_count is 0, those
 * of an empty table. */
uint64_t okv_wal_bucket_count(const struct okv_wal_header *snapshot);
/* Whether a segment is of the same database as `base`, the header of the snapshot or of another
 * segment. */
int okv_wal_check_database(const struct okv_wal_reader *reader,
                           const struct okv_wal_header *segment, const struct okv_wal_header *base,
                           struct okv_diag *diag);

/* The next record of a segment, at *at of a frame of `length` bytes, which was read last. */
int okv_wal_segment_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                           struct okv_wal_record *out, struct okv_diag *diag);
/* The same of a snapshot, without a sentence. *bucket is the last BUCKET of the frame, to which
 * items belong; kind 0: there is none. */
int okv_wal_snapshot_record(const struct okv_wal_reader *reader, uint64_t length, uint64_t *at,
                            struct okv_wal_record *bucket, struct okv_wal_record *out);

/* Whether the frame that was read last is of the epoch `before`, or begins a later one. */
int okv_wal_check_epoch(const struct okv_wal_reader *reader, const struct okv_wal_frame *frame,
                        uint64_t before, struct okv_diag *diag);

/* The reader found no valid frame in a segment. *cut: bytes of one that a crash left incomplete; 0:
 * there is none. OKV_EIO, OKV_ENOMEM. */
int okv_wal_check_segment_end(struct okv_wal_reader *reader, uint64_t *cut, struct okv_diag *diag);

#endif
