/* Creates a cluster. */
#ifndef OKV_SERVER_COPIES_CREATION_H
#define OKV_SERVER_COPIES_CREATION_H

#include "server/copies/state.h"

/* As of order `number`, with the databases of this server, which leads them. */
void okv_creation_begin(struct okv_copies *copies, const struct okv_cluster_document *cluster,
                        uint64_t number);

#endif
