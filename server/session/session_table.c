#include "server/session/session_table.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/identity/authority.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

void okv_session_table_init(struct okv_session_table *table)
{
    TAILQ_INIT(&table->all);
    TAILQ_INIT(&table->half_open);
    pthread_mutex_init(&table->lock, NULL);
}

void okv_session_table_fini(struct okv_session_table *table)
{
    pthread_mutex_destroy(&table->lock);
}

void okv_session_table_add(struct okv_session_table *table, struct okv_session *session)
{
    pthread_mutex_lock(&table->lock);
    TAILQ_INSERT_TAIL(&table->all, session, in_table);
    session->is_watched = atomic_load(&session->is_half_open);
    if (session->is_watched)
        TAILQ_INSERT_TAIL(&table->half_open, session, in_half_open);
    pthread_mutex_unlock(&table->lock);
}

void okv_session_table_remove(struct okv_session_table *table, struct okv_session *session)
{
    pthread_mutex_lock(&table->lock);
    TAILQ_REMOVE(&table->all, session, in_table);
    okv_session_table_unwatch(table, session);
    pthread_mutex_unlock(&table->lock);
}

void okv_session_table_unwatch(struct okv_session_table *table, struct okv_session *session)
{
    if (session->is_watched)
        TAILQ_REMOVE(&table->half_open, session, in_half_open);
    session->is_watched = false;
}

static uint64_t now_of(const atomic_uint_fast64_t *figure)
{
    return atomic_load_explicit(figure, memory_order_relaxed);
}

/* The worker may have written a moment that is later than ours. */
static uint64_t ms_since(uint64_t ns, uint64_t now_ns)
{
    return now_ns > ns ? (now_ns - ns) / 1000000 : 0;
}

static int write_line(const struct okv_session *session, const char *database, char *out,
                      size_t size)
{
    const struct okv_report_share *report = &session->report;
    uint64_t now_ns = okv_clock_ns();
    char peer[sizeof session->peer];

    /* One word: the address of a local client has spaces. */
    memcpy(peer, session->peer, sizeof peer);
    for (char *at = peer; *at; at++)
        if (*at == ' ')
            *at = '_';
    return snprintf(out, size,
                    "%016" PRIx64 " %s %s %" PRIu64 " %" PRIu64 " %s %" PRIu64 " %" PRIu32
                    " %" PRIu64 " %" PRIu64 " %d %" PRIu64 " %" PRIu64 " %s %s\n",
                    session->id, session->user[0] ? session->user : "-", peer,
                    ms_since(session->created_ns, now_ns), now_of(&session->requests), database,
                    ms_since(now_of(&session->active_ns), now_ns), session->request_slots,
                    now_of(&session->bytes_in), now_of(&session->bytes_out), report->is_due,
                    now_of(&report->gets), now_of(&report->hits), session->transport, session->how);
}

static size_t list_clients(struct okv_server *server, unsigned database, uint64_t after, char *out,
                           size_t size)
{
    struct okv_session_table *table = server->session_table;
    const struct okv_session *session;
    size_t used = 0;

    pthread_mutex_lock(&table->lock);
    TAILQ_FOREACH(session, &table->all, in_table)
    {
        if (session->database != database || session->id <= after)
            continue;
        size_t length = (size_t)write_line(session, server->databases[database].config->name,
                                           out + used, size - used);
        if (length >= size - used)
            break;
        used += length;
    }
    pthread_mutex_unlock(&table->lock);
    return used;
}

static int end_client(struct okv_server *server, unsigned database, uint64_t id)
{
    struct okv_session_table *table = server->session_table;
    struct okv_session *session;
    int rc = OKV_ENOTFOUND;

    pthread_mutex_lock(&table->lock);
    TAILQ_FOREACH(session, &table->all, in_table)
    {
        if (session->database != database || session->id != id)
            continue;
        atomic_store(&session->unwanted, OKV_SESSION_END_KILLED);
        okv_server_end_unwanted(server, session->worker);
        rc = 0;
    }
    pthread_mutex_unlock(&table->lock);
    return rc;
}

static void recheck(struct okv_server *server)
{
    struct okv_session_table *table = server->session_table;
    struct okv_session *session;

    pthread_mutex_lock(&table->lock);
    TAILQ_FOREACH(session, &table->all, in_table)
    {
        unsigned rights = okv_users_rights(server->authority->users, session->user,
                                           session->fingerprint, session->database);
        atomic_store(&session->rights, rights);
        if (rights == 0)
            okv_server_end_unwanted(server, session->worker);
    }
    pthread_mutex_unlock(&table->lock);
}

const struct okv_client_source okv_session_clients = {list_clients, end_client, recheck};
