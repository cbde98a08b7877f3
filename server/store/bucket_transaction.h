/* One change of one bucket, from lock to unlock; what the store's files share. */
#ifndef OKV_SERVER_STORE_BUCKET_TRANSACTION_H
#define OKV_SERVER_STORE_BUCKET_TRANSACTION_H

#include "server/store/store.h"

/* Locks the bucket of a hash and returns its number. No split or merge can
 * change which keys it holds until okv_store_unlock(). */
uint64_t okv_store_lock_hash(struct okv_store *store, uint64_t hash);
void okv_store_lock(struct okv_store *store, uint64_t bucket);
void okv_store_unlock(struct okv_store *store, uint64_t bucket);

/* Loads bucket `number`, which is locked, into work->bucket and leaves out what has
 * expired at `clock_ms`. OKV_ECORRUPT. */
int okv_store_change_load_at(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                             uint64_t clock_ms);
/* The same at the present time. */
int okv_store_change_load(struct okv_store *store, struct okv_store_work *work, uint64_t number);
/* Prepares, publishes and finishes work->bucket and counts the change. OKV_EFULL,
 * OKV_ECORRUPT: nothing was changed. */
int okv_store_change_commit(struct okv_store *store, struct okv_store_work *work);
/* Brings the totals up to date after a bucket was published. */
void okv_store_count_change(struct okv_store *store, const struct okv_store_bucket *bucket);
void okv_store_count_difference(struct okv_store *store, const struct okv_store_tally *before,
                                const struct okv_store_tally *after);

/* ---- update_in_place.c ---- */

/* No error: the change is one of the whole bucket, which has to be loaded. */
#define OKV_STORE_WHOLE_BUCKET 1

/* Finds the place of a key's item in bucket `number`, which is locked, for a change of it alone.
 * False when the whole bucket has to be loaded, also because something in it has expired at
 * `clock_ms`. */
bool okv_store_patch_begin(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                           uint64_t hash, uint64_t clock_ms, const struct okv_store_write *write);
/* *there is the item, or NULL. False: the whole bucket has to be loaded. */
bool okv_store_patch_read(struct okv_store *store, struct okv_store_work *work,
                          const struct okv_store_write *write, const struct okv_entry **there);
/* After okv_store_patch_read(): puts an entry in its place, or removes it where that is NULL,
 * publishes and counts the change. An extent that the entry has is used up. OKV_STORE_WHOLE_BUCKET:
 * nothing was changed. */
int okv_store_patch_commit(struct okv_store *store, struct okv_store_work *work,
                           const struct okv_entry *entry, uint64_t *version);

/* ---- resize.c ---- */

/* Makes the first segment with its buckets. OKV_EINVAL: no room. */
int okv_store_index_create(struct okv_store *store);
/* Splits or merges a bucket or two if the table is fuller or emptier than it should be. */
void okv_store_resize(struct okv_store *store, struct okv_store_work *work);
/* Merges buckets while the table is emptier than it should be, `most` at the most. */
void okv_store_shrink(struct okv_store *store, struct okv_store_work *work, unsigned most);
/* Gives a segment of the index back to the heap, for an allocation of `size` bytes, if
 * that could help and *merges, which it counts down, are enough. No bucket may be locked. */
bool okv_store_make_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         unsigned *merges);
/* Writes the status to where clients READ it. */
void okv_store_publish_status(struct okv_store *store);

/* ---- compact.c ---- */

/* What one change that was refused for want of room may do about it; the next one that is
 * refused goes on where it ended. */
struct okv_store_effort {
    unsigned merges;
    unsigned sweeps;
    unsigned compactions;
};
#define OKV_STORE_EFFORT                              \
    {                                                 \
        .merges = 1024, .sweeps = 4, .compactions = 4 \
    }

/* Does something that may make room for `size` bytes: true when it is worth trying again.
 * No bucket may be locked. */
bool okv_store_find_room(struct okv_store *store, struct okv_store_work *work, uint64_t size,
                         struct okv_store_effort *effort);

#endif
