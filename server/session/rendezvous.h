/*
 * A PUT whose value is too long for a message, in three steps of the worker: begin
 * reserves an extent and has the transport READ the value from the client's memory
 * into it; end, when the transport reports, puts the item; then it is answered, when
 * there is a send buffer.
 *
 * From begin to end the extent belongs to the rendezvous read: nobody refers to it yet, so
 * what a failed rendezvous read leaves in it is never seen.
 */
#ifndef OKV_SERVER_SESSION_RENDEZVOUS_H
#define OKV_SERVER_SESSION_RENDEZVOUS_H

#include <stdint.h>

#include "shared/format/wire.h"
#include "shared/transport/transport.h"

struct okv_server;
struct okv_session;
struct okv_store_work;

enum okv_session_rendezvous_state {
    OKV_RENDEZVOUS_NONE,
    OKV_RENDEZVOUS_UNDER_WAY,
    OKV_RENDEZVOUS_ENDED
};

/* A place for one rendezvous read. */
struct okv_session_rendezvous {
    enum okv_session_rendezvous_state state;
    uint64_t extent;                    /* under way: reserved; else 0 */
    struct okv_request_message request; /* its key is the copy below */
    uint8_t key[OKV_KEY_MAX];
    struct okv_reply_message reply; /* ended: what to answer */
};

/*
 * Begins to rendezvous read the value of a PUT with OKV_REQUEST_RENDEZVOUS, and copies what it
 * needs of the message. One OKV_EVENT_RENDEZVOUS_DONE of the session's connection follows success.
 * OKV_EAGAIN: every place is taken, try again after one was answered; OKV_EDISCONNECTED:
 * the connection has ended, and there is nobody to answer. Anything else is the answer to
 * the request: OKV_EVALUESIZE, OKV_EFULL, OKV_EUNSUPPORTED (the device or the client allows
 * none).
 */
int okv_session_rendezvous_begin(struct okv_session *session, struct okv_server *server,
                                 struct okv_store_work *work,
                                 const struct okv_request_message *request);

/* What OKV_EVENT_RENDEZVOUS_DONE says: puts the item and notes in the client's reply cache what
 * came of it; or gives the extent back and forgets the request when there is no value or the
 * session is closing, as one that was replaced is to be by then. */
void okv_session_rendezvous_end(struct okv_session *session, struct okv_server *server,
                                struct okv_store_work *work, const struct okv_event *event);

/* A rendezvous read that ended and is to be answered, or NULL. */
struct okv_session_rendezvous *okv_session_rendezvous_ended(struct okv_session *session);
/* It was answered: its place is free. */
void okv_session_rendezvous_free(struct okv_session *session,
                                 struct okv_session_rendezvous *rendezvous);

#endif
