#include "client/engine/failure.h"

#include "client/engine/log_event.h"
#include "client/engine/operation.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Events that a close flushes come at once; this is the limit for a device that fails to. */
#define CLOSE_NS UINT64_C(200000000)

void engine_fail(okv *handle, int failure, const char *sentence)
{
    if (handle->failure)
        return;
    handle->failure = failure;
    okv_diag_set(&handle->why, failure, "%s", sentence);
    log_event(handle, OKV_LEVEL_ERROR, "", handle->why.text);
    if (handle->conn)
        handle->transport->close(handle->conn);
    handle->batch.count = 0;
    handle->blocked_reads.count = 0;
    handle->blocked_requests.count = 0;
    for (uint32_t i = 0; i < handle->slot_count; i++) {
        struct operation *operation = &handle->operations[i];
        if (!operation_is_under_way(operation))
            continue;
        if (operation->abandoned)
            operation_release(handle, operation);
        else
            operation_end_unanswered(handle, operation, failure);
    }
}

/* An attempt handles its own failures; so does a connection that is closing. */
static bool link_is_used(const struct link *link)
{
    return link->state == LINK_UP || link->state == LINK_DRAINING;
}

static void link_close(okv *handle)
{
    handle->transport->close(handle->conn);
    handle->link.state = LINK_CLOSING;
    handle->link.deadline_ns = okv_clock_ns() + CLOSE_NS;
    handle->event_fd.stale = true;
}

void engine_lost(okv *handle, int code, const char *sentence)
{
    struct link *link = &handle->link;
    struct okv_diag whole;

    if (handle->failure)
        return;
    if (code == OKV_EDISCONNECTED && handle->conn && handle->conn->failure[0]) {
        okv_diag_set(&whole, 0, "%s: %s", sentence, handle->conn->failure);
        sentence = whole.text;
    }
    if (!link_is_used(link)) {
        if (!link->broken)
            link->broken = code;
        return;
    }
    if (link->never) {
        bool told = link->state == LINK_DRAINING;
        struct okv_diag why = handle->why;
        engine_fail(handle, told ? link->cause : code, told ? why.text : sentence);
        return;
    }
    if (link->state == LINK_UP)
        okv_diag_set(&handle->why, 0, "%s", sentence);
    log_event(handle, OKV_LEVEL_WARNING, "", handle->why.text);
    link_close(handle);
}
