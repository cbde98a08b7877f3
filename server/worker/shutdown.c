#include "server/worker/shutdown.h"

#include "server/core/server.h"
#include "server/session/lifecycle.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* How often the sessions are checked. */
#define CHECK_MS 10
/* Time for the last messages to be sent. */
#define SETTLE_NS UINT64_C(200000000)
/* Time for connections to close after --drain-ms. */
#define CLOSING_NS UINT64_C(2000000000)
/* The same for clients that were admitted while the worker ended. */
#define LATE_NS UINT64_C(1000000000)

static void progress(const struct okv_shutdown *shutdown)
{
    shutdown->progress(shutdown->worker, CHECK_MS);
}

/* Admitted clients, including those whose session the worker has not seen yet. */
static unsigned count_clients(struct okv_sessions *sessions)
{
    unsigned clients = 0;

    for (unsigned i = 0; i < sessions->server->listener_count; i++)
        clients += atomic_load(&sessions->clients[i]);
    return clients;
}

static void say_goodbye(struct okv_sessions *sessions)
{
    struct okv_session *session;

    TAILQ_FOREACH(session, &sessions->all, in_all)
    okv_session_say_goodbye(sessions, session, OKV_ESHUTDOWN);
}

/* A client may send requests until it has read the goodbye: they are answered. */
static void drain(const struct okv_shutdown *shutdown, uint64_t until_ns)
{
    while (count_clients(shutdown->sessions) > 0 && okv_clock_ns() < until_ns) {
        say_goodbye(shutdown->sessions);
        progress(shutdown);
    }
}

static bool have_all_settled(const struct okv_sessions *sessions)
{
    const struct okv_session *session;

    TAILQ_FOREACH(session, &sessions->all, in_all)
    if (!okv_session_has_settled(session))
        return false;
    return true;
}

static bool has_met_all(struct okv_sessions *sessions)
{
    const struct okv_session *session;
    unsigned met = 0;

    TAILQ_FOREACH(session, &sessions->all, in_all)
    met++;
    return met >= count_clients(sessions);
}

static void settle(const struct okv_shutdown *shutdown)
{
    struct okv_sessions *sessions = shutdown->sessions;
    uint64_t until_ns = okv_clock_ns() + SETTLE_NS;

    if (count_clients(sessions) == 0)
        return;
    do {
        progress(shutdown);
        say_goodbye(sessions);
    } while (!(has_met_all(sessions) && have_all_settled(sessions)) && okv_clock_ns() < until_ns);
}

static void end_all(const struct okv_shutdown *shutdown, uint64_t until_ns)
{
    struct okv_session *session;

    while (count_clients(shutdown->sessions) > 0 && okv_clock_ns() < until_ns) {
        TAILQ_FOREACH(session, &shutdown->sessions->all, in_all)
        okv_session_end(shutdown->sessions, session, OKV_SESSION_END_STOPPING);
        progress(shutdown);
    }
}

uint64_t okv_shutdown_run(const struct okv_shutdown *shutdown)
{
    struct okv_server *server = shutdown->sessions->server;
    uint64_t drained_ns = okv_clock_ns() + (uint64_t)server->config.drain_ms * 1000000u;
    uint64_t end_ns = drained_ns + CLOSING_NS;

    drain(shutdown, drained_ns);
    settle(shutdown);
    end_all(shutdown, end_ns);
    return end_ns;
}

void okv_shutdown_end_late(const struct okv_shutdown *shutdown, uint64_t until_ns)
{
    uint64_t late_ns = okv_clock_ns() + LATE_NS;

    end_all(shutdown, until_ns > late_ns ? until_ns : late_ns);
}
