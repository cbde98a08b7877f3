/* What clients say of their gets: docs/protocol-admin.md section 2.6. Nobody checks it, so a
 * session has a share of the sums that its age limits. */
#ifndef OKV_SERVER_SESSION_REPORT_H
#define OKV_SERVER_SESSION_REPORT_H

#include <stddef.h>
#include <stdint.h>

struct okv_session;
struct okv_sessions;

/* Adds a report. OKV_EPROTO: it is none, or the client did not offer to report. */
int okv_session_report(struct okv_sessions *sessions, struct okv_session *session,
                       const uint8_t *bytes, size_t length);

#endif
