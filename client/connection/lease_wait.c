#include "client/connection/lease_wait.h"

#include <time.h>

#include "client/connection/clock_sync.h"
#include "client/connection/lease.h"
#include "client/connection/servers.h"
#include "client/engine/failure.h"
#include "client/engine/lease_check.h"
#include "client/engine/progress.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Without room for the READ it is tried again. */
static void read_status(okv *handle, uint64_t again_ns)
{
    status_refresh_soon(handle);
    handle->lease.again_ns = handle->clock.reading ? UINT64_MAX : again_ns;
}

void lease_hold(okv *handle, struct operation *operation, int status)
{
    operation->step = STEP_LEASE;
    operation->result.status = status;
    operation->lookup.seen_ns = handle->lease.seen_ns;
    if (link_is_up(handle))
        read_status(handle, 0);
}

/* What a look after a while without one finds says nothing of that while. */
static void watch(struct lease *lease, uint64_t now, uint64_t gap_ns)
{
    if (lease->watched_ns == 0 || now - lease->looked_ns > gap_ns)
        lease->watched_ns = now;
    lease->looked_ns = now;
}

/* Ends the connection to a server that renews its lease no more, where there are others. Another
 * one leads a little later than the lease ends. */
static bool give_up(okv *handle, uint64_t now)
{
    struct lease *lease = &handle->lease;
    uint64_t term_ns = handle->table.lease_ms * UINT64_C(1000000);

    watch(lease, now, term_ns + handle->keepalive.period_ns);
    if (now < lease_overdue_ns(handle))
        return false;
    servers_avoid(&handle->link, term_ns / 2);
    engine_lost(handle, OKV_EDISCONNECTED, "the server no longer renews its lease");
    return true;
}

bool lease_watch(okv *handle)
{
    struct lease *lease = &handle->lease;

    if (!lease_is_wanted(handle))
        return false;
    uint64_t now = okv_clock_boot_ns();
    if (now < lease->deadline_ns)
        lease->watched_ns = 0;
    else if (give_up(handle, now))
        return true;
    else if (lease->again_ns == UINT64_MAX)
        read_status(handle, okv_clock_ns() + LEASE_AGAIN_NS);
    lease_look_later(handle);
    return false;
}

void lease_again(okv *handle)
{
    handle->lease.again_ns = UINT64_MAX;
    if (!link_is_up(handle) || lease_watch(handle))
        return;
    if (!lease_is_wanted(handle))
        read_status(handle, okv_clock_ns() + LEASE_AGAIN_NS);
    engine_flush(handle);
}

uint64_t lease_wake_ns(const okv *handle)
{
    return handle->free.count < handle->slot_count ? handle->lease.again_ns : UINT64_MAX;
}

int lease_await(okv *handle)
{
    uint64_t seen_ns = handle->lease.seen_ns;

    if (lease_covers(handle))
        return 0;
    for (uint64_t end_ns = okv_clock_ns() + handle->timeout_ns;;) {
        int rc = status_read_blocking(handle);
        if (rc && rc != OKV_ECORRUPT)
            return rc;
        if (seen_ns < handle->lease.deadline_ns)
            return 0;
        uint64_t now = okv_clock_boot_ns();
        if (lease_is_wanted(handle) && now >= handle->lease.deadline_ns && give_up(handle, now))
            return OKV_EDISCONNECTED;
        if (okv_clock_ns() >= end_ns)
            return timeout_status(handle);
        nanosleep(&(struct timespec){.tv_nsec = LEASE_AGAIN_NS}, NULL);
    }
}
