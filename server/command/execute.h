/* One request, executed: what every door calls. */
#ifndef OKV_SERVER_COMMAND_EXECUTE_H
#define OKV_SERVER_COMMAND_EXECUTE_H

#include "server/server.h"
#include "shared/format/wire.h"

/*
 * Executes a decoded request and fills status, version and value of `reply`; the value is written
 * to `room`, which has `size` bytes. Returns 0, or OKV_EPROTO for a message that makes no sense:
 * nothing was changed and the connection is to be closed. Any thread, with `work` of its own.
 */
int okv_execute(struct okv_server *server, struct okv_store_work *work,
                const struct okv_request_message *request, struct okv_reply_message *reply,
                uint8_t *room, uint32_t size);

/*
 * A PUT whose value is in this extent of the region; 0: in the message. The extent is used up when
 * `reply->status` is 0 and still the caller's if not.
 */
void okv_execute_put(struct okv_server *server, struct okv_store_work *work,
                     const struct okv_request_message *request, uint64_t extent,
                     struct okv_reply_message *reply);

#endif
