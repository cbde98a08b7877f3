/* The sweep: removes expired items. */
#ifndef OKV_SERVER_STORE_EXPIRE_H
#define OKV_SERVER_STORE_EXPIRE_H

#include "server/store/state.h"

/* Removes what has expired in up to `buckets` buckets, from where the last sweep ended; in fewer
 * with work->in_steps, if much has. */
void okv_store_sweep(struct okv_store *store, struct okv_store_work *work, unsigned buckets);

#endif
