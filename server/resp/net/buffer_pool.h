/*
 * Memory of clients. A worker lends its buffers to the client whose turn it is, so that one that
 * waits for nothing has none of its own.
 */
#ifndef OKV_SERVER_RESP_NET_BUFFER_POOL_H
#define OKV_SERVER_RESP_NET_BUFFER_POOL_H

#include "server/resp/run/client.h"

/* A turn begins. */
void okv_resp_lend(struct okv_resp *resp, struct okv_resp_client *client);
/* It is over: the client keeps what is in use, and the worker the rest. */
void okv_resp_take_back(struct okv_resp *resp, struct okv_resp_client *client);
/* Counts what the client keeps until its next turn. */
void okv_resp_count_kept(struct okv_resp_client *client);
/* Whether all clients keep as much as they may together. */
bool okv_resp_is_short_of_memory(const struct okv_resp_client *client);

#endif
