/* What etcd says of the cluster and its servers, and what this server says of itself there. */
#ifndef OKV_SERVER_COPIES_REGISTRY_H
#define OKV_SERVER_COPIES_REGISTRY_H

#include "server/copies/state.h"

/* Begins to watch the cluster. OKV_ENOMEM. */
int okv_registry_begin(struct okv_copies *copies);
/* Reads what may have changed, and renews this server's key. */
void okv_registry_run(struct okv_copies *copies, uint64_t now_us);
/* This server does not run any more: others need not wait until its key has ended by itself. Waits
 * for that, but not long. */
void okv_registry_end(struct okv_copies *copies);
/* When okv_registry_run() is due. */
uint64_t okv_registry_due_us(const struct okv_copies *copies);
/* Another server that runs and may lead the database without a loss; 0: there is none. */
uint64_t okv_registry_survivor(const struct okv_copy *copy);
/* What a server that runs says of itself, until the next pass; NULL: it does not run. */
const struct okv_server_document *okv_registry_known(const struct okv_copies *copies, uint64_t id);
/* How a server is reached by others. False: it has not said so. */
bool okv_registry_find(const struct okv_copies *copies, uint64_t server, struct okv_uri *out);

#endif
