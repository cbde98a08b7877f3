#include "server/worker.h"

#include <poll.h>
#include <sched.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/apply.h"
#include "shared/clock.h"
#include "shared/error.h"

#define EVENTS_PER_PASS 32
#define GOODBYE_NS UINT64_C(200000000)
/* What connections get to end after they were closed. */
#define CLOSING_NS UINT64_C(2000000000)

/* ---- sessions ---- */

static void session_link(struct okv_worker *worker, struct okv_session *session)
{
    session->previous = NULL;
    session->next = worker->sessions;
    if (session->next)
        session->next->previous = session;
    worker->sessions = session;
}

static void session_unlink(struct okv_worker *worker, struct okv_session *session)
{
    if (session->previous)
        session->previous->next = session->next;
    else
        worker->sessions = session->next;
    if (session->next)
        session->next->previous = session->previous;
}

static void session_opened(struct okv_worker *worker, struct okv_conn *conn)
{
    struct okv_session *session = conn->user;

    session->conn = conn;
    session_link(worker, session);
    OKV_STATS_ADD(&worker->server->stats, sessions_total, 1);
    OKV_STATS_ADD(&worker->server->stats, sessions, 1);
}

static void count_end(struct okv_stats *stats, int status)
{
    switch (status) {
    case OKV_EDISCONNECTED:
        OKV_STATS_ADD(stats, closed_by_peer, 1);
        break;
    case OKV_EPROTO:
        OKV_STATS_ADD(stats, closed_malformed, 1);
        break;
    default:
        OKV_STATS_ADD(stats, closed_failed, 1);
        break;
    }
}

static void session_closed(struct okv_worker *worker, struct okv_session *session, int status)
{
    struct okv_server *server = worker->server;
    struct okv_conn *conn = session->conn;
    const struct okv_event *waiting;

    while ((waiting = okv_session_oldest(session))) {
        conn->ops->recv_release(conn->endpoint, waiting);
        okv_session_drop_oldest(session);
    }
    if (!session->closing)
        count_end(&server->stats, status);
    session_unlink(worker, session);
    OKV_STATS_ADD(&server->stats, sessions, (uint_fast64_t)-1);
    conn->ops->conn_destroy(conn);
    /* Only now: until then the endpoint still counts it, and its place is not free. */
    atomic_fetch_sub(&server->clients[session->listener], 1);
    okv_session_destroy(session);
}

static void session_end(struct okv_session *session)
{
    if (!session->closing)
        session->conn->ops->close(session->conn);
    session->closing = true;
}

/* ---- requests ---- */

static void post_reply(struct okv_worker *worker, struct okv_session *session,
                       const struct okv_reply_message *reply, uint8_t *out)
{
    struct okv_conn *conn = session->conn;
    uint32_t length = okv_reply_encode(reply, out);

    OKV_STATS_ADD(&worker->server->stats, bytes_out, length);
    /* A connection that fails here reports itself by its CLOSED event. */
    conn->ops->post_send(conn, length,
                         OKV_IMMEDIATE_REPLY | okv_immediate(reply->opcode, reply->slot));
    conn->ops->flush(conn);
}

/* Begins the request's pull or applies it to `reply`. OKV_EAGAIN: no place for the pull.
 * OKV_EPROTO: the request makes no sense. *later: it is answered when its pull has ended. */
static int perform(struct okv_worker *worker, struct okv_session *session,
                   const struct okv_request_message *request, uint8_t *out,
                   struct okv_reply_message *reply, bool *later)
{
    struct okv_server *server = worker->server;

    /* Not the time at which a long pass began: the sender may have seen what expired since. */
    okv_housekeeping_tell_time(&worker->housekeeping, server);
    if (!(request->flags & OKV_REQUEST_PULL))
        return okv_apply(server, &worker->work, request, reply, out + OKV_REPLY_HEADER,
                         server->limits.slot_size - (uint32_t)OKV_REPLY_HEADER);
    reply->status = okv_session_pull_begin(session, server, &worker->work, request);
    *later = reply->status == OKV_OK;
    return reply->status == OKV_EAGAIN ? OKV_EAGAIN : 0;
}

/* Applies one request and answers it, or begins its pull. OKV_EAGAIN: no send buffer or
 * no place for the pull, and nothing was done. */
static int serve(struct okv_worker *worker, struct okv_session *session,
                 const struct okv_event *event)
{
    struct okv_stats *stats = &worker->server->stats;
    struct okv_request_message request = {.opcode = 0};
    bool later = false;
    uint8_t *out = session->conn->ops->send_buffer(session->conn);

    if (!out)
        return OKV_EAGAIN;
    int rc = okv_request_decode(event->immediate, event->data, event->length, &request);
    struct okv_reply_message reply = {
        .opcode = request.opcode, .slot = request.slot, .sequence = request.sequence};
    if (rc == OKV_EUNSUPPORTED) {
        OKV_STATS_ADD(stats, unsupported, 1);
        reply.status = rc;
        rc = 0;
    } else if (rc == 0) {
        rc = perform(worker, session, &request, out, &reply, &later);
    }
    if (rc == OKV_EAGAIN)
        return rc;
    if (rc) {
        OKV_STATS_ADD(stats, closed_malformed, 1);
        session_end(session);
        return rc;
    }
    OKV_STATS_ADD(stats, bytes_in, event->length);
    if (!later)
        post_reply(worker, session, &reply, out);
    return 0;
}

static void answer_pulls(struct okv_worker *worker, struct okv_session *session)
{
    struct okv_conn *conn = session->conn;
    struct okv_session_pull *pull;
    uint8_t *out;

    while (!session->closing && (pull = okv_session_pull_ended(session)) &&
           (out = conn->ops->send_buffer(conn))) {
        post_reply(worker, session, &pull->reply, out);
        okv_session_pull_free(session, pull);
    }
}

static void serve_deferred(struct okv_worker *worker, struct okv_session *session)
{
    const struct okv_event *request;

    while (!session->closing && (request = okv_session_oldest(session)) &&
           serve(worker, session, request) != OKV_EAGAIN) {
        session->conn->ops->recv_release(session->conn->endpoint, request);
        okv_session_drop_oldest(session);
    }
}

/* Returns true when the request was kept, with its receive buffer. */
static bool receive(struct okv_worker *worker, struct okv_session *session,
                    const struct okv_event *request)
{
    struct okv_stats *stats = &worker->server->stats;

    if (session->closing)
        return false;
    if (!request->has_immediate) {
        OKV_STATS_ADD(stats, closed_no_immediate, 1);
        session_end(session);
        return false;
    }
    if (okv_session_is_full(session)) {
        OKV_STATS_ADD(stats, closed_credit, 1);
        session_end(session);
        return false;
    }
    if (!okv_session_oldest(session) && serve(worker, session, request) != OKV_EAGAIN)
        return false;
    okv_session_defer(session, request);
    OKV_STATS_ADD(stats, deferred, 1);
    return true;
}

/* ---- the loop ---- */

static void handle(struct okv_worker *worker, const struct okv_event *event)
{
    struct okv_session *session = event->conn->user;

    switch (event->type) {
    case OKV_EVENT_OPENED:
        session_opened(worker, event->conn);
        break;
    case OKV_EVENT_RECV:
        if (!receive(worker, session, event))
            event->conn->ops->recv_release(event->conn->endpoint, event);
        break;
    case OKV_EVENT_CLOSED:
        session_closed(worker, session, event->status);
        break;
    case OKV_EVENT_PULLED:
        okv_housekeeping_tell_time(&worker->housekeeping, worker->server);
        okv_session_pull_end(session, worker->server, &worker->work, event);
        break;
    case OKV_EVENT_READ:
        break;
    }
}

/* One pass over all endpoints; returns the number of events. */
static int pass(struct okv_worker *worker)
{
    struct okv_server *server = worker->server;
    struct okv_event events[EVENTS_PER_PASS];
    int total = 0;

    for (unsigned i = 0; i < server->listener_count; i++) {
        struct okv_endpoint *endpoint = server->endpoints[i];
        int n = endpoint->ops->poll(endpoint, events, EVENTS_PER_PASS);
        if (n < 0)
            okv_server_fail(server, i, n);
        for (int k = 0; k < n; k++)
            handle(worker, &events[k]);
        total += n > 0 ? n : 0;
    }
    for (struct okv_session *session = worker->sessions; session; session = session->next) {
        answer_pulls(worker, session);
        if (session->deferred_count)
            serve_deferred(worker, session);
    }
    okv_housekeeping_tell_time(&worker->housekeeping, server);
    okv_housekeeping_run(&worker->housekeeping, server, &worker->work);
    return total;
}

static void sleep_until_event(struct okv_worker *worker, int timeout_ms)
{
    struct okv_server *server = worker->server;
    struct pollfd fds[OKV_LISTENERS_MAX + 1];
    unsigned count = server->listener_count;

    for (unsigned i = 0; i < count; i++) {
        struct okv_endpoint *endpoint = server->endpoints[i];
        endpoint->ops->arm(endpoint);
        fds[i] = (struct pollfd){.fd = endpoint->fd, .events = POLLIN};
    }
    fds[count] = (struct pollfd){.fd = worker->stop_fd, .events = POLLIN};
    if (pass(worker) > 0)
        return;
    OKV_STATS_ADD(&server->stats, sleeps, 1);
    poll(fds, count + 1, okv_housekeeping_sleep_ms(server, timeout_ms));
    if (fds[count].revents) {
        eventfd_t value;
        eventfd_read(worker->stop_fd, &value);
    }
}

/* Serves what is there; when there is nothing, spins for a while, then sleeps. */
static void turn(struct okv_worker *worker, int sleep_ms)
{
    uint64_t spin_ns = (uint64_t)worker->server->config.spin_us * 1000u;

    if (pass(worker) > 0) {
        worker->busy_ns = okv_clock_ns();
        return;
    }
    if (okv_clock_ns() - worker->busy_ns < spin_ns)
        sched_yield();
    else
        sleep_until_event(worker, sleep_ms);
}

static void say_goodbye(struct okv_session *session)
{
    const struct okv_reply_message goodbye = {.status = OKV_ESHUTDOWN};
    struct okv_conn *conn = session->conn;
    uint8_t *out = conn->ops->send_buffer(conn);

    if (!out || session->closing)
        return;
    session->said_goodbye = true;
    conn->ops->post_send(conn, okv_reply_encode(&goodbye, out),
                         OKV_IMMEDIATE_REPLY | okv_immediate(OKV_OP_GOODBYE, 0));
    conn->ops->flush(conn);
}

/* Clients that were let in, whether the worker has met them yet or not. */
static bool has_clients(struct okv_server *server)
{
    for (unsigned i = 0; i < server->listener_count; i++)
        if (atomic_load(&server->clients[i]) > 0)
            return true;
    return false;
}

static void end_all(struct okv_worker *worker)
{
    uint64_t until = okv_clock_ns() + CLOSING_NS;

    while (has_clients(worker->server) && okv_clock_ns() < until) {
        for (struct okv_session *session = worker->sessions; session; session = session->next)
            session_end(session);
        turn(worker, 10);
    }
}

static void *serve_all(void *user)
{
    struct okv_worker *worker = user;
    struct okv_server *server = worker->server;

    while (!atomic_load(&server->stopping))
        turn(worker, -1);

    uint64_t until = okv_clock_ns() + GOODBYE_NS;
    while (has_clients(server) && okv_clock_ns() < until) {
        for (struct okv_session *session = worker->sessions; session; session = session->next)
            if (!session->said_goodbye)
                say_goodbye(session);
        turn(worker, 10);
    }
    end_all(worker);
    return NULL;
}

int okv_worker_start(struct okv_worker *worker, struct okv_server *server)
{
    *worker = (struct okv_worker){.server = server};
    int rc = okv_store_work_init(&worker->work, server->store.table.bucket_size);

    if (rc)
        return rc;
    worker->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (worker->stop_fd < 0) {
        rc = OKV_EIO;
        goto fini_work;
    }
    if (pthread_create(&worker->thread, NULL, serve_all, worker)) {
        rc = OKV_ENOMEM;
        goto close_stop;
    }
    return 0;
close_stop:
    close(worker->stop_fd);
fini_work:
    okv_store_work_fini(&worker->work);
    return rc;
}

void okv_worker_stop(struct okv_worker *worker)
{
    eventfd_write(worker->stop_fd, 1);
    pthread_join(worker->thread, NULL);
}

void okv_worker_fini(struct okv_worker *worker)
{
    end_all(worker);
    close(worker->stop_fd);
    okv_store_work_fini(&worker->work);
}
