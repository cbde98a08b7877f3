/*
 * The batch that is collected: the records of changes, in an order in which they were made.
 *
 * Whoever has entered the gate adds records; the log's thread takes the batch while the gate is
 * closed, and goes on with an empty one.
 */
#ifndef OKV_SERVER_WAL_APPEND_H
#define OKV_SERVER_WAL_APPEND_H

#include "server/wal/wal.h"

#define OKV_WAL_FRAME_HEADER sizeof(struct okv_wal_wire_frame)
/* Records that need not wait are written when there are so many bytes of them. */
#define OKV_WAL_WRITE_BYTES (UINT64_C(1) << 20)

/* OKV_ENOMEM. */
int okv_wal_batch_init(struct okv_wal_batch *batch);
void okv_wal_batch_fini(struct okv_wal_batch *batch);
/* Its records are written: gives back memory that only a command of many keys needed. */
void okv_wal_batch_shrink(struct okv_wal_batch *batch);
/* Adds a record that is no change. OKV_ENOMEM. */
int okv_wal_batch_add(struct okv_wal_batch *batch, const struct okv_wal_record *record);

/* What the store calls for each change. */
struct okv_store_log okv_wal_store_log(struct okv_wal *wal);
/* Has the log's thread end the batch. */
void okv_wal_wake(void *wal);
/* Moves what was collected to wal->taken. The gate is closed. */
void okv_wal_take(struct okv_wal *wal);

#endif
