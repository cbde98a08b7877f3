/* Blocking calls: they poll at full speed, then yield, then sleep on the descriptor. */
#ifndef OKV_CLIENT_CONNECTION_WAIT_H
#define OKV_CLIENT_CONNECTION_WAIT_H

#include "client/handle.h"

/* Passes at full speed, before any pause. */
#define WAIT_HOT_PASSES 32

/* How long a call has waited without an event; begin with zeros. */
struct waiting {
    uint32_t idle;
    uint64_t spin_until_ns;
};

/* One pass, then a pause if nothing happened. The pauses grow; a sleep ends with an event, at
 * `deadline_ns` or at the deadline of an operation. */
void wait_pause(okv *handle, struct waiting *waiting, uint64_t deadline_ns);
/* As operation_acquire(), but DELIVER_TO_CALLER waits for a free slot; OKV_ETIMEDOUT or
 * OKV_EDENIED at the deadline. */
int wait_acquire(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                 uint64_t deadline_ns, struct operation **out);
/* Posts the batch and blocks until `operation` has ended, at the latest at its deadline. Fills
 * *result (may be NULL) and returns the status. */
int wait_operation(okv *handle, struct operation *operation, struct okv_result *result);
/* Makes the first connection: one attempt, with several servers as many as the time allows. */
int link_open(okv *handle);
/* For calls that are alone on a handle: waits until the link is up, at most for the handle's
 * timeout. OKV_EAGAIN: operations are under way; OKV_ETIMEDOUT, OKV_EDENIED, or the handle's
 * failure. */
int link_await_idle(okv *handle);

#endif
