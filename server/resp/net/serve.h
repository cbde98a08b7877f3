/* Serves a client: reads and runs requests, and sends replies. What is left waits for epoll, for a
 * log, or for the worker's next pass. */
#ifndef OKV_SERVER_RESP_NET_SERVE_H
#define OKV_SERVER_RESP_NET_SERVE_H

#include "server/resp/run/client.h"

/* With `reads`, more requests may have come. Returns how many ran; the client may be freed then. */
unsigned okv_resp_serve(struct okv_resp_client *client, bool reads);
/* The same with what epoll reports of it. */
void okv_resp_on_event(struct okv_resp_client *client, uint32_t events);

/* Has epoll report what the client can go on with. */
void okv_resp_update_events(struct okv_resp_client *client);

/* The log failed: one error takes the place of the deferred replies, and closes the connection. */
void okv_resp_fail_deferred(struct okv_resp_client *client);

/* Closes the connection, and frees the client. */
void okv_resp_client_close(struct okv_resp_client *client);

#endif
