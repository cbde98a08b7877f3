/* SAVE, BGSAVE and LASTSAVE: snapshots of databases, as `okv admin snapshot` asks for them. */
#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/durable.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/options.h"
#include "server/wal/snapshot/schedule.h"
#include "shared/base/error.h"

/* Databases [first, end) that such a command is about: all, for a user who is admin of all; else
 * the selected one. */
struct scope {
    unsigned first, end;
};

static struct scope scope_of(const struct okv_resp_client *client)
{
    unsigned own = client->common.database;

    if (okv_resp_is_admin_of_all(client))
        return (struct scope){0, client->resp->server->database_count};
    return (struct scope){own, own + 1};
}

static const struct okv_database *database_of(const struct okv_resp_call *call, unsigned index)
{
    return call->client->resp->executors[index].database;
}

/* In a cluster a log may keep nothing. */
static bool has_files(const struct okv_database *database)
{
    return database->wal && okv_wal_has_files(database->wal);
}

/* False: an error was replied. All databases of a server have a log, or none. */
static bool need_logs(struct okv_resp_call *call)
{
    if (has_files(call->executor->database))
        return true;
    okv_resp_error(&call->reply,
                   "ERR this server keeps its items in memory only: start okv-server with --data "
                   "DIR, or copy them with okv export");
    return false;
}

/* ---- LASTSAVE ---- */

uint64_t okv_resp_saved_ms(const struct okv_database *database)
{
    struct okv_wal_stats stats;

    if (!has_files(database))
        return 0;
    okv_wal_get_stats(database->wal, &stats);
    if (stats.snapshot_wall_ms || !database->durable)
        return stats.snapshot_wall_ms;
    return database->durable->found.snapshot_wall_ms;
}

/* When all of them were saved. */
int okv_resp_cmd_lastsave(struct okv_resp_call *call)
{
    const struct scope scope = scope_of(call->client);
    uint64_t earliest_ms = UINT64_MAX;

    for (unsigned i = scope.first; i < scope.end; i++) {
        uint64_t saved_ms = okv_resp_saved_ms(database_of(call, i));
        earliest_ms = saved_ms < earliest_ms ? saved_ms : earliest_ms;
    }
    okv_resp_integer(&call->reply, (int64_t)(earliest_ms / 1000));
    return 0;
}

/* ---- BGSAVE ---- */

static bool is_saving(const struct okv_resp_call *call, struct scope scope)
{
    struct okv_wal_stats stats;

    for (unsigned i = scope.first; i < scope.end; i++) {
        okv_wal_get_stats(database_of(call, i)->wal, &stats);
        if (stats.is_snapshot_active)
            return true;
    }
    return false;
}

int okv_resp_cmd_bgsave(struct okv_resp_call *call)
{
    const struct scope scope = scope_of(call->client);
    bool may_wait = call->count == 2 && okv_resp_arg_is(&call->args[1], "SCHEDULE");

    if (call->count > 1 && !may_wait)
        return okv_resp_syntax_error(call);
    if (!need_logs(call))
        return 0;
    bool waits = is_saving(call, scope);
    if (waits && !may_wait) {
        okv_resp_error(&call->reply, "ERR Background save already in progress");
        return 0;
    }
    for (unsigned i = scope.first; i < scope.end; i++)
        okv_wal_snapshot_request(database_of(call, i)->wal);
    okv_resp_simple(&call->reply,
                    waits ? "Background saving scheduled" : "Background saving started");
    return 0;
}

/* ---- SAVE ---- */

/* One database after the other. The client's progress has the number of the one whose snapshot it
 * awaits, counted from 1, and the snapshot's. */
int okv_resp_cmd_save(struct okv_resp_call *call)
{
    struct okv_resp_progress *progress = &call->client->progress;
    const struct scope scope = scope_of(call->client);
    uint64_t newest;
    int rc = 0;

    if (!need_logs(call))
        return 0;
    for (unsigned i = progress->next ? progress->next - 1 : scope.first; i < scope.end; i++) {
        struct okv_wal *wal = database_of(call, i)->wal;
        if (progress->next != i + 1)
            progress->sum = okv_wal_snapshot_request(wal);
        progress->next = i + 1;
        rc = okv_wal_snapshot_state(wal, progress->sum, &newest);
        if (rc == OKV_EAGAIN)
            return rc;
        if (rc && rc != OKV_ECONFLICT) /* another one replaced it, which has all of it, too */
            break;
        rc = 0;
    }
    if (rc)
        okv_resp_error(&call->reply, "ERR a snapshot failed: the log of okv-server says why");
    else
        okv_resp_simple(&call->reply, "OK");
    return 0;
}
