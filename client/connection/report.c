#include "client/connection/report.h"

#include <string.h>

#include "client/connection/hits.h"
#include "client/engine/progress.h"
#include "client/engine/timed_gets.h"
#include "shared/base/error.h"

/* A report that finds no room tries again after this part of the period. */
#define AGAIN_PARTS 10u
/* Free credits that it needs: one stays for others. */
#define CREDITS 2u

void report_init(okv *handle, uint64_t period_ns)
{
    struct reporting *reporting = &handle->reporting;

    reporting->period_ns = period_ns;
    reporting->due_ns = reporting->next_ns = UINT64_MAX;
    handle->timed_phase =
        period_ns ? handle->link.client_id[0] % TIMED_GETS_ONE_IN : TIMED_GETS_ONE_IN;
}

void report_forget(okv *handle)
{
    struct reporting *reporting = &handle->reporting;

    reporting->told = handle->counters;
    reporting->get_ns = 0;
    memset(reporting->cells, 0, sizeof reporting->cells);
}

static bool is_in_force(const okv *handle)
{
    return handle->table.features & OKV_FEATURE_REPORTS;
}

void report_link_up(okv *handle)
{
    struct reporting *reporting = &handle->reporting;

    uint64_t next_ns = handle->link.up_since_ns + reporting->period_ns;

    reporting->is_owed = false;
    /* Connections that live shorter than the period do not postpone the report. */
    if (!is_in_force(handle))
        reporting->next_ns = UINT64_MAX;
    else if (next_ns < reporting->next_ns)
        reporting->next_ns = next_ns;
    reporting->due_ns = reporting->next_ns;
    hits_link_up(handle);
}

bool report_take(okv *handle, struct okv_wire_report *out)
{
    const struct reporting *reporting = &handle->reporting;
    struct okv_report report = {.get_ns = reporting->get_ns};
    uint64_t any = 0;

    if (!is_in_force(handle))
        return false;
#define INCREMENT(name)                                         \
    report.name = handle->counters.name - reporting->told.name; \
    any |= report.name;
    OKV_REPORT_LIST(INCREMENT)
#undef INCREMENT
    if (!any)
        return false;
    memcpy(report.cells, reporting->cells, sizeof report.cells);
    okv_report_encode(&report, out);
    report_forget(handle);
    return true;
}

/* True when a message left, or may have left. */
static bool report_post(okv *handle)
{
    struct reporting *reporting = &handle->reporting;
    struct request_slots *slots = &handle->request_slots;
    struct okv_wire_report report;
    uint8_t *bytes = slots->count >= CREDITS ? handle->transport->send_buffer(handle->conn) : NULL;

    if (!bytes || !report_take(handle, &report))
        return false;
    struct okv_request_message request = {
        .opcode = OKV_OP_REPORT,
        .slot = slots->free[--slots->count],
        .sequence = handle->next_sequence++,
        .value = (const uint8_t *)&report,
        .value_length = sizeof report,
    };
    reporting->is_owed = true;
    reporting->request_slot = request.slot;
    reporting->sequence = request.sequence;
    uint32_t length = okv_request_encode(&request, bytes);
    if (handle->transport->post_send(handle->conn, length,
                                     okv_immediate(request.opcode, request.slot)))
        handle->lost = true; /* engine_flush() handles it */
    else
        handle->transport->flush(handle->conn);
    return true;
}

static void send_report(okv *handle, uint64_t now, bool is_free)
{
    struct reporting *reporting = &handle->reporting;

    if (is_free && !reporting->is_owed && report_post(handle))
        reporting->next_ns = now + reporting->period_ns;
    else
        reporting->next_ns = now + reporting->period_ns / AGAIN_PARTS;
}

void report_send(okv *handle, uint64_t now)
{
    struct reporting *reporting = &handle->reporting;
    bool is_free;

    /* A handle whose gets need no events has not polled for the last reply. */
    if ((reporting->is_owed || hits_are_owed(handle)) && handle->active == 0 && link_is_up(handle))
        engine_events(handle);
    is_free = link_is_up(handle) && !handle->failure && !handle->lost;
    if (now >= reporting->next_ns)
        send_report(handle, now, is_free);
    if (is_free && !handle->lost)
        hits_send(handle, now);
    reporting->due_ns = reporting->next_ns;
}

bool report_reply(okv *handle, const struct okv_reply_message *reply)
{
    struct reporting *reporting = &handle->reporting;
    struct request_slots *slots = &handle->request_slots;

    if (!reporting->is_owed || reply->opcode != OKV_OP_REPORT ||
        reply->slot != reporting->request_slot || reply->sequence != reporting->sequence ||
        reply->status != OKV_OK || reply->value_length)
        return false;
    reporting->is_owed = false;
    slots->answered[reply->slot] = reply->sequence;
    slots->free[slots->count++] = reply->slot;
    return true;
}
