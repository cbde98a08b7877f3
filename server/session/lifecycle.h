/* How a worker's sessions begin and end, and what is looked after meanwhile. */
#ifndef OKV_SERVER_SESSION_LIFECYCLE_H
#define OKV_SERVER_SESSION_LIFECYCLE_H

#include "server/session/sessions.h"

/* OKV_EVENT_OPENED: the worker has the session that the acceptor made. */
void okv_session_opened(struct okv_sessions *sessions, struct okv_conn *conn);
/* Hands what is queued to the device, ends the connection and counts why; OKV_EVENT_CLOSED
 * follows. What the device has not sent by then may be lost: who wants it to arrive waits for
 * okv_session_has_settled(). Does nothing for one that is closing already. */
void okv_session_end(struct okv_sessions *sessions, struct okv_session *session,
                     enum okv_session_end_reason reason);
/* OKV_EVENT_CLOSED: gives back all that the session had and frees it. */
void okv_session_closed(struct okv_sessions *sessions, struct okv_session *session, int status);

/* True when another connection of the client took its place: what comes here is not to be
 * applied. */
bool okv_session_is_replaced(const struct okv_session *session);
/* Ends the session when it is replaced. Returns whether it is. */
bool okv_session_end_replaced(struct okv_sessions *sessions, struct okv_session *session);
/* Counts one more look at which the client had asked nothing, and with `may_end` ends the session
 * when they add up to --idle-s. */
void okv_session_count_idle(struct okv_sessions *sessions, struct okv_session *session,
                            bool may_end);
/* A keepalive tick: heartbeats the client, or ends the session when nobody is there. */
void okv_session_tick(struct okv_sessions *sessions, struct okv_session *session);
/* True when all that was posted was acknowledged, or the session is closing. */
bool okv_session_has_settled(const struct okv_session *session);
/* Tells the client that the server ends, once there is a send buffer for it. */
void okv_session_say_goodbye(struct okv_sessions *sessions, struct okv_session *session);

#endif
