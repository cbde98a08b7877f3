/* A change of one entry in a bucket of one page, which the caller has locked. */
#ifndef OKV_SERVER_STORE_UPDATE_IN_PLACE_H
#define OKV_SERVER_STORE_UPDATE_IN_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/pending.h"
#include "server/store/state.h"

/* Not an error: the change needs a transaction of the whole bucket (bucket_transaction.h). */
#define OKV_STORE_WHOLE_BUCKET 1

/* Finds the key's entry in bucket `number` and prepares work->update. Returns false when the whole
 * bucket has to be loaded, for instance because an item in it has expired at `clock_ms`. `hash` is
 * the key's. */
bool okv_store_update_begin(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                            uint64_t hash, uint64_t clock_ms, const void *key, uint32_t key_length);
/* Sets *current to the item's entry, or to NULL. Returns false when the whole bucket has to be
 * loaded. */
bool okv_store_update_read(struct okv_store *store, struct okv_store_work *work, const void *key,
                           uint32_t key_length, const struct okv_entry **current);
/* After okv_store_update_read(): replaces the entry, or removes it if `entry` is NULL, adds
 * `record` with its version to the log, publishes the image and counts the change. An extent of
 * `entry` then belongs to the bucket. OKV_STORE_WHOLE_BUCKET, and errors of the log (pending.h):
 * nothing was changed. */
int okv_store_update_commit(struct okv_store *store, struct okv_store_work *work,
                            const struct okv_entry *entry, struct okv_store_record *record);

#endif
