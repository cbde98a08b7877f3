/* The locks of buckets. */
#ifndef OKV_SERVER_STORE_LOCKING_H
#define OKV_SERVER_STORE_LOCKING_H

#include <stdint.h>

#include "server/store/state.h"

/* Locks the bucket of a hash and returns its number. Until okv_store_unlock(), no split or merge
 * changes which keys it holds. */
uint64_t okv_store_lock_hash(struct okv_store *store, uint64_t hash);
void okv_store_lock(struct okv_store *store, uint64_t bucket);
void okv_store_unlock(struct okv_store *store, uint64_t bucket);

#endif
