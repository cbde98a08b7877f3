/* Answers to requests: posted at once, or held until the log has the write. */
#ifndef OKV_SERVER_SESSION_REPLY_H
#define OKV_SERVER_SESSION_REPLY_H

#include "server/session/sessions.h"

/* Posts a reply that is encoded into `out`, a send buffer of the session. */
void okv_session_reply(struct okv_sessions *sessions, struct okv_session *session,
                       const struct okv_reply_message *reply, uint8_t *out);
/* Keeps a copy of the reply to a write until `batch` of the log has ended. Then it goes to the
 * reply cache, and to the client if that is still there. */
void okv_session_hold_reply(struct okv_sessions *sessions, struct okv_session *session,
                            uint64_t batch, const struct okv_reply_message *reply);
/* Goes on with those whose batches have ended. Returns how many were posted. */
unsigned okv_sessions_run_held(struct okv_sessions *sessions);

#endif
