/* Which servers are to have a copy of a database: some that run, each on a host of its own unless
 * the cluster shares hosts. */
#ifndef OKV_SERVER_COPIES_PLACEMENT_H
#define OKV_SERVER_COPIES_PLACEMENT_H

#include "server/copies/state.h"

/* Of a cluster to be created: this server, and others, until there are `cluster->copies`. Returns
 * how many servers were left out, because their hosts have a copy, while there are too few. */
unsigned okv_placement_choose(const struct okv_copies *copies,
                              const struct okv_cluster_document *cluster,
                              struct okv_shard_key *key);

/* Whether as many servers are wanted as the cluster is to have, or as there are. Not before the
 * protocol has read the key. */
bool okv_placement_is_settled(const struct okv_copy *copy);
/* Changes a copy of the key of a database that this server leads: a server that has not run for
 * `replace_ms` loses its copy to another one, and so do those beyond the number of copies. False:
 * nothing is to be changed. */
bool okv_placement_change(struct okv_copy *copy, struct okv_shard_key *key, uint64_t now_us);
/* Has etcd take such a change, one at a time, as the database's primary. For each report. */
void okv_placement_run(struct okv_copy *copy, uint64_t now_us);

#endif
