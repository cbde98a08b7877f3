#include "server/resp/resp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/net/buffer_pool.h"
#include "server/resp/net/serve.h"
#include "server/resp/net/transfer.h"
#include "server/resp/run/call_stats.h"
#include "server/resp/run/client_list.h"
#include "server/resp/run/login.h"
#include "server/resp/run/pages.h"
#include "server/resp/script/engine.h"
#include "server/wal/wal.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Events that are taken before sessions are served again. */
#define EVENTS_PER_PASS 16

/* ---- replies that wait for the log ---- */

static void end_committed(struct okv_resp *resp)
{
    struct okv_resp_client *client, *next;
    int status;

    for (client = TAILQ_FIRST(&resp->deferred); client; client = next) {
        struct okv_wal *wal = resp->server->databases[client->commit.database].wal;
        next = TAILQ_NEXT(client, in_deferred);
        if (!okv_wal_is_committed(wal, client->commit.batch, &status))
            continue;
        if (status)
            okv_resp_fail_deferred(client);
        okv_resp_release(client);
        okv_resp_make_ready(client);
    }
}

/* ---- a pass ---- */

static void greet(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

    client->events = EPOLLIN;
    client->common.created_ns = client->unauthenticated_ns = client->progress_ns = okv_clock_ns();
    atomic_store(&client->common.active_ns, client->common.created_ns);
    atomic_store(&client->queued, -1);
    if (resp->server->copies)
        client->common.epoch = atomic_load(&resp->server->role_changes) + 1;
    TAILQ_INSERT_TAIL(&resp->all, client, in_all);
    okv_client_table_add(resp->server->clients, &client->common, false);
    OKV_STATS_ADD(&resp->server->stats, resp_clients, 1);
    OKV_STATS_ADD(&resp->server->stats, resp_clients_total, 1);
    okv_resp_login_begin(client);
    if (epoll_ctl(resp->epoll_fd, EPOLL_CTL_ADD, client->stream.fd, &event))
        okv_resp_client_close(client);
}

static struct okv_resp_client *next_of_inbox(struct okv_resp *resp)
{
    pthread_mutex_lock(&resp->lock);
    struct okv_resp_client *client = TAILQ_FIRST(&resp->inbox);
    if (client)
        TAILQ_REMOVE(&resp->inbox, client, in_all);
    atomic_store(&resp->has_inbox, !TAILQ_EMPTY(&resp->inbox));
    pthread_mutex_unlock(&resp->lock);
    return client;
}

static unsigned empty_inbox(struct okv_resp *resp)
{
    struct okv_resp_client *client;
    unsigned count = 0;

    while (atomic_load(&resp->has_inbox) && (client = next_of_inbox(resp))) {
        greet(client);
        count++;
    }
    return count;
}

/* Closes clients that were killed, or whose users have no rights any more. */
static void end_terminated(struct okv_resp *resp)
{
    atomic_bool *has_unwanted =
        &resp->server->worker_signals[resp->worker].has_unwanted[OKV_CLIENT_RESP];
    struct okv_resp_client *client, *next;

    if (!atomic_load(has_unwanted) || !atomic_exchange(has_unwanted, false))
        return;
    for (client = TAILQ_FIRST(&resp->all); client; client = next) {
        next = TAILQ_NEXT(client, in_all);
        if (atomic_load(&client->common.is_killed))
            OKV_STATS_ADD(&resp->server->stats, closed_killed, 1);
        else if (atomic_load(&client->common.is_deposed))
            OKV_STATS_ADD(&resp->server->stats, closed_deposed, 1);
        else if (!okv_resp_login_holds(client))
            OKV_STATS_ADD(&resp->server->stats, closed_revoked, 1);
        else
            continue;
        okv_resp_client_close(client);
    }
}

/* Serves clients of a database, each once, until the pass has had its work. Returns how many
 * requests ran. */
static unsigned run_database(struct okv_resp *resp, unsigned database, uint64_t *work)
{
    struct okv_resp_client_list *ready = &resp->ready[database];
    struct okv_resp_client *last = TAILQ_LAST(ready, okv_resp_client_list);
    struct okv_resp_client *client;
    unsigned count = 0;
    bool is_last = !last;

    while (!is_last && *work < OKV_TURN_WORK && (client = TAILQ_FIRST(ready))) {
        is_last = client == last;
        count += okv_resp_serve(client);
        *work += resp->turn.spent;
    }
    return count;
}

/* A step of it. Returns the work, with that of clients that were closed. */
static uint64_t empty_trash(struct okv_resp *resp)
{
    okv_turn_begin(&resp->turn);
    okv_resp_trash_empty(&resp->trash);
    okv_resp_spend_unmapped(resp);
    return resp->turn.spent;
}

/* A pass does the work of one turn, or of the last one that it begins, however many clients there
 * are: the others wait, and databases take turns. */
static unsigned run_ready(struct okv_resp *resp)
{
    unsigned databases = resp->server->database_count, count = 0;
    uint64_t work = empty_trash(resp);

    for (unsigned i = 0; i < databases && work < OKV_TURN_WORK; i++) {
        count += run_database(resp, resp->ready_next, &work);
        resp->ready_next = (resp->ready_next + 1) % databases;
    }
    return count;
}

/* Clients that can go on. The worker must not sleep before the next pass, unless they only wait for
 * something: *is_held_up. */
static unsigned count_ready(const struct okv_resp *resp, bool *is_held_up)
{
    const struct okv_resp_client *client;
    unsigned count = 0;

    for (unsigned i = 0; i < resp->server->database_count; i++)
        TAILQ_FOREACH(client, &resp->ready[i], in_ready)
        {
            bool is_blocked =
                (client->state == OKV_RESP_BLOCKED || client->is_held) && !client->has_input;
            *is_held_up = *is_held_up || is_blocked;
            count += !is_blocked;
        }
    return count;
}

unsigned okv_resp_poll(struct okv_resp *resp, bool *is_held_up)
{
    struct epoll_event events[EVENTS_PER_PASS];
    unsigned done = empty_inbox(resp);

    end_terminated(resp);
    end_committed(resp);
    int n =
        atomic_load(&resp->clients) ? epoll_wait(resp->epoll_fd, events, EVENTS_PER_PASS, 0) : 0;
    for (int i = 0; i < n; i++)
        okv_resp_on_event(events[i].data.ptr, events[i].events);
    done += run_ready(resp);
    done += resp->trash.first != NULL;
    if (resp->engine && okv_resp_engine_has_garbage(resp->engine)) {
        okv_resp_engine_collect(resp->engine);
        done++;
    }
    return done + count_ready(resp, is_held_up) + (n > 0 ? (unsigned)n : 0);
}

static bool is_past(uint64_t since_ns, uint64_t interval_ns, uint64_t now_ns)
{
    return now_ns > since_ns && now_ns - since_ns > interval_ns;
}

/* Whether the connection is to be closed; counts why. */
static bool is_over(struct okv_resp_client *client, uint64_t now_ns, bool is_quiet)
{
    struct okv_stats *stats = &client->resp->server->stats;
    uint64_t idle_ns = client->resp->server->config.idle_s * UINT64_C(1000000000);
    const uint64_t stalled_ns = OKV_RESP_STALLED_MS * UINT64_C(1000000);
    uint64_t hello_ns = okv_resp_hello_ns(client->resp->server);

    if (!client->is_authenticated && is_past(client->unauthenticated_ns, hello_ns, now_ns)) {
        OKV_STATS_ADD(stats, closed_half_open, 1);
        return true;
    }
    if (!is_quiet)
        return false;
    if (client->commit.batch || client->is_held ||
        (client->state != OKV_RESP_READING && client->is_ready)) {
        client->progress_ns = now_ns; /* it waits for the server */
        return false;
    }
    /* Waiting for memory is not a stall, unless this client holds much of it. */
    bool is_transferring = okv_resp_is_short_of_memory(client)
                               ? client->memory > OKV_RESP_SHORT_MAX || okv_resp_has_replies(client)
                               : okv_resp_is_transferring(client);
    bool is_stalled = is_transferring && is_past(client->progress_ns, stalled_ns, now_ns);
    bool is_idle = !is_transferring && idle_ns && is_past(client->progress_ns, idle_ns, now_ns);
    OKV_STATS_ADD(stats, closed_unresponsive, is_stalled);
    OKV_STATS_ADD(stats, closed_idle, is_idle);
    return is_stalled || is_idle;
}

void okv_resp_scan(struct okv_resp *resp, uint64_t now_ns, bool is_quiet)
{
    struct okv_resp_client *client, *next;

    for (client = TAILQ_FIRST(&resp->all); client; client = next) {
        next = TAILQ_NEXT(client, in_all);
        if (is_over(client, now_ns, is_quiet))
            okv_resp_client_close(client);
        else
            okv_resp_update_events(client); /* there may be memory again */
    }
}

/* ---- begin and end ---- */

int okv_resp_init(struct okv_resp *resp, struct okv_server *server, unsigned worker,
                  const struct okv_executor *executors, struct okv_housekeeping *housekeeping)
{
    *resp = (struct okv_resp){.server = server,
                              .shared = server->resp_shared,
                              .worker = worker,
                              .commands = &okv_resp_commands,
                              .executors = executors,
                              .housekeeping = housekeeping};
    TAILQ_INIT(&resp->inbox);
    TAILQ_INIT(&resp->all);
    for (unsigned i = 0; i < OKV_DATABASES_MAX; i++)
        TAILQ_INIT(&resp->ready[i]);
    TAILQ_INIT(&resp->deferred);
    if (getrandom(&resp->hash_seed, sizeof resp->hash_seed, 0) != sizeof resp->hash_seed)
        return OKV_EIO;
    int rc = okv_resp_call_stats_init(resp);
    if (rc)
        return rc;
    resp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (resp->epoll_fd < 0) {
        okv_resp_call_stats_fini(resp);
        return OKV_EIO;
    }
    pthread_mutex_init(&resp->lock, NULL);
    return 0;
}

void okv_resp_end_all(struct okv_resp *resp)
{
    struct okv_resp_client *client;

    empty_inbox(resp);
    while ((client = TAILQ_FIRST(&resp->all))) {
        okv_resp_send(client);
        okv_resp_client_close(client);
    }
}

void okv_resp_fini(struct okv_resp *resp)
{
    okv_resp_end_all(resp);
    okv_resp_buffer_fini(&resp->in);
    okv_resp_buffer_fini(&resp->out);
    okv_resp_memory_free(resp->args, resp->arg_capacity * sizeof *resp->args);
    while (okv_resp_trash_empty(&resp->trash) > 0)
        continue;
    okv_resp_engine_destroy(resp->engine);
    okv_resp_call_stats_fini(resp);
    pthread_mutex_destroy(&resp->lock);
    close(resp->epoll_fd);
}
