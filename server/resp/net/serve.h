/* A turn of a client: requests are read and served, replies leave, and what is left waits for
 * epoll, for the log, or for the next turn. */
#ifndef OKV_SERVER_RESP_NET_SERVE_H
#define OKV_SERVER_RESP_NET_SERVE_H

#include "server/resp/run/client.h"

/* With `reads`, more requests may have come. Returns how many were served; the client may be gone
 * then. */
unsigned okv_resp_take_turn(struct okv_resp_client *client, bool reads);
/* The same with what epoll says of it. */
void okv_resp_meet_event(struct okv_resp_client *client, uint32_t events);

/* Has epoll tell of what the client can go on with. */
void okv_resp_set_events(struct okv_resp_client *client);

/* Replies from `from` on wait for a batch of a database's log. None waits for another log, and an
 * earlier batch of this one succeeded. */
void okv_resp_hold(struct okv_resp_client *client, unsigned database, uint64_t batch, size_t from);
/* They may leave. */
void okv_resp_unhold(struct okv_resp_client *client);
/* The log failed: one error stands for them, and the connection ends with it. */
void okv_resp_note_failure(struct okv_resp_client *client);

/* Ends the connection, and frees the client. */
void okv_resp_end(struct okv_resp_client *client);

#endif
