/* An iteration over all items, which may pause at any bucket and continue much later. */
#ifndef OKV_SERVER_STORE_ITERATE_H
#define OKV_SERVER_STORE_ITERATE_H

#include "server/store/state.h"

typedef void okv_store_iterate_visit(void *user, const void *key, uint32_t key_length);

/*
 * Calls `visit` for each published item of one bucket, which is locked meanwhile, and moves
 * *position to the next bucket. It starts as 0, and is 0 after the last one. Positions are hashes
 * in reversed order of bits, so an iteration visits every item that exists from its beginning to
 * its end, though buckets split and merge; some it visits twice. OKV_ECORRUPT.
 */
int okv_store_iterate(struct okv_store *store, uint64_t *position, okv_store_iterate_visit *visit,
                      void *user);

#endif
