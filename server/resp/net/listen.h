/* The listeners for RESP clients, and what the workers share for these. Main calls. */
#ifndef OKV_SERVER_RESP_NET_LISTEN_H
#define OKV_SERVER_RESP_NET_LISTEN_H

#include "shared/base/diag.h"

struct okv_server;

/* Listens at all URIs of the configuration, and gives the sockets to the acceptor. OKV_EINVAL,
 * OKV_EPERM: the certificate or its key; OKV_EAGAIN: an address stays in use (okv_takeover_wait());
 * OKV_EADDRESS, OKV_EIO, OKV_ENOMEM. */
int okv_resp_open(struct okv_server *server, struct okv_diag *diag);
/* Ends TLS handshakes. No client comes any more; workers are still there. */
void okv_resp_stop(struct okv_server *server);
/* No client and no other thread is left. */
void okv_resp_close(struct okv_server *server);

#endif
