/* Where operations wait: for a slot, for room to post, for a request slot, for their caller. */
#ifndef OKV_CLIENT_STATE_QUEUES_H
#define OKV_CLIENT_STATE_QUEUES_H

#include <okv.h>
#include <stdint.h>

#include "client/state/operation.h"
#include "shared/transport/transport.h"

/* Room for all slots. */
struct slot_stack {
    uint16_t *slots;
    uint32_t count;
};

/* Queues with room for all slots, and for `depth` results. */
struct slot_queue {
    uint16_t *slots;
    uint32_t first;
    uint32_t count;
};

struct result_queue {
    struct okv_result *results;
    uint32_t first;
    uint32_t count;
};

/* The place that is `ahead` behind `first` in a ring of `size`: `first` is below it,
 * `ahead` at most as much. */
static inline uint32_t ring_index(uint32_t first, uint32_t ahead, uint32_t size)
{
    uint32_t place = first + ahead;

    return place < size ? place : place - size;
}

/* The credits: docs/connections.md section 2. Room for as many as were asked for. */
struct request_slots {
    struct operation **holders; /* by request slot; NULL: it is free */
    uint16_t *free;             /* those that this connection has, and nobody holds */
    uint32_t count;             /* of the free ones */
    uint32_t resends;           /* holders that wait to be sent again */
};

/* READs that were decided on and not posted yet. */
struct read_batch {
    struct okv_read *reads; /* room for all that may be under way */
    unsigned count;
};

#endif
