/* Serves one request of a session: each write is applied once, and answered after it is durable. */
#ifndef OKV_SERVER_SESSION_REQUEST_H
#define OKV_SERVER_SESSION_REQUEST_H

#include "server/session/sessions.h"

enum okv_request_fate {
    OKV_REQUEST_DONE,    /* the caller releases the message */
    OKV_REQUEST_KEPT,    /* a long write keeps the message, and answers it */
    OKV_REQUEST_BLOCKED, /* nothing was done: try again */
};

/* Executes a request that occupies its slot. Posts the reply now, or later if it waits for the log
 * or for a long write. Ends a session whose message is malformed. */
enum okv_request_fate okv_session_serve(struct okv_sessions *sessions, struct okv_session *session,
                                        const struct okv_event *message);

#endif
