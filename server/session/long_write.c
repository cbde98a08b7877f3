#include "server/session/long_write.h"

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/reply_cache_log.h"
#include "server/session/session.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

static struct okv_long_write *find(struct okv_session *session, enum okv_long_write_state state)
{
    for (unsigned i = 0; i < OKV_LONG_WRITES_MAX; i++)
        if (session->long_writes[i].state == state)
            return &session->long_writes[i];
    return NULL;
}

/* Gives back all but the message. */
static void release(struct okv_long_write *write, struct okv_database *database)
{
    okv_long_transfer_release(&write->transfer, database, &write->session->reserved);
}

static int reserve_extent(struct okv_long_write *write, const struct okv_executor *executor,
                          uint32_t value_length)
{
    return okv_long_transfer_reserve(&write->transfer, executor, &write->session->reserved,
                                     write->request.key_length, value_length);
}

/* ---- begin ---- */

/* NULL: as many long writes are in use as there may be. */
static struct okv_long_write *occupy(struct okv_session *session, const struct okv_event *message,
                                     const struct okv_request_message *request)
{
    struct okv_long_write *write = find(session, OKV_LONG_WRITE_NONE);

    if (!write)
        return NULL;
    session->long_write_count++;
    *write = (struct okv_long_write){
        .state = OKV_LONG_WRITE_RUNNING,
        .session = session,
        .message = *message,
        .request = *request,
        .reply = {.opcode = request->opcode, .slot = request->slot, .sequence = request->sequence},
    };
    return write;
}

static int begin_read(struct okv_long_write *write, const struct okv_executor *executor)
{
    const struct okv_request_message *request = &write->request;
    struct okv_session *session = write->session;
    struct okv_conn *conn = session->conn;

    if (!okv_execute_may(executor, okv_session_rights_now(session), OKV_OP_PUT))
        return OKV_EDENIED;
    int rc = reserve_extent(write, executor, request->value_length);
    if (rc)
        return rc;
    const struct okv_rendezvous what = {
        .address = request->rendezvous_address,
        .key = request->rendezvous_key,
        .length = request->value_length,
        .offset = okv_store_long_offset(&write->transfer.value),
        .cookie = (uint64_t)(write - session->long_writes),
    };
    return conn->ops->rendezvous(conn, &what);
}

int okv_long_write_begin_put(struct okv_session *session, const struct okv_executor *executor,
                             const struct okv_event *message,
                             const struct okv_request_message *request)
{
    struct okv_long_write *write = occupy(session, message, request);

    if (!write)
        return OKV_EAGAIN;
    write->state = OKV_LONG_WRITE_READING;
    int rc = begin_read(write, executor);
    if (rc) {
        release(write, executor->database);
        okv_long_write_free(write);
        if (rc != OKV_EAGAIN && rc != OKV_EDISCONNECTED && rc != OKV_EDENIED)
            OKV_STATS_ADD(&executor->database->counts, puts_refused, 1);
    }
    return rc;
}

struct okv_long_write *okv_long_write_begin_change(struct okv_session *session,
                                                   const struct okv_event *message,
                                                   const struct okv_request_message *request)
{
    return occupy(session, message, request);
}

/* ---- run ---- */

static void end(struct okv_long_write *write, const struct okv_executor *executor)
{
    struct okv_conn *conn = write->session->conn;

    release(write, executor->database);
    conn->ops->recv_release(conn->endpoint, &write->message);
    write->state = OKV_LONG_WRITE_ENDED;
}

void okv_long_write_drop(struct okv_long_write *write, const struct okv_executor *executor,
                         int status)
{
    okv_reply_cache_undone(write->session->reply_cache, write->request.slot);
    write->reply.status = status;
    end(write, executor);
}

static void begin_value(struct okv_long_write *write, const struct okv_executor *executor)
{
    const struct okv_request_message *request = &write->request;
    const struct okv_store_write what = {.key = request->key,
                                         .key_length = request->key_length,
                                         .value = request->value,
                                         .value_length = request->value_length};

    okv_store_long_begin(&executor->database->store, &write->transfer.value, &what);
}

struct okv_long_write *okv_long_write_arrived(struct okv_session *session,
                                              const struct okv_executor *executor,
                                              const struct okv_event *event)
{
    struct okv_long_write *write = &session->long_writes[event->cookie];
    struct okv_counts *counts = &executor->database->counts;

    if (event->status) {
        OKV_STATS_ADD(counts, rendezvous_failed, 1);
        okv_long_write_drop(write, executor, event->status);
        return write;
    }
    OKV_STATS_ADD(counts, rendezvous_reads, 1);
    OKV_STATS_ADD(counts, rendezvous_bytes, write->request.value_length);
    begin_value(write, executor);
    write->state = OKV_LONG_WRITE_RUNNING;
    return write;
}

/* Applies the write, if it can be. OKV_STORE_LONG: not yet; OKV_EAGAIN: try again. In both
 * cases nothing was changed. */
static int apply(struct okv_long_write *write, const struct okv_executor *executor)
{
    struct okv_reply_message *reply = &write->reply;
    struct okv_change change;

    if (!okv_change_begin(&change, executor, &write->exclusive_ticket))
        return OKV_EAGAIN;
    okv_execute_long(executor, okv_session_rights_now(write->session), &write->request,
                     &write->transfer.value, reply, write->reply_value);
    bool is_applied = reply->status != OKV_STORE_LONG && reply->status != OKV_EAGAIN;
    if (reply->status == OKV_OK)
        okv_long_transfer_keep(&write->transfer, executor->database, write->request.key,
                               write->request.key_length, reply->version);
    if (change.wal && is_applied)
        okv_reply_cache_log(write->session->reply_cache, change.wal, write->session->common.id,
                            reply);
    write->batch = okv_change_end(&change, is_applied);
    if (!is_applied)
        return reply->status;
    if (!write->batch)
        okv_reply_cache_done(write->session->reply_cache, reply);
    end(write, executor);
    if (write->batch)
        write->state = OKV_LONG_WRITE_COMMITTING;
    return 0;
}

static void refuse(struct okv_long_write *write, const struct okv_executor *executor, int status)
{
    write->reply.status = status;
    okv_reply_cache_done(write->session->reply_cache, &write->reply);
    end(write, executor);
}

/* Returns whether there is an extent to go on with. */
static bool begin_long_change(struct okv_long_write *write, const struct okv_executor *executor)
{
    const struct okv_request_message *request = &write->request;

    if (apply(write, executor) != OKV_STORE_LONG)
        return false;
    int rc = reserve_extent(write, executor,
                            write->transfer.value.before_length + request->value_length);
    if (rc == 0) {
        begin_value(write, executor);
        return true;
    }
    if (rc == OKV_EAGAIN) {
        release(write, executor->database);
        return false;
    }
    refuse(write, executor, rc);
    return false;
}

/* All of the value is there. Applies the write when it can be. */
static void run_to_end(struct okv_long_write *write, const struct okv_executor *executor)
{
    int rc = okv_long_transfer_store(&write->transfer, executor->database);

    if (rc == 0)
        rc = apply(write, executor);
    else if (rc != OKV_EAGAIN)
        refuse(write, executor, rc);
    if (rc == OKV_STORE_LONG)
        release(write, executor->database); /* begin again with the value that is there now */
}

uint64_t okv_long_write_run(struct okv_long_write *write, const struct okv_executor *executor,
                            uint64_t most)
{
    /* No reply can leave. The client may resend the write on another connection. */
    if (write->session->closing) {
        okv_long_write_drop(write, executor, OKV_EDISCONNECTED);
        return 0;
    }
    if (write->transfer.value.extent == 0 && !begin_long_change(write, executor))
        return 0;
    uint64_t done = okv_store_long_step(&executor->database->store, &write->transfer.value, most);
    if (okv_store_long_is_complete(&write->transfer.value))
        run_to_end(write, executor);
    return done;
}

/* ---- answer ---- */

struct okv_long_write *okv_long_write_ended(struct okv_session *session)
{
    return session->long_write_count ? find(session, OKV_LONG_WRITE_ENDED) : NULL;
}

void okv_long_write_free(struct okv_long_write *write)
{
    write->state = OKV_LONG_WRITE_NONE;
    write->session->long_write_count--;
}
