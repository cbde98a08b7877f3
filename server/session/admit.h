/*
 * When a session's requests are served: in the order of arrival, and each session and database by
 * its share of a pass.
 *
 * A request that cannot be served at once waits in the session, and the session in a ready queue
 * of its worker, of which each database has one. request.h serves it.
 */
#ifndef OKV_SERVER_SESSION_ADMIT_H
#define OKV_SERVER_SESSION_ADMIT_H

#include "server/session/sessions.h"

/* Requests of one connection that are served in one pass of its worker. One counts as one more for
 * each OKV_SESSION_SHARE_BYTES of its message and each OKV_SESSION_SHARE_PAGES of a bucket that
 * were taken apart or searched for it. */
#define OKV_SESSION_SHARE 8u
#define OKV_SESSION_SHARE_BYTES 2048u
#define OKV_SESSION_SHARE_PAGES 2u
/* The same, of all connections to one database. So a client with many requests delays the others of
 * its database, but those of other databases by one share of each pass only. */
#define OKV_DATABASE_SHARE 64u

/* OKV_EVENT_RECV: serves the request, or defers it. Returns true if the request keeps its receive
 * buffer: it was deferred, or is a long write. */
bool okv_session_receive(struct okv_sessions *sessions, struct okv_session *session,
                         const struct okv_event *request);
/* OKV_EVENT_RENDEZVOUS_DONE: the put becomes long work. okv_sessions_run_ready() answers. */
void okv_session_rendezvous_done(struct okv_sessions *sessions, struct okv_session *session,
                                 const struct okv_event *event);
/* Serves the ready queues: of each database every session once, until the database has had its
 * share. Answers long writes that ended, then serves deferred requests. Returns the number of both.
 */
unsigned okv_sessions_run_ready(struct okv_sessions *sessions);

#endif
