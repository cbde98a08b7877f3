/*
 * Whether a client is still there, by what its device acknowledges: docs/connections.md section 3.
 *
 * A client whose connection is new may not be able to answer a heartbeat yet: over RDMA its queue
 * pair is made ready when it has the welcome, and a heartbeat that comes before costs it the
 * connection. So the first heartbeat waits for GRACE ticks, or for a sign of life.
 *
 * Time is counted in ticks and not measured: a server that stood still for a minute sees one tick,
 * and gives its clients the time that they have.
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

/* Of one connection; starts as zeros. */
struct okv_keepalive {
    uint64_t acknowledged; /* of the connection, at the last tick */
    unsigned waits;        /* ticks at which something waited for its acknowledgement, since then */
    unsigned grace;        /* ticks that passed before there was a sign of life */
    bool is_up;            /* there was one: a message of the client, or an acknowledgement */
};

enum okv_keepalive_verdict {
    OKV_KEEPALIVE_FINE,
    OKV_KEEPALIVE_HEARTBEAT, /* nothing came and nothing is asked: heartbeat the client */
    OKV_KEEPALIVE_DEAD,      /* what waits for its acknowledgement has waited for too long */
};

/* What a tick finds; to be called after a poll of the connection's endpoint. */
enum okv_keepalive_verdict okv_keepalive_tick(struct okv_keepalive *keepalive,
                                              const struct okv_conn *conn);

#endif
