/*
 * Half-open connections: accepted, and nothing shows yet that the client got the welcome. Over RDMA
 * anyone who can send packets can open many of them under forged addresses. Only the acceptor's
 * thread calls. A worker ends those that are half-open for too long (lifecycle.h).
 */
#ifndef OKV_SERVER_NET_HALF_OPEN_H
#define OKV_SERVER_NET_HALF_OPEN_H

#include "server/core/server.h"

/* Charges clients that are no longer half-open to their addresses. Ends those whose address is at
 * its limit. */
void okv_half_open_settle(struct okv_server *server);
/* Ends the oldest half-open connection of the user (without users: the address) with most of them,
 * if half-open ones have most of the places that others leave, or of the room of this listener's
 * device (okv_admission_is_short()). */
void okv_half_open_relieve(struct okv_server *server, unsigned listener);

#endif
