#include "server/session/admit.h"

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/core/turn.h"
#include "server/session/lifecycle.h"
#include "server/session/long_work.h"
#include "server/session/long_write.h"
#include "server/session/peer.h"
#include "server/session/reply.h"
#include "server/session/request.h"
#include "server/session/timed_writes.h"
#include "server/store/store.h"

/* A session that made the server make room has used up its share of the pass. */
static void charge(struct okv_sessions *sessions, struct okv_session *session, unsigned cost,
                   bool has_made_room)
{
    const struct okv_store_work *work = &sessions->works[session->common.database];

    cost += work->loaded_pages / OKV_SESSION_SHARE_PAGES;
    if (has_made_room)
        cost += OKV_DATABASE_SHARE;
    session->served += cost;
    sessions->served[session->common.database] += cost;
}

static void note_step(struct okv_sessions *sessions, const struct okv_session *session,
                      uint64_t bytes)
{
    uint64_t step =
        OKV_TURN_ITEM + bytes + okv_store_work_take(&sessions->works[session->common.database]);

    OKV_STATS_RAISE(&sessions->server->stats, longest_step, step);
}

static enum okv_request_fate serve(struct okv_sessions *sessions, struct okv_session *session,
                                   const struct okv_event *request)
{
    if (okv_session_end_unwanted(sessions, session))
        return OKV_REQUEST_DONE;
    struct okv_store_work *work = &sessions->works[session->common.database];
    unsigned room_steps = work->room_steps;
    work->effort = &session->effort;
    okv_store_work_take(work);
    uint64_t replied = atomic_load_explicit(&session->common.bytes_out, memory_order_relaxed);
    enum okv_request_fate fate = okv_session_serve(sessions, session, request);
    if (fate != OKV_REQUEST_BLOCKED)
        session->effort = (struct okv_effort){.has_begun = false};
    charge(sessions, session,
           fate == OKV_REQUEST_BLOCKED ? 0 : 1 + request->length / OKV_SESSION_SHARE_BYTES,
           work->room_steps != room_steps);
    replied = atomic_load_explicit(&session->common.bytes_out, memory_order_relaxed) - replied;
    note_step(sessions, session, request->length + replied);
    return fate;
}

static bool has_share(const struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->pass != sessions->pass) {
        session->pass = sessions->pass;
        session->served = 0;
    }
    return session->served < OKV_SESSION_SHARE &&
           sessions->served[session->common.database] < OKV_DATABASE_SHARE;
}

static bool is_request(uint32_t immediate)
{
    return immediate ==
           okv_immediate(okv_immediate_opcode(immediate), okv_immediate_slot(immediate));
}

/* Over ofi with verbs others can make the provider deliver a message again. The copy of an
 * unanswered request would look like one without credit, and end the connection. */
static bool is_repeated(struct okv_session *session, const struct okv_event *request)
{
    uint64_t sequence = request->length < OKV_REQUEST_HEADER ? 0 : okv_get_u64(request->data);

    return okv_session_is_repeated(session, okv_immediate_slot(request->immediate), sequence);
}

bool okv_session_receive(struct okv_sessions *sessions, struct okv_session *session,
                         const struct okv_event *request)
{
    struct okv_stats *stats = &sessions->server->stats;

    if (session->closing)
        return false;
    if (!request->has_immediate) {
        okv_session_end(sessions, session, OKV_SESSION_END_NO_IMMEDIATE);
        return false;
    }
    if (!is_request(request->immediate)) {
        okv_session_end(sessions, session, OKV_SESSION_END_MALFORMED);
        return false;
    }
    if (is_repeated(session, request)) {
        OKV_STATS_ADD(stats, repeated, 1);
        return false;
    }
    if (okv_session_slot_acquire(session, okv_immediate_slot(request->immediate))) {
        okv_session_end(sessions, session, OKV_SESSION_END_CREDIT);
        return false;
    }
    okv_timed_write_begin(session, okv_immediate_opcode(request->immediate),
                          okv_immediate_slot(request->immediate));
    session->keepalive.is_up = true;
    okv_session_add(&session->common.bytes_in, request->length);
    /* A client that only gets reports, too, and is as idle as before. */
    if (okv_immediate_opcode(request->immediate) != OKV_OP_REPORT &&
        okv_immediate_opcode(request->immediate) != OKV_OP_HITS) {
        session->idle_scans = 0;
        okv_session_add(&session->common.requests, 1);
        atomic_store_explicit(&session->common.active_ns, sessions->now_ns, memory_order_relaxed);
    }
    /* Nobody of the database waits, so it takes nobody's turn. */
    if (TAILQ_EMPTY(&sessions->ready[session->common.database]) && !okv_session_oldest(session) &&
        has_share(sessions, session)) {
        enum okv_request_fate fate = serve(sessions, session, request);
        if (fate != OKV_REQUEST_BLOCKED)
            return fate == OKV_REQUEST_KEPT;
    }
    okv_session_defer(session, request);
    okv_sessions_make_ready(sessions, session);
    OKV_STATS_ADD(stats, deferred, 1);
    OKV_STATS_ADD(stats, requests_waiting, 1);
    return true;
}

void okv_session_rendezvous_done(struct okv_sessions *sessions, struct okv_session *session,
                                 const struct okv_event *event)
{
    okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
    okv_session_end_unwanted(sessions, session);
    if (event->cookie == OKV_SESSION_PEER_COOKIE) {
        okv_session_peer_arrived(sessions, session, event->status);
        return;
    }
    struct okv_long_write *write =
        okv_long_write_arrived(session, &sessions->executors[session->common.database], event);
    if (write->state == OKV_LONG_WRITE_RUNNING)
        okv_long_work_add(sessions, write);
    else
        okv_sessions_make_ready(sessions, session);
}

static unsigned answer_long_writes(struct okv_sessions *sessions, struct okv_session *session)
{
    struct okv_conn *conn = session->conn;
    struct okv_long_write *write;
    unsigned count = 0;
    uint8_t *out;

    while (!session->closing && (write = okv_long_write_ended(session)) &&
           (out = conn->ops->send_buffer(conn))) {
        okv_session_reply(sessions, session, &write->reply, out);
        okv_long_write_free(write);
        count++;
    }
    return count;
}

static unsigned run_session(struct okv_sessions *sessions, struct okv_session *session)
{
    struct okv_conn *conn = session->conn;
    const struct okv_event *request;
    enum okv_request_fate fate;
    unsigned count = 0;

    if (!okv_session_end_unwanted(sessions, session))
        count = answer_long_writes(sessions, session);
    while (!session->closing && (request = okv_session_oldest(session)) &&
           has_share(sessions, session) &&
           (fate = serve(sessions, session, request)) != OKV_REQUEST_BLOCKED) {
        if (fate != OKV_REQUEST_KEPT)
            conn->ops->recv_release(conn->endpoint, request);
        okv_session_drop_oldest(session);
        OKV_STATS_SUBTRACT(&sessions->server->stats, requests_waiting, 1);
        count++;
    }
    if (!session->closing && (session->deferred_count || okv_long_write_ended(session)))
        okv_sessions_make_ready(sessions, session);
    return count;
}

/* Those that are left come first in the next pass, and count: the worker must not sleep before it.
 */
static unsigned run_database(struct okv_sessions *sessions, unsigned database)
{
    struct okv_session_list *ready = &sessions->ready[database];
    const struct okv_session *last = TAILQ_LAST(ready, okv_session_list);
    struct okv_session *session = NULL;
    unsigned count = 0;

    if (last)
        okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
    while (session != last && sessions->served[database] < OKV_DATABASE_SHARE) {
        session = TAILQ_FIRST(ready);
        TAILQ_REMOVE(ready, session, in_ready);
        session->is_ready = false;
        count += run_session(sessions, session);
    }
    return count + (session != last);
}

unsigned okv_sessions_run_ready(struct okv_sessions *sessions)
{
    unsigned count = 0;

    for (unsigned i = 0; i < sessions->server->database_count; i++)
        count += run_database(sessions, i);
    return count;
}
