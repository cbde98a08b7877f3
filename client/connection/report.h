/* Reports to the server: docs/protocol-admin.md section 2.6. */
#ifndef OKV_CLIENT_CONNECTION_REPORT_H
#define OKV_CLIENT_CONNECTION_REPORT_H

#include "client/handle.h"

/* With period 0 the handle sends none. The handle has its client id. */
void report_init(okv *handle, uint64_t period_ns);
/* Drops the counters that were not reported yet. */
void report_forget(okv *handle);
/* A connection is up. */
void report_link_up(okv *handle);
/* Sends a report if there is anything to report and room for it. Needs no operation slot and leaves
 * a credit to others. */
void report_send(okv *handle, uint64_t now);
/* The same if one is due. Only where events may be handled. */
static inline void report_if_due(okv *handle, uint64_t now)
{
    if (now >= handle->reporting.due_ns)
        report_send(handle, now);
}
/* Moves the counters that were not reported yet into `out`. False: there are none. */
bool report_take(okv *handle, struct okv_wire_report *out);
/* True when it is the reply to a report. */
bool report_reply(okv *handle, const struct okv_reply_message *reply);

#endif
