/* Blocking until something happened. */
#ifndef OKV_CLIENT_ENGINE_WAIT_H
#define OKV_CLIENT_ENGINE_WAIT_H

#include "client/handle.h"

/* How long somebody has waited for something to happen; begin with zeros. */
struct waiting {
    uint32_t idle;
    uint64_t spin_until_ns;
};

/* One turn, and a pause when nothing happened in it: short at first, then until an
 * event or a deadline, this or an operation's. */
void engine_pause(okv *handle, struct waiting *waiting, uint64_t deadline_ns);
/* As operation_take(). Where there is no slot, DELIVER_TO_CALLER waits for one, to the deadline:
 * OKV_ETIMEDOUT. */
int engine_operation_take(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                          uint64_t deadline_ns, struct operation **out);
/* Posts what is in the batch, then blocks until `operation` ended, at the latest at its
 * deadline. Fills *result (may be NULL) and returns the status. */
int engine_wait_for(okv *handle, struct operation *operation, struct okv_result *result);

#endif
