/*
 * Keepalive of a client, by what its device acknowledges: docs/connections.md section 3.
 *
 * Over RDMA, a new client makes its queue pair ready when it gets the welcome. An earlier heartbeat
 * would break the connection. So the first heartbeat waits for a sign of life, or for
 * OKV_KEEPALIVE_GRACE ticks.
 *
 * Time is counted in ticks, not measured: a server that stood still for a minute sees one tick, and
 * does not take its clients for dead.
 */
#ifndef OKV_SERVER_SESSION_KEEPALIVE_H
#define OKV_SERVER_SESSION_KEEPALIVE_H

#include <stdbool.h>
#include <stdint.h>

#include "shared/transport/transport.h"

/* Ticks in the time within which a dead client is found. */
#define OKV_KEEPALIVE_TICKS 6u
/* Ticks of a new connection that pass without a heartbeat. */
#define OKV_KEEPALIVE_GRACE 2u

/* State of one connection; starts as zeros. */
struct okv_keepalive {
    uint64_t acknowledged; /* conn->acknowledged at the last tick */
    unsigned waits; /* ticks at which something was unacknowledged, since the last progress */
    unsigned grace; /* ticks without heartbeat before the first sign of life */
    bool is_up;     /* the client showed a sign of life: a message or an acknowledgement */
};

enum okv_keepalive_verdict {
    OKV_KEEPALIVE_FINE,
    OKV_KEEPALIVE_HEARTBEAT, /* nothing was acknowledged and nothing is outstanding: send a
                                heartbeat */
    OKV_KEEPALIVE_DEAD,      /* something stayed unacknowledged for too long */
};

/* One tick. Call it after a poll of the connection's endpoint. */
enum okv_keepalive_verdict okv_keepalive_tick(struct okv_keepalive *keepalive,
                                              const struct okv_conn *conn);

#endif
