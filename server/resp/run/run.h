/* Runs a request: checks it, and runs or queues its command under the locks that it needs. */
#ifndef OKV_SERVER_RESP_RUN_RUN_H
#define OKV_SERVER_RESP_RUN_RUN_H

#include "server/resp/run/client.h"

/*
 * Runs a command, or queues it after MULTI, and adds one reply to client->out. The caller shares
 * the lock of exclusive commands. OKV_EAGAIN: nothing was replied; OKV_RESP_GOES_ON: a part of its
 * work is done. In both cases call it again later, with the same arguments.
 */
int okv_resp_run(struct okv_resp_client *client, const struct okv_resp_arg *args, uint32_t count);

#endif
