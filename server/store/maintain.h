/* What a durable store does between two batches of the log. */
#ifndef OKV_SERVER_STORE_MAINTAIN_H
#define OKV_SERVER_STORE_MAINTAIN_H

#include <stdint.h>

#include "server/store/state.h"

/* Splits or merges as many buckets as `changes` changes would, then makes the room for which a
 * change of the last batch waits, and fills up the slack. The images that this makes are published
 * at once: recovery needs no record of them. The log's thread, while no change is under way and
 * none is staged. */
void okv_store_maintain(struct okv_store *store, struct okv_store_work *work, uint64_t changes);

#endif
