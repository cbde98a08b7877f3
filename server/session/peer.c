#include "server/session/peer.h"

#include "server/core/server.h"
#include "server/peers/inbox.h"
#include "server/session/lifecycle.h"
#include "server/session/reply.h"
#include "shared/base/error.h"

static struct okv_peer_inbox *inbox_of(const struct okv_sessions *sessions)
{
    return sessions->server->peer_inbox;
}

static int begin_read(struct okv_session *session, const struct okv_request_message *request,
                      struct okv_peer_mail *mail)
{
    const struct okv_rendezvous what = {
        .address = request->rendezvous_address,
        .key = request->rendezvous_key,
        .length = request->value_length,
        .destination = mail->body,
        .cookie = OKV_SESSION_PEER_COOKIE,
    };

    return session->conn->ops->rendezvous(session->conn, &what);
}

/* NULL: there is no memory. */
static struct okv_peer_sender *sender_of(struct okv_session *session)
{
    const struct okv_client *client = &session->common;

    if (!session->peer)
        session->peer =
            okv_peer_sender_create(session, client->id, client->database, client->worker);
    return session->peer;
}

int okv_session_peer_take(struct okv_sessions *sessions, struct okv_session *session,
                          const struct okv_request_message *request)
{
    struct okv_peer_inbox *inbox = inbox_of(sessions);
    struct okv_peer_mail *mail;

    if (!sender_of(session))
        return OKV_ENOMEM;
    int rc = okv_peer_mail_create(inbox, session->peer, request, &mail);
    if (rc)
        return rc;
    if (request->flags & OKV_REQUEST_RENDEZVOUS) {
        rc = begin_read(session, request, mail);
        if (rc)
            okv_peer_mail_free(inbox, mail);
        else
            session->arriving = mail;
        return rc;
    }
    if (mail->length)
        memcpy(mail->body, request->value, mail->length);
    okv_peer_inbox_add(inbox, mail);
    return 0;
}

/* Without the body nothing that follows may arrive. */
static void fail_body(struct okv_sessions *sessions, struct okv_session *session,
                      struct okv_peer_mail *mail, int status)
{
    okv_peer_mail_free(inbox_of(sessions), mail);
    okv_session_end(sessions, session,
                    status == OKV_EDISCONNECTED ? OKV_SESSION_END_LOST : OKV_SESSION_END_MALFORMED);
}

void okv_session_peer_arrived(struct okv_sessions *sessions, struct okv_session *session,
                              int status)
{
    struct okv_peer_mail *mail = session->arriving;

    session->arriving = NULL;
    if (status)
        fail_body(sessions, session, mail, status);
    else
        okv_peer_inbox_add(inbox_of(sessions), mail);
    okv_sessions_make_ready(sessions, session);
}

void okv_session_peer_closed(struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->peer)
        okv_peer_sender_close(inbox_of(sessions), session->peer);
    session->peer = NULL;
}

/* False: there is no send buffer. */
static bool post(struct okv_sessions *sessions, const struct okv_peer_mail *mail)
{
    struct okv_session *session = mail->from->session;
    const struct okv_reply_message reply = {
        .opcode = mail->opcode,
        .slot = mail->slot,
        .sequence = mail->sequence,
        .status = mail->status,
        .value = mail->reply,
        .value_length = mail->status ? 0 : mail->reply_length,
    };

    if (!session || session->closing)
        return true;
    uint8_t *out = session->conn->ops->send_buffer(session->conn);
    if (!out)
        return false;
    okv_session_reply(sessions, session, &reply, out);
    return true;
}

/* Answers without a send buffer do not hold up those of other sessions. */
unsigned okv_sessions_answer_peers(struct okv_sessions *sessions, unsigned worker)
{
    struct okv_peer_inbox *inbox = inbox_of(sessions);
    struct okv_peer_mail_list left = STAILQ_HEAD_INITIALIZER(left);
    struct okv_peer_mail *mail;
    unsigned posted = 0;

    if (!inbox)
        return 0;
    okv_peer_inbox_answered(inbox, worker, &sessions->peer_answers);
    while ((mail = STAILQ_FIRST(&sessions->peer_answers))) {
        STAILQ_REMOVE_HEAD(&sessions->peer_answers, next);
        if (post(sessions, mail)) {
            okv_peer_mail_free(inbox, mail);
            posted++;
        } else {
            STAILQ_INSERT_TAIL(&left, mail, next);
            sessions->is_held_up = true;
        }
    }
    STAILQ_CONCAT(&sessions->peer_answers, &left);
    return posted;
}
