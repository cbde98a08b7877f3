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

#endif
