/* Whether READs count: connection/lease.h. A server alone has no lease, and no clock is read. */
#ifndef OKV_CLIENT_ENGINE_LEASE_CHECK_H
#define OKV_CLIENT_ENGINE_LEASE_CHECK_H

#include "client/handle.h"
#include "shared/base/clock.h"

/* READs have completed. Their completions come first, then the clock: the other way round a READ
 * might be served after the lease has ended. */
static inline void lease_look(okv *handle)
{
    if (handle->lease.is_checked)
        handle->lease.seen_ns = okv_clock_boot_ns();
}

/* Whether those count that had completed at the last lease_look(). */
static inline bool lease_covers(okv *handle)
{
    struct lease *lease = &handle->lease;

    if (!lease->is_checked)
        return true;
    lease->is_due |= lease->seen_ns >= lease->refresh_ns;
    return lease->seen_ns < lease->deadline_ns;
}

#endif
