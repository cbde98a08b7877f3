/* Admits RESP clients whose stream is ready, and turns others away. The acceptor's thread and that
 * of TLS handshakes call. */
#ifndef OKV_SERVER_RESP_NET_ADMIT_H
#define OKV_SERVER_RESP_NET_ADMIT_H

#include "server/resp/run/client.h"

/* Gives the client to a worker, without users with a place; if there is none, it gets an error and
 * is closed. */
void okv_resp_admit(struct okv_server *server, struct okv_resp_client *client);
/* Closes a client that no worker has, with the error. */
void okv_resp_refuse_place(struct okv_server *server, struct okv_resp_client *client);
/* Closes a client that no worker has, and frees it. */
void okv_resp_turn_away(struct okv_server *server, struct okv_resp_client *client);

#endif
