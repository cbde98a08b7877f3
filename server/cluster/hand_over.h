/*
 * A planned hand-over, in which gets do not stop and writes stop for some 60 ms. The lease is made
 * short first, then writes are no longer evaluated; when the lease has ended and all is
 * acknowledged, the successor is told that nobody trusts this primary any more.
 */
#ifndef OKV_SERVER_CLUSTER_HAND_OVER_H
#define OKV_SERVER_CLUSTER_HAND_OVER_H

#include "server/cluster/protocol.h"

/* The operator's command; nothing happens if `server` is not in the in-sync set. */
void okv_hand_over_begin(struct okv_protocol *protocol, uint64_t server);
void okv_hand_over_continue(struct okv_protocol *protocol, uint64_t now_us);

/* A primary whose log takes nothing more stops to lead, if another copy can: that one takes over by
 * its silence. */
void okv_hand_over_abdicate(struct okv_protocol *protocol, uint64_t now_us);

#endif
