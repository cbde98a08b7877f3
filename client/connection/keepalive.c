/*
 * Detects the loss of the server's host, its device or the network while operations wait:
 * docs/connections.md section 3. A device acknowledges heartbeats without its process, so a slow
 * server process goes unnoticed here; the deadlines of operations cover it.
 */
#include "client/connection/keepalive.h"

#include "client/connection/lease_wait.h"
#include "client/engine/failure.h"
#include "shared/base/clock.h"

#define TICKS 6 /* in a period */

static uint64_t tick_ns(const struct keepalive *keepalive)
{
    return keepalive->period_ns / TICKS;
}

void keepalive_start(okv *handle)
{
    struct keepalive *keepalive = &handle->keepalive;
    uint64_t now = okv_clock_ns();

    keepalive->next_ns = now + tick_ns(keepalive);
    keepalive->quiet_since_ns = now;
    keepalive->acknowledged = handle->conn->acknowledged;
}

/* Needed while any slot is taken; abandoned operations count too, as their slots must come back. */
static bool keepalive_is_wanted(const okv *handle)
{
    return handle->keepalive.period_ns > 0 && handle->free.count < handle->slot_count &&
           link_is_up(handle) && !handle->failure;
}

void keepalive_tick(okv *handle, uint64_t now)
{
    struct keepalive *keepalive = &handle->keepalive;
    const struct okv_conn *conn = handle->conn;

    if (!keepalive_is_wanted(handle))
        return;
    /* After a late tick the silence counts from now: nothing was polled before. */
    bool late = now - keepalive->next_ns > tick_ns(keepalive);
    bool quiet = conn->acknowledged == keepalive->acknowledged;

    keepalive->next_ns = now + tick_ns(keepalive);
    keepalive->acknowledged = conn->acknowledged;
    if (late || !quiet || conn->unacknowledged == 0)
        keepalive->quiet_since_ns = now;
    if (quiet && conn->unacknowledged == 0) {
        handle->counters.heartbeats++;
        if (handle->transport->heartbeat(handle->conn))
            engine_lost(handle, OKV_EDISCONNECTED,
                        "the connection ended when the server was sent a heartbeat");
    } else if (now - keepalive->quiet_since_ns >= keepalive->period_ns / 2) {
        engine_lost(handle, OKV_EDISCONNECTED,
                    "the server's host does not respond: it is down, or the network "
                    "to it is");
    }
    if (link_is_up(handle))
        lease_watch(handle);
}

uint64_t keepalive_wake_ns(const okv *handle)
{
    return keepalive_is_wanted(handle) ? handle->keepalive.next_ns : UINT64_MAX;
}
