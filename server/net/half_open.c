#include "server/net/half_open.h"

#include "server/clients/admission.h"
#include "server/clients/client_table.h"
#include "server/session/lifecycle.h"
#include "server/worker/worker.h"

/* Its place may be another's when it is replaced. Under the table's lock. */
static void end(struct okv_server *server, struct okv_session *session)
{
    okv_client_table_unwatch(server->clients, &session->common);
    atomic_store(&session->unwanted, OKV_SESSION_END_CROWDED_OUT);
    okv_server_end_unwanted(server, session->common.worker, OKV_CLIENT_NATIVE);
}

static void settle(struct okv_server *server, struct okv_session *session)
{
    if (atomic_load(&session->is_half_open))
        return;
    if (okv_session_is_replaced(session) ||
        okv_admission_establish(server->admission, session->place)) {
        okv_client_table_unwatch(server->clients, &session->common);
        return;
    }
    OKV_STATS_ADD(&server->stats, rejected_address, 1);
    end(server, session);
}

void okv_half_open_settle(struct okv_server *server)
{
    struct okv_client_table *table = server->clients;
    struct okv_client *client, *next;

    pthread_mutex_lock(&table->lock);
    for (client = TAILQ_FIRST(&table->half_open); client; client = next) {
        next = TAILQ_NEXT(client, in_half_open);
        settle(server, (struct okv_session *)client);
    }
    pthread_mutex_unlock(&table->lock);
}

static struct okv_session *one_too_many(struct okv_server *server)
{
    struct okv_session *found = NULL;
    struct okv_client *client;
    uint32_t most = 0;

    TAILQ_FOREACH(client, &server->clients->half_open, in_half_open)
    {
        struct okv_session *session = (struct okv_session *)client;
        if (okv_session_is_replaced(session))
            continue;
        uint32_t count = okv_admission_half_open(server->admission, session->place);
        if (count > most) {
            most = count;
            found = session;
        }
    }
    return found;
}

void okv_half_open_relieve(struct okv_server *server, unsigned listener)
{
    if (!okv_admission_is_short(server->admission, okv_workers_room(server, listener)))
        return;
    pthread_mutex_lock(&server->clients->lock);
    struct okv_session *session = one_too_many(server);
    if (session)
        end(server, session);
    pthread_mutex_unlock(&server->clients->lock);
}
