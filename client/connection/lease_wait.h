/* What was read when no lease covered it waits for a status that does: the server may be slow to
 * renew its lease, or a copy may have taken over. */
#ifndef OKV_CLIENT_CONNECTION_LEASE_WAIT_H
#define OKV_CLIENT_CONNECTION_LEASE_WAIT_H

#include "client/handle.h"

/* Keeps the result of a lookup until a lease covers what handle->lease.seen_ns says, at most until
 * its deadline, and READs the status. */
void lease_hold(okv *handle, struct operation *operation, int status);
/* lease.again_ns has come: READs the status again. */
void lease_again(okv *handle);
/* Of one of several servers: looks after a lease that has run out while operations wait. A server
 * that does not renew it for a quarter of its length stands still, or is no primary any more: the
 * connection ends, and this returns true. */
bool lease_watch(okv *handle);
/* lease.again_ns, or UINT64_MAX while no operation waits. */
uint64_t lease_wake_ns(const okv *handle);
/* The same as lease_hold() for a READ that blocked: waits, at most for the handle's timeout.
 * Returns as read_blocking(), or OKV_ETIMEDOUT. */
int lease_await(okv *handle);

#endif
