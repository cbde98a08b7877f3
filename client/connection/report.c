#include "client/connection/report.h"

#include <string.h>

#include "client/connection/hits.h"
#include "client/connection/notice.h"
#include "client/engine/progress.h"
#include "client/engine/timed_gets.h"
#include "shared/base/error.h"

/* A report that finds no room tries again after this part of the period. */
#define AGAIN_PARTS 10u

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

    reporting->notice.is_owed = false;
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

static bool report_post(okv *handle)
{
    struct notice *notice = &handle->reporting.notice;
    struct okv_wire_report report;
    uint8_t *room = notice_room(handle, notice, 1);

    if (!room || !report_take(handle, &report))
        return false;
    notice_post(handle, notice, room, OKV_OP_REPORT, &report, sizeof report);
    return true;
}

static void send_report(okv *handle, uint64_t now, bool is_free)
{
    struct reporting *reporting = &handle->reporting;

    if (is_free && report_post(handle))
        reporting->next_ns = now + reporting->period_ns;
    else
        reporting->next_ns = now + reporting->period_ns / AGAIN_PARTS;
}

void report_send(okv *handle, uint64_t now)
{
    struct reporting *reporting = &handle->reporting;
    bool is_free;

    /* A handle whose gets need no events has not polled for the last reply. */
    if ((reporting->notice.is_owed || hits_are_owed(handle)) && handle->active == 0 &&
        link_is_up(handle))
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
    return !reply->value_length &&
           notice_reply(handle, &handle->reporting.notice, OKV_OP_REPORT, reply);
}
