/*
 * The buffers of a worker. A client borrows them while it is served, so that an idle client has
 * none of its own.
 */
#ifndef OKV_SERVER_RESP_NET_BUFFER_POOL_H
#define OKV_SERVER_RESP_NET_BUFFER_POOL_H

#include "server/resp/run/client.h"

void okv_resp_buffers_borrow(struct okv_resp_client *client);
/* The client keeps buffers that are in use. */
void okv_resp_buffers_return(struct okv_resp_client *client);
/* The client ends. */
void okv_resp_buffers_discard(struct okv_resp_client *client);
/* Counts the memory that the client keeps until it is served again. */
void okv_resp_count_memory(struct okv_resp_client *client);

#endif
