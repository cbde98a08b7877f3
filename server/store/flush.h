/* The flush: removes all items, in steps. */
#ifndef OKV_SERVER_STORE_FLUSH_H
#define OKV_SERVER_STORE_FLUSH_H

#include <stdint.h>

#include "server/store/state.h"

/*
 * One step, over a bounded number of buckets. Begin with *next and *splits 0; call again with what
 * the step left there until *next is 0.
 */
int okv_store_flush(struct okv_store *store, struct okv_store_work *work, uint64_t *next,
                    uint64_t *splits);

#endif
