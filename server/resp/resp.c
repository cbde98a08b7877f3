#include "server/resp/resp.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "server/resp/call.h"
#include "server/resp/login.h"
#include "server/resp/transaction.h"
#include "server/resp/transfer.h"
#include "server/wal/wal.h"
#include "server/worker.h"
#include "shared/base/error.h"

/* Clients whose bytes are read in a pass, and commands of one of them: others wait so long. */
#define EVENTS_PER_PASS 16
#define COMMANDS_PER_TURN 64u
/* A request that is begun takes its own memory up to this, so that the worker keeps its buffer. */
#define SMALL_REST 4096u
/* A client that has begun a long value, or has replies to take, and moves no byte for so long. */
#define STALLED_NS UINT64_C(30000000000)
/* Larger buffers are not kept for the next client. */
#define LENT_MAX (1u << 20)

/* ---- memory that is lent ---- */

static void swap_buffers(struct okv_resp_buffer *a, struct okv_resp_buffer *b)
{
    struct okv_resp_buffer c = *a;

    *a = *b;
    *b = c;
}

static void lend(struct okv_resp *resp, struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;

    if (!client->in.bytes)
        swap_buffers(&client->in, &resp->in);
    if (!client->out.bytes)
        swap_buffers(&client->out, &resp->out);
    if (parser->args)
        return;
    parser->args = resp->args;
    parser->capacity = resp->arg_capacity;
    resp->args = NULL;
    resp->arg_capacity = 0;
}

/* Keeps an empty buffer for the next client. */
static void take_back_buffer(struct okv_resp_buffer *lent, struct okv_resp_buffer *to)
{
    lent->used = 0;
    if (lent->has_failed || to->bytes || lent->capacity > LENT_MAX)
        okv_resp_buffer_fini(lent);
    else
        swap_buffers(lent, to);
}

/* What is done leaves the buffer when it is the larger part, so that a long pipeline is moved a few
 * times, and not in each turn. */
static void drop_done(struct okv_resp_client *client)
{
    if (client->at < client->in.used - client->at)
        return;
    okv_resp_buffer_drop(&client->in, client->at);
    client->at = 0;
}

static void take_back_input(struct okv_resp *resp, struct okv_resp_client *client)
{
    struct okv_resp_buffer rest = {.used = 0};

    drop_done(client);
    if (client->in.used == 0) {
        take_back_buffer(&client->in, &resp->in);
    } else if (client->in.used <= SMALL_REST && client->in.capacity > SMALL_REST) {
        okv_resp_buffer_add(&rest, client->in.bytes, client->in.used);
        if (rest.has_failed)
            return;
        take_back_buffer(&client->in, &resp->in);
        client->in = rest;
    }
}

static void take_back(struct okv_resp *resp, struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;

    take_back_input(resp, client);
    if (client->out.used == 0)
        take_back_buffer(&client->out, &resp->out);
    if (parser->count > 0)
        return;
    if (resp->args) {
        free(parser->args);
    } else {
        resp->args = parser->args;
        resp->arg_capacity = parser->capacity;
    }
    parser->args = NULL;
    parser->capacity = 0;
}

/* Counts what the client keeps until its next turn. */
static void count_kept(struct okv_resp_client *client)
{
    atomic_int_fast64_t *all = &client->resp->server->resp_door.kept;
    size_t kept = client->in.capacity + client->out.capacity;

    if (kept == client->kept)
        return;
    atomic_fetch_add(all, (int64_t)kept - (int64_t)client->kept);
    client->kept = kept;
}

/* ---- lists ---- */

static void make_ready(struct okv_resp_client *client)
{
    if (client->is_ready)
        return;
    client->is_ready = true;
    TAILQ_INSERT_TAIL(&client->resp->ready, client, in_ready);
}

static void unready(struct okv_resp_client *client)
{
    if (client->is_ready)
        TAILQ_REMOVE(&client->resp->ready, client, in_ready);
    client->is_ready = false;
}

void okv_resp_hold(struct okv_resp_client *client, unsigned database, uint64_t batch, size_t from)
{
    if (!client->batch)
        client->held = from;
    client->batch = batch;
    client->log = database;
    if (client->is_holding)
        return;
    client->is_holding = true;
    TAILQ_INSERT_TAIL(&client->resp->holding, client, in_holding);
}

static void unhold(struct okv_resp_client *client)
{
    if (client->is_holding)
        TAILQ_REMOVE(&client->resp->holding, client, in_holding);
    client->is_holding = false;
    client->batch = 0;
}

/* Whether it takes its replies, so that it can have more. */
static bool takes_replies(const struct okv_resp_client *client)
{
    return client->out.used - client->sent < OKV_RESP_UNSENT_MAX && client->download.length == 0;
}

static bool has_replies(const struct okv_resp_client *client)
{
    return client->out.used > client->sent || client->download.length > 0;
}

/* Whether more may be read. Many clients send all of a pipeline before they read a reply: what they
 * send meanwhile has to go somewhere. */
static bool may_read(const struct okv_resp_client *client)
{
    if (client->is_blocked || client->is_ending || client->stream.has_ended)
        return false;
    return takes_replies(client) ||
           (client->in.used - client->at < OKV_RESP_UNREAD_MAX &&
            atomic_load(&client->resp->server->resp_door.kept) < OKV_RESP_KEPT_MAX);
}

/* Has epoll tell of what the client can go on with. */
static void set_events(struct okv_resp_client *client)
{
    bool reads = may_read(client);
    bool writes = (has_replies(client) && !client->batch) || client->stream.writes_to_read;
    uint32_t events = (reads ? (uint32_t)EPOLLIN : 0) | (writes ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (events == client->events)
        return;
    client->events = events;
    epoll_ctl(client->resp->epoll_fd, EPOLL_CTL_MOD, client->stream.fd, &event);
}

/* ---- the end of a client ---- */

static void end(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct okv_server *server = resp->server;

    pthread_mutex_lock(&server->resp_door.lock);
    TAILQ_REMOVE(&server->resp_door.clients, client, in_door);
    pthread_mutex_unlock(&server->resp_door.lock);
    TAILQ_REMOVE(&resp->all, client, in_all);
    unready(client);
    unhold(client);
    okv_resp_stream_fini(&client->stream);
    okv_resp_download_end(client);
    okv_resp_upload_end(client);
    okv_resp_transaction_drop(client);
    okv_resp_parser_fini(&client->parser);
    okv_resp_buffer_fini(&client->in);
    okv_resp_buffer_fini(&client->out);
    count_kept(client);
    if (client->has_place)
        okv_admission_release(&server->admission, client->place);
    OKV_STATS_SUBTRACT(&server->stats, resp_clients, 1);
    atomic_fetch_sub(&resp->clients, 1);
    free(client);
}

/* ---- a turn ---- */

/* Who breaks the protocol learns why, and its connection ends. */
static void refuse(struct okv_resp_client *client, int code)
{
    const struct okv_resp_reply reply = {&client->out, client->protocol};

    if (code == OKV_EPROTO)
        okv_resp_error(&reply, "ERR Protocol error: %s", client->parser.problem);
    else
        okv_resp_error(&reply, "ERR out of memory");
    client->is_ending = true;
}

/* Looks at the next request. 1: it can run; 0: it is not there yet, or waits. */
static int next_request(struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;
    int rc = okv_resp_parse(parser, client->in.bytes + client->at, client->in.used - client->at);

    if (rc == 0 && okv_resp_upload_begin(client)) {
        client->is_blocked = true;
        return 0;
    }
    if (rc == 0 && client->upload) {
        okv_resp_move_to_upload(client);
        rc = okv_resp_parse(parser, client->in.bytes + client->at, client->in.used - client->at);
    }
    if (rc < 0)
        refuse(client, rc);
    if (rc == 0 && client->stream.has_ended)
        client->is_ending = true;
    if (rc == 1 && !okv_resp_upload_is_ready(client)) {
        client->is_blocked = true;
        okv_resp_parser_keep(parser, client->in.bytes + client->at);
        rc = 0;
    }
    return rc == 1;
}

/* Whether it has run. Else it begins again later: its bytes may move meanwhile. */
static bool run_request(struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;

    if (parser->count > 0 && okv_resp_call(client, parser->args, parser->count)) {
        client->is_blocked = true;
        okv_resp_parser_keep(parser, client->in.bytes + client->at);
        return false;
    }
    okv_resp_upload_end(client);
    client->at += parser->position;
    okv_resp_parser_reset(parser);
    return true;
}

static void add_counts(struct okv_resp *resp)
{
    struct okv_stats *stats = &resp->server->stats;

    OKV_STATS_ADD(stats, resp_commands, resp->counts.commands);
    OKV_STATS_ADD(stats, resp_hits, resp->counts.hits);
    OKV_STATS_ADD(stats, resp_misses, resp->counts.misses);
    memset(&resp->counts, 0, sizeof resp->counts);
}

/* Runs the requests that have come, as many as a turn and the room for replies have. Returns how
 * many. */
static unsigned serve(struct okv_resp_client *client)
{
    pthread_rwlock_t *running = &client->resp->server->resp_door.running;
    unsigned count = 0;

    client->is_blocked = client->has_more = false;
    pthread_rwlock_rdlock(running);
    for (;;) {
        client->parser.is_stranger = !client->is_known;
        client->has_more = count == COMMANDS_PER_TURN || !takes_replies(client);
        if (client->has_more || client->is_ending || !next_request(client) || !run_request(client))
            break;
        count++;
    }
    pthread_rwlock_unlock(running);
    add_counts(client->resp);
    client->is_ending = client->is_ending || client->out.has_failed;
    client->has_more = (client->has_more || client->is_blocked) && !client->is_ending &&
                       (client->in.used > client->at || client->stream.has_ended);
    return count;
}

/* Returns how many requests were served; the client may be gone then. */
static unsigned take_turn(struct okv_resp_client *client, bool reads)
{
    struct okv_resp *resp = client->resp;
    bool is_there = true;

    lend(resp, client);
    reads = reads || client->stream.has_unread || client->stream.writes_to_read;
    unsigned served = serve(client);
    if (reads && may_read(client) && served < COMMANDS_PER_TURN) {
        is_there = okv_resp_receive(client);
        served += is_there ? serve(client) : 0;
    }
    if (served > 0) {
        atomic_fetch_add_explicit(&client->requests, served, memory_order_relaxed);
        atomic_store_explicit(&client->active_ns, okv_clock_ns(), memory_order_relaxed);
    }
    atomic_store_explicit(&client->unserved, client->in.used - client->at, memory_order_relaxed);
    is_there = is_there && okv_resp_flush(client);
    atomic_store_explicit(&client->unsent, client->out.used - client->sent, memory_order_relaxed);
    unready(client);
    if ((client->has_more && takes_replies(client)) ||
        (client->stream.has_unread && may_read(client)))
        make_ready(client);
    take_back(resp, client);
    count_kept(client);
    if (!is_there || (client->is_ending && !has_replies(client)))
        end(client);
    else
        set_events(client);
    return served;
}

/* ---- replies that wait for the log ---- */

static void note_failure(struct okv_resp_client *client)
{
    const struct okv_resp_reply reply = {&client->out, client->protocol};

    okv_resp_download_end(client);
    client->out.used = client->held;
    okv_resp_error(&reply, "UNKNOWN the log failed, and this command may have been applied");
    client->is_ending = true;
}

static unsigned run_holding(struct okv_resp *resp)
{
    struct okv_resp_client *client, *next;
    unsigned count = 0;
    int status;

    for (client = TAILQ_FIRST(&resp->holding); client; client = next) {
        struct okv_wal *wal = resp->server->databases[client->log].wal;
        next = TAILQ_NEXT(client, in_holding);
        if (!okv_wal_is_done(wal, client->batch, &status))
            continue;
        if (status)
            note_failure(client);
        unhold(client);
        count++;
        take_turn(client, false);
    }
    return count;
}

/* ---- a pass ---- */

static void greet(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};

    client->events = EPOLLIN;
    client->created_ns = client->moved_ns = okv_clock_ns();
    atomic_store(&client->active_ns, client->created_ns);
    atomic_store(&client->queued, -1);
    TAILQ_INSERT_TAIL(&resp->all, client, in_all);
    pthread_mutex_lock(&resp->server->resp_door.lock);
    TAILQ_INSERT_TAIL(&resp->server->resp_door.clients, client, in_door);
    pthread_mutex_unlock(&resp->server->resp_door.lock);
    OKV_STATS_ADD(&resp->server->stats, resp_clients, 1);
    OKV_STATS_ADD(&resp->server->stats, resp_clients_total, 1);
    okv_resp_login_begin(client);
    if (epoll_ctl(resp->epoll_fd, EPOLL_CTL_ADD, client->stream.fd, &event))
        end(client);
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

/* Those whom somebody killed, or whose users have no rights any more. */
static void end_unwanted(struct okv_resp *resp)
{
    struct okv_resp_client *client, *next;

    if (!atomic_load(&resp->has_unwanted) || !atomic_exchange(&resp->has_unwanted, false))
        return;
    for (client = TAILQ_FIRST(&resp->all); client; client = next) {
        next = TAILQ_NEXT(client, in_all);
        if (atomic_load(&client->is_unwanted) || !okv_resp_login_holds(client))
            end(client);
    }
}

static unsigned run_ready(struct okv_resp *resp, bool *is_held_up)
{
    struct okv_resp_client *last = TAILQ_LAST(&resp->ready, okv_resp_client_list);
    struct okv_resp_client *client;
    unsigned count = 0;
    bool is_last = !last;

    while (!is_last && (client = TAILQ_FIRST(&resp->ready))) {
        is_last = client == last;
        count += take_turn(client, false);
    }
    TAILQ_FOREACH(client, &resp->ready, in_ready)
    {
        *is_held_up = *is_held_up || client->is_blocked;
        count += !client->is_blocked; /* it goes on in the next pass: the worker must not sleep */
    }
    return count;
}

unsigned okv_resp_poll(struct okv_resp *resp, bool *is_held_up)
{
    struct epoll_event events[EVENTS_PER_PASS];
    unsigned done = empty_inbox(resp);

    end_unwanted(resp);
    done += run_holding(resp);
    done += run_ready(resp, is_held_up);
    int n =
        atomic_load(&resp->clients) ? epoll_wait(resp->epoll_fd, events, EVENTS_PER_PASS, 0) : 0;
    for (int i = 0; i < n; i++)
        take_turn(events[i].data.ptr, events[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR));
    return done + (n > 0 ? (unsigned)n : 0);
}

static bool is_past(uint64_t since_ns, uint64_t interval_ns, uint64_t now_ns)
{
    return now_ns > since_ns && now_ns - since_ns > interval_ns;
}

void okv_resp_scan(struct okv_resp *resp, uint64_t now_ns)
{
    uint64_t idle_ns = resp->server->config.idle_s * UINT64_C(1000000000);
    struct okv_resp_client *client, *next;

    for (client = TAILQ_FIRST(&resp->all); client; client = next) {
        next = TAILQ_NEXT(client, in_all);
        bool is_at_work = client->upload || has_replies(client);
        if (client->batch || client->is_blocked)
            continue;
        if (is_at_work && is_past(client->moved_ns, STALLED_NS, now_ns)) {
            OKV_STATS_ADD(&resp->server->stats, closed_unresponsive, 1);
            end(client);
        } else if (idle_ns && is_past(atomic_load(&client->active_ns), idle_ns, now_ns)) {
            OKV_STATS_ADD(&resp->server->stats, closed_idle, 1);
            end(client);
        }
    }
}

/* ---- begin and end ---- */

int okv_resp_init(struct okv_resp *resp, struct okv_server *server, unsigned worker,
                  const struct okv_executor *executors)
{
    *resp = (struct okv_resp){.server = server, .worker = worker, .executors = executors};
    TAILQ_INIT(&resp->inbox);
    TAILQ_INIT(&resp->all);
    TAILQ_INIT(&resp->ready);
    TAILQ_INIT(&resp->holding);
    resp->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (resp->epoll_fd < 0)
        return OKV_EIO;
    pthread_mutex_init(&resp->lock, NULL);
    return 0;
}

void okv_resp_end_all(struct okv_resp *resp)
{
    struct okv_resp_client *client;

    empty_inbox(resp);
    while ((client = TAILQ_FIRST(&resp->all))) {
        okv_resp_flush(client);
        end(client);
    }
}

void okv_resp_fini(struct okv_resp *resp)
{
    okv_resp_end_all(resp);
    okv_resp_buffer_fini(&resp->in);
    okv_resp_buffer_fini(&resp->out);
    free(resp->args);
    pthread_mutex_destroy(&resp->lock);
    close(resp->epoll_fd);
}

void okv_resp_adopt(struct okv_resp *resp, struct okv_resp_client *client)
{
    client->resp = resp;
    client->protocol = 2;
    atomic_fetch_add(&resp->clients, 1);
    pthread_mutex_lock(&resp->lock);
    TAILQ_INSERT_TAIL(&resp->inbox, client, in_all);
    atomic_store(&resp->has_inbox, true);
    pthread_mutex_unlock(&resp->lock);
    okv_worker_wake(&resp->server->workers[resp->worker]);
}

void okv_resp_recheck(struct okv_resp *resp)
{
    atomic_store(&resp->has_unwanted, true);
    okv_worker_wake(&resp->server->workers[resp->worker]);
}

void okv_resp_unwant(struct okv_resp_client *client)
{
    atomic_store(&client->is_unwanted, true);
    okv_resp_recheck(client->resp);
}
