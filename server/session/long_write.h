/*
 * A PUT whose value is too long for a message, in three steps:
 *
 *   begin   reserves an extent and has the transport READ the client's advertised buffer into it
 *   end     puts the item when the transport reports the READ's completion
 *   answer  posts the reply when there is a send buffer (dispatch.c)
 *
 * From begin to end nothing refers to the extent, so no reader sees what a failed rendezvous read
 * left in it.
 */
#ifndef OKV_SERVER_SESSION_RENDEZVOUS_H
#define OKV_SERVER_SESSION_RENDEZVOUS_H

#include <stdint.h>

#include "shared/format/wire.h"
#include "shared/transport/transport.h"

struct okv_executor;
struct okv_session;

enum okv_session_rendezvous_state {
    OKV_RENDEZVOUS_NONE,
    OKV_RENDEZVOUS_UNDER_WAY,
    OKV_RENDEZVOUS_ENDED
};

/* One rendezvous read of a session. */
struct okv_session_rendezvous {
    enum okv_session_rendezvous_state state;
    uint64_t extent;                    /* under way: reserved; else 0 */
    struct okv_request_message request; /* its key is the copy below */
    uint8_t key[OKV_KEY_MAX];
    struct okv_reply_message reply; /* ended: what to answer */
};

/*
 * Begins the rendezvous read of a PUT with OKV_REQUEST_RENDEZVOUS, and copies what it needs of the
 * message. On success one OKV_EVENT_RENDEZVOUS_DONE of the session's connection follows.
 * OKV_EAGAIN: OKV_RENDEZVOUS_MAX reads are in use, try again after one was answered.
 * OKV_EDISCONNECTED: the connection has ended. Any other error is the answer to the request:
 * OKV_EVALUESIZE, OKV_EFULL, OKV_EUNSUPPORTED (device or client allow no rendezvous read).
 */
int okv_session_rendezvous_begin(struct okv_session *session, const struct okv_executor *executor,
                                 const struct okv_request_message *request);

/* OKV_EVENT_RENDEZVOUS_DONE: puts the item and stores the reply in the reply cache. If the read
 * failed or the session is closing, releases the extent instead and forgets the request. The caller
 * ends a replaced session before this. */
void okv_session_rendezvous_end(struct okv_session *session, const struct okv_executor *executor,
                                const struct okv_event *event);

/* A rendezvous read that ended and was not answered yet, or NULL. */
struct okv_session_rendezvous *okv_session_rendezvous_ended(struct okv_session *session);
/* It was answered. */
void okv_session_rendezvous_free(struct okv_session *session,
                                 struct okv_session_rendezvous *rendezvous);

#endif
