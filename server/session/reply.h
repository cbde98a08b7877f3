/* Answers to requests: posted at once, or after the log has committed the write. */
#ifndef OKV_SERVER_SESSION_REPLY_H
#define OKV_SERVER_SESSION_REPLY_H

#include "server/session/sessions.h"

/* Posts a reply, encoded into `out`, which is a send buffer of the session. */
void okv_session_reply(struct okv_sessions *sessions, struct okv_session *session,
                       const struct okv_reply_message *reply, uint8_t *out);
/* Copies the reply to a write. After `batch` of the log has ended, the copy goes to the reply cache
 * and, if the session is still open, to the client. */
void okv_session_reply_after(struct okv_sessions *sessions, struct okv_session *session,
                             uint64_t batch, const struct okv_reply_message *reply);
/* Posts the copies whose batches have ended, as long as there are send buffers, and drops those of
 * a session that is closing. Returns how many it posted. */
unsigned okv_session_post_committed(struct okv_sessions *sessions, struct okv_session *session);

#endif
