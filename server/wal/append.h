/*
 * Adding records to the open batch, in an order in which their changes were made.
 *
 * Callers add records between okv_wal_begin_change() and okv_wal_end_change(). The log's thread
 * closes the batch, takes it, and leaves an empty one.
 */
#ifndef OKV_SERVER_WAL_APPEND_H
#define OKV_SERVER_WAL_APPEND_H

#include <stdbool.h>
#include <stdint.h>

struct okv_store_log;
struct okv_wal;
struct okv_wal_batch;
struct okv_wal_record;

/* During a change, for one caller at a time: reserves `bytes` bytes of the batch for the
 * records of parts of a change (okv_store_write.is_part), whatever others add meanwhile. The caller
 * ends the reservation before it ends the change. OKV_EAGAIN: the batch has no room for them, the
 * next one has; OKV_EVALUESIZE: no batch has. */
int okv_wal_batch_reserve(struct okv_wal *wal, uint64_t bytes);
void okv_wal_batch_unreserve(struct okv_wal *wal);
/* The most bytes that can be reserved. */
uint64_t okv_wal_batch_reserve_max(const struct okv_wal *wal);
/* During a change: adds a REPLY to the batch, and before it its CLIENT unless
 * *knows_client, which the log's lock guards. Without memory the batch fails. */
void okv_wal_add_reply(struct okv_wal *wal, const struct okv_wal_record *client, bool *knows_client,
                       const struct okv_wal_record *reply);
/* Bytes of records of changes that are made and not durable. Any thread. */
uint64_t okv_wal_unsynced(struct okv_wal *wal);
/* Asks the log's thread to end the batch; `wal` is a struct okv_wal. Any thread. */
void okv_wal_wake(void *wal);

/* ---- for the log ---- */

/* Records that nobody waits for are written when they have this many bytes. */
#define OKV_WAL_WRITE_BYTES (UINT64_C(1) << 20)

/* OKV_ENOMEM. */
int okv_wal_batch_init(struct okv_wal_batch *batch);
void okv_wal_batch_fini(struct okv_wal_batch *batch);
/* After its records were written: releases memory that only a long command needed. */
void okv_wal_batch_shrink(struct okv_wal_batch *batch);
/* Adds a record that is no change. OKV_ENOMEM. */
int okv_wal_batch_add(struct okv_wal_batch *batch, const struct okv_wal_record *record);
/* Raises the versions of its records, all of which are changes. */
void okv_wal_batch_raise(struct okv_wal_batch *batch, uint64_t by);
/* What the store calls for each change. */
void okv_wal_store_log(struct okv_wal *wal, struct okv_store_log *out);
/* Moves wal->staged to wal->writing. The batch is closed. */
void okv_wal_take_staged(struct okv_wal *wal);

#endif
