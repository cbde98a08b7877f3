/* Removals that go over the whole table: flush, and the sweep of expired items. */
#ifndef OKV_SERVER_STORE_EXPIRE_H
#define OKV_SERVER_STORE_EXPIRE_H

#include <stdint.h>

#include "server/store/state.h"

/*
 * One step of removing everything, over a bounded number of buckets. Begin with *next and *splits
 * 0; call again with what the step left there until *next is 0.
 */
int okv_store_flush(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                    uint64_t *splits);

/* Removes what has expired in up to `buckets` buckets, from where the last sweep ended. */
void okv_store_sweep(struct okv_store *store, struct okv_store_work *work, unsigned buckets);

#endif
