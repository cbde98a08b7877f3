#include "server/session/closing.h"

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "server/session/lifecycle.h"
#include "server/session/long_work.h"
#include "server/session/peer.h"
#include "server/session/reply.h"
#include "server/session/report.h"
#include "shared/base/error.h"

/* Why a connection ended that the worker did not close. */
static enum okv_session_end_reason reason_of(const struct okv_session *session, int status)
{
    if (session->is_revoked)
        return OKV_SESSION_END_REVOKED;
    if (session->forget)
        return OKV_SESSION_END_BY_CLIENT;
    if (status == OKV_EPROTO)
        return OKV_SESSION_END_MALFORMED;
    if (status == OKV_ECREDIT)
        return OKV_SESSION_END_CREDIT;
    if (session->told_goodbye)
        return OKV_SESSION_END_STOPPING;
    if (status == OKV_ETIMEDOUT)
        return OKV_SESSION_END_DEAD;
    return status == OKV_EDISCONNECTED ? OKV_SESSION_END_LOST : OKV_SESSION_END_FAILED;
}

/* A GOODBYE counts even if it was still waiting, and so does the report in it. */
static void take_goodbye(struct okv_sessions *sessions, struct okv_session *session,
                         const struct okv_event *event)
{
    struct okv_request_message goodbye;

    session->forget = true;
    if (okv_request_decode(event->immediate, event->data, event->length, &goodbye) == 0)
        okv_session_report(sessions, session, goodbye.value, goodbye.value_length);
}

static void drop_deferred(struct okv_sessions *sessions, struct okv_session *session)
{
    struct okv_conn *conn = session->conn;
    const struct okv_event *request;

    while ((request = okv_session_oldest(session))) {
        if (okv_immediate_opcode(request->immediate) == OKV_OP_GOODBYE)
            take_goodbye(sessions, session, request);
        conn->ops->recv_release(conn->endpoint, request);
        okv_session_drop_oldest(session);
        OKV_STATS_SUBTRACT(&sessions->server->stats, requests_waiting, 1);
    }
}

/* Its connection has closed, and no reply waits for a commit. */
static void free_session(struct okv_sessions *sessions, struct okv_session *session)
{
    struct okv_server *server = sessions->server;
    unsigned listener = session->listener;
    uint32_t place = session->place;

    okv_sessions_unlist(sessions, session);
    OKV_STATS_SUBTRACT(&server->stats, sessions, 1);
    OKV_STATS_SUBTRACT(&server->stats, credits_granted, session->common.request_slots);
    if (session->common.report.is_due)
        atomic_fetch_sub(&server->databases[session->common.database].reporting, 1);
    bool is_holder = okv_reply_cache_release(
        server->databases[session->common.database].reply_caches, session->reply_cache,
        session->common.id, okv_server_clock_ms(server), session->forget);
    /* After its reply cache: who does not find it here finds that free (copies/role.c). */
    okv_client_table_remove(server->clients, &session->common);
    session->conn->ops->conn_destroy(session->conn);
    okv_session_destroy(session);
    /* Only now: until here the endpoint still counts the connection. */
    if (is_holder)
        okv_admission_release(server->admission, place);
    atomic_fetch_sub(&sessions->clients[listener], 1);
}

void okv_session_closed(struct okv_sessions *sessions, struct okv_session *session, int status)
{
    drop_deferred(sessions, session);
    okv_long_work_drop(sessions, session);
    okv_session_peer_closed(sessions, session);
    if (!session->closing)
        okv_session_record_end(sessions->server, session, reason_of(session, status));
    session->closing = session->is_gone = true;
    okv_sessions_quiet(sessions, session);
    if (session->pending_count == 0)
        free_session(sessions, session);
}

unsigned okv_sessions_answer_committed(struct okv_sessions *sessions)
{
    struct okv_session *session, *next;
    unsigned posted = 0;

    for (session = TAILQ_FIRST(&sessions->committing); session; session = next) {
        next = TAILQ_NEXT(session, in_committing);
        posted += okv_session_post_committed(sessions, session);
        if (session->pending_count > 0)
            continue;
        session->is_committing = false;
        TAILQ_REMOVE(&sessions->committing, session, in_committing);
        if (session->is_gone)
            free_session(sessions, session);
    }
    return posted;
}
