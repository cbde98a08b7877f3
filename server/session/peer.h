/* Messages of other servers (docs/protocol-peers.md): their way from a session to the inbox of the
 * server, and the answers back. */
#ifndef OKV_SERVER_SESSION_PEER_H
#define OKV_SERVER_SESSION_PEER_H

#include "server/session/sessions.h"

/* The cookie of the rendezvous read of a body; those of long writes are below. */
#define OKV_SESSION_PEER_COOKIE UINT32_MAX

/* Takes in a request between servers, whose right was checked, when no body of an earlier one is on
 * its way. Nothing of it is needed any more, and its answer comes from the inbox. OKV_EAGAIN: not
 * yet, there is too much mail; OKV_EDISCONNECTED. Any other error is the answer. */
int okv_session_peer_take(struct okv_sessions *sessions, struct okv_session *session,
                          const struct okv_request_message *request);
/* OKV_EVENT_RENDEZVOUS_DONE with its cookie. A failure ends the session. */
void okv_session_peer_arrived(struct okv_sessions *sessions, struct okv_session *session,
                              int status);
/* The session's connection has closed. */
void okv_session_peer_closed(struct okv_sessions *sessions, struct okv_session *session);

/* Posts what the inbox has for this worker. Returns the number of answers. */
unsigned okv_sessions_answer_peers(struct okv_sessions *sessions, unsigned worker);

#endif
