/* Moves bytes between a client and its stream. Nothing here blocks. */
#ifndef OKV_SERVER_RESP_NET_TRANSFER_H
#define OKV_SERVER_RESP_NET_TRANSFER_H

#include "server/resp/run/client.h"

bool okv_resp_has_replies(const struct okv_resp_client *client);
/* Whether a request under way, or replies, take memory. */
bool okv_resp_is_transferring(const struct okv_resp_client *client);
/* Sends what may leave, as much as a turn may. False: the connection has ended. */
bool okv_resp_send(struct okv_resp_client *client);
/* Reads once. False: the connection has ended. */
bool okv_resp_receive(struct okv_resp_client *client);
/* Moves what has come of a long value from the buffer to its extent, as much as a step may. Returns
 * whether there is more. */
bool okv_resp_move_to_upload(struct okv_resp_client *client);

#endif
