/* Which servers are to have a copy of a database: those that run, on as many hosts. */
#ifndef OKV_SERVER_COPIES_PLACEMENT_H
#define OKV_SERVER_COPIES_PLACEMENT_H

#include "server/copies/state.h"

/* Of a cluster to be created: this server, and others, until there are `cluster->copies`. Returns
 * how many servers were left out because their hosts have a copy already. */
unsigned okv_placement_begin(const struct okv_copies *copies,
                             const struct okv_cluster_document *cluster, struct okv_shard_key *key);

/* Whether as many servers are wanted as the cluster is to have, or as there are. Not before the
 * protocol has read the key. */
bool okv_placement_is_settled(const struct okv_copy *copy);
/* As its primary, brings the servers that are wanted in line with the cluster and with those that
 * run: one change of the key at a time. For each report. */
void okv_placement_run(struct okv_copy *copy, uint64_t now_us);

#endif
