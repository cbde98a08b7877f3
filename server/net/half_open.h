/*
 * Half-open connections: accepted, and nothing shows yet that the client got the welcome. Over RDMA
 * anyone who can send packets can open many of them under forged addresses. Only the acceptor's
 * thread calls. A worker ends those that are half-open for too long (lifecycle.h).
 */
#ifndef OKV_SERVER_NET_HALF_OPEN_H
#define OKV_SERVER_NET_HALF_OPEN_H

#include "server/core/server.h"

/* Counts those that are not half-open any more for their addresses. */
void okv_half_open_settle(struct okv_server *server);
/* Ends one, if they have most of the places that others leave, or of the room of this listener's
 * device: the oldest of the user who has most of them, or without users of that address. */
void okv_half_open_relieve(struct okv_server *server, unsigned listener);

#endif
