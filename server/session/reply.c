#include "server/session/reply.h"

#include <stdlib.h>
#include <string.h>

#include "server/session/lifecycle.h"
#include "server/session/timed_writes.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

void okv_session_reply(struct okv_sessions *sessions, struct okv_session *session,
                       const struct okv_reply_message *reply, uint8_t *out)
{
    struct okv_conn *conn = session->conn;
    uint32_t length = okv_reply_encode(reply, out);

    OKV_STATS_ADD(&sessions->server->stats, bytes_out, length);
    okv_session_add(&session->bytes_out, length);
    okv_timed_write_end(sessions, session, reply->slot, reply->status == OKV_OK);
    okv_session_slot_release(session, reply->slot);
    /* A connection that fails here reports itself by its CLOSED event. */
    conn->ops->post_send(conn, length,
                         OKV_IMMEDIATE_REPLY | okv_immediate(reply->opcode, reply->slot));
    okv_sessions_queue_flush(sessions, session);
}

/* ---- held replies ---- */

static struct okv_held_reply *held_at(struct okv_session *session, uint32_t index)
{
    return &session->held[(session->held_first + index) % session->request_slots];
}

/* Without memory the client learns that the write was applied, perhaps. */
static void copy_value(struct okv_held_reply *held)
{
    struct okv_reply_message *reply = &held->reply;
    void *copy = held->value;

    if (reply->value_length > sizeof held->value)
        copy = held->long_value = malloc(reply->value_length);
    if (!copy) {
        reply->status = OKV_EUNKNOWN;
        reply->version = reply->value_length = 0;
    }
    if (reply->value_length)
        memcpy(copy, reply->value, reply->value_length);
    reply->value = copy;
}

void okv_session_hold_reply(struct okv_sessions *sessions, struct okv_session *session,
                            uint64_t batch, const struct okv_reply_message *reply)
{
    struct okv_held_reply *held = held_at(session, session->held_count++);

    *held = (struct okv_held_reply){.batch = batch, .reply = *reply};
    copy_value(held);
    if (session->is_holding)
        return;
    session->is_holding = true;
    TAILQ_INSERT_TAIL(&sessions->holding, session, in_holding);
}

/* Has the reply cache learn of those whose batches have ended. */
static void note_ended(struct okv_session *session, struct okv_wal *wal)
{
    int status;

    for (uint32_t i = 0; i < session->held_count; i++) {
        struct okv_held_reply *held = held_at(session, i);
        if (held->is_done)
            continue;
        if (!okv_wal_is_done(wal, held->batch, &status))
            return;
        if (status)
            held->reply = (struct okv_reply_message){.opcode = held->reply.opcode,
                                                     .slot = held->reply.slot,
                                                     .sequence = held->reply.sequence,
                                                     .status = status};
        held->is_done = true;
        okv_reply_cache_done(session->reply_cache, &held->reply);
    }
}

static void drop_first(struct okv_session *session)
{
    free(held_at(session, 0)->long_value);
    session->held_first = (session->held_first + 1) % session->request_slots;
    session->held_count--;
}

static unsigned post_ended(struct okv_sessions *sessions, struct okv_session *session)
{
    unsigned posted = 0;
    uint8_t *out;

    while (session->held_count > 0 && held_at(session, 0)->is_done) {
        if (!session->closing) {
            out = session->conn->ops->send_buffer(session->conn);
            if (!out)
                break;
            okv_session_reply(sessions, session, &held_at(session, 0)->reply, out);
            posted++;
        }
        drop_first(session);
    }
    return posted;
}

unsigned okv_sessions_run_held(struct okv_sessions *sessions)
{
    struct okv_session *session, *next;
    unsigned posted = 0;

    for (session = TAILQ_FIRST(&sessions->holding); session; session = next) {
        next = TAILQ_NEXT(session, in_holding);
        note_ended(session, sessions->server->databases[session->database].wal);
        posted += post_ended(sessions, session);
        if (session->held_count > 0)
            continue;
        session->is_holding = false;
        TAILQ_REMOVE(&sessions->holding, session, in_holding);
        if (session->is_gone)
            okv_session_free(sessions, session);
    }
    return posted;
}
