/* Bytes of a client, from its stream and to it. None of these blocks. */
#ifndef OKV_SERVER_RESP_NET_TRANSFER_H
#define OKV_SERVER_RESP_NET_TRANSFER_H

#include "server/resp/run/client.h"

bool okv_resp_has_replies(const struct okv_resp_client *client);
/* Whether bytes that are to come or to leave take memory. */
bool okv_resp_is_transferring(const struct okv_resp_client *client);
/* Sends what may leave. False: the connection has ended. */
bool okv_resp_send(struct okv_resp_client *client);
/* Reads once. False: the connection has ended. */
bool okv_resp_receive(struct okv_resp_client *client);
/* What has come of a long value leaves the buffer. */
void okv_resp_move_to_upload(struct okv_resp_client *client);

#endif
