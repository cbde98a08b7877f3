#include "server/session/request.h"

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache_log.h"
#include "server/session/hits.h"
#include "server/session/lifecycle.h"
#include "server/session/long_work.h"
#include "server/session/long_write.h"
#include "server/session/peer.h"
#include "server/session/reply.h"
#include "server/session/report.h"
#include "server/session/timed_writes.h"
#include "server/store/commands.h"
#include "server/store/status.h"
#include "shared/base/error.h"
#include "shared/format/hits.h"

enum outcome {
    ANSWERED,   /* post the reply */
    COMMITTING, /* the end of its batch posts it */
    KEPT,       /* the end of its long write posts it */
    HANDED_ON,  /* the answer of the inbox is posted (peer.h) */
    DROPPED,    /* it gets none */
    BLOCKED,
    MALFORMED,
};

struct exchange {
    struct okv_sessions *sessions;
    struct okv_session *session;
    const struct okv_executor *executor;
    const struct okv_event *message;
    struct okv_request_message request;
    struct okv_reply_message reply;
    uint8_t *out; /* the send buffer */
};

/* A worker that sleeps tries again in a moment: no event tells when it can go on. */
static enum outcome held_up(struct exchange *exchange)
{
    exchange->sessions->is_held_up = true;
    return BLOCKED;
}

/* ---- one command ---- */

static uint32_t room_of_reply(const struct exchange *exchange)
{
    return exchange->sessions->server->limits.slot_size - (uint32_t)OKV_REPLY_HEADER;
}

static enum outcome begin_long_change(struct exchange *exchange)
{
    struct okv_long_write *write =
        okv_long_write_begin_change(exchange->session, exchange->message, &exchange->request);

    if (!write)
        return BLOCKED;
    okv_long_work_add(exchange->sessions, write);
    return KEPT;
}

static enum outcome execute(struct exchange *exchange)
{
    int rc = okv_execute(exchange->executor, okv_session_rights_now(exchange->session),
                         &exchange->request, &exchange->reply, exchange->out + OKV_REPLY_HEADER,
                         room_of_reply(exchange));

    if (rc == OKV_STORE_LONG)
        return begin_long_change(exchange);
    if (rc == 0 && exchange->reply.status == OKV_EAGAIN)
        return held_up(exchange);
    return rc ? MALFORMED : ANSWERED;
}

/* ---- writes ---- */

static enum outcome begin_put(struct exchange *exchange)
{
    int rc = okv_long_write_begin_put(exchange->session, exchange->executor, exchange->message,
                                      &exchange->request);

    exchange->reply.status = rc;
    if (rc == OKV_EAGAIN)
        return held_up(exchange);
    /* The client resends this write. An answer now would become the answer to the resent one. */
    if (rc == OKV_EDISCONNECTED)
        return DROPPED;
    return rc ? ANSWERED : KEPT;
}

static enum outcome change(struct exchange *exchange)
{
    struct okv_session *session = exchange->session;
    struct okv_change change;

    if (!okv_change_begin(&change, exchange->executor, &exchange->sessions->exclusive_ticket))
        return held_up(exchange);
    enum outcome outcome = execute(exchange);
    bool is_done = outcome == ANSWERED;
    if (is_done && change.wal)
        okv_reply_cache_log(session->reply_cache, change.wal, session->common.id, &exchange->reply);
    uint64_t batch = okv_change_end(&change, is_done);
    if (batch == 0)
        return outcome;
    okv_session_reply_after(exchange->sessions, session, batch, &exchange->reply);
    return COMMITTING;
}

/* The reply cache has not seen this write. It gets the reply before the client does. */
static enum outcome write_new(struct exchange *exchange)
{
    struct okv_reply_cache *reply_cache = exchange->session->reply_cache;
    bool is_long = exchange->request.flags & OKV_REQUEST_RENDEZVOUS;
    enum outcome outcome = is_long ? begin_put(exchange) : change(exchange);

    if (outcome == ANSWERED)
        okv_reply_cache_done(reply_cache, &exchange->reply);
    else if (outcome != KEPT && outcome != COMMITTING)
        okv_reply_cache_undone(reply_cache, exchange->request.slot);
    return outcome;
}

/* The write was applied before. The reply cache has no values of items. */
static enum outcome answer_again(struct exchange *exchange)
{
    OKV_STATS_ADD(&exchange->sessions->server->stats, duplicates, 1);
    if (exchange->reply.opcode == OKV_OP_GET_TOUCH && exchange->reply.status == OKV_OK)
        okv_execute_get_again(exchange->executor, &exchange->request, &exchange->reply,
                              exchange->out + OKV_REPLY_HEADER, room_of_reply(exchange));
    /* The value is read now. */
    return okv_store_lease_holds(&exchange->executor->database->store) ? ANSWERED
                                                                       : held_up(exchange);
}

/* The client gave this request up and may reuse its slot. */
static enum outcome drop_stale(struct exchange *exchange)
{
    OKV_STATS_ADD(&exchange->sessions->server->stats, stale, 1);
    okv_timed_write_end(exchange->sessions, exchange->session, exchange->request.slot, false);
    okv_session_slot_release(exchange->session, exchange->request.slot);
    return DROPPED;
}

static enum outcome write_once(struct exchange *exchange)
{
    switch (okv_reply_cache_begin(exchange->session->reply_cache, exchange->request.slot,
                                  exchange->request.sequence, &exchange->reply,
                                  exchange->out + OKV_REPLY_HEADER)) {
    case OKV_REPLY_CACHE_APPLY:
        return write_new(exchange);
    case OKV_REPLY_CACHE_ANSWER:
        return answer_again(exchange);
    case OKV_REPLY_CACHE_WAIT:
        return held_up(exchange);
    case OKV_REPLY_CACHE_STALE:
        break;
    }
    return drop_stale(exchange);
}

/* ---- any request ---- */

static enum outcome take_report(struct exchange *exchange)
{
    const struct okv_request_message *request = &exchange->request;

    return okv_session_report(exchange->sessions, exchange->session, request->value,
                              request->value_length)
               ? MALFORMED
               : ANSWERED;
}

static enum outcome take_hits(struct exchange *exchange)
{
    const struct okv_request_message *request = &exchange->request;
    struct okv_hits hits;

    if (okv_session_hits(exchange->sessions, exchange->session, request->value,
                         request->value_length, &hits))
        return MALFORMED;
    uint8_t *room = exchange->out + OKV_REPLY_HEADER;
    *(struct okv_wire_hits *)room = okv_hits_encode(&hits);
    exchange->reply.value = room;
    exchange->reply.value_length = sizeof(struct okv_wire_hits);
    return ANSWERED;
}

static enum outcome take_peer(struct exchange *exchange)
{
    struct okv_session *session = exchange->session;
    unsigned rights = okv_session_rights_now(session);

    if (!session->is_peer)
        return MALFORMED;
    if (session->arriving)
        return BLOCKED;
    int rc = okv_execute_may(exchange->executor, rights, exchange->request.opcode)
                 ? okv_session_peer_take(exchange->sessions, session, &exchange->request)
                 : OKV_EDENIED;
    switch (rc) {
    case 0:
        return HANDED_ON;
    case OKV_EAGAIN:
        return held_up(exchange);
    case OKV_EDISCONNECTED: /* the end of the connection drops it, and what would overtake it */
        return BLOCKED;
    default:
        exchange->reply.status = rc;
        return ANSWERED;
    }
}

static enum outcome take_goodbye(struct exchange *exchange)
{
    if (exchange->request.value_length && take_report(exchange) == MALFORMED)
        return MALFORMED;
    exchange->session->forget = true;
    okv_session_end(exchange->sessions, exchange->session, OKV_SESSION_END_BY_CLIENT);
    return DROPPED;
}

/* The clock is read after the table: a lease may end in between. The request waits for the next
 * one, and is served anew. */
static enum outcome get(struct exchange *exchange)
{
    enum outcome outcome = execute(exchange);

    return okv_store_lease_holds(&exchange->executor->database->store) ? outcome
                                                                       : held_up(exchange);
}

/* Of one that uses items. */
static bool is_of_a_client(unsigned opcode)
{
    return opcode == OKV_OP_GET || opcode == OKV_OP_FLUSH || okv_opcode_is_write(opcode);
}

/* It stays connected when another server leads, so it must not use items. */
static bool has_no_items(const struct exchange *exchange)
{
    const struct okv_session *session = exchange->session;

    return session->is_observer || (session->is_peer && session->common.epoch == 0 &&
                                    okv_store_is_member(&exchange->executor->database->store));
}

static enum outcome take_command(struct exchange *exchange)
{
    struct okv_sessions *sessions = exchange->sessions;

    /* A pass may be long. The sender may know of items that expired since it began. */
    if (exchange->request.ttl_ms || okv_housekeeping_is_due(sessions->server))
        okv_housekeeping_update_clock(&sessions->housekeeping, sessions->server);
    if (is_of_a_client(exchange->request.opcode) && has_no_items(exchange)) {
        exchange->reply.status = OKV_EUNSUPPORTED;
        return ANSWERED;
    }
    if (exchange->request.opcode == OKV_OP_GET)
        return get(exchange);
    return okv_opcode_is_write(exchange->request.opcode) ? write_once(exchange) : execute(exchange);
}

static enum outcome take(struct exchange *exchange)
{
    const struct okv_event *message = exchange->message;
    struct okv_request_message *request = &exchange->request;
    struct okv_conn *conn = exchange->session->conn;
    int rc = okv_request_decode(message->immediate, message->data, message->length, request);

    if (rc == 0 && request->opcode == OKV_OP_GOODBYE)
        return take_goodbye(exchange);
    if (rc && rc != OKV_EUNSUPPORTED)
        return MALFORMED; /* `request` may be empty */
    exchange->out = conn->ops->send_buffer(conn);
    if (!exchange->out)
        return BLOCKED;
    exchange->reply = (struct okv_reply_message){.opcode = request->opcode,
                                                 .slot = request->slot,
                                                 .sequence = request->sequence,
                                                 .status = rc};
    if (rc) {
        OKV_STATS_ADD(&exchange->sessions->server->stats, unsupported, 1);
        return ANSWERED;
    }
    if (request->opcode == OKV_OP_REPORT)
        return take_report(exchange);
    if (request->opcode == OKV_OP_HITS)
        return take_hits(exchange);
    return okv_opcode_is_peer(request->opcode) ? take_peer(exchange) : take_command(exchange);
}

enum okv_request_fate okv_session_serve(struct okv_sessions *sessions, struct okv_session *session,
                                        const struct okv_event *message)
{
    struct exchange
        exchange; /* not cleared: it is large, and each field is set before it is read */

    exchange.sessions = sessions;
    exchange.session = session;
    exchange.executor = &sessions->executors[session->common.database];
    exchange.message = message;
    enum outcome outcome = take(&exchange);
    if (outcome == BLOCKED)
        return OKV_REQUEST_BLOCKED;
    if (outcome == MALFORMED) {
        okv_session_end(sessions, session, OKV_SESSION_END_MALFORMED);
        return OKV_REQUEST_DONE;
    }
    if (outcome == ANSWERED)
        okv_session_reply(sessions, session, &exchange.reply, exchange.out);
    OKV_STATS_ADD(&sessions->server->stats, bytes_in, message->length);
    return outcome == KEPT ? OKV_REQUEST_KEPT : OKV_REQUEST_DONE;
}
