/* One request, applied to the store: what to answer. */
#ifndef OKV_SERVER_APPLY_H
#define OKV_SERVER_APPLY_H

#include "server/server.h"
#include "shared/wire.h"

/*
 * Decodes and applies the message of `event`, and writes the answer to `out`,
 * which has limits.slot_size bytes. Returns 0 with its *length and *immediate,
 * or OKV_EPROTO for a message that makes no sense: nothing was applied and the
 * connection is to be closed. Called by the worker, whose `work` it uses.
 */
int okv_apply(struct okv_server *server, struct okv_store_bucket *work,
              const struct okv_event *event, uint8_t *out, uint32_t *length, uint32_t *immediate);

#endif
