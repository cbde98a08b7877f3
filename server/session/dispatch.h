/* A session's requests: taken in turn, applied once, answered. */
#ifndef OKV_SERVER_SESSION_DISPATCH_H
#define OKV_SERVER_SESSION_DISPATCH_H

#include "server/session/sessions.h"

/* Requests of one connection that are served in one pass of its worker. */
#define OKV_SESSION_SHARE 8u

/* OKV_EVENT_RECV: serves the request, or keeps it for a later turn. Returns true when it was
 * kept, with its receive buffer. */
bool okv_session_receive(struct okv_sessions *sessions, struct okv_session *session,
                         const struct okv_event *request);
/* OKV_EVENT_RENDEZVOUS_DONE: puts the value; it is answered in a turn. */
void okv_session_rendezvous_done(struct okv_sessions *sessions, struct okv_session *session,
                                 const struct okv_event *event);
/* Serves a ready session: answers rendezvous reads that ended and serves what waits, up to its
 * share. Returns how many of both. */
unsigned okv_session_run_ready(struct okv_sessions *sessions, struct okv_session *session);

#endif
