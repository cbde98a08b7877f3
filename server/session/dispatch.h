/*
 * A session's requests: each is applied once, in the order of arrival, and answered.
 *
 * A request that cannot be served at once waits in the session, and the session in the ready queue
 * of its worker.
 */
#ifndef OKV_SERVER_SESSION_DISPATCH_H
#define OKV_SERVER_SESSION_DISPATCH_H

#include "server/session/sessions.h"

/* Requests of one connection that are served in one pass of its worker. A message counts as one
 * more for each OKV_SESSION_SHARE_BYTES that it has. */
#define OKV_SESSION_SHARE 8u
#define OKV_SESSION_SHARE_BYTES 2048u

/* OKV_EVENT_RECV: serves the request, or defers it. Returns true if the request keeps its receive
 * buffer: it was deferred, or is a long write. */
bool okv_session_receive(struct okv_sessions *sessions, struct okv_session *session,
                         const struct okv_event *request);
/* OKV_EVENT_RENDEZVOUS_DONE: the put becomes long work. okv_session_run_ready() answers. */
void okv_session_rendezvous_done(struct okv_sessions *sessions, struct okv_session *session,
                                 const struct okv_event *event);
/* Serves a session of the ready queue: answers long writes that ended, then serves deferred
 * requests up to its share. Returns the number of both. */
unsigned okv_session_run_ready(struct okv_sessions *sessions, struct okv_session *session);

#endif
