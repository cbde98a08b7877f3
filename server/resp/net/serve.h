/* Serves a client: reads and runs requests, and sends replies. What is left waits for epoll, for a
 * log, or for the worker's next pass. */
#ifndef OKV_SERVER_RESP_NET_SERVE_H
#define OKV_SERVER_RESP_NET_SERVE_H

#include "server/resp/run/client.h"

/* A turn. Returns how many requests ran; the client may be freed then. */
unsigned okv_resp_serve(struct okv_resp_client *client);
/* It is served in this pass or in a later one. */
void okv_resp_make_ready(struct okv_resp_client *client);
/* The same, with what epoll reports of it. The client may be freed then. */
void okv_resp_on_event(struct okv_resp_client *client, uint32_t events);

/* Has epoll report what the client can go on with. */
void okv_resp_update_events(struct okv_resp_client *client);

/* The log failed: one error takes the place of the deferred replies, and closes the connection. */
void okv_resp_fail_deferred(struct okv_resp_client *client);

/* Closes the connection, and frees the client. */
void okv_resp_client_close(struct okv_resp_client *client);

#endif
