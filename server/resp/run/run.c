#include "server/resp/run/run.h"

#include <stdio.h>

#include "server/command/exclusive.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/absent.h"
#include "server/resp/run/alone.h"
#include "server/resp/run/call.h"
#include "server/resp/run/call_stats.h"
#include "server/resp/run/command.h"
#include "server/resp/run/listing.h"
#include "server/resp/run/long_build.h"
#include "server/resp/run/long_read.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/pages.h"
#include "server/resp/run/place.h"
#include "server/resp/run/price.h"
#include "server/resp/run/transaction.h"
#include "server/resp/run/upload.h"
#include "server/store/room.h"
#include "server/wal/wal.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

/* ---- checks ---- */

/* Bytes of name and arguments of an unknown command that its error repeats, as Redis has it. */
#define REPEATED_MAX 128u

static int shorter(uint32_t length, size_t most)
{
    return (int)(length < most ? length : most);
}

static void refuse_unknown(struct okv_resp_call *call)
{
    const struct okv_resp_arg *name = &call->args[0];
    const char *lacks = okv_resp_absent(name);
    char args[REPEATED_MAX + 32] = "";
    size_t used = 0;

    for (uint32_t i = 1; i < call->count && used < REPEATED_MAX; i++)
        used += (size_t)snprintf(args + used, sizeof args - used, "'%.*s' ",
                                 shorter(call->args[i].length, REPEATED_MAX - used),
                                 (const char *)call->args[i].text);
    okv_resp_error(&call->reply, "ERR unknown command '%.*s', with args beginning with: %s%s%s%s",
                   shorter(name->length, REPEATED_MAX), (const char *)name->text, args,
                   lacks ? "(okv has no " : "", lacks ? lacks : "", lacks ? ")" : "");
}

/* EXEC ends a transaction in any case. */
static void refuse_count(struct okv_resp_call *call)
{
    if (!(call->command->flags & OKV_RESP_TRANSACTION)) {
        okv_resp_refuse_count(call);
        return;
    }
    okv_resp_error(&call->reply, "EXECABORT Transaction discarded because of: wrong number of "
                                 "arguments for 'exec' command");
    okv_resp_transaction_drop(call->client);
}

/* A command may have many keys, or pairs of them, but few other arguments: it looks at all of them
 * in one step. */
static bool may_have_so_many(const struct okv_resp_call *call)
{
    return call->count <= OKV_RESP_FEW || call->command->last_key < 0 ||
           call->command->flags & OKV_RESP_SCRIPT;
}

/* HTTP, sent by a browser on behalf of a web page, may hide commands that the page chose. Redis
 * ends such connections, too. */
static bool is_http(const struct okv_resp_arg *name)
{
    return okv_resp_arg_is(name, "POST") || okv_resp_arg_is(name, "HOST:");
}

static void refuse_stranger(struct okv_resp_call *call)
{
    okv_resp_error(&call->reply, "NOAUTH Authentication required.");
    okv_resp_place_refused(call->client, OKV_RESP_REFUSED_COMMAND);
}

/* Whether it looks at items. */
static bool needs_primary(const struct okv_resp_call *call)
{
    unsigned flags = call->command->flags;

    return flags & (OKV_RESP_WRITE | OKV_RESP_CHANGE | OKV_RESP_OWN_CHANGE | OKV_RESP_TABLE |
                    OKV_RESP_SCRIPT) ||
           (flags & OKV_RESP_READ && call->command->first_key != 0);
}

/* Only what is surely a read. */
static bool may_read_copy(const struct okv_resp_call *call)
{
    return call->client->reads_copies &&
           !(call->command->flags &
             (OKV_RESP_WRITE | OKV_RESP_CHANGE | OKV_RESP_OWN_CHANGE | OKV_RESP_SCRIPT)) &&
           okv_execute_is_fresh_copy(call->executor);
}

/* In the words of Redis. */
static void refuse_copy(struct okv_resp_call *call)
{
    if (call->command->flags & (OKV_RESP_WRITE | OKV_RESP_SCRIPT))
        okv_resp_error(&call->reply, "READONLY You can't write against a read only replica.");
    else
        okv_resp_error(&call->reply,
                       call->client->reads_copies
                           ? "MASTERDOWN This copy has not heard of its primary for a lease."
                           : "MASTERDOWN This server is a copy, and serves reads after READONLY.");
}

/* False: the command may not run at all, and an error was replied. */
static bool check(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    bool is_unauthenticated = !client->is_authenticated &&
                              !(call->command && call->command->flags & OKV_RESP_UNAUTHENTICATED);

    if (!call->command && is_http(&call->args[0]))
        client->state = OKV_RESP_DRAINING;
    else if (is_unauthenticated)
        refuse_stranger(call);
    else if (!call->command)
        refuse_unknown(call);
    else if (okv_resp_command_lacks_part(client->resp->commands, call->command, call->count))
        okv_resp_refuse_subcommand(call);
    else if (!okv_resp_command_takes(call->command, call->count))
        refuse_count(call);
    else if (!may_have_so_many(call))
        okv_resp_need_few(call, OKV_RESP_FEW);
    else if (needs_primary(call) && !okv_execute_is_led(call->executor) && !may_read_copy(call))
        refuse_copy(call);
    else if (okv_resp_transaction_is_open(client) && !okv_resp_call_is_allowed(call))
        okv_resp_refuse_right(call);
    else if (okv_resp_transaction_is_open(client) && call->command->flags & OKV_RESP_NO_MULTI)
        okv_resp_error(&call->reply, "ERR Command not allowed inside a transaction");
    else
        return true;
    okv_resp_transaction_spoil(client);
    return false;
}

/* ---- under its locks ---- */

/* A script that changes nothing reads; the commands that it calls need the right. */
static bool reads_items(unsigned flags)
{
    return flags & (OKV_RESP_READ | OKV_RESP_CONSISTENT);
}

/* A read that follows a change of this client sees what the change made, which is not published
 * yet. Then its reply waits as that of the change does. */
static bool needs_change(const struct okv_resp_call *call)
{
    const struct okv_resp_client *client = call->client;
    unsigned flags = call->command->flags;

    if (flags & (OKV_RESP_OWN_CHANGE | OKV_RESP_ADMIN | OKV_RESP_TABLE))
        return false;
    return flags & (OKV_RESP_WRITE | OKV_RESP_CHANGE) ||
           (reads_items(flags) && client->commit.batch &&
            client->commit.database == client->common.database);
}

/* Returns 0 when there is nothing more to do before it runs alone, or it was refused. */
static int prepare(struct okv_resp_call *call)
{
    if (!(call->command->flags & OKV_RESP_PREPARES))
        return 0;
    if (!okv_resp_call_is_allowed(call)) {
        okv_resp_refuse_right(call);
        return 0;
    }
    call->is_preparing = true;
    int rc = call->command->run(call);
    call->is_preparing = false;
    return rc;
}

static int run_exclusive(struct okv_resp_call *call, okv_resp_function *how)
{
    struct okv_exclusive *exclusive = call->client->resp->server->exclusive;
    struct okv_turn *turn = &call->client->resp->turn;
    size_t before = call->reply.out->used;
    int rc;

    /* Too many arguments are not worth stopping others for. */
    if (okv_resp_price_of_arguments(call->client, call->command, call->args, call->count) >
        okv_resp_alone_work(call->client)) {
        okv_resp_refuse_length(call);
        return 0;
    }
    rc = prepare(call);
    if (rc || call->reply.out->used > before)
        return rc; /* it is not ready, or was refused */
    uint64_t asked_ns = okv_clock_ns();
    if (!okv_exclusive_may_begin(exclusive, asked_ns) || !okv_exclusive_begin(exclusive, asked_ns))
        return OKV_EAGAIN;
    okv_turn_end_step(turn);
    uint64_t began_ns = okv_clock_ns();
    rc = how(call);
    uint64_t now_ns = okv_clock_ns();
    okv_exclusive_end(exclusive, now_ns, now_ns - began_ns);
    okv_turn_spend(turn, okv_resp_take_work(call->client->resp)); /* of what was refused */
    okv_resp_spend_filled(call->client);
    okv_turn_end_alone(turn);
    return rc;
}

/* EXEC without MULTI is an error, for which nobody has to stop. */
static bool runs_alone(const struct okv_resp_call *call)
{
    unsigned flags = call->command->flags;

    if (flags & OKV_RESP_SCRIPT)
        return call->client->wants_alone;
    return flags & OKV_RESP_EXCLUSIVE &&
           (!(flags & OKV_RESP_TRANSACTION) || okv_resp_transaction_is_open(call->client));
}

static int execute(struct okv_resp_call *call)
{
    const struct okv_executor *executor = call->executor;

    if (call->is_part && !okv_resp_alone_check(call))
        return 0;
    if (call->is_part &&
        !okv_store_room_is_ahead(&executor->database->store, executor->work, call->room))
        return OKV_EAGAIN;
    return okv_resp_execute(call);
}

static int run_in_change(struct okv_resp_call *call)
{
    return okv_resp_in_change(call, call->client->common.database, execute);
}

static bool reads_published(const struct okv_resp_call *call)
{
    unsigned flags = call->command->flags;

    if (flags & OKV_RESP_TRANSACTION && runs_alone(call))
        return call->client->transaction->reads_table;
    return flags & (OKV_RESP_TABLE | OKV_RESP_OWN_CHANGE);
}

/* Before it excludes others. */
static bool has_to_wait(const struct okv_resp_call *call)
{
    struct okv_wal *wal = call->executor->database->wal;
    unsigned flags = call->command->flags;

    if (reads_published(call) && call->client->commit.batch)
        return true; /* its changes are not published yet */
    if (!(flags & OKV_RESP_EXCLUSIVE) && !call->client->wants_alone)
        return false;
    return (wal && !okv_wal_is_batch_open(wal)) || okv_resp_transaction_waits(call->client);
}

/* What it has counted as once.h says is not counted again. */
static void run_again(struct okv_resp_client *client)
{
    client->uses.seen = client->denials.seen = 0;
}

/* A batch of the log is published item by item. A read meanwhile might see a part of what a command
 * changed, and then run as a change, while nothing is published. */
static int run_consistent(struct okv_resp_call *call)
{
    struct okv_resp *resp = call->client->resp;
    struct okv_wal *wal = call->executor->database->wal;
    const struct okv_resp_counts counts = resp->counts;
    const struct okv_resp_progress progress = call->client->progress;
    size_t before = call->reply.out->used;
    uint64_t moment = okv_wal_publish_seq(wal);

    if (moment % 2)
        return OKV_EAGAIN;
    int rc = execute(call);
    if (rc || !(call->command->flags & OKV_RESP_CONSISTENT) || okv_wal_publish_seq(wal) == moment)
        return rc;
    call->reply.out->used = before;
    okv_resp_download_end(call->client);
    call->client->progress = progress;
    resp->counts = counts;
    run_again(call->client);
    return run_in_change(call);
}

/* On a copy no change of its own can be waited for: it reads each key by itself. */
static okv_resp_function *way_of(const struct okv_resp_call *call)
{
    bool is_durable = call->executor->database->wal && okv_execute_is_led(call->executor);

    if (needs_change(call))
        return run_in_change;
    return reads_items(call->command->flags) && is_durable ? run_consistent : execute;
}

/* A copy may have stood still while it read, or have begun to load. A primary that was deposed
 * holds its replies (net/transfer.c). */
static void refuse_stale(struct okv_resp_call *call, size_t before)
{
    if (!call->client->reads_copies || call->client->reply_has_begun || !needs_primary(call) ||
        okv_execute_is_led(call->executor) || may_read_copy(call))
        return;
    call->reply.out->used = before;
    okv_resp_download_end(call->client);
    refuse_copy(call);
}

static int run_locked(struct okv_resp_call *call)
{
    struct okv_resp_client *client = call->client;
    const struct okv_resp_counts counts = client->resp->counts;
    okv_resp_function *how = way_of(call);
    size_t before = call->reply.out->used;
    int rc = OKV_EAGAIN;

    if (!has_to_wait(call))
        rc = runs_alone(call) ? run_exclusive(call, how) : how(call);
    if (rc == OKV_EAGAIN && client->wants_alone && !call->is_part) {
        client->resp->counts = counts; /* of what a script did in vain */
        run_again(client);
        call->is_part = true;
        rc = run_exclusive(call, how);
    }
    if (rc == 0)
        refuse_stale(call, before);
    if (rc == OKV_EAGAIN) {
        call->reply.out->used = before;
        client->resp->counts = counts;
    } else if (rc == OKV_RESP_GOES_ON) {
        client->resp->counts.commands = counts.commands;
    }
    return rc;
}

/* ---- a request ---- */

/* Forgets the progress of a command that has ended, maybe because it was refused in the middle. */
static void forget_progress(struct okv_resp_client *client)
{
    /* With a reply it was refused after all: the user may have lost the right meanwhile. */
    if (client->listing && client->listing->is_complete && client->out.used == 0)
        okv_resp_listing_reply(client);
    okv_resp_listing_destroy(client);
    client->random.is_under_way = false;
    client->flush.is_under_way = false;
    client->move_version = 0;
    client->wants_alone = client->has_logged = false;
    client->effort = (struct okv_effort){.has_begun = false};
    client->progress = (struct okv_resp_progress){.next = 0};
    okv_resp_buffer_fini(&client->text);
    okv_resp_buffer_discard(&client->bitop.versions, &client->resp->trash);
    client->bitop = (struct okv_resp_bitop){.next = 0};
    okv_resp_build_end(client);
    client->builds = 0;
    okv_resp_read_end(client);
}

/* Takes back the reply of a client that wants none. */
static void drop_reply(struct okv_resp_client *client, size_t before, bool goes_on)
{
    if (client->replies == OKV_RESP_REPLIES_ALL)
        return;
    client->out.used = before;
    if (goes_on)
        return;
    if (client->replies == OKV_RESP_REPLIES_NOT_THIS)
        client->replies = OKV_RESP_REPLIES_NOT_NEXT;
    else if (client->replies == OKV_RESP_REPLIES_NOT_NEXT)
        client->replies = OKV_RESP_REPLIES_ALL;
}

/* Before its reply may be dropped. Bytes after the begin of a reply are no error. */
static void count_call(const struct okv_resp_call *call, size_t before, uint64_t began,
                       bool has_run, int rc)
{
    struct okv_resp_client *client = call->client;
    size_t from = client->reply_has_begun ? client->out.used : before;

    if (call->command && has_run)
        okv_resp_count_steps(client->resp, call->command, began);
    if (rc == 0 && call->command)
        okv_resp_count_call(client->resp, call->command, &client->out, from,
                            has_run && !call->is_refused);
    else if (rc == 0)
        okv_resp_count_error(client->resp, &client->out, from);
    client->reply_has_begun =
        rc == OKV_RESP_GOES_ON && (client->reply_has_begun || client->out.used > before);
}

int okv_resp_run(struct okv_resp_client *client, const struct okv_resp_arg *args, uint32_t count)
{
    struct okv_resp_call call = {
        .client = client,
        .command = okv_resp_command_of(client->resp->commands, args, count),
        .args = args,
        .count = count,
        .reply = {&client->out, client->protocol},
        .reply_start = client->out.used,
        .counted = client->out.used,
        .executor = &client->resp->executors[client->common.database],
        .may_have_download = true,
    };
    const size_t before = client->out.used; /* MGET moves call.reply_start from key to key */
    const uint64_t began = okv_clock_steps();
    int rc = 0;

    call.is_part = call.command && runs_alone(&call);

    bool may = check(&call);
    if (may && client->upload && client->upload->failure) {
        okv_resp_refuse(&call, client->upload->failure);
        may = false;
    }
    run_again(client);
    if (may)
        atomic_store_explicit(&client->command, call.command->name, memory_order_relaxed);
    bool is_queued =
        may && okv_resp_transaction_is_open(client) && !(call.command->flags & OKV_RESP_UNQUEUED);
    if (is_queued)
        rc = okv_resp_transaction_queue(&call);
    else if (may)
        rc = run_locked(&call);
    count_call(&call, before, began, may && !is_queued, rc);
    if (rc == 0)
        forget_progress(client);
    if (rc == OKV_EAGAIN)
        return rc;
    client->uses = client->denials = (struct okv_resp_once){.seen = 0};
    drop_reply(client, before, rc == OKV_RESP_GOES_ON);
    return rc;
}
