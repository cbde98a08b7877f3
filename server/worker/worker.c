#include "server/worker/worker.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/core/processors.h"
#include "server/resp/resp.h"
#include "server/resp/run/client.h"
#include "server/session/admit.h"
#include "server/session/closing.h"
#include "server/session/lifecycle.h"
#include "server/session/long_work.h"
#include "server/session/peer.h"
#include "server/session/sessions.h"
#include "server/worker/endpoints.h"
#include "server/worker/shutdown.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/thread.h"

/* More than a pass serves: requests wait in their sessions, where databases take turns, and not
 * behind each other in a queue of the device. */
#define EVENTS_PER_PASS 256
/* How many times as long as --spin-us a worker polls while replies wait for the log. */
#define SPINS_FOR_BATCH 10u
/* Retry interval of a write that waits for another connection, for memory, or for a command that
 * runs alone. */
#define HELD_UP_MS 1

static void handle(struct okv_worker *worker, const struct okv_event *event)
{
    struct okv_session *session = event->conn->user;

    switch (event->type) {
    case OKV_EVENT_OPENED:
        okv_session_opened(worker->sessions, event->conn);
        break;
    case OKV_EVENT_RECV:
        if (!okv_session_receive(worker->sessions, session, event))
            event->conn->ops->recv_release(event->conn->endpoint, event);
        break;
    case OKV_EVENT_CLOSED:
        okv_session_closed(worker->sessions, session, event->status);
        break;
    case OKV_EVENT_RENDEZVOUS_DONE:
        okv_session_rendezvous_done(worker->sessions, session, event);
        break;
    case OKV_EVENT_READ:
        break;
    }
}

/* ---- a pass ---- */

static unsigned poll_endpoints(struct okv_worker *worker)
{
    struct okv_event events[EVENTS_PER_PASS];
    unsigned total = 0;

    for (unsigned i = 0; i < worker->server->listener_count; i++) {
        struct okv_endpoint *endpoint = okv_endpoints_find(worker, i);
        if (!endpoint)
            continue;
        int n = endpoint->ops->poll(endpoint, events, EVENTS_PER_PASS);
        if (n < 0)
            okv_server_fail(worker->server, i, n);
        /* Read the clock after the messages came. Their senders may already know of items that
         * expired since the pass began. */
        if (n > 0)
            okv_housekeeping_update_clock(&worker->sessions->housekeeping, worker->server);
        for (int k = 0; k < n; k++)
            handle(worker, &events[k]);
        total += n > 0 ? (unsigned)n : endpoint->is_copying;
        /* A transport that works off much else in a poll returns fewer than it has. */
        worker->has_more = worker->has_more || n >= EVENTS_PER_PASS / 2;
    }
    return total;
}

/* *is_late: at least a whole interval has passed since then; the thread did not run. */
static bool is_due(uint64_t *at_ns, uint64_t now_ns, uint64_t interval_ns, bool *is_late)
{
    if (now_ns < *at_ns)
        return false;
    *is_late = now_ns - *at_ns >= interval_ns;
    *at_ns = now_ns + interval_ns;
    return true;
}

/* A session waits until its client has been told why it ends. */
static void look_again(struct okv_worker *worker)
{
    atomic_store(&worker->signal->has_unwanted[OKV_CLIENT_NATIVE], true);
    worker->sessions->is_held_up = true;
}

/* A scan that runs late does not count idle intervals: the worker was stalled, not the client. Nor
 * does one with more events to come: a session's request may be among them. */
static void scan_sessions(struct okv_worker *worker)
{
    uint64_t now_ns = worker->sessions->now_ns;
    bool is_late = false, ignored;
    bool is_scan = is_due(&worker->scan_ns, now_ns, okv_sessions_scan_ns(worker->server), &is_late);
    bool is_tick = is_due(&worker->tick_ns, now_ns, okv_sessions_tick_ns(worker->server), &ignored);
    atomic_bool *unwanted = &worker->signal->has_unwanted[OKV_CLIENT_NATIVE];
    bool has_unwanted = atomic_load(unwanted) && atomic_exchange(unwanted, false);
    struct okv_session *session;

    if (!is_scan && !is_tick && !has_unwanted)
        return;
    if (is_scan && !is_late)
        okv_resp_scan(worker->resp, now_ns, !worker->has_more);
    TAILQ_FOREACH(session, &worker->sessions->all, in_all)
    {
        okv_session_end_unwanted(worker->sessions, session);
        if (okv_session_is_leaving(session))
            look_again(worker);
        if (is_scan && !is_late)
            okv_session_count_idle(worker->sessions, session, !worker->has_more);
        if (is_scan && !is_late)
            okv_session_count_half_open(worker->sessions, session);
        if (is_tick)
            okv_session_tick(worker->sessions, session);
    }
}

static bool is_housekeeper(const struct okv_worker *worker)
{
    return okv_worker_index(worker) == 0;
}

/* Pairs with sleep_for(). The housekeeper stores that it sleeps, then checks for work; we stored
 * work, then check whether it sleeps. The seq_cst fences ensure that one sees the other. */
static void wake_housekeeper(struct okv_worker *worker)
{
    struct okv_server *server = worker->server;

    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&server->housekeeper_sleeps) && okv_housekeeping_is_due(server))
        okv_server_wake(server, 0);
}

static void flush_sessions(struct okv_worker *worker)
{
    struct okv_session *session;

    while ((session = TAILQ_FIRST(&worker->sessions->unflushed)))
        okv_sessions_flush(worker->sessions, session);
}

/* Serves what has come. Returns 0 when nothing had. */
static unsigned pass(struct okv_worker *worker)
{
    atomic_fetch_add_explicit(&worker->passes, 1, memory_order_relaxed);
    okv_sessions_begin_pass(worker->sessions);
    worker->sessions->now_ns = okv_clock_ns();
    worker->has_more = false;
    unsigned done = poll_endpoints(worker);
    done += okv_sessions_answer_committed(worker->sessions);
    done += okv_sessions_answer_peers(worker->sessions, okv_worker_index(worker));
    done += okv_sessions_run_ready(worker->sessions);
    flush_sessions(worker); /* replies do not wait for what RESP clients ask for */
    done += okv_resp_poll(worker->resp, &worker->sessions->is_held_up);
    scan_sessions(worker);
    flush_sessions(worker);
    if (is_housekeeper(worker)) {
        if (!done)
            okv_housekeeping_update_clock(&worker->sessions->housekeeping, worker->server);
        okv_housekeeping_run(&worker->sessions->housekeeping, worker->server,
                             worker->sessions->works);
    } else if (done) {
        wake_housekeeper(worker);
    }
    /* Last: the replies of this pass have left. */
    done += okv_long_work_run(worker->sessions);
    done += okv_sessions_made_room(worker->sessions);
    if (done)
        worker->idle_ns = 0;
    else if (!worker->idle_ns)
        worker->idle_ns = worker->sessions->now_ns;
    return done;
}

/* ---- the loop ---- */

/* Time in ms, at most `longest`, until something other than an event is due; -1: no limit. */
static int sleep_ms(struct okv_worker *worker, int longest)
{
    if (worker->sessions->is_held_up)
        longest = okv_clock_sooner_ms(longest, HELD_UP_MS);
    if (!TAILQ_EMPTY(&worker->sessions->all) || !TAILQ_EMPTY(&worker->resp->all)) {
        longest = okv_clock_sooner_ms(longest, okv_clock_ms_until(worker->scan_ns));
        longest = okv_clock_sooner_ms(longest, okv_clock_ms_until(worker->tick_ns));
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
    atomic_store(&server->housekeeper_sleeps, true);
    atomic_thread_fence(memory_order_seq_cst);
    if (okv_housekeeping_is_due(server))
        atomic_store(&server->housekeeper_sleeps, false);
    poll(fds, count, okv_housekeeping_sleep_ms(server, timeout_ms));
    atomic_store(&server->housekeeper_sleeps, false);
}

/* Whether an endpoint ended the sleep. It need not have an event: a transport may serve a READ and
 * tell nobody. The next READ comes soon after it, as the next request does. */
static bool has_woken(const struct pollfd *fds, unsigned endpoints)
{
    for (unsigned i = 0; i < endpoints; i++)
        if (fds[i].revents)
            return true;
    return false;
}

static void sleep_until_event(struct okv_worker *worker, int timeout_ms)
{
    struct pollfd fds[OKV_LISTENERS_MAX + 2];
    unsigned count = worker->server->listener_count;

    for (unsigned i = 0; i < count; i++) {
        struct okv_endpoint *endpoint = worker->endpoints[i];
        int rc = endpoint ? endpoint->ops->arm(endpoint) : 0;
        if (rc)
            okv_server_fail(worker->server, i, rc);
        fds[i] = (struct pollfd){.fd = endpoint ? endpoint->fd : -1, .events = POLLIN};
    }
    fds[count++] = (struct pollfd){.fd = worker->resp->epoll_fd, .events = POLLIN};
    fds[count] = (struct pollfd){.fd = worker->signal->fd, .events = POLLIN};
    if (pass(worker) > 0)
        return;
    OKV_STATS_ADD(&worker->server->stats, sleeps, 1);
    sleep_for(worker, fds, count + 1, sleep_ms(worker, timeout_ms));
    if (has_woken(fds, count))
        worker->idle_ns = 0;
    if (fds[count].revents) {
        eventfd_t value;
        eventfd_read(worker->signal->fd, &value);
    }
}

/* A batch of the log ends soon, and its replies are due then. Asleep, the worker would have to be
 * woken twice for each batch: by the log, and by the clients that go on. */
static uint64_t spin_ns(const struct okv_worker *worker)
{
    uint64_t ns = (uint64_t)worker->server->config.spin_us * 1000u;

    bool holds =
        !TAILQ_EMPTY(&worker->sessions->committing) || !TAILQ_EMPTY(&worker->resp->deferred);

    return holds ? SPINS_FOR_BATCH * ns : ns;
}

/* Serves what has come. When nothing has, polls for a while, then sleeps. */
static void progress(struct okv_worker *worker, int longest_sleep_ms)
{
    if (pass(worker) > 0)
        return;
    if (worker->sessions->now_ns - worker->idle_ns < spin_ns(worker))
        sched_yield();
    else
        sleep_until_event(worker, longest_sleep_ms);
}

static void progress_of(void *worker, int longest_sleep_ms)
{
    progress(worker, longest_sleep_ms);
}

static struct okv_shutdown shutdown_of(struct okv_worker *worker)
{
    return (struct okv_shutdown){
        .sessions = worker->sessions, .progress = progress_of, .worker = worker};
}

static void *serve_all(void *user)
{
    struct okv_worker *worker = user;
    const struct okv_server *server = worker->server;

    okv_processors_take(&server->config.worker_cpus, okv_worker_index(worker));
    while (!atomic_load(&server->stopping))
        progress(worker, -1);
    okv_resp_end_all(worker->resp);
    const struct okv_shutdown shutdown = shutdown_of(worker);
    worker->end_ns = okv_shutdown_run(&shutdown);
    return NULL;
}

/* ---- creation and destruction ---- */

static int no_descriptor(struct okv_diag *diag)
{
    return okv_diag_set(diag, OKV_EIO,
                        "no descriptor for a worker: raise the limit on open files (ulimit -n)");
}

static int create_clients(struct okv_worker *worker, struct okv_diag *diag)
{
    struct okv_sessions *sessions = worker->sessions;
    int rc = okv_sessions_init(sessions, worker->server);

    if (rc)
        return okv_diag_set(diag, rc, "no memory for a worker");
    if (okv_resp_init(worker->resp, worker->server, okv_worker_index(worker), sessions->executors,
                      &sessions->housekeeping)) {
        okv_sessions_fini(sessions);
        return no_descriptor(diag);
    }
    return 0;
}

static void destroy_clients(struct okv_worker *worker)
{
    okv_resp_fini(worker->resp);
    okv_sessions_fini(worker->sessions);
}

int okv_worker_init(struct okv_worker *worker, struct okv_server *server, struct okv_diag *diag)
{
    *worker = (struct okv_worker){.server = server,
                                  .sessions = calloc(1, sizeof *worker->sessions),
                                  .resp = calloc(1, sizeof *worker->resp)};
    worker->signal = &server->worker_signals[okv_worker_index(worker)];
    int rc = worker->sessions && worker->resp
                 ? 0
                 : okv_diag_set(diag, OKV_ENOMEM, "no memory for a worker");

    if (rc)
        goto free_clients;
    worker->signal->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->signal->fd < 0) {
        rc = no_descriptor(diag);
        goto free_clients;
    }
    rc = create_clients(worker, diag);
    if (rc)
        goto close_wake;
    rc = okv_endpoints_create(worker, diag);
    if (rc)
        goto destroy_clients;
    return 0;
destroy_clients:
    destroy_clients(worker);
close_wake:
    close(worker->signal->fd);
free_clients:
    free(worker->resp);
    free(worker->sessions);
    return rc;
}

/* The thread has ended its sessions. The acceptor may have let clients in after that. */
void okv_worker_fini(struct okv_worker *worker)
{
    const struct okv_shutdown shutdown = shutdown_of(worker);

    okv_endpoints_take(worker);
    okv_shutdown_end_late(&shutdown, worker->end_ns);
    okv_endpoints_destroy(worker);
    destroy_clients(worker);
    close(worker->signal->fd);
    free(worker->resp);
    free(worker->sessions);
}

int okv_worker_start(struct okv_worker *worker, struct okv_diag *why)
{
    return okv_thread_start(&worker->thread, serve_all, worker, why);
}

void okv_worker_join(struct okv_worker *worker)
{
    okv_server_wake(worker->server, okv_worker_index(worker));
    pthread_join(worker->thread, NULL);
}

bool okv_workers_go_on(struct okv_server *server)
{
    bool go_on = true;

    for (unsigned i = 0; i < server->config.workers; i++) {
        struct okv_worker *worker = &server->workers[i];
        unsigned passes = atomic_load(&worker->passes);
        go_on = go_on && passes != worker->passes_seen;
        worker->passes_seen = passes;
        okv_server_wake(server, i);
    }
    return go_on;
}
