#include "server/resp/run/call.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "server/command/change.h"
#include "server/command/exclusive.h"
#include "server/resp/commands/commands.h"
#include "server/resp/net/serve.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/transaction.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

/* ---- who may ---- */

bool okv_resp_may(const struct okv_resp_client *client, unsigned database, unsigned right)
{
    return (client->rights[database] & right) == right;
}

static bool may_run(const struct okv_resp_call *call)
{
    unsigned flags = call->command->flags;
    unsigned right = (flags & OKV_RESP_READ ? OKV_RIGHT_READ : 0u) |
                     (flags & OKV_RESP_WRITE ? OKV_RIGHT_WRITE : 0u) |
                     (flags & OKV_RESP_ADMIN ? OKV_RIGHT_ADMIN : 0u);

    if (!right || okv_resp_may(call->client, call->client->database, right))
        return true;
    OKV_STATS_ADD(&call->executor->database->counts, denied, 1);
    return false;
}

static void refuse_right(struct okv_resp_call *call)
{
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    okv_resp_error(&call->reply,
                   "NOPERM this user has no permissions to run the '%s' command in database %s",
                   name, call->executor->database->config->name);
}

/* ---- what is wrong with it ---- */

static void refuse_unknown(struct okv_resp_call *call)
{
    char args[160] = "";
    size_t used = 0;

    for (uint32_t i = 1; i < call->count && used < 128; i++)
        used += (size_t)snprintf(args + used, sizeof args - used, "'%.*s' ",
                                 (int)(call->args[i].length < 32 ? call->args[i].length : 32),
                                 (const char *)call->args[i].text);
    okv_resp_error(&call->reply, "ERR unknown command '%.*s', with args beginning with: %s",
                   (int)(call->args[0].length < 128 ? call->args[0].length : 128),
                   (const char *)call->args[0].text, args);
}

static bool has_its_arguments(const struct okv_resp_call *call)
{
    int arity = call->command->arity, count = (int)call->count;

    return arity > 0 ? count == arity : count >= -arity;
}

int okv_resp_refuse_count(struct okv_resp_call *call)
{
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    okv_resp_error(&call->reply, "ERR wrong number of arguments for '%s' command", name);
    return 0;
}

int okv_resp_refuse_part(struct okv_resp_call *call)
{
    const struct okv_resp_arg *part = &call->args[1];

    okv_resp_error(&call->reply, "ERR unknown subcommand '%.*s' of %s",
                   (int)(part->length < 64 ? part->length : 64), (const char *)part->text,
                   call->command->name);
    return 0;
}

/* A browser that a web page had send this does not speak RESP: what follows may be commands that
 * the page chose. Redis ends such connections, too. */
static bool is_http(const struct okv_resp_arg *name)
{
    return okv_resp_is(name, "POST") || okv_resp_is(name, "HOST:");
}

/* Replies with an error and returns false if the command may not run at all. */
static bool check(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    bool is_unauthenticated =
        !client->is_known && !(call->command && call->command->flags & OKV_RESP_UNAUTHENTICATED);

    if (!call->command && is_http(&call->args[0]))
        client->is_ending = true;
    else if (is_unauthenticated)
        okv_resp_error(&call->reply, "NOAUTH Authentication required.");
    else if (!call->command)
        refuse_unknown(call);
    else if (!has_its_arguments(call))
        okv_resp_refuse_count(call);
    else if (!call->command->run)
        okv_resp_refuse_part(call);
    else if (okv_resp_transaction_is_open(client) && !may_run(call))
        refuse_right(call);
    else if (okv_resp_transaction_is_open(client) && call->command->flags & OKV_RESP_NO_MULTI)
        okv_resp_error(&call->reply, "ERR %s inside MULTI is not allowed", call->command->name);
    else
        return true;
    okv_resp_transaction_spoil(client);
    return false;
}

/* ---- under its locks ---- */

int okv_resp_execute(struct okv_resp_call *call)
{
    call->client->resp->counts.commands++;
    if (may_run(call))
        return call->command->run(call);
    refuse_right(call);
    return 0;
}

/* A read that follows a change of this client sees what the change made, which is not published
 * yet. Then its reply waits as that of the change does. */
static bool needs_gate(const struct okv_resp_call *call)
{
    const struct okv_resp_client *client = call->client;
    unsigned flags = call->command->flags;

    if (flags & (OKV_RESP_OWN_GATE | OKV_RESP_ADMIN | OKV_RESP_WALK))
        return false;
    return flags & (OKV_RESP_WRITE | OKV_RESP_GATE) ||
           (flags & OKV_RESP_READ && client->batch && client->log == client->database);
}

uint64_t okv_resp_log_bytes(const struct okv_resp_arg *args, uint32_t count)
{
    uint64_t bytes = 0;

    for (uint32_t i = 0; i < count; i++)
        bytes += okv_wal_record_size(args[i].length, 0);
    return bytes;
}

/* Bytes of records of the command, at least, unless it makes values longer. */
static uint64_t log_bytes(const struct okv_resp_call *call)
{
    uint64_t bytes = okv_resp_log_bytes(call->args, call->count);

    return bytes + okv_resp_transaction_log_bytes(call->client);
}

/* One that changes several items does not stop in the middle because the log is full. */
static int run_promised(struct okv_resp_call *call, struct okv_wal *wal,
                        int (*run)(struct okv_resp_call *call))
{
    int rc = okv_wal_promise(wal, log_bytes(call));

    if (rc == OKV_EAGAIN)
        return rc;
    if (rc) {
        okv_resp_error(&call->reply, "ERR the log takes at most %" PRIu64 " bytes of one command",
                       okv_wal_promise_max(wal));
        if (okv_resp_transaction_is_open(call->client))
            okv_resp_transaction_drop(call->client);
        return 0;
    }
    rc = run(call);
    okv_wal_promise_end(wal);
    return rc;
}

int okv_resp_in_gate(struct okv_resp_call *call, unsigned database,
                     int (*run)(struct okv_resp_call *call))
{
    struct okv_resp_client *client = call->client;
    const struct okv_executor *own = call->executor, *executor = &client->resp->executors[database];
    struct okv_wal *wal = executor->database->wal;
    size_t before = call->reply.out->used;
    struct okv_change change;
    int status;

    if (client->batch && client->log != database && wal)
        return OKV_EAGAIN;
    if (!okv_change_begin_batch(&change, executor->database))
        return OKV_EAGAIN;
    /* Replies wait for one batch at a time. Those of one that failed are errors first. */
    if (wal && okv_wal_is_done(wal, client->batch, &status) && status) {
        okv_change_end(&change, false);
        return OKV_EAGAIN;
    }
    call->executor = executor;
    call->is_in_gate = wal != NULL;
    int rc = wal && call->is_part ? run_promised(call, wal, run) : run(call);
    call->executor = own;
    call->is_in_gate = false;
    uint64_t batch = okv_change_end(&change, !rc || call->has_changed);
    if (batch)
        okv_resp_hold(client, database, batch, before);
    return rc;
}

static int run_exclusive(struct okv_resp_call *call, okv_resp_function *how)
{
    struct okv_exclusive *exclusive = call->client->resp->server->exclusive;

    okv_exclusive_begin(exclusive);
    int rc = how(call);
    okv_exclusive_end(exclusive);
    return rc;
}

/* EXEC without MULTI is an error, for which nobody has to stop. */
static bool runs_alone(const struct okv_resp_call *call)
{
    return call->command->flags & OKV_RESP_EXCLUSIVE &&
           (call->command->run != okv_resp_run_exec || okv_resp_transaction_is_open(call->client));
}

static int run_in_own_gate(struct okv_resp_call *call)
{
    return okv_resp_in_gate(call, call->client->database, okv_resp_execute);
}

/* Before it excludes others. */
static bool has_to_wait(const struct okv_resp_call *call)
{
    struct okv_wal *wal = call->executor->database->wal;
    unsigned flags = call->command->flags;

    if (flags & (OKV_RESP_WALK | OKV_RESP_OWN_GATE) && call->client->batch)
        return true; /* its changes are not published yet */
    if (!(flags & OKV_RESP_EXCLUSIVE))
        return false;
    return (wal && !okv_wal_is_open(wal)) || okv_resp_transaction_waits(call->client);
}

/* A batch of the log is published item by item. A read meanwhile might see a part of what a command
 * changed, and then run in the gate, where nothing is published. */
static int run_at_a_moment(struct okv_resp_call *call)
{
    struct okv_resp *resp = call->client->resp;
    struct okv_wal *wal = call->executor->database->wal;
    const struct okv_resp_counts counts = resp->counts;
    size_t before = call->reply.out->used;
    uint64_t moment = okv_wal_moment(wal);

    if (moment % 2)
        return OKV_EAGAIN;
    int rc = okv_resp_execute(call);
    if (rc || !(call->command->flags & OKV_RESP_KEYS) || okv_wal_moment(wal) == moment)
        return rc;
    call->reply.out->used = before;
    resp->counts = counts;
    return run_in_own_gate(call);
}

static okv_resp_function *way_of(const struct okv_resp_call *call)
{
    if (needs_gate(call))
        return run_in_own_gate;
    return call->command->flags & OKV_RESP_READ && call->executor->database->wal ? run_at_a_moment
                                                                                 : okv_resp_execute;
}

static int run(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    const struct okv_resp_counts counts = client->resp->counts;
    okv_resp_function *how = way_of(call);
    size_t before = call->reply.out->used;
    int rc = OKV_EAGAIN;

    if (!has_to_wait(call))
        rc = runs_alone(call) ? run_exclusive(call, how) : how(call);
    if (rc) {
        call->reply.out->used = before;
        client->resp->counts = counts;
    } else { /* also when it was refused in the middle */
        client->flush.is_under_way = false;
        client->move_version = 0;
        client->del.next = 0;
    }
    return rc;
}

/* Takes back the reply of a client that wants none. */
static void drop_reply(struct okv_resp_client *client, size_t before)
{
    if (client->replies == OKV_RESP_REPLIES_ALL)
        return;
    client->out.used = before;
    if (client->replies == OKV_RESP_REPLIES_NOT_THIS)
        client->replies = OKV_RESP_REPLIES_NOT_NEXT;
    else if (client->replies == OKV_RESP_REPLIES_NOT_NEXT)
        client->replies = OKV_RESP_REPLIES_ALL;
}

int okv_resp_call(struct okv_resp_client *client, const struct okv_resp_arg *args, uint32_t count)
{
    size_t before = client->out.used;

    struct okv_resp_call call = {
        .client = client,
        .command = okv_resp_command_of(args, count),
        .args = args,
        .count = count,
        .reply = {&client->out, client->protocol},
        .executor = &client->resp->executors[client->database],
        .may_have_download = client->replies == OKV_RESP_REPLIES_ALL,
    };
    int rc = 0;

    call.is_part = call.command && runs_alone(&call);

    bool may = check(&call);
    if (may && client->upload && client->upload->failure) {
        okv_resp_refuse(&call, client->upload->failure);
        may = false;
    }
    if (may)
        atomic_store_explicit(&client->command, call.command->name, memory_order_relaxed);
    if (may && okv_resp_transaction_is_open(client) && !(call.command->flags & OKV_RESP_UNQUEUED))
        okv_resp_transaction_queue(&call);
    else if (may)
        rc = run(&call);
    if (rc == 0)
        drop_reply(client, before);
    return rc;
}
