/* Items of a log or a snapshot, put back into a store that has no readers yet. */
#ifndef OKV_SERVER_STORE_RESTORE_H
#define OKV_SERVER_STORE_RESTORE_H

#include <stdint.h>

#include "server/store/state.h"

struct okv_store_restored {
    const void *key;
    uint32_t key_length;
    const void *value; /* NULL: the item is gone */
    uint32_t value_length;
    uint64_t version;
    uint64_t expiry_ms;
};

/* Makes the item what it was at this version, unless it is newer. No later change of the key gets
 * this version. OKV_EFULL, OKV_EBUCKETFULL, OKV_EKEYSIZE, OKV_EVALUESIZE, OKV_ECORRUPT. */
int okv_store_restore(struct okv_store *store, struct okv_store_work *work,
                      const struct okv_store_restored *restored);

/* Raises the versions of all items, and of what changes next. Needs no room. OKV_ENUMBER: versions
 * end before; OKV_ECORRUPT. */
int okv_store_raise_versions(struct okv_store *store, struct okv_store_work *work, uint64_t by);

/*
 * A bucket of a snapshot: begin, add its items, end. The table has as many buckets as when the
 * snapshot was made; a bucket may come in several parts. Different threads may put back different
 * buckets.
 *
 * begin locks the bucket and sets its version; OKV_ECORRUPT: there is no such bucket, and it is not
 * locked. add: OKV_ECORRUPT: it is no item of this bucket; OKV_EBUCKETFULL, OKV_EVALUESIZE. Key and
 * value must not change before end. end makes the change and unlocks: OKV_EFULL, OKV_EBUCKETFULL.
 * cancel unlocks without a change.
 */
int okv_store_restore_begin(struct okv_store *store, struct okv_store_work *work, uint64_t number,
                            uint64_t version);
int okv_store_restore_add(struct okv_store *store, struct okv_store_work *work,
                          const struct okv_store_restored *restored);
int okv_store_restore_end(struct okv_store *store, struct okv_store_work *work);
void okv_store_restore_cancel(struct okv_store *store, struct okv_store_work *work);

#endif
