/* Reports to the server: docs/protocol-admin.md section 2.6. */
#ifndef OKV_CLIENT_CONNECTION_REPORT_H
#define OKV_CLIENT_CONNECTION_REPORT_H

#include "client/handle.h"

/* With period 0 the handle sends none. The handle has its client id. */
void report_init(okv *handle, uint64_t period_ns);
/* Forgets what was not told yet. */
void report_forget(okv *handle);
/* A connection is up. */
void report_link_up(okv *handle);
/* Sends a report if there is something to tell and room for it. Needs no operation slot and leaves
 * a credit to others. */
void report_send(okv *handle, uint64_t now);
/* Takes what is to be told, for a message that tells it. False: there is nothing. */
bool report_take(okv *handle, struct okv_wire_report *out);
/* Whether it is the reply to a report. */
bool report_reply(okv *handle, const struct okv_reply_message *reply);

#endif
