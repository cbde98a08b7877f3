/* INFO: the server as Redis describes itself. Of databases it has those in which the user has a
 * right. A figure that okv does not have is left out. */
#include "server/resp/commands/info.h"

#include <inttypes.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "server/command/execute.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/run/options.h"

/* That of the first listener on a network, without TLS if there is one; "0": there is none. */
static const char *port_of(const struct okv_config *config)
{
    const char *port = NULL, *tls_port = "0";

    for (unsigned i = config->resp_count; i-- > 0;) {
        const struct okv_uri *uri = &config->resp[i];
        if (!uri->path[0] && uri->tls)
            tls_port = uri->port;
        else if (!uri->path[0])
            port = uri->port;
    }
    return port ? port : tls_port;
}

static void add_server(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    uint64_t uptime_s = okv_server_uptime_ms(server) / 1000;
    struct timespec now;
    struct utsname system = {.sysname = ""};

    uname(&system);
    clock_gettime(CLOCK_REALTIME, &now);
    okv_resp_info_add(out, "redis_version:%s\r\nokv_version:%s\r\nredis_mode:standalone\r\n",
                      OKV_RESP_REDIS_VERSION, OKV_VERSION);
    okv_resp_info_add(out, "os:%.64s %.64s %.64s\r\narch_bits:%zu\r\nmultiplexing_api:epoll\r\n",
                      system.sysname, system.release, system.machine, 8 * sizeof(void *));
    okv_resp_info_add(out, "process_id:%ld\r\nrun_id:%016" PRIx64 "%016" PRIx64 "00000000\r\n",
                      (long)getpid(), server->boot_id, server->boot_id);
    okv_resp_info_add(out, "tcp_port:%s\r\nserver_time_usec:%lld\r\n", port_of(&server->config),
                      (long long)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    okv_resp_info_add(out, "uptime_in_seconds:%" PRIu64 "\r\nuptime_in_days:%" PRIu64 "\r\n",
                      uptime_s, uptime_s / 86400);
    okv_resp_info_add(out, "io_threads_active:%d\r\n", server->config.workers > 1);
}

/* None of Redis' commands that block is here. */
static void add_clients(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;

    okv_resp_info_add(
        out, "connected_clients:%" PRIuFAST64 "\r\ncluster_connections:0\r\nmaxclients:%u\r\n",
        atomic_load(&server->stats.resp_clients), server->config.max_clients);
    okv_resp_info_add(out,
                      "blocked_clients:0\r\ntracking_clients:0\r\nclients_in_timeout_table:0\r\n");
    okv_resp_info_add(out, "okv_sessions:%" PRIuFAST64 "\r\n",
                      atomic_load(&server->stats.sessions));
}

static void add_replication(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_executor *executor = &client->resp->executors[client->common.database];

    okv_resp_info_add(out,
                      "role:%s\r\nconnected_slaves:0\r\nmaster_failover_state:no-failover\r\n"
                      "repl_backlog_active:0\r\n",
                      okv_execute_is_led(executor) ? "master" : "slave");
}

static void add_usage(struct okv_resp_buffer *out, int who, const char *of)
{
    struct rusage usage;

    getrusage(who, &usage);
    okv_resp_info_add(out, "used_cpu_sys%s:%ld.%06ld\r\nused_cpu_user%s:%ld.%06ld\r\n", of,
                      (long)usage.ru_stime.tv_sec, (long)usage.ru_stime.tv_usec, of,
                      (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
}

static void add_cpu(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    (void)client;
    add_usage(out, RUSAGE_SELF, "");
    add_usage(out, RUSAGE_CHILDREN, "_children");
}

static void add_cluster(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    (void)client;
    okv_resp_info_add(out, "cluster_enabled:0\r\n");
}

static void add_keyspace(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_server *server = client->resp->server;
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store_totals *totals = &server->databases[i].store.totals;
        if (okv_resp_sees(client, i) && atomic_load(&totals->items))
            okv_resp_info_add(out,
                              "db%u:keys=%" PRIuFAST64 ",expires=%" PRIuFAST64 ",avg_ttl=0\r\n", i,
                              atomic_load(&totals->items), atomic_load(&totals->expiring));
    }
}

static const struct {
    const char *name, *title;
    okv_resp_info_section *add;
    bool is_extra; /* not among the default ones */
} sections[] = {
    {"server", "Server", add_server, false},
    {"clients", "Clients", add_clients, false},
    {"memory", "Memory", okv_resp_info_memory, false},
    {"persistence", "Persistence", okv_resp_info_persistence, false},
    {"stats", "Stats", okv_resp_info_stats, false},
    {"replication", "Replication", add_replication, false},
    {"cpu", "CPU", add_cpu, false},
    {"commandstats", "Commandstats", okv_resp_info_commandstats, true},
    {"errorstats", "Errorstats", okv_resp_info_errorstats, false},
    {"cluster", "Cluster", add_cluster, false},
    {"keyspace", "Keyspace", add_keyspace, false},
};

/* Words of INFO. */
#define SECTIONS_MAX 64u

/* Whether INFO is to have this section. */
static bool is_wanted(const struct okv_resp_call *call, unsigned index)
{
    for (uint32_t i = 1; i < call->count; i++)
        if (okv_resp_arg_is(&call->args[i], sections[index].name) ||
            okv_resp_arg_is(&call->args[i], "all") ||
            okv_resp_arg_is(&call->args[i], "everything") ||
            (okv_resp_arg_is(&call->args[i], "default") && !sections[index].is_extra))
            return true;
    return call->count == 1 && !sections[index].is_extra;
}

int okv_resp_cmd_info(struct okv_resp_call *call)
{
    struct okv_resp_buffer text = {.used = 0};

    if (!okv_resp_need_few(call, SECTIONS_MAX))
        return 0;
    for (unsigned i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!is_wanted(call, i))
            continue;
        okv_resp_info_add(&text, "%s# %s\r\n", text.used ? "\r\n" : "", sections[i].title);
        sections[i].add(call->client, &text);
    }
    okv_resp_verbatim(&call->reply, text.used ? (const char *)text.bytes : "", text.used);
    okv_resp_buffer_fini(&text);
    return 0;
}
