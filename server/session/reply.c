#include "server/session/reply.h"

#include <stdlib.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache.h"
#include "server/session/timed_writes.h"
#include "server/store/status.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

void okv_session_reply(struct okv_sessions *sessions, struct okv_session *session,
                       const struct okv_reply_message *reply, uint8_t *out)
{
    struct okv_conn *conn = session->conn;
    uint32_t length = okv_reply_encode(reply, out);

    OKV_STATS_ADD(&sessions->server->stats, bytes_out, length);
    okv_session_add(&session->common.bytes_out, length);
    okv_timed_write_end(sessions, session, reply->slot, reply->status == OKV_OK);
    okv_session_slot_release(session, reply->slot);
    /* A connection that fails here reports itself by its CLOSED event. */
    conn->ops->post_send(conn, length,
                         OKV_IMMEDIATE_REPLY | okv_immediate(reply->opcode, reply->slot));
    okv_sessions_queue_flush(sessions, session);
}

/* ---- replies that wait for a commit ---- */

static struct okv_pending_reply *pending_at(struct okv_session *session, uint32_t index)
{
    return &session->pending[(session->pending_first + index) % session->common.request_slots];
}

/* Without memory the client learns that the write was applied, perhaps. */
static void copy_value(struct okv_pending_reply *pending)
{
    struct okv_reply_message *reply = &pending->reply;
    void *copy = pending->value;

    if (reply->value_length > sizeof pending->value)
        copy = pending->long_value = malloc(reply->value_length);
    if (!copy) {
        reply->status = OKV_EUNKNOWN;
        reply->version = reply->value_length = 0;
    }
    if (reply->value_length)
        memcpy(copy, reply->value, reply->value_length);
    reply->value = copy;
}

void okv_session_reply_after(struct okv_sessions *sessions, struct okv_session *session,
                             uint64_t batch, const struct okv_reply_message *reply)
{
    struct okv_pending_reply *pending = pending_at(session, session->pending_count++);

    *pending = (struct okv_pending_reply){.batch = batch, .reply = *reply};
    copy_value(pending);
    if (session->is_committing)
        return;
    session->is_committing = true;
    TAILQ_INSERT_TAIL(&sessions->committing, session, in_committing);
}

/* Hands the replies whose batches have ended to the reply cache. */
static void note_ended(struct okv_session *session, struct okv_wal *wal)
{
    int status;

    for (uint32_t i = 0; i < session->pending_count; i++) {
        struct okv_pending_reply *pending = pending_at(session, i);
        if (pending->is_done)
            continue;
        if (!okv_wal_is_committed(wal, pending->batch, &status))
            return;
        if (status)
            pending->reply = (struct okv_reply_message){.opcode = pending->reply.opcode,
                                                        .slot = pending->reply.slot,
                                                        .sequence = pending->reply.sequence,
                                                        .status = status};
        pending->is_dropped = status != 0;
        pending->is_done = true;
        okv_reply_cache_done(session->reply_cache, &pending->reply);
    }
}

static void drop_first(struct okv_session *session)
{
    free(pending_at(session, 0)->long_value);
    session->pending_first = (session->pending_first + 1) % session->common.request_slots;
    session->pending_count--;
}

/* The next primary knows whether the write was published: the client resumes there. */
static bool is_answered_elsewhere(struct okv_sessions *sessions, struct okv_session *session)
{
    const struct okv_database *database = &sessions->server->databases[session->common.database];

    if (!pending_at(session, 0)->is_dropped || !okv_store_is_member(&database->store))
        return false;
    atomic_store(&session->common.is_deposed, true);
    okv_server_end_unwanted(sessions->server, session->common.worker, OKV_CLIENT_NATIVE);
    return true;
}

unsigned okv_session_post_committed(struct okv_sessions *sessions, struct okv_session *session)
{
    unsigned posted = 0;
    uint8_t *out;

    note_ended(session, sessions->server->databases[session->common.database].wal);
    while (session->pending_count > 0 && pending_at(session, 0)->is_done) {
        if (!session->closing) {
            if (is_answered_elsewhere(sessions, session))
                break;
            out = session->conn->ops->send_buffer(session->conn);
            if (!out)
                break;
            okv_session_reply(sessions, session, &pending_at(session, 0)->reply, out);
            posted++;
        }
        drop_first(session);
    }
    return posted;
}
