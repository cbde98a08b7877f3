/* The key of a shard in etcd. */
#ifndef OKV_SERVER_COPIES_SHARD_H
#define OKV_SERVER_COPIES_SHARD_H

#include "server/copies/state.h"

/* OKV_ACTION_READ_KEY and OKV_ACTION_CHANGE_KEY. Their answers are events. */
void okv_shard_read(struct okv_copy *copy, uint64_t request);
void okv_shard_change(struct okv_copy *copy, uint64_t request, const struct okv_shard_key *key,
                      uint64_t revision);

#endif
