/* How sessions begin, and why they end: the checks for idle, dead and unwanted ones. */
#ifndef OKV_SERVER_SESSION_LIFECYCLE_H
#define OKV_SERVER_SESSION_LIFECYCLE_H

#include "server/session/sessions.h"

/* OKV_EVENT_OPENED: lists the session that the acceptor created. */
void okv_session_opened(struct okv_sessions *sessions, struct okv_conn *conn);
/* Flushes replies, closes the connection, counts and logs the reason; OKV_EVENT_CLOSED follows.
 * Messages that the device has not sent may be lost; okv_session_has_settled() says when all have
 * arrived. Does nothing if the session is closing. */
void okv_session_end(struct okv_sessions *sessions, struct okv_session *session,
                     enum okv_session_end_reason reason);
/* Counts and logs why a session ends. okv_session_end() does so. */
void okv_session_record_end(struct okv_server *server, const struct okv_session *session,
                            enum okv_session_end_reason reason);

/* Whether a later connection of the client replaced this one. Its requests must not be applied. */
bool okv_session_is_replaced(const struct okv_session *session);
/* Ends the session if it is replaced, unwanted or has lost its rights. Returns whether it does: no
 * request may be served. A client that has lost its rights is told first: call it again until
 * `closing` is set, as okv_session_is_leaving() says. */
bool okv_session_end_unwanted(struct okv_sessions *sessions, struct okv_session *session);
static inline bool okv_session_is_leaving(const struct okv_session *session)
{
    return session->is_revoked && !session->closing;
}
/* Counts a scan without a request since the last one. When the count reaches --idle-s, ends the
 * session if `may_end`. */
void okv_session_count_idle(struct okv_sessions *sessions, struct okv_session *session,
                            bool may_end);
/* Counts a scan of a session that is half-open, and ends it after 5 s. */
void okv_session_count_half_open(struct okv_sessions *sessions, struct okv_session *session);
/* A keepalive tick: sends a heartbeat if one is due, or ends the session if the client is dead. */
void okv_session_tick(struct okv_sessions *sessions, struct okv_session *session);
/* Whether all posted messages were acknowledged, or the session is closing. */
bool okv_session_has_settled(const struct okv_session *session);
/* Sends GOODBYE with the reason, OKV_ESHUTDOWN or OKV_EDENIED, once in a connection.
 * Does nothing without a send buffer: call it again. */
void okv_session_say_goodbye(struct okv_sessions *sessions, struct okv_session *session,
                             int status);

#endif
