/* Hits that clients report: docs/protocol-admin.md section 2.7. A hit raises a counter of an item
 * that is there, and no more. */
#ifndef OKV_SERVER_SESSION_HITS_H
#define OKV_SERVER_SESSION_HITS_H

#include <stddef.h>
#include <stdint.h>

struct okv_hits;
struct okv_session;
struct okv_sessions;

/* Notes the hits, and sets how the client is to go on. OKV_EPROTO: they are none, or were not
 * agreed upon. */
int okv_session_hits(struct okv_sessions *sessions, struct okv_session *session,
                     const uint8_t *bytes, size_t length, struct okv_hits *out);

#endif
