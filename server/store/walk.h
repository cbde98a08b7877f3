/* A walk over all items, which may stop at any bucket and go on much later. */
#ifndef OKV_SERVER_STORE_WALK_H
#define OKV_SERVER_STORE_WALK_H

#include "server/store/state.h"

typedef void okv_store_meet(void *user, const void *key, uint32_t key_length);

/*
 * Calls `meet` for each published item of one bucket, which is locked meanwhile; then *position is
 * that of the next one. It starts as 0, and is 0 behind the last one. Positions are hashes in
 * reversed order of bits, so a walk meets every item that is there from its beginning to its end,
 * though buckets split and merge; some it meets twice. OKV_ECORRUPT.
 */
int okv_store_walk(struct okv_store *store, uint64_t *position, okv_store_meet *meet, void *user);

#endif
