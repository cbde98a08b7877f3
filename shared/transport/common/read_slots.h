/* READs of a client that are under way. */
#ifndef OKV_SHARED_TRANSPORT_COMMON_READ_SLOTS_H
#define OKV_SHARED_TRANSPORT_COMMON_READ_SLOTS_H

#include "shared/transport/transport.h"

#define OKV_READ_SLOTS 64 /* READs that a client may post at once, at most */

struct okv_read_slots {
    struct {
        uint64_t cookie;
        bool is_busy;
        bool is_silent; /* its post failed: its end makes no event */
    } slots[OKV_READ_SLOTS];
    unsigned busy;
};

/* Takes the first free slot at or after `from`, which must exist. Returns its index. */
static inline unsigned okv_read_slots_take(struct okv_read_slots *reads, unsigned from,
                                           uint64_t cookie)
{
    while (reads->slots[from].is_busy)
        from++;
    reads->slots[from].cookie = cookie;
    reads->slots[from].is_busy = true;
    reads->slots[from].is_silent = false;
    reads->busy++;
    return from;
}

/* A READ has ended. Returns the number of events, 1 or 0. A slot that is free has ended before. */
int okv_read_slots_complete(struct okv_read_slots *reads, unsigned index, int status,
                            struct okv_conn *conn, struct okv_event *event);
/* Ends outstanding READs with OKV_EDISCONNECTED: adds their events to the `*count` events that
 * there are, up to `max`. True when no READ is left. */
bool okv_read_slots_end(struct okv_read_slots *reads, struct okv_conn *conn,
                        struct okv_event *events, int max, int *count);

#endif
