/* Listening at an address that may be in use for another moment. */
#ifndef OKV_SERVER_NET_LISTENING_H
#define OKV_SERVER_NET_LISTENING_H

#include "server/core/server.h"

/* Calls listen() of the transport. While the address is in use, waits as okv_takeover_wait() does,
 * then returns OKV_EAGAIN. */
int okv_server_listen(struct okv_server *server, const struct okv_transport_ops *ops,
                      const struct okv_uri *uri, struct okv_listener **out, struct okv_diag *diag);
/* The same at the address of a listener that has closed; never waits for that. OKV_EAGAIN: it is in
 * use. The caller sets its patience. */
int okv_server_listen_now(struct okv_server *server, const struct okv_uri *uri,
                          struct okv_listener **out, struct okv_diag *diag);
/* How many clients may be silent, and for how long: as the options have it now. Main's
 * thread, and the acceptor's before the first next_request. */
void okv_server_set_patience(struct okv_listener *listener, const struct okv_config *config);

#endif
