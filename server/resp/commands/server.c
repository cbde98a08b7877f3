/* Commands of the server and of whole databases. */
#include <stdio.h>
#include <sys/time.h>

#include "server/command/change.h"
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/resp/run/staging.h"
#include "server/store/flush.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"

int okv_resp_cmd_dbsize(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply,
                     (int64_t)atomic_load(&call->executor->database->store.totals.items));
    return 0;
}

int okv_resp_cmd_time(struct okv_resp_call *call)
{
    struct timeval now;
    char text[24];

    if (call->staging)
        now = okv_resp_staging_wall(call);
    else
        gettimeofday(&now, NULL);
    okv_resp_array(&call->reply, 2);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_sec);
    okv_resp_text(&call->reply, text);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_usec);
    okv_resp_text(&call->reply, text);
    return 0;
}

/* Of a copy, without the address of its primary, which it may have no Redis listener for. */
static void describe_copy(struct okv_resp_call *call)
{
    okv_resp_array(&call->reply, 5);
    okv_resp_text(&call->reply, "slave");
    okv_resp_text(&call->reply, "");
    okv_resp_integer(&call->reply, 0);
    okv_resp_text(&call->reply, "connected");
    okv_resp_integer(&call->reply, 0);
}

int okv_resp_cmd_role(struct okv_resp_call *call)
{
    if (!okv_execute_is_led(call->executor)) {
        describe_copy(call);
        return 0;
    }
    okv_resp_array(&call->reply, 3);
    okv_resp_text(&call->reply, "master");
    okv_resp_integer(&call->reply, 0);
    okv_resp_array(&call->reply, 0);
    return 0;
}

/* There are no replicas, so none will ever acknowledge anything. */
int okv_resp_cmd_wait(struct okv_resp_call *call)
{
    int64_t replicas, timeout;

    if (!okv_resp_need_integer(call, 1, &replicas))
        return 0;
    if (!okv_resp_arg_integer(&call->args[2], &timeout))
        okv_resp_error(&call->reply, "ERR timeout is not an integer or out of range");
    else if (timeout < 0)
        okv_resp_error(&call->reply, "ERR timeout is negative");
    else
        okv_resp_integer(&call->reply, 0);
    return 0;
}

/* Nothing is recorded, so nothing is slow. */
int okv_resp_cmd_slowlog_get(struct okv_resp_call *call)
{
    const struct okv_resp_arg *name = &call->args[1];
    int64_t most = 0;

    if (call->count > 3)
        okv_resp_error(&call->reply,
                       "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try "
                       "SLOWLOG HELP.",
                       (int)name->length, (const char *)name->text);
    else if (call->count == 3 && (!okv_resp_arg_integer(&call->args[2], &most) || most < -1))
        okv_resp_error(&call->reply, "ERR count should be greater than or equal to -1");
    else
        okv_resp_array(&call->reply, 0);
    return 0;
}

int okv_resp_cmd_empty_list(struct okv_resp_call *call)
{
    okv_resp_array(&call->reply, 0);
    return 0;
}

int okv_resp_cmd_zero(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply, 0);
    return 0;
}

/* Commands that okv has no use for, and that clients expect to succeed. */
int okv_resp_cmd_nothing(struct okv_resp_call *call)
{
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* ---- FLUSHDB and FLUSHALL ---- */

/* One step, of many. 0: the database is empty, and its log has that; OKV_EAGAIN: go on later. */
static int flush_step(struct okv_resp_call *call, const struct okv_executor *executor)
{
    struct okv_resp_flush_progress *flush = &call->client->flush;
    struct okv_wal *wal = executor->database->wal;
    struct okv_change change;
    int status = 0;

    if (flush->is_empty)
        return okv_wal_is_committed(wal, flush->batch, &status) ? status : OKV_EAGAIN;
    if (!okv_change_begin_batch(&change, executor->database))
        return OKV_EAGAIN;
    /* What the last step removed is there again if its batch failed. */
    if (wal && okv_wal_is_committed(wal, flush->batch, &status) && status) {
        okv_change_end(&change, false);
        return status;
    }
    int rc =
        okv_store_flush(&executor->database->store, executor->work, &flush->next, &flush->splits);
    flush->batch = okv_change_end(&change, true);
    if (rc)
        return rc;
    flush->is_empty = flush->next == 0 && flush->batch;
    return flush->next || flush->batch ? OKV_EAGAIN : 0;
}

/* Databases from flush->database up to `last`. */
static int flush(struct okv_resp_call *call, unsigned first, unsigned last)
{
    struct okv_resp_flush_progress *flush = &call->client->flush;
    int rc = 0;

    if (call->count == 2 && !okv_resp_arg_is(&call->args[1], "SYNC") &&
        !okv_resp_arg_is(&call->args[1], "ASYNC"))
        return okv_resp_syntax_error(call);
    if (call->count > 2)
        return okv_resp_syntax_error(call);
    if (!flush->is_under_way)
        *flush = (struct okv_resp_flush_progress){.database = first, .is_under_way = true};
    while (rc == 0 && flush->database <= last) {
        const struct okv_executor *executor = &call->client->resp->executors[flush->database];
        rc = flush_step(call, executor);
        if (rc)
            break;
        OKV_STATS_ADD(&executor->database->counts, flushes, 1);
        *flush =
            (struct okv_resp_flush_progress){.database = flush->database + 1, .is_under_way = true};
        if (flush->database <= last)
            return OKV_EAGAIN; /* a database is a step at least */
    }
    if (rc == OKV_EAGAIN)
        return rc;
    if (rc)
        return okv_resp_refuse(call, rc);
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

int okv_resp_cmd_flushdb(struct okv_resp_call *call)
{
    return flush(call, call->client->common.database, call->client->common.database);
}

int okv_resp_cmd_flushall(struct okv_resp_call *call)
{
    return okv_resp_need_all(call) ? flush(call, 0, call->client->resp->server->database_count - 1)
                                   : 0;
}
