/* The key of a shard in etcd. */
#ifndef OKV_SERVER_COPIES_SHARD_H
#define OKV_SERVER_COPIES_SHARD_H

#include "server/copies/state.h"

/* OKV_ACTION_READ_KEY and OKV_ACTION_CHANGE_KEY. Their answers are events. */
void okv_shard_read(struct okv_copy *copy, uint64_t request);
void okv_shard_change(struct okv_copy *copy, uint64_t request, const struct okv_shard_key *key,
                      uint64_t revision);

/* A server that runs joins the wanted ones, while there are fewer than the cluster has copies. */
void okv_shard_complete(struct okv_copy *copy);

#endif
