/* The RESP clients of a worker: docs/resp.md. Only the worker's thread calls, unless it says
 * otherwise. */
#ifndef OKV_SERVER_RESP_RESP_H
#define OKV_SERVER_RESP_RESP_H

#include "server/resp/run/client.h"

/* `executors`, one for each database, and `housekeeping` are the worker's, and borrowed. The clock
 * is read before commands run, unless `housekeeping` is NULL. OKV_EIO, OKV_ENOMEM. */
int okv_resp_init(struct okv_resp *resp, struct okv_server *server, unsigned worker,
                  const struct okv_executor *executors, struct okv_housekeeping *housekeeping);
/* Closes all clients. */
void okv_resp_fini(struct okv_resp *resp);

/*
 * Serves what has come. Returns how much it did; 0: nothing. *is_held_up is set when a command
 * waits for something that no descriptor reports. resp->epoll_fd is readable when clients have sent
 * something.
 */
unsigned okv_resp_poll(struct okv_resp *resp, bool *is_held_up);
/* Closes clients that do not authenticate in time, and unless the worker is busy those that are
 * stalled or idle. Call it now and then. */
void okv_resp_scan(struct okv_resp *resp, uint64_t now_ns, bool is_quiet);
/* The server ends: sends replies, as far as that does not block, and closes all clients. */
void okv_resp_end_all(struct okv_resp *resp);

#endif
