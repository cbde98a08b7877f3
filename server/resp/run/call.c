#include "server/resp/run/call.h"

#include <inttypes.h>

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/command.h"
#include "server/resp/run/once.h"
#include "server/resp/run/transaction.h"
#include "server/wal/append.h"
#include "server/wal/format.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/format/opcode.h"
#include "shared/format/wire.h"

/* ---- rights ---- */

bool okv_resp_may(const struct okv_resp_client *client, unsigned database, unsigned right)
{
    return (client->rights[database] & right) == right;
}

bool okv_resp_sees(const struct okv_resp_client *client, unsigned database)
{
    return client->rights[database] != 0;
}

const char *okv_resp_policy_of(const struct okv_resp_client *client)
{
    static const char *const policies[] = {
        [OKV_STORE_REFUSE] = "noeviction",
        [OKV_STORE_EVICT] = "allkeys-lfu",
        [OKV_STORE_EVICT_EXPIRING] = "volatile-lfu",
    };
    const struct okv_server *server = client->resp->server;

    return policies[server->databases[client->common.database].store.eviction.mode];
}

bool okv_resp_is_admin_of_all(const struct okv_resp_client *client)
{
    unsigned count = client->resp->server->database_count, i = 0;

    while (i < count && okv_resp_may(client, i, OKV_RIGHT_ADMIN))
        i++;
    return i == count;
}

/* Of enum okv_right. */
static unsigned rights_needed(const struct okv_resp_command *command)
{
    unsigned flags = command->flags;

    return (flags & OKV_RESP_READ ? OKV_RIGHT_READ : 0u) |
           (flags & OKV_RESP_WRITE ? OKV_RIGHT_WRITE : 0u) |
           (flags & OKV_RESP_ADMIN ? OKV_RIGHT_ADMIN : 0u);
}

bool okv_resp_call_may(const struct okv_resp_call *call)
{
    unsigned right = rights_needed(call->command);

    return !right || okv_resp_may(call->client, call->client->common.database, right);
}

bool okv_resp_call_is_allowed(const struct okv_resp_call *call)
{
    if (okv_resp_call_may(call))
        return true;
    if (okv_resp_once_is_new(&call->client->denials))
        OKV_STATS_ADD(&call->executor->database->counts, denied, 1);
    okv_resp_once_pass(&call->client->denials);
    return false;
}

void okv_resp_refuse_right(struct okv_resp_call *call)
{
    static const char text[] = "NOPERM this user has no permissions to run the";
    unsigned held = call->client->rights[call->client->common.database];
    unsigned missing = rights_needed(call->command) & ~held;
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    if (held && missing)
        okv_resp_error(&call->reply, "%s '%s' command in database %s: it lacks the right %s", text,
                       name, call->executor->database->config->name, okv_right_name(missing));
    else
        okv_resp_error(&call->reply, "%s '%s' command", text, name);
}

bool okv_resp_need_all(struct okv_resp_call *call)
{
    bool is_admin = okv_resp_is_admin_of_all(call->client);
    bool is_seen = okv_resp_sees(call->client, call->client->common.database);
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    if (!is_admin)
        okv_resp_error(&call->reply,
                       "NOPERM this user has no permissions to run the '%s' command in all "
                       "databases%s",
                       name, is_seen ? ": it lacks the right admin in at least one" : "");
    return is_admin;
}

int okv_resp_refuse_count(struct okv_resp_call *call)
{
    char name[32];

    okv_resp_lower(call->command->name, name, sizeof name);
    okv_resp_error(&call->reply, "ERR wrong number of arguments for '%s' command", name);
    return 0;
}

int okv_resp_refuse_subcommand(struct okv_resp_call *call)
{
    const struct okv_resp_arg *part = &call->args[1];

    okv_resp_error(&call->reply, "ERR unknown subcommand '%.*s'. Try %s HELP.",
                   (int)(part->length < 128 ? part->length : 128), (const char *)part->text,
                   call->command->name);
    return 0;
}

uint64_t okv_resp_take_work(const struct okv_resp *resp)
{
    uint64_t work = 0;

    for (unsigned i = 0; i < resp->server->database_count; i++)
        work += okv_store_work_take(resp->executors[i].work);
    return work;
}

void okv_resp_begin_work(struct okv_resp_client *client)
{
    okv_resp_take_work(client->resp);
    for (unsigned i = 0; i < client->resp->server->database_count; i++)
        client->resp->executors[i].work->effort = &client->effort;
}

/* What was done since the last call. What EXEC replied was counted with its commands. */
static void spend(struct okv_resp_call *call)
{
    struct okv_resp *resp = call->client->resp;
    size_t used = call->reply.out->used;
    bool is_exec = call->command->flags & OKV_RESP_TRANSACTION;
    size_t replied = used > call->counted && !is_exec ? used - call->counted : 0;

    okv_turn_spend(&resp->turn, okv_resp_take_work(resp) + replied);
    call->counted = used;
}

bool okv_resp_has_to_pause(struct okv_resp_call *call)
{
    spend(call);
    return (call->is_preparing || !call->is_part) && okv_turn_left(&call->client->resp->turn) == 0;
}

int okv_resp_bulk_in_steps(struct okv_resp_call *call, const struct okv_resp_arg *arg)
{
    uint32_t *done = &call->client->progress.next;
    uint32_t length = arg->length - *done;

    if (*done == 0)
        okv_resp_bulk_head(&call->reply, arg->length);
    if (length > OKV_TURN_WORK && !call->is_part)
        length = OKV_TURN_WORK;
    okv_resp_buffer_add(call->reply.out, arg->text + *done, length);
    *done += length;
    if (*done < arg->length)
        return OKV_RESP_GOES_ON;
    *done = 0;
    okv_resp_buffer_add(call->reply.out, "\r\n", 2);
    return 0;
}

int okv_resp_execute(struct okv_resp_call *call)
{
    struct okv_resp *resp = call->client->resp;
    int rc = 0;

    call->counted = call->reply.out->used;
    okv_turn_spend(&resp->turn, OKV_TURN_ITEM);
    resp->counts.commands++;
    call->is_refused = !okv_resp_call_is_allowed(call);
    if (call->is_refused)
        okv_resp_refuse_right(call);
    else
        rc = call->command->run(call);
    spend(call);
    return rc;
}

/* ---- in the log's batch ---- */

/* Bytes of records of the command, at least, unless it makes values longer. */
static uint64_t log_bytes(const struct okv_resp_call *call)
{
    uint64_t bytes = okv_resp_log_bytes(call->args, call->count);

    return bytes + okv_resp_transaction_log_bytes(call->client);
}

/* One that changes several items does not stop in the middle because the log is full. */
static int run_reserved(struct okv_resp_call *call, struct okv_wal *wal,
                        int (*run)(struct okv_resp_call *call))
{
    int rc = okv_wal_batch_reserve(wal, log_bytes(call));

    if (rc == OKV_EAGAIN)
        return rc;
    if (rc) {
        okv_resp_error(&call->reply, "ERR the log takes at most %" PRIu64 " bytes of one command",
                       okv_wal_batch_reserve_max(wal));
        if (okv_resp_transaction_is_open(call->client))
            okv_resp_transaction_drop(call->client);
        return 0;
    }
    rc = run(call);
    okv_wal_batch_unreserve(wal);
    return rc;
}

int okv_resp_in_change(struct okv_resp_call *call, unsigned database,
                       int (*run)(struct okv_resp_call *call))
{
    struct okv_resp_client *client = call->client;
    const struct okv_executor *own = call->executor, *executor = &client->resp->executors[database];
    struct okv_wal *wal = executor->database->wal;
    size_t before = call->reply.out->used;
    struct okv_change change;
    int status;

    if (client->commit.batch && client->commit.database != database && wal)
        return OKV_EAGAIN;
    if (!okv_change_begin_batch(&change, executor->database))
        return OKV_EAGAIN;
    /* Replies wait for one batch at a time. Those of one that failed are errors first. */
    if (wal && okv_wal_is_committed(wal, client->commit.batch, &status) && status) {
        okv_change_end(&change, false);
        return OKV_EAGAIN;
    }
    call->executor = executor;
    call->is_in_change = wal != NULL;
    bool reserves = wal && call->is_part && !(call->command->flags & OKV_RESP_SCRIPT);
    int rc = reserves ? run_reserved(call, wal, run) : run(call);
    call->executor = own;
    call->is_in_change = false;
    bool has_replied = rc == OKV_RESP_GOES_ON && call->reply.out->used > before;
    bool is_done = rc == 0 || call->has_changed || has_replied;
    uint64_t batch = okv_change_end(&change, is_done);
    if (batch)
        okv_resp_defer(client, database, batch, before);
    return rc;
}
