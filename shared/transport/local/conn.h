/* One connection: its memory, what epoll watches, active or idle, and how it ends. */
#ifndef OKV_SHARED_TRANSPORT_LOCAL_CONN_H
#define OKV_SHARED_TRANSPORT_LOCAL_CONN_H

#include "shared/transport/local/local.h"

/* Makes the endpoint's descriptor readable if it is armed: the endpoint's own thread has made an
 * event. */
void okv_local_announce(struct okv_local_endpoint *endpoint);

/* A connection over `sock`, which it owns on success; not yet attached. Any thread. */
int okv_local_conn_new(struct okv_local_endpoint *endpoint, int sock, struct okv_local_conn **out);
/* Frees a connection that is in no list. Any thread. */
void okv_local_conn_free(struct okv_local_conn *conn);
/* Makes a connection part of its endpoint. */
void okv_local_conn_attach(struct okv_local_conn *conn);
/* Makes epoll watch the socket for what the connection can do now. */
void okv_local_conn_watch(struct okv_local_conn *conn);
/* The number of messages that there are receive buffers for. */
unsigned okv_local_receive_room(const struct okv_local_conn *conn);
/* Whether the rings may be touched: always in a client; in a server when the client has sealed
 * them. Until then the connection stays idle. */
bool okv_local_rings_are_safe(struct okv_local_conn *conn);
/* Makes a connection active: polls check its ring. */
void okv_local_conn_activate(struct okv_local_conn *conn);
/* Removes a connection from the active ones, if it is one. */
void okv_local_conn_deactivate(struct okv_local_conn *conn);
/* Makes a connection idle: the peer sends a notification with the next message. False when there is
 * a message already; the connection stays active. */
bool okv_local_conn_go_idle(struct okv_local_conn *conn);
/* Forgets the messages that no flush has sent. */
void okv_local_unqueue_sends(struct okv_local_conn *conn);
/* Makes the unreported READs fail. */
void okv_local_fail_reads(struct okv_local_conn *conn);
/* Ends a connection with `status`. Only the first call counts. */
void okv_local_conn_end(struct okv_local_conn *conn, int status);

#endif
