/* Queues of operations: free slots, slots that wait for room to post, results for okv_poll(). */
#ifndef OKV_CLIENT_STATE_QUEUES_H
#define OKV_CLIENT_STATE_QUEUES_H

#include <okv.h>
#include <stdint.h>

#include "client/state/operation.h"
#include "shared/transport/transport.h"

/* Has room for all slots. */
struct slot_stack {
    uint16_t *slots;
    uint32_t count;
};

/* A ring with room for all slots. */
struct slot_queue {
    uint16_t *slots;
    uint32_t first;
    uint32_t count;
};

/* A ring with room for `depth` results. */
struct result_queue {
    struct okv_result *results;
    uint32_t first;
    uint32_t count;
};

/* The index `ahead` steps after `first` in a ring; first < size, ahead <= size. */
static inline uint32_t ring_index(uint32_t first, uint32_t ahead, uint32_t size)
{
    uint32_t index = first + ahead;

    return index < size ? index : index - size;
}

/* Request slots: docs/connections.md section 2. The arrays have room for all that were requested.
 */
struct request_slots {
    struct operation **holders; /* by request slot; NULL: free */
    uint16_t *free;             /* a stack of the free ones among those that the server granted */
    uint32_t count;             /* of `free` */
    uint32_t resends;           /* holders whose request waits to be sent again */
};

/* READs that wait for the next doorbell: engine/read_batch.h. */
struct read_batch {
    struct okv_read *reads; /* room for conn->max_reads */
    unsigned count;
};

#endif
