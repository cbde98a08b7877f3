/* Items of a log, put back into a store that has no readers yet. */
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

#endif
