#include "server/resp/net/serve.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "server/command/exclusive.h"
#include "server/command/housekeeping.h"
#include "server/core/server.h"
#include "server/resp/net/buffer_pool.h"
#include "server/resp/net/transfer.h"
#include "server/resp/proto/args.h"
#include "server/resp/proto/reply.h"
#include "server/resp/run/call.h"
#include "server/resp/run/call_stats.h"
#include "server/resp/run/listing.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/long_read.h"
#include "server/resp/run/pages.h"
#include "server/resp/run/place.h"
#include "server/resp/run/rates.h"
#include "server/resp/run/run.h"
#include "server/resp/run/shared.h"
#include "server/resp/run/transaction.h"
#include "server/resp/run/upload.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* Work of reading an argument, or of setting its text. */
#define ARGUMENT 20u

void okv_resp_make_ready(struct okv_resp_client *client)
{
    if (client->is_ready)
        return;
    client->is_ready = true;
    client->ready_in = client->common.database;
    TAILQ_INSERT_TAIL(&client->resp->ready[client->ready_in], client, in_ready);
}

static void unready(struct okv_resp_client *client)
{
    if (client->is_ready)
        TAILQ_REMOVE(&client->resp->ready[client->ready_in], client, in_ready);
    client->is_ready = false;
}

/* Whether it takes its replies, so that it may get more. */
static bool takes_replies(const struct okv_resp_client *client)
{
    size_t unsent = client->out.used - client->sent;
    bool is_short = client->out.most == OKV_RESP_SHORT_MAX || okv_resp_is_short_of_memory(client);
    bool is_full = is_short || (client->listing && client->listing->is_complete);
    bool has_room = unsent == 0 || (unsent < OKV_RESP_UNSENT_MAX && !is_full);

    return has_room && client->download.length == 0;
}

/* Whether more may be read. Many clients send all of a pipeline before they read a reply: what they
 * send meanwhile has to be stored. */
static bool may_read(const struct okv_resp_client *client)
{
    if (client->state != OKV_RESP_READING || client->stream.has_ended)
        return false;
    size_t unread = client->in.used - client->at;
    if (okv_resp_is_short_of_memory(client))
        return takes_replies(client) && unread < OKV_RESP_PROGRESS_MIN;
    return takes_replies(client) || unread < OKV_RESP_UNREAD_MAX;
}

void okv_resp_update_events(struct okv_resp_client *client)
{
    bool reads = may_read(client);
    bool writes = (okv_resp_has_replies(client) && !client->commit.batch && !client->is_held) ||
                  client->stream.writes_to_read;
    uint32_t events = (reads ? (uint32_t)EPOLLIN : 0) | (writes ? (uint32_t)EPOLLOUT : 0);
    struct epoll_event event = {.events = events, .data.ptr = client};

    if (events == client->events && !client->is_off_epoll)
        return;
    int how = client->is_off_epoll ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
    if (client->is_off_epoll && !events)
        return;
    client->is_off_epoll = false;
    client->events = events;
    epoll_ctl(client->resp->epoll_fd, how, client->stream.fd, &event);
}

/* Whether a request has begun that takes several turns. */
static bool goes_on(const struct okv_resp_client *client)
{
    return client->state == OKV_RESP_RUNNING || client->flush.is_under_way;
}

/* The connection is broken, but the client waits for something else before it can be closed. */
static void leave_epoll(struct okv_resp_client *client)
{
    client->is_off_epoll = true;
    epoll_ctl(client->resp->epoll_fd, EPOLL_CTL_DEL, client->stream.fd, NULL);
}

void okv_resp_client_close(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    struct okv_server *server = resp->server;

    okv_client_table_remove(server->clients, &client->common);
    TAILQ_REMOVE(&resp->all, client, in_all);
    unready(client);
    okv_resp_release(client);
    /* A thread with a table of descriptors of its own may have the socket, too
     * (local/safe_close.c): then it is not closed yet, and epoll would still report it. */
    epoll_ctl(resp->epoll_fd, EPOLL_CTL_DEL, client->stream.fd, NULL);
    okv_resp_place_leave(server, client);
    okv_stream_fini(&client->stream);
    okv_resp_download_end(client);
    okv_resp_upload_end(client);
    okv_resp_build_end(client);
    okv_resp_read_end(client);
    okv_resp_transaction_drop(client);
    okv_resp_listing_destroy(client);
    okv_resp_buffers_discard(client);
    okv_resp_count_memory(client);
    OKV_STATS_SUBTRACT(&server->stats, resp_clients, 1);
    atomic_fetch_sub(&resp->clients, 1);
    free(client);
}

/* ---- requests ---- */

/* Replies why the request cannot be read, and closes the connection after that. */
static void refuse(struct okv_resp_client *client, int code)
{
    const struct okv_resp_reply reply = {&client->out, client->protocol};
    size_t before = client->out.used;

    if (code == OKV_EPROTO)
        okv_resp_error(&reply, "ERR Protocol error: %s", client->parser.problem);
    else
        okv_resp_error(&reply, "ERR out of memory");
    okv_resp_count_error(client->resp, &client->out, before);
    client->state = OKV_RESP_DRAINING;
}

static int parse(struct okv_resp_client *client)
{
    struct okv_resp_buffer *in = &client->in;
    struct okv_resp_parser *parser = &client->parser;
    uint32_t before = parser->count + parser->set;

    if (in->used == client->at)
        return 0;
    int rc = okv_resp_parse(parser, in->bytes + client->at, in->used - client->at);
    uint32_t after = parser->count + parser->set;
    okv_turn_spend(&client->resp->turn, after > before ? (after - before) * ARGUMENT : 0);
    return rc;
}

/* The complete request runs later, or goes on then. Its bytes may move until then. */
static void keep(struct okv_resp_client *client, enum okv_resp_state state)
{
    client->state = state;
    okv_resp_parser_keep(&client->parser, client->in.bytes + client->at);
}

/* Whether the next request is complete and can run. */
static bool next_request(struct okv_resp_client *client)
{
    int rc = parse(client);
    bool goes_on = false;

    if (rc == 0 && okv_resp_upload_begin(client)) {
        client->state = OKV_RESP_BLOCKED;
        return false;
    }
    if (rc == 0 && client->upload) {
        goes_on = okv_resp_move_to_upload(client);
        rc = parse(client);
    }
    if (rc < 0)
        refuse(client, rc);
    else if (rc == 0 && (goes_on || client->parser.has_more))
        client->state = OKV_RESP_RUNNING;
    else if (rc == 0 && client->stream.has_ended)
        client->state = OKV_RESP_DRAINING;
    if (rc != 1)
        return false;
    bool is_ready = okv_resp_upload_is_ready(client);
    if (!is_ready)
        keep(client, OKV_RESP_BLOCKED);
    return is_ready;
}

/* Of a request that has run and may have one. What is longer than a turn allows is no log-in. */
static void wipe_password(struct okv_resp_client *client)
{
    const struct okv_resp_parser *parser = &client->parser;
    const struct okv_resp_arg *name = parser->args;
    bool may_have =
        parser->is_unauthenticated ||
        (parser->count > 0 && (okv_resp_arg_is(name, "AUTH") || okv_resp_arg_is(name, "HELLO")));

    if (!may_have)
        return;
    size_t length = parser->position < OKV_TURN_WORK ? parser->position : OKV_TURN_WORK;
    explicit_bzero(client->in.bytes + client->at, length);
    okv_turn_spend(&client->resp->turn, length);
    client->has_secrets = true;
}

/* Returns whether it has run. */
static bool run_request(struct okv_resp_client *client)
{
    struct okv_resp_parser *parser = &client->parser;
    int rc = parser->count > 0 ? okv_resp_run(client, parser->args, parser->count) : 0;

    okv_resp_spend_filled(client);
    okv_turn_end_step(&client->resp->turn);
    if (rc) {
        keep(client, rc == OKV_RESP_GOES_ON ? OKV_RESP_RUNNING : OKV_RESP_BLOCKED);
        return false;
    }
    okv_resp_upload_end(client);
    wipe_password(client);
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

/* Runs requests that have come, until the turn ends, replies have no room, or one has to wait or to
 * go on. Returns how many ran; *has_more: others may run later. */
static unsigned run_requests(struct okv_resp_client *client, bool *has_more)
{
    struct okv_resp *resp = client->resp;
    unsigned count = 0;

    *has_more = false;
    if (client->state == OKV_RESP_DRAINING)
        return 0;
    client->state = OKV_RESP_READING;
    if (!okv_exclusive_share(resp->server->exclusive, &resp->exclusive_ticket)) {
        *has_more = has_requests(client);
        if (*has_more && takes_replies(client))
            client->state = OKV_RESP_BLOCKED;
        return 0;
    }
    /* After the requests came: their sender may already know of items that expired. */
    if (resp->housekeeping)
        okv_housekeeping_update_clock(resp->housekeeping, resp->server);
    for (;;) {
        client->parser.is_unauthenticated = !client->is_authenticated;
        *has_more = okv_turn_left(&resp->turn) == 0 || !takes_replies(client);
        if (*has_more || client->state != OKV_RESP_READING || !next_request(client) ||
            !run_request(client))
            break;
        if (client->out.has_failed)
            client->state = OKV_RESP_DRAINING;
        count++;
    }
    okv_exclusive_unshare(resp->server->exclusive);
    add_counts(resp);
    *has_more = (*has_more || client->state != OKV_RESP_READING) &&
                client->state != OKV_RESP_DRAINING && has_requests(client);
    return count;
}

static void publish_progress(struct okv_resp_client *client, unsigned served)
{
    struct okv_stats *stats = &client->resp->server->stats;

    OKV_STATS_RAISE(stats, longest_step, client->resp->turn.longest);
    OKV_STATS_RAISE(stats, longest_alone, client->resp->turn.alone);
    if (served > 0) {
        uint64_t now_ns = okv_clock_ns();
        OKV_STATS_ADD(&client->common, requests, served);
        atomic_store_explicit(&client->common.active_ns, now_ns, memory_order_relaxed);
        okv_resp_rates_note(client->resp->server, now_ns);
    }
    atomic_store_explicit(&client->unserved, client->in.used - client->at, memory_order_relaxed);
    atomic_store_explicit(&client->unsent, client->out.used - client->sent, memory_order_relaxed);
}

unsigned okv_resp_serve(struct okv_resp_client *client)
{
    struct okv_resp *resp = client->resp;
    bool reads = client->has_input || client->stream.has_unread || client->stream.writes_to_read;
    bool is_open = true, has_more;

    okv_turn_begin(&resp->turn);
    okv_resp_begin_work(client);
    okv_resp_buffers_borrow(client);
    client->has_input = false;
    unsigned served = run_requests(client, &has_more);
    if (reads && may_read(client) && okv_turn_left(&resp->turn) > 0) {
        is_open = okv_resp_receive(client);
        okv_resp_spend_filled(client);
        okv_turn_end_step(&resp->turn);
        served += is_open ? run_requests(client, &has_more) : 0;
    }
    is_open = is_open && okv_resp_send(client);
    okv_turn_end_step(&resp->turn);
    publish_progress(client, served);
    unready(client);
    if ((has_more && takes_replies(client)) || client->takes_more || client->is_held ||
        (client->stream.has_unread && may_read(client)))
        okv_resp_make_ready(client);
    okv_resp_buffers_return(client);
    okv_resp_count_memory(client);
    bool is_abandoned = client->is_off_epoll && goes_on(client); /* as in okv_resp_on_event() */
    bool is_drained = client->state == OKV_RESP_DRAINING && !okv_resp_has_replies(client);
    if (!is_open || is_drained || is_abandoned)
        okv_resp_client_close(client);
    else
        okv_resp_update_events(client);
    okv_resp_spend_unmapped(resp);
    return served;
}

void okv_resp_on_event(struct okv_resp_client *client, uint32_t events)
{
    bool is_broken = events & (EPOLLHUP | EPOLLERR);

    if (is_broken && goes_on(client)) {
        okv_resp_client_close(client); /* nobody is there for the rest */
    } else if (is_broken && !client->events) {
        leave_epoll(client);
    } else {
        client->has_input = client->has_input || is_broken || events & EPOLLIN;
        okv_resp_make_ready(client);
    }
}

void okv_resp_fail_deferred(struct okv_resp_client *client)
{
    const struct okv_resp_reply reply = {&client->out, client->protocol};

    okv_resp_download_end(client);
    client->out.used = client->commit.from;
    okv_resp_error(&reply, "UNKNOWN the log failed, and this command may have been applied");
    okv_resp_count_error(client->resp, &client->out, client->commit.from);
    client->state = OKV_RESP_DRAINING;
}
