/*
 * TLS handshakes of RESP clients (shared/stream/handshakes.h). Such a client is silent (place.h),
 * so there are few of them, and has as much time as one to log in.
 */
#ifndef OKV_SERVER_RESP_NET_HANDSHAKE_H
#define OKV_SERVER_RESP_NET_HANDSHAKE_H

struct okv_diag;
struct okv_resp_client;
struct okv_server;

/* Starts the thread, in `server->resp_shared`. OKV_ENOMEM; what okv_handshakes_start() returns. */
int okv_resp_handshakes_start(struct okv_server *server, struct okv_diag *diag);
/* Takes a silent client with TLS, which gets a worker, and without users a place, when its
 * handshake is over. The acceptor's thread. */
void okv_resp_handshakes_add(struct okv_server *server, struct okv_resp_client *client);
/* Closes all that are under way. No client comes any more, and workers are still there. */
void okv_resp_handshakes_stop(struct okv_server *server);

#endif
