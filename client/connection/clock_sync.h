/* An estimate of the server's clock, on which expiries are stated. */
#ifndef OKV_CLIENT_CONNECTION_CLOCK_SYNC_H
#define OKV_CLIENT_CONNECTION_CLOCK_SYNC_H

#include "client/handle.h"

/* Takes in a sample of the server's clock that has just arrived. */
void clock_sample(okv *handle, uint64_t clock_ms);
/* The estimate in ms. It is never ahead of the server's clock. It never runs backwards, unless the
 * server's clock stood still. */
uint64_t clock_now_ms(okv *handle);
/* The time an item has left, or some ms more, never less; at most what a put accepts.
 * OKV_TTL_NONE: no expiry; 0: expired. */
int64_t clock_ttl_ms(okv *handle, uint64_t expiry_ms);

/* ---- READs of the status, for a sample. Each also sets handle->bucket_count. ---- */

/* Adds a READ of the status to the batch unless the last sample is recent or there is no room. */
void status_refresh_if_old(okv *handle);
/* Likewise regardless of age. */
void status_refresh_soon(okv *handle);
/* That READ has ended. */
void status_read_done(okv *handle);
/* READs the status and waits for it. Returns as read_blocking(), or OKV_ECORRUPT when every image
 * was torn. */
int status_read_blocking(okv *handle);

#endif
