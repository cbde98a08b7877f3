/* One change of a whole bucket, which the caller has locked: load, change, commit. */
#ifndef OKV_SERVER_STORE_BUCKET_TRANSACTION_H
#define OKV_SERVER_STORE_BUCKET_TRANSACTION_H

#include <stdint.h>

#include "server/store/pending.h"
#include "server/store/state.h"

/* Loads bucket `number` into work->bucket, without the items that have expired at `clock_ms`.
 * OKV_ECORRUPT. */
int okv_store_transaction_load_at(struct okv_store *store, struct okv_store_work *work,
                                  uint64_t number, uint64_t clock_ms);
/* The same at the current time. */
int okv_store_transaction_load(struct okv_store *store, struct okv_store_work *work,
                               uint64_t number);
/* Prepares, publishes and finishes work->bucket and counts the change. OKV_EFULL,
 * OKV_EBUCKETFULL, OKV_ECORRUPT: nothing was changed. */
int okv_store_transaction_commit(struct okv_store *store, struct okv_store_work *work);
/* The same of a change that the log has before it is published: the records of what is gone
 * (bucket.h), then `record`, whose version it sets; without a key, only the former. Also errors of
 * the log (pending.h). */
int okv_store_transaction_commit_logged(struct okv_store *store, struct okv_store_work *work,
                                        struct okv_store_record *record);

/* Adds a published bucket's change to the totals. */
void okv_store_count_change(struct okv_store *store, const struct okv_store_bucket *bucket);
void okv_store_count_difference(struct okv_store *store, const struct okv_store_tally *before,
                                const struct okv_store_tally *after);
void okv_store_count_evicted(struct okv_store *store, const struct okv_store_evicted *evicted);

#endif
