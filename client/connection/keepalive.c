/*
 * Finding out that the server's host, its device or the network is gone, while the handle
 * waits for something: docs/connections.md section 3. What the server's process does is
 * no matter here; its answers have the operations' deadlines.
 */
#include "client/connection/keepalive.h"

#include "client/connection/reconnect.h"
#include "shared/base/clock.h"

#define TICKS 6 /* of a period */

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

/* With nothing under way nobody needs to know. What was abandoned needs its slot back. */
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
    /* Where nobody looked for a while, silence began when somebody looked again. */
    bool late = now - keepalive->next_ns > tick_ns(keepalive);
    bool quiet = conn->acknowledged == keepalive->acknowledged;

    keepalive->next_ns = now + tick_ns(keepalive);
    keepalive->acknowledged = conn->acknowledged;
    if (late || !quiet || conn->unacknowledged == 0)
        keepalive->quiet_since_ns = now;
    if (quiet && conn->unacknowledged == 0) {
        handle->counters.heartbeats++;
        if (handle->transport->heartbeat(handle->conn))
            link_lost(handle, OKV_EDISCONNECTED,
                      "the connection ended when the server was sent a heartbeat");
    } else if (now - keepalive->quiet_since_ns >= keepalive->period_ns / 2) {
        link_lost(handle, OKV_EDISCONNECTED,
                  "the server's host does not respond: it is down, or the network "
                  "to it is");
    }
}

uint64_t keepalive_wake_ns(const okv *handle)
{
    return keepalive_is_wanted(handle) ? handle->keepalive.next_ns : UINT64_MAX;
}
