/* A client without the library that increments one number, request by request: what was applied how
 * often shows in the number. */
#ifndef OKV_TESTS_COUNTING_CLIENT_H
#define OKV_TESTS_COUNTING_CLIENT_H

#include "tests/support/hostile_client.h"

#define COUNTING_KEY "counter"

/* A hello of the client `earlier` after its connection, or of one that never was there. */
struct okv_wire_hello counting_hello_after(const struct okv_wire_hello *earlier,
                                           uint64_t session_id);

/* Sends an INCR on a request slot; takes the sum out of its reply; both. */
void counting_send(struct hostile *client, uint16_t request_slot, uint64_t sequence,
                   uint64_t delta);
uint64_t counting_take(struct hostile *client, uint16_t request_slot, uint64_t sequence);
uint64_t counting_incr(struct hostile *client, uint16_t request_slot, uint64_t sequence,
                       uint64_t delta);

/* What the number is, and the number set to 100. */
uint64_t counting_value(struct bystander *bystander);
void counting_reset(struct bystander *bystander);

#endif
