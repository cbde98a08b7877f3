#include "client/connection/goodbye.h"

#include <sched.h>

#include "client/connection/identity.h"
#include "client/connection/report.h"
#include "client/engine/failure.h"
#include "client/engine/progress.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/format/wire.h"

#define MS UINT64_C(1000000)
#define OWED_NS (3000 * MS) /* the limit for owed replies without a keepalive */
#define DELIVERY_NS (20 * MS)

/* A server that has proven its identity says that the user may not go on. */
static void access_revoked(okv *handle)
{
    struct okv_diag why;

    okv_diag_set(&why, 0,
                 "the server has ended the access of user %s: the key, or the last right in this "
                 "database, was taken from its users file",
                 handle->link.identity.user);
    engine_fail(handle, OKV_EDENIED, why.text);
}

void goodbye_receive(okv *handle, int status)
{
    struct link *link = &handle->link;
    uint64_t bound = handle->keepalive.period_ns ? handle->keepalive.period_ns : OWED_NS;
    bool is_denied = status == OKV_EDENIED && identity_is_known(handle);

    if (link->state == LINK_SUPERBLOCK || link->state == LINK_DIRECTORY)
        link->broken = is_denied ? OKV_EDENIED : OKV_ESHUTDOWN;
    if (link->state != LINK_UP)
        return;
    if (is_denied && !identity_renew(handle)) {
        access_revoked(handle);
        return;
    }
    okv_diag_set(&handle->why, 0,
                 is_denied ? "the server no longer accepts the key, and said goodbye"
                           : "the server is shutting down and said goodbye");
    link->cause = is_denied ? OKV_EDENIED : OKV_ESHUTDOWN;
    link->state = LINK_DRAINING;
    link->deadline_ns = okv_clock_ns() + bound;
    handle->event_fd.stale = true;
}

static int goodbye_post(okv *handle)
{
    struct request_slots *slots = &handle->request_slots;
    uint8_t *bytes = handle->transport->send_buffer(handle->conn);
    struct okv_wire_report report;

    if (slots->count == 0 || !bytes)
        return OKV_EAGAIN;
    struct okv_request_message goodbye = {
        .opcode = OKV_OP_GOODBYE,
        .slot = slots->free[slots->count - 1],
        .sequence = handle->next_sequence,
    };
    if (report_take(handle, &report)) {
        goodbye.value = (const uint8_t *)&report;
        goodbye.value_length = sizeof report;
    }
    uint32_t length = okv_request_encode(&goodbye, bytes);
    int rc = handle->transport->post_send(handle->conn, length,
                                          okv_immediate(goodbye.opcode, goodbye.slot));
    if (rc)
        return rc;
    handle->transport->flush(handle->conn);
    return 0;
}

static void delivery_await(okv *handle)
{
    uint64_t until = okv_clock_ns() + DELIVERY_NS;

    while (handle->conn->unacknowledged > 0 && !handle->closed && okv_clock_ns() < until) {
        int n = engine_events(handle);
        if (n < 0)
            return;
        if (n == 0)
            sched_yield();
    }
}

void goodbye_send(okv *handle)
{
    if (!handle->conn || !link_is_up(handle) || handle->failure)
        return;
    handle->log.tell = NULL; /* the server may end the connection first, which is expected */
    if (goodbye_post(handle) == 0)
        delivery_await(handle);
}
