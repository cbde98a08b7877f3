/* Recovers items of a log or a snapshot into a store that has no readers yet. */
#ifndef OKV_SERVER_STORE_RECOVER_H
#define OKV_SERVER_STORE_RECOVER_H

#include <stdint.h>

#include "server/store/state.h"

struct okv_store_recovered {
    const void *key;
    uint32_t key_length;
    const void *value; /* NULL: the item is deleted */
    uint32_t value_length;
    uint64_t version;
    uint64_t expiry_ms;
};

/* Gives the item the value that it had at this version, unless it is newer. No later change of the
 * key gets this version. OKV_EFULL, OKV_EBUCKETFULL, OKV_EKEYSIZE, OKV_EVALUESIZE, OKV_ECORRUPT. */
int okv_store_recover(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_recovered *recovered);

/* What a change of recovery may spend on making room in a full heap, without merges and sweeps. It
 * fits, for it did, but the heap has other holes than then. */
struct okv_effort okv_store_recover_effort(const struct okv_store *store);
/* Where that was in vain: the heap is compacted once more, and a cache evicts. */
void okv_store_recover_force(struct okv_store *store, struct okv_store_work *work,
                             struct okv_effort *effort);

/* Raises the versions of all items, and of later changes. Needs no room. OKV_ENUMBER: versions
 * cannot be raised so far; OKV_ECORRUPT. */
int okv_store_raise_versions(struct okv_store *store, struct okv_store_work *work, uint64_t by);

/*
 * A bucket of a snapshot: begin, add its items, end. The table has as many buckets as when the
 * snapshot was made; a bucket may come in several parts. Different threads may recover different
 * buckets.
 *
 * begin locks the bucket and sets its version; OKV_ECORRUPT: there is no such bucket, and nothing
 * is locked. add: OKV_ECORRUPT: it is no item of this bucket; OKV_EBUCKETFULL, OKV_EVALUESIZE. Key
 * and value must not change before end. end makes the change and unlocks: OKV_EFULL,
 * OKV_EBUCKETFULL. cancel unlocks without a change.
 */
int okv_store_recover_bucket_begin(struct okv_store *store, struct okv_store_work *work,
                                   uint64_t number, uint64_t version);
int okv_store_recover_bucket_add(struct okv_store *store, struct okv_store_work *work,
                                 const struct okv_store_recovered *recovered);
int okv_store_recover_bucket_end(struct okv_store *store, struct okv_store_work *work);
void okv_store_recover_bucket_cancel(struct okv_store *store, struct okv_store_work *work);

#endif
