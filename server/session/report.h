/* What clients say of their gets: docs/protocol-admin.md section 2.6. Nobody checks it, so a
 * session has a share of the sums that its age limits. */
#ifndef OKV_SERVER_SESSION_REPORT_H
#define OKV_SERVER_SESSION_REPORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shared/format/report.h"

struct okv_session;
struct okv_sessions;

/* What a session has added to the sums of its database. Its worker writes; any thread reads. */
struct okv_report_share {
    bool is_due; /* the client offered to report */
#define OKV_REPORT_FIELD(name) atomic_uint_fast64_t name;
    OKV_REPORT_LIST(OKV_REPORT_FIELD)
    OKV_REPORT_FIELD(get_ns)
#undef OKV_REPORT_FIELD
    uint64_t timed; /* gets in the histogram; its worker's alone */
};

/* Adds a report. OKV_EPROTO: it is none, or the client did not offer to report. */
int okv_session_report(struct okv_sessions *sessions, struct okv_session *session,
                       const uint8_t *bytes, size_t length);

#endif
