#include "client/engine/progress.h"

#include "client/engine/engine_ops.h"
#include "client/engine/failure.h"
#include "client/engine/lease_check.h"
#include "client/engine/operation.h"
#include "client/engine/read_batch.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define EVENTS_PER_PASS 64
/* Passes of a busy engine between two checks of deadlines. */
#define DEADLINE_PASSES 64
/* A handle that was idle for longer catches up first. */
#define STALE_NS 1000000
/* The most passes of catching up; the usual passes handle what is left. */
#define CATCH_UP_PASSES 8

static inline void read_event(okv *handle, const struct okv_event *event)
{
    if (event->cookie == READ_ATTEMPT_COOKIE) {
        handle->ops->link_read_done(handle, event->cookie, event->status);
        return;
    }
    if (event->status) {
        engine_lost(handle, OKV_EDISCONNECTED,
                    "a READ failed: the server is gone or was restarted");
        return;
    }
    if (handle->failure)
        return;
    if (event->cookie == READ_STATUS_COOKIE) {
        handle->ops->link_read_done(handle, event->cookie, 0);
        return;
    }
    uint16_t slot = read_slot(event->cookie);
    if (slot >= handle->slot_count || handle->operations[slot].reads == 0)
        return;
    struct operation *operation = &handle->operations[slot];
    handle->reads--;
    operation->reads--;
    if (!operation->abandoned)
        handle->ops->read_done(handle, operation, read_kind(event->cookie));
    else if (operation->reads == 0)
        operation_release(handle, operation);
}

void engine_event(okv *handle, const struct okv_event *event)
{
    switch (event->type) {
    case OKV_EVENT_READ:
        read_event(handle, event);
        break;
    case OKV_EVENT_RECV:
        if (!handle->failure)
            handle->ops->message(handle, event);
        handle->transport->recv_release(handle->conn->endpoint, event);
        break;
    case OKV_EVENT_CLOSED:
        handle->closed = true;
        engine_lost(handle, OKV_EDISCONNECTED, "the server closed the connection or died");
        break;
    case OKV_EVENT_OPENED:
    case OKV_EVENT_RENDEZVOUS_DONE:
        break;
    }
}

void engine_dispatch(okv *handle, const struct okv_event *events, int count)
{
    if (count < 0) {
        engine_lost(handle, OKV_EIO, "the device reported a failure of the completion queue");
        handle->closed = true;
    }
    if (count > 0)
        lease_look(handle);
    for (int i = 0; i < count; i++) {
        if (events[i].type == OKV_EVENT_READ) /* the usual case */
            read_event(handle, &events[i]);
        else
            engine_event(handle, &events[i]);
    }
}

int engine_events(okv *handle)
{
    struct okv_event events[EVENTS_PER_PASS];

    if (!handle->conn || handle->closed)
        return 0;
    int count = handle->transport->poll(handle->conn->endpoint, events, EVENTS_PER_PASS);
    engine_dispatch(handle, events, count);
    return count;
}

void engine_disconnected(okv *handle)
{
    while (engine_events(handle) > 0)
        ;
    engine_lost(handle, OKV_EDISCONNECTED, "the connection ended");
}

void engine_flush(okv *handle)
{
    unsigned count = handle->batch.count;

    if (handle->lost && !handle->failure)
        engine_disconnected(handle);
    handle->lost = false;
    handle->batch.count = 0;
    if (handle->failure)
        return;
    /* While draining too: a request that was queued before the server's goodbye counts as sent. */
    if (handle->unflushed && (link_is_up(handle) || handle->link.state == LINK_DRAINING))
        handle->transport->flush(handle->conn);
    handle->unflushed = false;
    if (count == 0 || !link_is_up(handle))
        return;
    int rc = handle->transport->post_read(handle->conn, handle->batch.reads, count);
    if (rc == OKV_EDISCONNECTED)
        engine_disconnected(handle);
    else if (rc)
        engine_lost(handle, OKV_EIO, "the device did not take a READ");
}

static void check_deadlines(okv *handle, uint64_t now)
{
    uint64_t earliest = UINT64_MAX;

    if (handle->active == 0 || now < handle->earliest_deadline_ns)
        return;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        if (!operation_is_under_way(operation) || operation->abandoned)
            continue;
        if (operation->deadline_ns <= now)
            operation_expire(handle, operation);
        else if (operation->deadline_ns < earliest)
            earliest = operation->deadline_ns;
    }
    handle->earliest_deadline_ns = earliest;
}

/* Without a taken slot nothing has a deadline. The coarse clock, a plain memory read, tells when
 * nothing can be due. */
static void check_clock(okv *handle)
{
    uint64_t due = handle->keepalive.next_ns;

    if (handle->free.count == handle->slot_count)
        return;
    if (handle->active > 0 && handle->earliest_deadline_ns < due)
        due = handle->earliest_deadline_ns;
    if (handle->lease.again_ns < due)
        due = handle->lease.again_ns;
    if (okv_clock_coarse_ns() + 2 * OKV_CLOCK_TICK_NS < due)
        return;
    uint64_t now = okv_clock_ns();
    if (now >= handle->keepalive.next_ns)
        handle->ops->keepalive_tick(handle, now);
    if (now >= handle->lease.again_ns)
        handle->ops->lease_again(handle);
    check_deadlines(handle, now); /* last: the tick must still count operations that end here */
}

/* Arms the endpoint first: a poll of an armed endpoint always checks for the end of the connection,
 * other polls check only at times. */
void engine_catch_up(okv *handle)
{
    uint32_t active = handle->active;
    bool more = true;

    /* An operation that ended may be one that the caller holds: the next pass could reuse its slot.
     */
    for (int i = 0; i < CATCH_UP_PASSES && more && handle->active == active; i++) {
        int rc =
            handle->conn && !handle->closed ? handle->transport->arm(handle->conn->endpoint) : 0;
        if (rc == OKV_EIO)
            engine_lost(handle, rc, "the completion queue cannot be armed");
        more = engine_progress(handle);
    }
}

bool engine_is_stale(const okv *handle, uint64_t now)
{
    return now - handle->begun_ns >= STALE_NS && !handle->failure;
}

bool engine_progress(okv *handle)
{
    uint32_t active = handle->active;
    int failure = handle->failure;

    int n = engine_events(handle);
    if (n < 0)
        return true;
    bool advanced = !link_is_up(handle) && handle->ops->link_advance(handle);
    if (link_is_up(handle) && (handle->blocked_requests.count || handle->blocked_reads.count))
        operation_retry_blocked(handle);
    if (handle->batch.count || handle->unflushed || handle->lost)
        engine_flush(handle);
    if (n == 0 || ++handle->passes % DEADLINE_PASSES == 0)
        check_clock(handle);
    return n > 0 || advanced || handle->active != active || handle->failure != failure;
}
