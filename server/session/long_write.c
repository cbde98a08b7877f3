#include "server/session/rendezvous.h"

#include <string.h>

#include "server/command/execute.h"
#include "server/session/session.h"
#include "server/store/commands.h"
#include "shared/base/error.h"

static struct okv_session_rendezvous *find(struct okv_session *session,
                                           enum okv_session_rendezvous_state state)
{
    for (unsigned i = 0; i < OKV_RENDEZVOUS_MAX; i++)
        if (session->rendezvous_reads[i].state == state)
            return &session->rendezvous_reads[i];
    return NULL;
}

static int begin(struct okv_session *session, const struct okv_executor *executor,
                 const struct okv_request_message *request,
                 struct okv_session_rendezvous *rendezvous)
{
    struct okv_conn *conn = session->conn;
    uint64_t offset;

    if (!okv_execute_may(executor, okv_session_rights_now(session), OKV_OP_PUT))
        return OKV_EDENIED;
    if (request->value_length > executor->database->store.max_value)
        return OKV_EVALUESIZE;
    uint64_t extent = okv_store_reserve(&executor->database->store, executor->work,
                                        request->key_length, request->value_length, &offset);
    if (extent == 0)
        return OKV_EFULL;
    const struct okv_rendezvous what = {
        .address = request->rendezvous_address,
        .key = request->rendezvous_key,
        .length = request->value_length,
        .offset = offset,
        .cookie = (uint64_t)(rendezvous - session->rendezvous_reads),
    };
    int rc = conn->ops->rendezvous(conn, &what);
    if (rc) {
        okv_store_release(&executor->database->store, extent);
        return rc;
    }
    rendezvous->state = OKV_RENDEZVOUS_UNDER_WAY;
    rendezvous->extent = extent;
    rendezvous->request = *request;
    memcpy(rendezvous->key, request->key, request->key_length);
    rendezvous->request.key = rendezvous->key;
    session->rendezvous_count++;
    return 0;
}

int okv_session_rendezvous_begin(struct okv_session *session, const struct okv_executor *executor,
                                 const struct okv_request_message *request)
{
    struct okv_session_rendezvous *rendezvous = find(session, OKV_RENDEZVOUS_NONE);
    int rc = rendezvous ? begin(session, executor, request, rendezvous) : OKV_EAGAIN;

    if (rc && rc != OKV_EAGAIN && rc != OKV_EDISCONNECTED)
        OKV_STATS_ADD(&executor->database->counts, puts_refused, 1);
    return rc;
}

void okv_session_rendezvous_end(struct okv_session *session, const struct okv_executor *executor,
                                const struct okv_event *event)
{
    struct okv_session_rendezvous *rendezvous = &session->rendezvous_reads[event->cookie];
    struct okv_reply_message *reply = &rendezvous->reply;
    bool applied = false;

    *reply = (struct okv_reply_message){
        .opcode = OKV_OP_PUT,
        .slot = rendezvous->request.slot,
        .sequence = rendezvous->request.sequence,
        .status = event->status,
    };
    if (event->status) {
        OKV_STATS_ADD(&executor->database->counts, rendezvous_failed, 1);
    } else {
        OKV_STATS_ADD(&executor->database->counts, rendezvous_reads, 1);
        OKV_STATS_ADD(&executor->database->counts, rendezvous_bytes,
                      rendezvous->request.value_length);
        /* No reply can leave. The client may resend the write on another connection. */
        if (session->closing)
            reply->status = OKV_EDISCONNECTED;
        else
            applied = true;
    }
    if (applied) {
        okv_execute_put(executor, okv_session_rights_now(session), &rendezvous->request,
                        rendezvous->extent, reply);
        okv_reply_cache_done(session->reply_cache, reply);
    } else {
        okv_reply_cache_undone(session->reply_cache, reply->slot);
    }
    if (reply->status)
        okv_store_release(&executor->database->store, rendezvous->extent);
    rendezvous->extent = 0;
    rendezvous->state = OKV_RENDEZVOUS_ENDED;
}

struct okv_session_rendezvous *okv_session_rendezvous_ended(struct okv_session *session)
{
    return session->rendezvous_count ? find(session, OKV_RENDEZVOUS_ENDED) : NULL;
}

void okv_session_rendezvous_free(struct okv_session *session,
                                 struct okv_session_rendezvous *rendezvous)
{
    rendezvous->state = OKV_RENDEZVOUS_NONE;
    session->rendezvous_count--;
}
