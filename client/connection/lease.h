/*
 * The read lease of a server that is a member of a cluster (docs/leases.md). A READ
 * is served by a device that knows nothing of copies: it counts only if it had completed before the
 * server's lease ended. The status says when that is on the server's clock.
 *
 * A connection is of one epoch, which the server serves when it begins. While it lasts, each status
 * proves that no copy had taken over before the end that it names, so a later status may also
 * confirm what was read before it came.
 */
#ifndef OKV_CLIENT_CONNECTION_LEASE_H
#define OKV_CLIENT_CONNECTION_LEASE_H

#include "client/handle.h"

/* A new connection is up, and the handle has its welcome. */
void lease_link_up(okv *handle);
/* True where a primary is wanted, and there are others to go on to when this one no longer is. */
bool lease_is_wanted(const okv *handle);
/* When the server is to be given up, on okv_clock_boot_ns(), if its lease, which is over, is not
 * renewed before. */
uint64_t lease_overdue_ns(const okv *handle);
/* Has lease.again_ns come when the lease ends, and often from then on, if operations wait. */
void lease_look_later(okv *handle);
/* How long READs still count without another status; 0 of a server alone. */
uint64_t lease_left_ms(const okv *handle);
/* Asks for the server's clock, unless the last answer is owed or no credit is left. */
void lease_ping(okv *handle);
/* Takes in a status. OKV_EDISCONNECTED: it is of another epoch or, where there are other servers,
 * of one that is no primary; the connection ends. */
int lease_status(okv *handle, const struct okv_table_lease *status);
/* Ends the operations that wait for a lease and that it covers by now. */
void lease_settle(okv *handle);
/* True for the answer to lease_ping(), which is taken in. */
bool lease_reply(okv *handle, const struct okv_reply_message *reply);

#endif
