/* One request, applied to the store: what to answer. */
#ifndef OKV_SERVER_COMMAND_EXECUTE_H
#define OKV_SERVER_COMMAND_EXECUTE_H

#include "server/server.h"
#include "shared/format/wire.h"

/*
 * Applies a decoded request other than a PUT. Fills status, version and value of
 * `reply`; the value is written to `room`, which has `size` bytes. Returns 0, or
 * OKV_EPROTO for a message that makes no sense: nothing was applied and the
 * connection is to be closed. Called by the worker, whose `work` it uses.
 */
int okv_apply(struct okv_server *server, struct okv_store_work *work,
              const struct okv_request_message *request, struct okv_reply_message *reply,
              uint8_t *room, uint32_t size);

/*
 * The PUT alone: of the message's value when `extent` is 0, else of the one that is
 * in this extent, which is used up when `reply->status` is 0 and still the caller's
 * if not.
 */
void okv_apply_put(struct okv_server *server, struct okv_store_work *work,
                   const struct okv_request_message *request, uint64_t extent,
                   struct okv_reply_message *reply);

#endif
