/*
 * Listening, with a moment's patience. A server that was killed keeps its address until the system
 * has taken it down, which takes a while where there is much memory, and the one that is to follow
 * it may be quicker.
 */
#ifndef OKV_SERVER_NET_LISTENING_H
#define OKV_SERVER_NET_LISTENING_H

#include "server/server.h"

/* Listens at `uri` by the transport `ops`, as its listen(). An address that another listener has is
 * tried again for some 2 s, and a line on the log says so; then it is OKV_EAGAIN all the same. */
int okv_server_listen(struct okv_server *server, const struct okv_transport_ops *ops,
                      const struct okv_uri *uri, struct okv_listener **out, struct okv_diag *diag);

#endif
