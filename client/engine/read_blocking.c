#include "client/engine/read_blocking.h"

#include <sched.h>

#include "client/engine/failure.h"
#include "client/engine/lease_check.h"
#include "client/engine/progress.h"
#include "client/engine/read_batch.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define BLOCKING_COOKIE UINT64_MAX

/* Waits for the end of the READ or, before it is posted, for room. Handles other events as usual.
 */
static int await_read(okv *handle, bool posted, uint64_t deadline_ns)
{
    struct okv_event event;

    for (uint32_t idle = 0; posted || reads_room(handle) == 0; idle++) {
        if (handle->failure || !link_is_up(handle))
            return OKV_EDISCONNECTED;
        int n = handle->transport->poll(handle->conn->endpoint, &event, 1);
        if (n < 0)
            return OKV_EIO;
        if (n > 0)
            lease_look(handle);
        if (n > 0 && event.type == OKV_EVENT_READ && event.cookie == BLOCKING_COOKIE)
            return event.status;
        if (n > 0)
            engine_event(handle, &event);
        if (idle % 64 == 63) {
            if (okv_clock_ns() >= deadline_ns)
                return OKV_ETIMEDOUT;
            sched_yield();
        }
    }
    return 0;
}

int read_failed(okv *handle, int rc, bool under_way)
{
    if (rc == OKV_EDISCONNECTED)
        engine_disconnected(handle);
    else if (rc == OKV_EIO)
        engine_lost(handle, rc, "the device failed at a READ");
    else if (under_way)
        engine_lost(handle, rc, "a READ did not end by its deadline");
    if (handle->failure)
        return handle->failure;
    return rc == OKV_EIO ? OKV_EDISCONNECTED : rc;
}

int read_blocking(okv *handle, enum read_kind kind, uint64_t offset, void *destination,
                  struct okv_memory *memory, uint32_t length)
{
    struct okv_read read = {
        .offset = offset,
        .destination = destination,
        .memory = memory,
        .length = length,
        .cookie = BLOCKING_COOKIE,
    };
    uint64_t deadline = okv_clock_ns() + handle->timeout_ns;

    if (handle->failure)
        return handle->failure;
    if (!link_is_up(handle))
        return OKV_EDISCONNECTED;
    int rc = await_read(handle, false, deadline);
    if (rc)
        return read_failed(handle, rc, true);
    rc = handle->transport->post_read(handle->conn, &read, 1);
    if (rc)
        return read_failed(handle, rc, false);
    read_count(handle, kind, length);
    rc = await_read(handle, true, deadline);
    return rc ? read_failed(handle, rc, true) : 0;
}
