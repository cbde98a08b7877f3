#include "client/connection/wait.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>

#include "client/connection/connect.h"
#include "client/connection/reconnect.h"
#include "client/connection/servers.h"
#include "client/engine/failure.h"
#include "client/engine/operation.h"
#include "client/engine/progress.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* After WAIT_HOT_PASSES, passes with a yield between them for this long; then sleep on the
 * descriptor. */
#define WAIT_SPIN_NS 100000

/* Sleeps until the connection has an event, the link has something to do, or a deadline:
 * `deadline_ns` or an operation's. OKV_EIO: it cannot sleep. */
static int sleep_until(okv *handle, uint64_t deadline_ns)
{
    int rc = handle->conn ? handle->transport->arm(handle->conn->endpoint) : 0;

    if (rc)
        return rc;
    if (engine_progress(handle)) /* an event from before the arm announces nothing */
        return 0;
    if (handle->active > 0 && handle->earliest_deadline_ns < deadline_ns)
        deadline_ns = handle->earliest_deadline_ns;
    uint64_t wake_ns = link_wake_ns(handle);
    if (wake_ns < deadline_ns)
        deadline_ns = wake_ns;
    struct pollfd fd = {.fd = link_fd(handle), .events = POLLIN};
    if (poll(&fd, 1, okv_clock_ms_until(deadline_ns)) < 0 && errno != EINTR)
        return OKV_EIO;
    return 0;
}

void wait_pause(okv *handle, struct waiting *waiting, uint64_t deadline_ns)
{
    if (engine_progress(handle)) {
        *waiting = (struct waiting){0};
        return;
    }
    if (++waiting->idle < WAIT_HOT_PASSES)
        return;
    uint64_t now = okv_clock_ns();
    if (waiting->spin_until_ns == 0)
        waiting->spin_until_ns = now + WAIT_SPIN_NS;
    if (now < waiting->spin_until_ns)
        sched_yield();
    else if (sleep_until(handle, deadline_ns))
        engine_lost(handle, OKV_EIO, "waiting for events of the connection failed");
}

/* Abandoned operations hold all slots. One pass may free some; only a call that blocks waits for
 * more. */
static int slot_await(okv *handle, enum operation_delivery delivery, uint64_t deadline_ns)
{
    struct waiting waiting = {0};

    engine_progress(handle);
    while (handle->free.count == 0 && !handle->failure) {
        if (delivery != DELIVER_TO_CALLER)
            return OKV_EAGAIN;
        if (okv_clock_ns() >= deadline_ns) {
            handle->counters.timeouts++;
            return timeout_status(handle);
        }
        wait_pause(handle, &waiting, deadline_ns);
    }
    return handle->failure;
}

int wait_acquire(okv *handle, enum operation_kind kind, enum operation_delivery delivery,
                 uint64_t deadline_ns, struct operation **out)
{
    bool is_full = delivery == DELIVER_TO_POLL && handle->pending == handle->depth;

    if (handle->free.count == 0 && !handle->failure && !is_full) {
        int rc = slot_await(handle, delivery, deadline_ns);
        if (rc)
            return rc;
    }
    return operation_acquire(handle, kind, delivery, deadline_ns, out);
}

int wait_operation(okv *handle, struct operation *operation, struct okv_result *result)
{
    struct waiting waiting = {0};

    engine_flush(handle);
    while (operation->step != STEP_ENDED && !operation->abandoned)
        wait_pause(handle, &waiting, operation->deadline_ns);
    int status = operation->result.status;
    if (result)
        *result = operation->result;
    if (!operation->abandoned)
        operation_release(handle, operation);
    return status;
}

int link_await_idle(okv *handle)
{
    struct waiting waiting = {0};

    if (handle->failure)
        return handle->failure;
    if (handle->active > 0)
        return OKV_EAGAIN;
    engine_catch_up(handle);
    uint64_t deadline_ns = okv_clock_ns() + handle->timeout_ns;
    while (!link_is_up(handle) && !handle->failure) {
        if (okv_clock_ns() >= deadline_ns)
            return timeout_status(handle);
        wait_pause(handle, &waiting, deadline_ns);
    }
    return handle->failure;
}

static int open_once(okv *handle)
{
    struct waiting waiting = {0};

    handle->why.text[0] = '\0';
    int rc = attempt_start(handle, &handle->why);
    if (rc)
        return rc;
    while ((rc = attempt_step(handle, &handle->why)) == OKV_EAGAIN) {
        wait_pause(handle, &waiting, link_wake_ns(handle));
        if (handle->failure)
            return handle->failure;
    }
    return rc;
}

/* True when the failure says nothing about the other servers. */
static bool is_of_one_server(int rc)
{
    switch (rc) {
    case OKV_EREFUSED:
    case OKV_ESHUTDOWN:
    case OKV_ETIMEDOUT:
    case OKV_EDISCONNECTED:
    case OKV_EADDRESS:
    case OKV_EPROTO:
    case OKV_EVERSION:
        return true;
    default:
        return false;
    }
}

/* Waits until another attempt may begin. False: that is not in time. */
static bool open_await(okv *handle, int rc)
{
    struct link *link = &handle->link;
    struct waiting waiting = {0};

    link_drop(handle);
    link->attempts++;
    link_go_on(handle, rc);
    if (link->deadline_ns >= link->open_until_ns)
        return false;
    while (okv_clock_ns() < link->deadline_ns)
        wait_pause(handle, &waiting, link->deadline_ns);
    return true;
}

static void tell_none(okv *handle, int rc)
{
    const struct okv_diag last = handle->why;

    okv_diag_set(&handle->why, 0, "no primary of %s answered; the last attempt: %s",
                 handle->link.servers.list.cluster, last.text[0] ? last.text : okv_error_text(rc));
}

int link_open(okv *handle)
{
    struct link *link = &handle->link;

    link->opening = true;
    link->open_until_ns = okv_clock_ns() + link->connect_timeout_ns;
    int rc = open_once(handle);
    while (servers_are_many(link) && is_of_one_server(rc) && open_await(handle, rc))
        rc = open_once(handle);
    link->opening = false;
    if (rc == 0)
        link_up(handle);
    else if (servers_are_many(link) && is_of_one_server(rc))
        tell_none(handle, rc);
    link->attempts = 0;
    return rc;
}
