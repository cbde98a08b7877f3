#include "server/session/lifecycle.h"

#include <inttypes.h>
#include <stdio.h>

#include "server/config/config.h"
#include "server/core/log.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* A client is ready a moment after the welcome, and gives up its attempt to connect after 3 s,
 * unless it was told otherwise. */
#define HALF_OPEN_NS UINT64_C(5000000000)
/* Time for a goodbye to arrive before a session without rights ends. */
#define REVOKED_NS UINT64_C(200000000)

void okv_session_opened(struct okv_sessions *sessions, struct okv_conn *conn)
{
    struct okv_session *session = conn->user;
    struct okv_stats *stats = &sessions->server->stats;

    session->conn = conn;
    TAILQ_INSERT_TAIL(&sessions->all, session, in_all);
    OKV_STATS_ADD(stats, sessions_total, 1);
    OKV_STATS_ADD(stats, sessions, 1);
    OKV_STATS_ADD(stats, credits_granted, session->common.request_slots);
    if (session->common.report.is_due)
        atomic_fetch_add(&sessions->server->databases[session->common.database].reporting, 1);
}

/* What the log says. NULL: nothing, because the end is orderly. */
static const char *end_text(enum okv_session_end_reason reason)
{
    switch (reason) {
    case OKV_SESSION_END_BY_CLIENT:
    case OKV_SESSION_END_STOPPING:
        return NULL;
    case OKV_SESSION_END_LOST:
        return "without a GOODBYE: the client died or gave up";
    case OKV_SESSION_END_DEAD:
        return "its device acknowledged nothing";
    case OKV_SESSION_END_UNRESPONSIVE:
        return "it acknowledged nothing within --keepalive-ms";
    case OKV_SESSION_END_REPLACED:
        return "the client has another connection";
    case OKV_SESSION_END_REVOKED:
        return "its user lost the key or the right to this database";
    case OKV_SESSION_END_DEPOSED:
        return "another server leads its database";
    case OKV_SESSION_END_KILLED:
        return "an administrator ended it";
    case OKV_SESSION_END_HALF_OPEN:
        return "the client never confirmed the connection";
    case OKV_SESSION_END_CROWDED_OUT:
        return "half-open, and others needed its place";
    case OKV_SESSION_END_IDLE:
        return "no request within --idle-s";
    case OKV_SESSION_END_MALFORMED:
        return "a malformed message";
    case OKV_SESSION_END_NO_IMMEDIATE:
        return "a message without immediate";
    case OKV_SESSION_END_CREDIT:
        return "more requests than credits, or a wrong request slot";
    case OKV_SESSION_END_FAILED:
        break;
    }
    return "the device failed";
}

static void log_end(struct okv_log *log, const struct okv_session *session,
                    enum okv_session_end_reason reason)
{
    uint64_t now_ns = okv_clock_ns();
    const char *why = end_text(reason);
    const char *failure = session->conn->failure;
    char text[OKV_LOG_TEXT_MAX];

    if (!why)
        return;
    if (reason == OKV_SESSION_END_FAILED && failure[0] != '\0')
        why = failure;
    snprintf(text, sizeof text, "%s: ended: %s (session %016" PRIx64 ", %.1f s)",
             session->conn->peer, why, session->common.id,
             (double)(now_ns - session->common.created_ns) / 1e9);
    okv_log_line(log, OKV_LOG_NOTICE, "clients", now_ns, text);
}

void okv_session_record_end(struct okv_server *server, const struct okv_session *session,
                            enum okv_session_end_reason reason)
{
    struct okv_stats *stats = &server->stats;

    log_end(&server->log, session, reason);
    switch (reason) {
#define OKV_SESSION_END_COUNT(name, counter)       \
    case OKV_SESSION_END_##name:                   \
        OKV_STATS_ADD(stats, closed_##counter, 1); \
        break;
        OKV_SESSION_END_LIST(OKV_SESSION_END_COUNT)
#undef OKV_SESSION_END_COUNT
    }
}

void okv_session_end(struct okv_sessions *sessions, struct okv_session *session,
                     enum okv_session_end_reason reason)
{
    if (session->closing)
        return;
    okv_sessions_flush(sessions, session);
    session->conn->ops->close(session->conn);
    session->closing = true;
    okv_session_record_end(sessions->server, session, reason);
}

bool okv_session_is_replaced(const struct okv_session *session)
{
    return okv_reply_cache_is_replaced(session->reply_cache, session->common.id);
}

/* Nothing of the client may be applied any more, here or on another connection. */
static void forget_client(struct okv_sessions *sessions, struct okv_session *session)
{
    okv_reply_caches_forget(sessions->server->databases[session->common.database].reply_caches,
                            session->common.id);
    session->forget = true;
}

/* Sends GOODBYE, and ends the session when it has arrived. */
static void access_end(struct okv_sessions *sessions, struct okv_session *session)
{
    uint64_t now_ns = okv_clock_ns();

    if (!session->is_revoked) {
        forget_client(sessions, session);
        session->is_revoked = true;
        session->revoked_ns = now_ns;
    }
    okv_session_say_goodbye(sessions, session, OKV_EDENIED);
    okv_sessions_flush(sessions, session);
    bool has_arrived = session->told_goodbye && okv_session_has_settled(session);
    if (has_arrived || now_ns - session->revoked_ns >= REVOKED_NS)
        okv_session_end(sessions, session, OKV_SESSION_END_REVOKED);
}

bool okv_session_end_unwanted(struct okv_sessions *sessions, struct okv_session *session)
{
    int reason = atomic_load_explicit(&session->unwanted, memory_order_relaxed);

    if (okv_session_is_replaced(session))
        reason = OKV_SESSION_END_REPLACED;
    else if (atomic_load_explicit(&session->common.is_killed, memory_order_relaxed))
        reason = OKV_SESSION_END_KILLED;
    else if (atomic_load_explicit(&session->common.is_deposed, memory_order_relaxed))
        reason = OKV_SESSION_END_DEPOSED;
    else if (!reason && (session->is_revoked || !okv_session_rights_now(session)))
        reason = OKV_SESSION_END_REVOKED;
    if (!reason)
        return false;
    if (reason == OKV_SESSION_END_REVOKED) {
        access_end(sessions, session);
        return true;
    }
    if (reason == OKV_SESSION_END_KILLED)
        forget_client(sessions, session);
    okv_session_end(sessions, session, (enum okv_session_end_reason)reason);
    return true;
}

/* The first scan comes at any time after the last request, so n scans prove n - 1 intervals. */
void okv_session_count_idle(struct okv_sessions *sessions, struct okv_session *session,
                            bool may_end)
{
    const struct okv_config *config = &sessions->server->config;

    if (session->closing || config->idle_s == 0)
        return;
    if (session->deferred_count || session->long_write_count) {
        session->idle_scans = 0;
        return;
    }
    uint64_t idle_ns = session->idle_scans * okv_sessions_scan_ns(sessions->server);
    if (idle_ns < config->idle_s * UINT64_C(1000000000))
        session->idle_scans++;
    else if (may_end)
        okv_session_end(sessions, session, OKV_SESSION_END_IDLE);
}

void okv_session_count_half_open(struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->closing || !atomic_load_explicit(&session->is_half_open, memory_order_relaxed))
        return;
    uint32_t limit_ms = sessions->server->config.hello_ms;
    uint64_t limit_ns = limit_ms ? limit_ms * UINT64_C(1000000) : HALF_OPEN_NS;
    if (session->half_open_scans++ * okv_sessions_scan_ns(sessions->server) >= limit_ns)
        okv_session_end(sessions, session, OKV_SESSION_END_HALF_OPEN);
}

void okv_session_tick(struct okv_sessions *sessions, struct okv_session *session)
{
    struct okv_conn *conn = session->conn;

    if (session->closing)
        return;
    switch (okv_keepalive_tick(&session->keepalive, conn)) {
    case OKV_KEEPALIVE_FINE:
        break;
    case OKV_KEEPALIVE_HEARTBEAT:
        OKV_STATS_ADD(&sessions->server->stats, heartbeats, 1);
        conn->ops->heartbeat(conn); /* a failure is reported as CLOSED */
        break;
    case OKV_KEEPALIVE_DEAD:
        okv_session_end(sessions, session, OKV_SESSION_END_UNRESPONSIVE);
        break;
    }
}

bool okv_session_has_settled(const struct okv_session *session)
{
    return session->closing || (!session->is_unflushed && session->conn->unacknowledged == 0);
}

void okv_session_say_goodbye(struct okv_sessions *sessions, struct okv_session *session, int status)
{
    const struct okv_reply_message goodbye = {.status = status};
    struct okv_conn *conn = session->conn;

    if (session->closing || session->told_goodbye)
        return;
    uint8_t *out = conn->ops->send_buffer(conn);
    if (!out)
        return;
    session->told_goodbye = true;
    conn->ops->post_send(conn, okv_reply_encode(&goodbye, out),
                         OKV_IMMEDIATE_REPLY | okv_immediate(OKV_OP_GOODBYE, 0));
    okv_sessions_queue_flush(sessions, session);
}
