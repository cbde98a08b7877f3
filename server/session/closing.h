/* The end of a session: its connection has closed, and it is freed when no reply waits any more. */
#ifndef OKV_SERVER_SESSION_CLOSING_H
#define OKV_SERVER_SESSION_CLOSING_H

#include "server/session/sessions.h"

/* OKV_EVENT_CLOSED: drops deferred requests and long writes, and frees the session. If replies wait
 * for a commit, okv_sessions_answer_committed() frees it after the last one. */
void okv_session_closed(struct okv_sessions *sessions, struct okv_session *session, int status);
/* Answers the writes that the log has committed. Returns the number of replies posted. */
unsigned okv_sessions_answer_committed(struct okv_sessions *sessions);

#endif
