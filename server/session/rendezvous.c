#include "server/session/rendezvous.h"

#include <string.h>

#include "server/command/execute.h"
#include "server/session/session.h"
#include "shared/base/error.h"

static struct okv_session_pull *find(struct okv_session *session, enum okv_session_pull_state state)
{
    for (unsigned i = 0; i < OKV_PULLS_MAX; i++)
        if (session->pulls[i].state == state)
            return &session->pulls[i];
    return NULL;
}

static int begin(struct okv_session *session, struct okv_server *server,
                 struct okv_store_work *work, const struct okv_request_message *request,
                 struct okv_session_pull *pull)
{
    struct okv_conn *conn = session->conn;
    uint64_t offset;

    if (request->value_length > server->store.max_value)
        return OKV_EVALUESIZE;
    uint64_t extent = okv_store_reserve(&server->store, work, request->key_length,
                                        request->value_length, &offset);
    if (extent == 0)
        return OKV_EFULL;
    const struct okv_pull what = {
        .address = request->pull_address,
        .key = request->pull_key,
        .length = request->value_length,
        .offset = offset,
        .cookie = (uint64_t)(pull - session->pulls),
    };
    int rc = conn->ops->pull(conn, &what);
    if (rc) {
        okv_store_release(&server->store, extent);
        return rc;
    }
    pull->state = OKV_PULL_UNDER_WAY;
    pull->extent = extent;
    pull->request = *request;
    memcpy(pull->key, request->key, request->key_length);
    pull->request.key = pull->key;
    session->pull_count++;
    return 0;
}

int okv_session_pull_begin(struct okv_session *session, struct okv_server *server,
                           struct okv_store_work *work, const struct okv_request_message *request)
{
    struct okv_session_pull *pull = find(session, OKV_PULL_NONE);
    int rc = pull ? begin(session, server, work, request, pull) : OKV_EAGAIN;

    if (rc && rc != OKV_EAGAIN && rc != OKV_EDISCONNECTED)
        OKV_STATS_ADD(&server->stats, puts_refused, 1);
    return rc;
}

void okv_session_pull_end(struct okv_session *session, struct okv_server *server,
                          struct okv_store_work *work, const struct okv_event *event)
{
    struct okv_session_pull *pull = &session->pulls[event->cookie];
    struct okv_reply_message *reply = &pull->reply;
    bool applied = false;

    *reply = (struct okv_reply_message){
        .opcode = OKV_OP_PUT,
        .slot = pull->request.slot,
        .sequence = pull->request.sequence,
        .status = event->status,
    };
    if (event->status) {
        OKV_STATS_ADD(&server->stats, pulls_failed, 1);
    } else {
        OKV_STATS_ADD(&server->stats, pulls, 1);
        OKV_STATS_ADD(&server->stats, pulled_bytes, pull->request.value_length);
        /* Nobody can be told here: the client may send it again on another connection. */
        if (session->closing)
            reply->status = OKV_EDISCONNECTED;
        else
            applied = true;
    }
    if (applied) {
        okv_execute_put(server, work, &pull->request, pull->extent, reply);
        okv_ledger_done(session->ledger, reply);
    } else {
        okv_ledger_undone(session->ledger, reply->slot);
    }
    if (reply->status)
        okv_store_release(&server->store, pull->extent);
    pull->extent = 0;
    pull->state = OKV_PULL_ENDED;
}

struct okv_session_pull *okv_session_pull_ended(struct okv_session *session)
{
    return session->pull_count ? find(session, OKV_PULL_ENDED) : NULL;
}

void okv_session_pull_free(struct okv_session *session, struct okv_session_pull *pull)
{
    pull->state = OKV_PULL_NONE;
    session->pull_count--;
}
