#include "server/resp/net/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "server/command/exclusive.h"
#include "server/housekeeping.h"
#include "server/resp/net/buffer_pool.h"
#include "server/resp/net/transfer.h"
#include "server/resp/proto/reply.h"
#include "server/resp/run/run.h"
#include "server/resp/run/transaction.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Commands of a client in a turn: others wait so long. */
#define COMMANDS_PER_TURN 64u

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
    if (client->batch != batch)
        client->held = from; /* an earlier batch is in the log: its replies may leave */
    client->batch = batch;
    client->log = database;
    if (client->is_holding)
        return;
    client->is_holding = true;
    TAILQ_INSERT_TAIL(&client->resp->holding, client, in_holding);
}

void okv_resp_unhold(struct okv_resp_client *client)
{
    if (client->is_holding)
        TAILQ_REMOVE(&client->resp->holding, client, in_holding);
    client->is_holding = false;
    client->batch = 0;
}

/* Whether it takes its replies, so that it can have more. */
static bool takes_replies(const struct okv_resp_client *client)
{
    size_t unsent = client->out.used - client->sent;
    bool is_short = client->out.most == OKV_RESP_SHORT_MAX || okv_resp_is_short_of_memory(client);
    bool has_room = unsent == 0 || (unsent < OKV_RESP_UNSENT_MAX && !is_short);

    return has_room && client->download.length == 0;
}

/* Whether more may be read. Many clients send all of a pipeline before they read a reply: what they
 * send meanwhile has to go somewhere. */
static bool may_read(const struct okv_resp_client *client)
{
    if (client->is_blocked || client->is_ending || client->stream.has_ended)
        return false;
    size_t unread = client->in.used - client->at;
    if (okv_resp_is_short_of_memory(client))
        return takes_replies(client) && unread < OKV_RESP_PROGRESS_MIN;
    return takes_replies(client) || unread < OKV_RESP_UNREAD_MAX;
}

void okv_resp_set_events(struct okv_resp_client *client)
{
    bool reads = may_read(client);
    bool writes = (okv_resp_has_replies(client) && !client->batch) || client->stream.writes_to_read;
    uint32_t events = (reads ? (uint32_t)EPOLLIN : 0) | (writes ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (events == client->events && !client->is_deaf)
        return;
    int how = client->is_deaf ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (client->is_deaf && !events)
        return;
    client->is_deaf = false;
    client->events = events;
    epoll_ctl(client->resp->epoll_fd, how, client->stream.fd, &event);
}

/* Its connection is broken, and it waits for something else before it can be ended. */
static void deafen(struct okv_resp_client *client)
{
    client->is_deaf = true;
    epoll_ctl(client->resp->epoll_fd, EPOLL_CTL_DEL, client->stream.fd, NULL);
}

/* ---- the end of a client ---- */

void okv_resp_end(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct okv_server *server = resp->server;

    pthread_mutex_lock(&server->resp_door.lock);
    TAILQ_REMOVE(&server->resp_door.clients, client, in_door);
    pthread_mutex_unlock(&server->resp_door.lock);
    TAILQ_REMOVE(&resp->all, client, in_all);
    unready(client);
    okv_resp_unhold(client);
    /* A thread with a table of descriptors of its own may have it, too (local/discard.c): then it
     * is not closed yet, and epoll would go on telling of it. */
    epoll_ctl(resp->epoll_fd, EPOLL_CTL_DEL, client->stream.fd, NULL);
    okv_stream_fini(&client->stream);
    okv_resp_download_end(client);
    okv_resp_upload_end(client);
    okv_resp_transaction_drop(client);
    okv_resp_parser_fini(&client->parser);
    okv_resp_buffer_fini(&client->in);
    okv_resp_buffer_fini(&client->out);
    okv_resp_count_kept(client);
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

static int parse(struct okv_resp_client *client)
{
    struct okv_resp_buffer *in = &client->in;

    if (in->used == client->at)
        return 0;
    return okv_resp_parse(&client->parser, in->bytes + client->at, in->used - client->at);
}

/* Whether the next request can run. Else it is not there yet, or waits. */
static bool next_request(struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;
    int rc = parse(client);

    if (rc == 0 && okv_resp_upload_begin(client)) {
        client->is_blocked = true;
        return false;
    }
    if (rc == 0 && client->upload) {
        okv_resp_move_to_upload(client);
        rc = parse(client);
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

    if (parser->count > 0 && okv_resp_run(client, parser->args, parser->count)) {
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

/* Whether there may be something to serve: a request, or the end of them. */
static bool has_requests(const struct okv_resp_client *client)
{
    return client->in.used > client->at || client->stream.has_ended;
}

/* Runs the requests that have come, as many as a turn and the room for replies have, unless a
 * command runs alone on another worker. Returns how many. */
static unsigned serve(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    unsigned count = 0;

    client->is_blocked = client->has_more = false;
    if (!okv_exclusive_share(resp->server->exclusive, &resp->exclusive_ticket)) {
        client->has_more = has_requests(client);
        client->is_blocked = client->has_more && takes_replies(client);
        return 0;
    }
    /* After the requests came. Their sender may already know of items that expired. */
    if (resp->housekeeping)
        okv_housekeeping_update_clock(resp->housekeeping, resp->server);
    for (;;) {
        client->parser.is_unauthenticated = !client->is_known;
        client->has_more = count == COMMANDS_PER_TURN || !takes_replies(client);
        if (client->has_more || client->is_ending || !next_request(client) || !run_request(client))
            break;
        client->is_ending = client->is_ending || client->out.has_failed;
        count++;
    }
    okv_exclusive_unshare(resp->server->exclusive);
    add_counts(resp);
    client->has_more =
        (client->has_more || client->is_blocked) && !client->is_ending && has_requests(client);
    return count;
}

/* Returns how many requests were served; the client may be gone then. */
unsigned okv_resp_take_turn(struct okv_resp_client *client, bool reads)
{
    struct okv_resp *resp = client->resp;
    bool is_there = true;

    okv_resp_lend(resp, client);
    reads = reads || client->stream.has_unread || client->stream.writes_to_read;
    unsigned served = serve(client);
    if (reads && may_read(client) && served < COMMANDS_PER_TURN) {
        is_there = okv_resp_receive(client);
        served += is_there ? serve(client) : 0;
    }
    if (served > 0) {
        OKV_STATS_ADD(client, requests, served);
        atomic_store_explicit(&client->active_ns, okv_clock_ns(), memory_order_relaxed);
    }
    atomic_store_explicit(&client->unserved, client->in.used - client->at, memory_order_relaxed);
    is_there = is_there && okv_resp_flush(client);
    atomic_store_explicit(&client->unsent, client->out.used - client->sent, memory_order_relaxed);
    unready(client);
    if ((client->has_more && takes_replies(client)) ||
        (client->stream.has_unread && may_read(client)))
        make_ready(client);
    okv_resp_take_back(resp, client);
    okv_resp_count_kept(client);
    if (!is_there || (client->is_ending && !okv_resp_has_replies(client)))
        okv_resp_end(client);
    else
        okv_resp_set_events(client);
    return served;
}

/* ---- what the worker calls ---- */

void okv_resp_note_failure(struct okv_resp_client *client)
{
    const struct okv_resp_reply reply = {&client->out, client->protocol};

    okv_resp_download_end(client);
    client->out.used = client->held;
    okv_resp_error(&reply, "UNKNOWN the log failed, and this command may have been applied");
    client->is_ending = true;
}

void okv_resp_meet_event(struct okv_resp_client *client, uint32_t events)
{
    bool is_broken = events & (EPOLLHUP | EPOLLERR);

    if (is_broken && !client->events)
        deafen(client);
    else
        okv_resp_take_turn(client, is_broken || events & EPOLLIN);
}
