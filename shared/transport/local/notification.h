/* What comes on the socket of a connection: notifications, and the end of the peer. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_NOTIFICATION_H
#define OKV_SHARED_TRANSPORT_LOCAL_NOTIFICATION_H

#include "shared/transport/local/local.h"

/* Receives one packet, if there is one: a notification, which makes the connection active, or the
 * end. */
void okv_local_socket_receive(struct okv_local_conn *conn);
/* Sends the notification that is due. */
void okv_local_notify(struct okv_local_conn *conn);
/* The peer is gone. Its messages in the ring can still be received; then the connection ends. */
void okv_local_hang_up(struct okv_local_conn *conn);
/* Checks the socket and, in a server, the client's process: a child of the client may hold the
 * socket open. A peer that is gone has hung up. */
int okv_local_heartbeat(struct okv_conn *conn);

#endif
