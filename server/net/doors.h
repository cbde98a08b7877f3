/* Closes listeners whose device is gone, and opens them again: server/core/door.h. On the
 * acceptor's thread. */
#ifndef OKV_SERVER_NET_DOORS_H
#define OKV_SERVER_NET_DOORS_H

#include "server/core/server.h"

/* Moves each door on as far as it can without blocking. */
void okv_doors_mind(struct okv_server *server);
/* For poll(): until a door is to be tried again; -1: none is. */
int okv_doors_wait_ms(const struct okv_server *server);
/* Waits for doors that are being opened, so that nothing changes any more. */
void okv_doors_settle(struct okv_server *server);

#endif
