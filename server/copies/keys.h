/* Names of keys in etcd (docs/cluster-format.md). */
#ifndef OKV_SERVER_COPIES_KEYS_H
#define OKV_SERVER_COPIES_KEYS_H

#include "server/copies/state.h"

/* The key of this server's cluster with this end; "" for what all of them begin with. */
void okv_keys_name(const struct okv_copies *copies, const char *rest,
                   char out[OKV_COPIES_KEY_SIZE]);
/* The key of a database's shard. */
void okv_keys_name_shard(const struct okv_copies *copies, const char *database,
                         char out[OKV_COPIES_KEY_SIZE]);

#endif
