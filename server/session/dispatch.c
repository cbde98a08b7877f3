#include "server/session/dispatch.h"

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/session/lifecycle.h"
#include "server/session/long_work.h"
#include "server/session/reply.h"
#include "server/session/reply_cache_log.h"
#include "server/session/timed_writes.h"
#include "shared/base/error.h"

/* How a request came out. */
enum disposition {
    ANSWERED, /* post the reply */
    LATER,    /* the end of its long write answers it, which keeps the message */
    HELD,     /* the end of its batch answers it */
    DROPPED,  /* it gets no answer */
    BLOCKED,  /* nothing was done: try again */
    MALFORMED,
};

struct exchange {
    const struct okv_event *message;
    struct okv_request_message request;
    struct okv_reply_message reply;
    uint8_t *out; /* the send buffer */
};

static enum disposition begin_append(struct okv_sessions *sessions, struct okv_session *session,
                                     const struct exchange *exchange)
{
    struct okv_long_write *write =
        okv_long_write_begin_append(session, exchange->message, &exchange->request);

    if (!write)
        return BLOCKED;
    okv_long_work_add(sessions, write);
    return LATER;
}

static uint32_t room_of_reply(const struct okv_sessions *sessions)
{
    return sessions->server->limits.slot_size - (uint32_t)OKV_REPLY_HEADER;
}

static enum disposition execute(struct okv_sessions *sessions, struct okv_session *session,
                                struct exchange *exchange)
{
    int rc = okv_execute(&sessions->executors[session->database], okv_session_rights_now(session),
                         &exchange->request, &exchange->reply, exchange->out + OKV_REPLY_HEADER,
                         room_of_reply(sessions));

    if (rc == OKV_STORE_LONG)
        return begin_append(sessions, session, exchange);
    if (rc == 0 && exchange->reply.status == OKV_EAGAIN) {
        sessions->is_held_up = true;
        return BLOCKED;
    }
    return rc ? MALFORMED : ANSWERED;
}

static enum disposition begin_put(struct okv_sessions *sessions, struct okv_session *session,
                                  struct exchange *exchange)
{
    int rc = okv_long_write_begin_put(session, &sessions->executors[session->database],
                                      exchange->message, &exchange->request);

    exchange->reply.status = rc;
    if (rc == OKV_EAGAIN) {
        sessions->is_held_up = true;
        return BLOCKED;
    }
    /* The client resends this write. An answer now would become the answer to the resent one. */
    if (rc == OKV_EDISCONNECTED)
        return DROPPED;
    return rc ? ANSWERED : LATER;
}

static enum disposition execute_write(struct okv_sessions *sessions, struct okv_session *session,
                                      struct exchange *exchange)
{
    struct okv_change change;

    if (exchange->request.flags & OKV_REQUEST_RENDEZVOUS)
        return begin_put(sessions, session, exchange);
    if (!okv_change_begin(&change, &sessions->executors[session->database],
                          &sessions->exclusive_ticket)) {
        sessions->is_held_up = true;
        return BLOCKED;
    }
    enum disposition disposition = execute(sessions, session, exchange);
    bool is_done = disposition == ANSWERED;
    if (is_done && change.wal)
        okv_reply_cache_log(session->reply_cache, change.wal, session->id, &exchange->reply);
    uint64_t batch = okv_change_end(&change, is_done);
    if (batch == 0)
        return disposition;
    okv_session_hold_reply(sessions, session, batch, &exchange->reply);
    return HELD;
}

/* Executes a write that the reply cache has not seen, and stores its reply there before it is
 * sent. */
static enum disposition write_new(struct okv_sessions *sessions, struct okv_session *session,
                                  struct exchange *exchange)
{
    enum disposition disposition = execute_write(sessions, session, exchange);

    if (disposition == ANSWERED)
        okv_reply_cache_done(session->reply_cache, &exchange->reply);
    else if (disposition != LATER && disposition != HELD)
        okv_reply_cache_undone(session->reply_cache, exchange->request.slot);
    return disposition;
}

static enum disposition write_once(struct okv_sessions *sessions, struct okv_session *session,
                                   struct exchange *exchange)
{
    struct okv_stats *stats = &sessions->server->stats;

    switch (okv_reply_cache_begin(session->reply_cache, exchange->request.slot,
                                  exchange->request.sequence, &exchange->reply,
                                  exchange->out + OKV_REPLY_HEADER)) {
    case OKV_REPLY_CACHE_APPLY:
        return write_new(sessions, session, exchange);
    case OKV_REPLY_CACHE_ANSWER:
        OKV_STATS_ADD(stats, duplicates, 1);
        if (exchange->reply.opcode == OKV_OP_GET_TOUCH && exchange->reply.status == OKV_OK)
            okv_execute_get_again(&sessions->executors[session->database], &exchange->request,
                                  &exchange->reply, exchange->out + OKV_REPLY_HEADER,
                                  room_of_reply(sessions));
        return ANSWERED;
    case OKV_REPLY_CACHE_WAIT:
        sessions->is_held_up = true;
        return BLOCKED;
    case OKV_REPLY_CACHE_STALE:
        break;
    }
    OKV_STATS_ADD(stats, stale, 1);
    /* The client gave this request up and may reuse its slot. */
    okv_timed_write_end(sessions, session, exchange->request.slot, false);
    okv_session_slot_release(session, exchange->request.slot);
    return DROPPED;
}

static enum disposition execute_request(struct okv_sessions *sessions, struct okv_session *session,
                                        struct exchange *exchange)
{
    /* A pass may be long. The sender may know of items that expired since it began. */
    if (exchange->request.ttl_ms || okv_housekeeping_is_due(sessions->server))
        okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
    if (okv_opcode_is_write(exchange->request.opcode))
        return write_once(sessions, session, exchange);
    return execute(sessions, session, exchange);
}

static enum disposition take_report(struct okv_sessions *sessions, struct okv_session *session,
                                    const struct okv_request_message *request)
{
    return okv_session_report(sessions, session, request->value, request->value_length) ? MALFORMED
                                                                                        : ANSWERED;
}

static enum disposition take_goodbye(struct okv_sessions *sessions, struct okv_session *session,
                                     const struct okv_request_message *request)
{
    if (request->value_length && take_report(sessions, session, request) == MALFORMED)
        return MALFORMED;
    session->forget = true;
    okv_session_end(sessions, session, OKV_SESSION_END_BY_CLIENT);
    return DROPPED;
}

static enum disposition decode_and_execute(struct okv_sessions *sessions,
                                           struct okv_session *session,
                                           const struct okv_event *event, struct exchange *exchange)
{
    struct okv_request_message *request = &exchange->request;
    int rc = okv_request_decode(event->immediate, event->data, event->length, request);

    exchange->message = event;
    if (rc == 0 && request->opcode == OKV_OP_GOODBYE)
        return take_goodbye(sessions, session, request);
    if (rc && rc != OKV_EUNSUPPORTED)
        return MALFORMED; /* `request` may be empty */
    exchange->out = session->conn->ops->send_buffer(session->conn);
    if (!exchange->out)
        return BLOCKED;
    exchange->reply = (struct okv_reply_message){
        .opcode = request->opcode, .slot = request->slot, .sequence = request->sequence};
    if (rc) {
        OKV_STATS_ADD(&sessions->server->stats, unsupported, 1);
        exchange->reply.status = rc;
        return ANSWERED;
    }
    if (request->opcode == OKV_OP_REPORT)
        return take_report(sessions, session, request);
    return execute_request(sessions, session, exchange);
}

/* Whoever had the server make room has had all of its shares of the pass. */
static void charge(struct okv_sessions *sessions, struct okv_session *session, unsigned cost)
{
    struct okv_store_work *work = &sessions->works[session->database];

    cost += work->loaded_pages / OKV_SESSION_SHARE_PAGES;
    if (work->made_room)
        cost += OKV_DATABASE_SHARE;
    session->served += cost;
    sessions->served[session->database] += cost;
    work->made_room = false;
}

static enum disposition dispatch(struct okv_sessions *sessions, struct okv_session *session,
                                 const struct okv_event *event)
{
    struct exchange
        exchange; /* not cleared: it is large, and each field is set before it is read */

    if (okv_session_end_unwanted(sessions, session))
        return DROPPED;
    sessions->works[session->database].loaded_pages = 0;
    enum disposition disposition = decode_and_execute(sessions, session, event, &exchange);
    charge(sessions, session,
           disposition == BLOCKED ? 0 : 1 + event->length / OKV_SESSION_SHARE_BYTES);
    if (disposition == BLOCKED)
        return BLOCKED;
    if (disposition == MALFORMED) {
        okv_session_end(sessions, session, OKV_SESSION_END_MALFORMED);
        return MALFORMED;
    }
    if (disposition == ANSWERED)
        okv_session_reply(sessions, session, &exchange.reply, exchange.out);
    OKV_STATS_ADD(&sessions->server->stats, bytes_in, event->length);
    return disposition;
}

static bool has_share(const struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->pass != sessions->pass) {
        session->pass = sessions->pass;
        session->served = 0;
    }
    return session->served < OKV_SESSION_SHARE &&
           sessions->served[session->database] < OKV_DATABASE_SHARE;
}

static bool is_request(uint32_t immediate)
{
    return immediate ==
           okv_immediate(okv_immediate_opcode(immediate), okv_immediate_slot(immediate));
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
    if (okv_session_slot_acquire(session, okv_immediate_slot(request->immediate))) {
        okv_session_end(sessions, session, OKV_SESSION_END_CREDIT);
        return false;
    }
    okv_timed_write_begin(session, okv_immediate_opcode(request->immediate),
                          okv_immediate_slot(request->immediate));
    session->keepalive.is_up = true;
    okv_session_add(&session->bytes_in, request->length);
    /* A client that only gets reports, too, and is as idle as before. */
    if (okv_immediate_opcode(request->immediate) != OKV_OP_REPORT) {
        session->idle_scans = 0;
        okv_session_add(&session->requests, 1);
        atomic_store_explicit(&session->active_ns, sessions->now_ns, memory_order_relaxed);
    }
    /* Nobody of the database waits, so it takes nobody's turn. */
    if (TAILQ_EMPTY(&sessions->ready[session->database]) && !okv_session_oldest(session) &&
        has_share(sessions, session)) {
        enum disposition disposition = dispatch(sessions, session, request);
        if (disposition != BLOCKED)
            return disposition == LATER;
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
    struct okv_long_write *write =
        okv_long_write_arrived(session, &sessions->executors[session->database], event);
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
    enum disposition disposition;
    unsigned count = 0;

    if (!okv_session_end_unwanted(sessions, session))
        count = answer_long_writes(sessions, session);
    while (!session->closing && (request = okv_session_oldest(session)) &&
           has_share(sessions, session) &&
           (disposition = dispatch(sessions, session, request)) != BLOCKED) {
        if (disposition != LATER)
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
