#include "server/session/keepalive.h"

/* Ticks with something unacknowledged before the client counts as dead. */
#define WAITS_MAX (OKV_KEEPALIVE_TICKS / 2)

enum okv_keepalive_verdict okv_keepalive_tick(struct okv_keepalive *keepalive,
                                              const struct okv_conn *conn)
{
    if (conn->acknowledged != keepalive->acknowledged) {
        keepalive->acknowledged = conn->acknowledged;
        keepalive->waits = 0;
        keepalive->is_up = true;
        return OKV_KEEPALIVE_FINE;
    }
    if (conn->unacknowledged == 0) {
        if (!keepalive->is_up && keepalive->grace++ < OKV_KEEPALIVE_GRACE)
            return OKV_KEEPALIVE_FINE;
        keepalive->waits = 1;
        return OKV_KEEPALIVE_HEARTBEAT;
    }
    return keepalive->waits++ >= WAITS_MAX ? OKV_KEEPALIVE_DEAD : OKV_KEEPALIVE_FINE;
}
