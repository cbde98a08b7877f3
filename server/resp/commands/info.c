/* INFO: the server as Redis describes itself. Of databases it has those in which the user has a
 * right. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/call.h"
#include "server/resp/run/options.h"
#include "server/wal/wal.h"
#include "shared/base/size.h"

#define LINE_MAX_TEXT 512

__attribute__((format(printf, 2, 3))) static void add(struct okv_resp_buffer *out,
                                                      const char *format, ...)
{
    char line[LINE_MAX_TEXT];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    okv_resp_buffer_add(out, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

typedef void section(const struct okv_resp_client *client, struct okv_resp_buffer *out);

static void add_server(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    uint64_t uptime_s = okv_server_uptime_ms(server) / 1000;

    add(out, "redis_version:%s\r\nokv_version:%s\r\nredis_mode:standalone\r\n",
        OKV_RESP_REDIS_VERSION, OKV_VERSION);
    add(out, "process_id:%ld\r\nrun_id:%016" PRIx64 "%016" PRIx64 "00000000\r\n", (long)getpid(),
        server->boot_id, server->boot_id);
    add(out, "uptime_in_seconds:%" PRIu64 "\r\nuptime_in_days:%" PRIu64 "\r\n", uptime_s,
        uptime_s / 86400);
    add(out, "io_threads_active:%u\r\n", server->config.workers);
}

static void add_clients(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    add(out, "connected_clients:%" PRIuFAST64 "\r\nmaxclients:%u\r\nblocked_clients:0\r\n",
        atomic_load(&server->stats.resp_clients), server->config.max_clients);
    add(out, "okv_sessions:%" PRIuFAST64 "\r\n", atomic_load(&server->stats.sessions));
}

static void add_memory(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    uint64_t used = 0, all = 0;
    char used_text[OKV_SIZE_TEXT], all_text[OKV_SIZE_TEXT];

    for (unsigned i = 0; i < server->database_count; i++) {
        if (!okv_resp_sees(client, i))
            continue;
        used += okv_heap_used(&server->databases[i].store.heap);
        all += server->databases[i].region.length;
    }
    okv_size_format(used, used_text, sizeof used_text);
    okv_size_format(all, all_text, sizeof all_text);
    add(out, "used_memory:%" PRIu64 "\r\nused_memory_human:%s\r\nused_memory_rss:%" PRIu64 "\r\n",
        used, used_text, all);
    add(out, "maxmemory:%" PRIu64 "\r\nmaxmemory_human:%s\r\nmaxmemory_policy:noeviction\r\n", all,
        all_text);
}

static void add_persistence(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    bool has_log = server->config.data != NULL, has_failed = false;

    for (unsigned i = 0; i < server->database_count; i++)
        has_failed = has_failed || (okv_resp_sees(client, i) && server->databases[i].wal &&
                                    okv_wal_failure(server->databases[i].wal));
    add(out, "loading:0\r\naof_enabled:%d\r\nrdb_bgsave_in_progress:0\r\n", has_log);
    add(out, "aof_last_write_status:%s\r\nrdb_last_bgsave_status:ok\r\n",
        has_failed ? "err" : "ok");
}

static void add_stats(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    uint64_t expired = 0;

    for (unsigned i = 0; i < server->database_count; i++)
        if (okv_resp_sees(client, i))
            expired += atomic_load(&server->databases[i].store.totals.expired);
    add(out, "total_connections_received:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_clients_total));
    add(out, "total_commands_processed:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_commands));
    add(out, "expired_keys:%" PRIu64 "\r\nevicted_keys:0\r\n", expired);
    add(out, "keyspace_hits:%" PRIuFAST64 "\r\nkeyspace_misses:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_hits), atomic_load(&server->stats.resp_misses));
}

static void add_replication(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    (void)client;
    add(out, "role:master\r\nconnected_slaves:0\r\n");
}

static void add_cpu(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    struct rusage usage;

    (void)client;
    getrusage(RUSAGE_SELF, &usage);
    add(out, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n", (long)usage.ru_stime.tv_sec,
        (long)usage.ru_stime.tv_usec, (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
}

static void add_keyspace(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store_totals *totals = &server->databases[i].store.totals;
        if (okv_resp_sees(client, i) && atomic_load(&totals->items))
            add(out, "db%u:keys=%" PRIuFAST64 ",expires=%" PRIuFAST64 ",avg_ttl=0\r\n", i,
                atomic_load(&totals->items), atomic_load(&totals->expiring));
    }
}

static const struct {
    const char *name, *title;
    section *add;
} sections[] = {
    {"server", "Server", add_server}, {"clients", "Clients", add_clients},
    {"memory", "Memory", add_memory}, {"persistence", "Persistence", add_persistence},
    {"stats", "Stats", add_stats},    {"replication", "Replication", add_replication},
    {"cpu", "CPU", add_cpu},          {"keyspace", "Keyspace", add_keyspace},
};

/* Words of INFO. */
#define SECTIONS_MAX 64u

/* Whether INFO is to have this section. */
static bool is_wanted(const struct okv_resp_call *call, const char *name)
{
    for (uint32_t i = 1; i < call->count; i++)
        if (okv_resp_arg_is(&call->args[i], name) || okv_resp_arg_is(&call->args[i], "all") ||
            okv_resp_arg_is(&call->args[i], "default") ||
            okv_resp_arg_is(&call->args[i], "everything"))
            return true;
    return call->count == 1;
}

int okv_resp_cmd_info(struct okv_resp_call *call)
{
    struct okv_resp_buffer text = {.used = 0};

    if (!okv_resp_need_few(call, SECTIONS_MAX))
        return 0;
    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!is_wanted(call, sections[i].name))
            continue;
        add(&text, "%s# %s\r\n", text.used ? "\r\n" : "", sections[i].title);
        sections[i].add(call->client, &text);
    }
    okv_resp_verbatim(&call->reply, text.used ? (const char *)text.bytes : "", text.used);
    okv_resp_buffer_fini(&text);
    return 0;
}
