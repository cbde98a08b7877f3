/* The server's clock, as far as it is known here. */
#ifndef OKV_CLIENT_CONNECTION_CLOCK_SYNC_H
#define OKV_CLIENT_CONNECTION_CLOCK_SYNC_H

#include "client/handle.h"

/* A sample of the server's clock that came just now. */
void clock_sample(okv *handle, uint64_t clock_ms);
/* The server's clock, in ms: never later than it is, and never earlier than told before, unless the
 * server's clock stood still. */
uint64_t clock_now_ms(okv *handle);
/* What an item has to live, or some ms more, never less: OKV_TTL_NONE, or at least 1 ms; 0 when it
 * has expired. */
int64_t clock_ttl_ms(okv *handle, uint64_t expiry_ms);
/* Adds a READ of the status to the batch unless the last one is recent or there is no room. */
void clock_refresh_soon(okv *handle);
/* The same whatever the age of the last one: for its count of buckets. */
void clock_status_soon(okv *handle);
/* That READ ended. */
void clock_status_done(okv *handle);
/* READs the status, blocking: a sample, and the count of buckets; as read_blocking(). */
int clock_refresh(okv *handle);

#endif
