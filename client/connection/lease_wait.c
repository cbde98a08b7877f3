#include "client/connection/lease_wait.h"

#include <time.h>

#include "client/connection/clock_sync.h"
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

void lease_again(okv *handle)
{
    handle->lease.again_ns = UINT64_MAX;
    if (!link_is_up(handle))
        return;
    read_status(handle, okv_clock_ns() + LEASE_AGAIN_NS);
    engine_flush(handle);
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
        if (okv_clock_ns() >= end_ns)
            return timeout_status(handle);
        nanosleep(&(struct timespec){.tv_nsec = LEASE_AGAIN_NS}, NULL);
    }
}
