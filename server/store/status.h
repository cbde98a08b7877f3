/* The status block: the clock and the count of buckets, which clients READ. */
#ifndef OKV_SERVER_STORE_STATUS_H
#define OKV_SERVER_STORE_STATUS_H

#include "server/store/state.h"

/* Writes the status block as it is now. */
void okv_store_publish_status(struct okv_store *store);

#endif
