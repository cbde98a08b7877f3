#include "server/session/sessions.h"

#include <stdlib.h>
#include <string.h>

#include "server/command/execute.h"
#include "server/config/config.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/store/state.h"
#include "shared/base/error.h"

/* The longest interval of scans for idle sessions. */
#define SCAN_NS UINT64_C(500000000)

static void free_executors(struct okv_sessions *sessions, unsigned count)
{
    while (count-- > 0)
        okv_store_work_fini(&sessions->works[count]);
    free(sessions->works);
    free(sessions->executors);
}

static int make_executors(struct okv_sessions *sessions)
{
    struct okv_server *server = sessions->server;

    sessions->works = calloc(server->database_count, sizeof *sessions->works);
    sessions->executors = calloc(server->database_count, sizeof *sessions->executors);
    if (!sessions->works || !sessions->executors) {
        free_executors(sessions, 0);
        return OKV_ENOMEM;
    }
    for (unsigned i = 0; i < server->database_count; i++) {
        struct okv_database *database = &server->databases[i];
        int rc = okv_store_work_init(&sessions->works[i], database->config->bucket_size);
        if (rc) {
            free_executors(sessions, i);
            return rc;
        }
        sessions->works[i].in_steps = true;
        sessions->executors[i] = (struct okv_executor){server, database, &sessions->works[i]};
    }
    return 0;
}

int okv_sessions_init(struct okv_sessions *sessions, struct okv_server *server)
{
    *sessions = (struct okv_sessions){.server = server};
    TAILQ_INIT(&sessions->all);
    TAILQ_INIT(&sessions->unflushed);
    TAILQ_INIT(&sessions->committing);
    STAILQ_INIT(&sessions->peer_answers);
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++) {
        TAILQ_INIT(&sessions->ready[i]);
        TAILQ_INIT(&sessions->long_work[i].running);
        TAILQ_INIT(&sessions->long_work[i].held_up);
    }
    return make_executors(sessions);
}

void okv_sessions_fini(struct okv_sessions *sessions)
{
    okv_peer_mail_free_all(sessions->server->peer_inbox, &sessions->peer_answers);
    free_executors(sessions, sessions->server->database_count);
}

static unsigned count_room_steps(const struct okv_sessions *sessions)
{
    unsigned steps = 0;

    for (unsigned i = 0; i < sessions->server->database_count; i++)
        steps += sessions->works[i].room_steps;
    return steps;
}

bool okv_sessions_made_room(const struct okv_sessions *sessions)
{
    return count_room_steps(sessions) != sessions->room_steps;
}

void okv_sessions_begin_pass(struct okv_sessions *sessions)
{
    sessions->pass++;
    sessions->room_steps = count_room_steps(sessions);
    sessions->is_held_up = false;
    memset(sessions->served, 0, sizeof sessions->served);
}

void okv_sessions_make_ready(struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->is_ready)
        return;
    session->is_ready = true;
    TAILQ_INSERT_TAIL(&sessions->ready[session->common.database], session, in_ready);
}

void okv_sessions_queue_flush(struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->is_unflushed)
        return;
    session->is_unflushed = true;
    TAILQ_INSERT_TAIL(&sessions->unflushed, session, in_unflushed);
}

void okv_sessions_flush(struct okv_sessions *sessions, struct okv_session *session)
{
    if (!session->is_unflushed)
        return;
    session->is_unflushed = false;
    TAILQ_REMOVE(&sessions->unflushed, session, in_unflushed);
    session->conn->ops->flush(session->conn);
}

void okv_sessions_quiet(struct okv_sessions *sessions, struct okv_session *session)
{
    if (session->is_ready)
        TAILQ_REMOVE(&sessions->ready[session->common.database], session, in_ready);
    if (session->is_unflushed)
        TAILQ_REMOVE(&sessions->unflushed, session, in_unflushed);
    session->is_ready = session->is_unflushed = false;
}

void okv_sessions_unlist(struct okv_sessions *sessions, struct okv_session *session)
{
    TAILQ_REMOVE(&sessions->all, session, in_all);
    okv_sessions_quiet(sessions, session);
}

uint64_t okv_sessions_tick_ns(const struct okv_server *server)
{
    return (uint64_t)server->config.keepalive_ms * 1000000u / OKV_KEEPALIVE_TICKS;
}

uint64_t okv_sessions_scan_ns(const struct okv_server *server)
{
    uint64_t tick_ns = okv_sessions_tick_ns(server);

    return tick_ns < SCAN_NS ? tick_ns : SCAN_NS;
}
