#include "server/worker.h"

#include <poll.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/session/dispatch.h"
#include "server/session/lifecycle.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

#define EVENTS_PER_PASS 32
/* A write that waits for another connection is tried again after this time. */
#define HELD_UP_MS 1
/* How often the end of all sessions is looked for. */
#define DRAIN_MS 10
/* What connections get to end after they were closed. */
#define CLOSING_NS UINT64_C(2000000000)
/* The same for those that were let in while the worker ended. */
#define LATE_NS UINT64_C(1000000000)
/* What the last messages get to leave, before that. */
#define SETTLE_NS UINT64_C(200000000)
/* Connections for which an endpoint has room beyond its part of --max-clients: those whose client
 * has another one already, until they are gone. */
#define SPARE_CONNS 4u

/* ---- a pass ---- */

static void handle(struct okv_worker *worker, const struct okv_event *event)
{
    struct okv_session *session = event->conn->user;

    switch (event->type) {
    case OKV_EVENT_OPENED:
        okv_session_opened(&worker->sessions, event->conn);
        break;
    case OKV_EVENT_RECV:
        if (!okv_session_receive(&worker->sessions, session, event))
            event->conn->ops->recv_release(event->conn->endpoint, event);
        break;
    case OKV_EVENT_CLOSED:
        okv_session_closed(&worker->sessions, session, event->status);
        break;
    case OKV_EVENT_RENDEZVOUS_DONE:
        okv_session_rendezvous_done(&worker->sessions, session, event);
        break;
    case OKV_EVENT_READ:
        break;
    }
}

static unsigned poll_endpoints(struct okv_worker *worker)
{
    struct okv_event events[EVENTS_PER_PASS];
    unsigned total = 0;

    for (unsigned i = 0; i < worker->server->listener_count; i++) {
        struct okv_endpoint *endpoint = worker->endpoints[i];
        int n = endpoint->ops->poll(endpoint, events, EVENTS_PER_PASS);
        if (n < 0)
            okv_server_fail(worker->server, i, n);
        /* The time after all of these came: their senders may have seen what expired since the
         * pass began. */
        if (n > 0)
            okv_housekeeping_tell_time(&worker->sessions.housekeeping, worker->server);
        for (int k = 0; k < n; k++)
            handle(worker, &events[k]);
        total += n > 0 ? (unsigned)n : 0;
        worker->has_more = worker->has_more || n == EVENTS_PER_PASS;
    }
    return total;
}

/* Each session that has something is served once; those with more wait for the next pass. */
static unsigned run_ready(struct okv_worker *worker)
{
    struct okv_session_list ready = TAILQ_HEAD_INITIALIZER(ready);
    struct okv_session *session;
    unsigned total = 0;

    if (TAILQ_EMPTY(&worker->sessions.ready))
        return 0;
    okv_housekeeping_tell_time(&worker->sessions.housekeeping, worker->server);
    TAILQ_CONCAT(&ready, &worker->sessions.ready, in_ready);
    while ((session = TAILQ_FIRST(&ready))) {
        TAILQ_REMOVE(&ready, session, in_ready);
        session->is_ready = false;
        total += okv_session_run_ready(&worker->sessions, session);
    }
    return total;
}

/* Whether its time has come. *is_late: it came long ago, as the thread did not run. */
static bool is_due(uint64_t *at_ns, uint64_t now_ns, uint64_t length_ns, bool *is_late)
{
    if (now_ns < *at_ns)
        return false;
    *is_late = now_ns - *at_ns >= length_ns;
    *at_ns = now_ns + length_ns;
    return true;
}

/* A client is not idle for what the worker did not do: a look that is late does not count, and
 * nobody is ended whose request may wait in the endpoint. */
static void scan_sessions(struct okv_worker *worker)
{
    uint64_t now_ns = worker->now_ns;
    bool is_late = false, ignored;
    bool is_scan = is_due(&worker->scan_ns, now_ns, okv_sessions_scan_ns(worker->server), &is_late);
    bool is_tick = is_due(&worker->tick_ns, now_ns, okv_sessions_tick_ns(worker->server), &ignored);
    bool has_replaced =
        atomic_load(&worker->has_replaced) && atomic_exchange(&worker->has_replaced, false);
    struct okv_session *session;

    if (!is_scan && !is_tick && !has_replaced)
        return;
    TAILQ_FOREACH(session, &worker->sessions.all, in_all)
    {
        okv_session_end_replaced(&worker->sessions, session);
        if (is_scan && !is_late)
            okv_session_count_idle(&worker->sessions, session, !worker->has_more);
        if (is_tick)
            okv_session_tick(&worker->sessions, session);
    }
}

static bool is_housekeeper(const struct okv_worker *worker)
{
    return worker == worker->server->workers;
}

/* The housekeeper may sleep for ever: it looks whether something is due after it said so, and we
 * look whether it said so after something came to be due. */
static void wake_housekeeper(struct okv_worker *worker)
{
    struct okv_server *server = worker->server;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&server->housekeeper_rests) && okv_housekeeping_is_due(server))
        okv_worker_wake(server->workers);
}

/* Serves what is there. Returns 0 when there was nothing. */
static unsigned pass(struct okv_worker *worker)
{
    struct okv_session *session;

    worker->sessions.pass++;
    worker->now_ns = okv_clock_ns();
    worker->sessions.is_held_up = worker->has_more = false;
    unsigned done = poll_endpoints(worker);
    done += run_ready(worker);
    scan_sessions(worker);
    while ((session = TAILQ_FIRST(&worker->sessions.unflushed)))
        okv_sessions_flush(&worker->sessions, session);
    if (is_housekeeper(worker)) {
        if (!done)
            okv_housekeeping_tell_time(&worker->sessions.housekeeping, worker->server);
        okv_housekeeping_run(&worker->sessions.housekeeping, worker->server,
                             &worker->sessions.work);
    } else if (done) {
        wake_housekeeper(worker);
    }
    if (done)
        worker->idle_ns = 0;
    else if (!worker->idle_ns)
        worker->idle_ns = worker->now_ns;
    return done;
}

/* ---- the loop ---- */

static int shorter(int a_ms, int b_ms)
{
    return a_ms < 0 || (b_ms >= 0 && b_ms < a_ms) ? b_ms : a_ms;
}

/* How long there is nothing to do but for events; -1: for ever. */
static int sleep_ms(struct okv_worker *worker, int longest)
{
    if (worker->sessions.is_held_up)
        longest = shorter(longest, HELD_UP_MS);
    if (!TAILQ_EMPTY(&worker->sessions.all)) {
        longest = shorter(longest, okv_clock_ms_until(worker->scan_ns));
        longest = shorter(longest, okv_clock_ms_until(worker->tick_ns));
    }
    return longest;
}

static void sleep_for(struct okv_worker *worker, struct pollfd *fds, nfds_t count, int timeout_ms)
{
    struct okv_server *server = worker->server;

    if (!is_housekeeper(worker)) {
        poll(fds, count, timeout_ms);
        return;
    }
    atomic_store(&server->housekeeper_rests, true);
    atomic_thread_fence(memory_order_seq_cst);
    if (okv_housekeeping_is_due(server))
        atomic_store(&server->housekeeper_rests, false);
    poll(fds, count, okv_housekeeping_sleep_ms(server, timeout_ms));
    atomic_store(&server->housekeeper_rests, false);
}

static void sleep_until_event(struct okv_worker *worker, int timeout_ms)
{
    struct pollfd fds[OKV_LISTENERS_MAX + 1];
    unsigned count = worker->server->listener_count;

    for (unsigned i = 0; i < count; i++) {
        struct okv_endpoint *endpoint = worker->endpoints[i];
        int rc = endpoint->ops->arm(endpoint);
        if (rc)
            okv_server_fail(worker->server, i, rc);
        fds[i] = (struct pollfd){.fd = endpoint->fd, .events = POLLIN};
    }
    fds[count] = (struct pollfd){.fd = worker->wake_fd, .events = POLLIN};
    if (pass(worker) > 0)
        return;
    OKV_STATS_ADD(&worker->server->stats, sleeps, 1);
    sleep_for(worker, fds, count + 1, sleep_ms(worker, timeout_ms));
    if (fds[count].revents) {
        eventfd_t value;
        eventfd_read(worker->wake_fd, &value);
    }
}

/* Serves what is there; when there is nothing, spins for a while, then sleeps. */
static void progress(struct okv_worker *worker, int longest_sleep_ms)
{
    uint64_t spin_ns = (uint64_t)worker->server->config.spin_us * 1000u;

    if (pass(worker) > 0)
        return;
    if (worker->now_ns - worker->idle_ns < spin_ns)
        sched_yield();
    else
        sleep_until_event(worker, longest_sleep_ms);
}

/* ---- the end ---- */

/* Clients that were let in, whether the worker has met them yet or not. */
static unsigned count_clients(struct okv_worker *worker)
{
    unsigned clients = 0;

    for (unsigned i = 0; i < worker->server->listener_count; i++)
        clients += atomic_load(&worker->sessions.clients[i]);
    return clients;
}

static void say_goodbye(struct okv_worker *worker)
{
    struct okv_session *session;

    TAILQ_FOREACH(session, &worker->sessions.all, in_all)
    okv_session_say_goodbye(&worker->sessions, session);
}

/* Requests go on being served: what was sent before the client knew is answered. */
static void drain(struct okv_worker *worker, uint64_t until)
{
    while (count_clients(worker) > 0 && okv_clock_ns() < until) {
        say_goodbye(worker);
        progress(worker, DRAIN_MS);
    }
}

static bool have_all_settled(const struct okv_worker *worker)
{
    const struct okv_session *session;

    TAILQ_FOREACH(session, &worker->sessions.all, in_all)
    if (!okv_session_has_settled(session))
        return false;
    return true;
}

static bool has_met_all(struct okv_worker *worker)
{
    const struct okv_session *session;
    unsigned met = 0;

    TAILQ_FOREACH(session, &worker->sessions.all, in_all)
    met++;
    return met >= count_clients(worker);
}

/* What clients are owed and the goodbye leave before the connections are closed. */
static void settle(struct okv_worker *worker)
{
    uint64_t until = okv_clock_ns() + SETTLE_NS;

    if (count_clients(worker) == 0)
        return;
    do {
        progress(worker, DRAIN_MS);
        say_goodbye(worker);
    } while (!(has_met_all(worker) && have_all_settled(worker)) && okv_clock_ns() < until);
}

static void end_all(struct okv_worker *worker)
{
    struct okv_session *session;

    while (count_clients(worker) > 0 && okv_clock_ns() < worker->end_ns) {
        TAILQ_FOREACH(session, &worker->sessions.all, in_all)
        okv_session_end(&worker->sessions, session, OKV_SESSION_END_STOPPING);
        progress(worker, DRAIN_MS);
    }
}

static void *serve_all(void *user)
{
    struct okv_worker *worker = user;
    struct okv_server *server = worker->server;

    while (!atomic_load(&server->stopping))
        progress(worker, -1);
    bool has_failed = atomic_load(&server->failure) != 0;
    uint64_t drain_ns = has_failed ? 0 : (uint64_t)server->config.drain_ms * 1000000u;
    uint64_t until = okv_clock_ns() + drain_ns;
    worker->end_ns = until + CLOSING_NS;
    drain(worker, until);
    if (!has_failed)
        settle(worker);
    end_all(worker);
    return NULL;
}

/* ---- making and unmaking ---- */

static void destroy_endpoints(struct okv_worker *worker)
{
    for (unsigned i = 0; i < OKV_LISTENERS_MAX; i++)
        if (worker->endpoints[i])
            worker->endpoints[i]->ops->endpoint_destroy(worker->endpoints[i]);
}

/* The acceptor gives each client to the worker that has the fewest of its listener, so that
 * none ever has more than its part of them, and of those that are replaced. */
static int create_endpoints(struct okv_worker *worker, struct okv_diag *diag)
{
    struct okv_server *server = worker->server;
    const struct okv_config *config = &server->config;
    unsigned clients = (config->max_clients + config->workers - 1) / config->workers + SPARE_CONNS;

    for (unsigned i = 0; i < server->listener_count; i++) {
        struct okv_listener *listener = server->listeners[i];
        int rc = listener->ops->endpoint_create(listener, &server->limits, clients,
                                                &worker->endpoints[i], diag);
        if (rc) {
            worker->endpoints[i] = NULL;
            destroy_endpoints(worker);
            return rc;
        }
    }
    return 0;
}

int okv_worker_init(struct okv_worker *worker, struct okv_server *server, struct okv_diag *diag)
{
    *worker = (struct okv_worker){.server = server};
    int rc = okv_sessions_init(&worker->sessions, server);

    if (rc)
        return okv_diag_set(diag, rc, "no memory for a worker");
    worker->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->wake_fd < 0) {
        rc = okv_diag_set(diag, OKV_EIO,
                          "no descriptor for a worker: raise the limit on open "
                          "files (ulimit -n)");
        goto fini_sessions;
    }
    rc = create_endpoints(worker, diag);
    if (rc)
        goto close_wake;
    return 0;
close_wake:
    close(worker->wake_fd);
fini_sessions:
    okv_sessions_fini(&worker->sessions);
    return rc;
}

/* Its thread has closed what it had, unless the process stood still: there is left who was let in
 * at the very end. */
void okv_worker_fini(struct okv_worker *worker)
{
    uint64_t until = okv_clock_ns() + LATE_NS;

    worker->end_ns = worker->end_ns > until ? worker->end_ns : until;
    end_all(worker);
    destroy_endpoints(worker);
    close(worker->wake_fd);
    okv_sessions_fini(&worker->sessions);
}

int okv_worker_start(struct okv_worker *worker)
{
    return pthread_create(&worker->thread, NULL, serve_all, worker) ? OKV_ENOMEM : 0;
}

void okv_worker_join(struct okv_worker *worker)
{
    okv_worker_wake(worker);
    pthread_join(worker->thread, NULL);
}

void okv_worker_wake(struct okv_worker *worker)
{
    eventfd_write(worker->wake_fd, 1);
}

void okv_worker_end_replaced(struct okv_worker *worker)
{
    atomic_store(&worker->has_replaced, true);
    okv_worker_wake(worker);
}
