#include "server/copies/keys.h"

#include <stdio.h>

#include "server/core/server.h"

void okv_keys_name(const struct okv_copies *copies, const char *rest, char out[OKV_COPIES_KEY_SIZE])
{
    snprintf(out, OKV_COPIES_KEY_SIZE, "/okv/%s/%s", copies->server->config.cluster.name, rest);
}

void okv_keys_name_shard(const struct okv_copies *copies, const char *database,
                         char out[OKV_COPIES_KEY_SIZE])
{
    snprintf(out, OKV_COPIES_KEY_SIZE, "/okv/%s/db/%s/shards/0",
             copies->server->config.cluster.name, database);
}
