/* Commands about the server and one of its items: INFO, CONFIG, OBJECT and their like. */
#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

#include "server/resp/commands/commands.h"
#include "server/resp/resp.h"
#include "server/resp/run/lookup.h"
#include "server/resp/run/options.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/base/size.h"

#define LINE_MAX_TEXT 512

int okv_resp_run_dbsize(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply,
                     (int64_t)atomic_load(&call->executor->database->store.totals.items));
    return 0;
}

int okv_resp_run_time(struct okv_resp_call *call)
{
    struct timeval now;
    char text[24];

    gettimeofday(&now, NULL);
    okv_resp_array(&call->reply, 2);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_sec);
    okv_resp_text(&call->reply, text);
    snprintf(text, sizeof text, "%lld", (long long)now.tv_usec);
    okv_resp_text(&call->reply, text);
    return 0;
}

int okv_resp_run_role(struct okv_resp_call *call)
{
    okv_resp_array(&call->reply, 3);
    okv_resp_text(&call->reply, "master");
    okv_resp_integer(&call->reply, 0);
    okv_resp_array(&call->reply, 0);
    return 0;
}

/* Nothing is recorded, so nothing is slow. */
int okv_resp_run_empty_list(struct okv_resp_call *call)
{
    okv_resp_array(&call->reply, 0);
    return 0;
}

int okv_resp_run_zero(struct okv_resp_call *call)
{
    okv_resp_integer(&call->reply, 0);
    return 0;
}

/* What okv has nothing for, and clients expect to succeed. */
int okv_resp_run_nothing(struct okv_resp_call *call)
{
    okv_resp_simple(&call->reply, "OK");
    return 0;
}

/* ---- of one item ---- */

struct look {
    uint32_t value_length;
    bool is_integer;
};

static int visit(void *user, const struct okv_store_now *now)
{
    struct look *look = user;
    int64_t ignored;

    look->value_length = now->value_length;
    look->is_integer = okv_resp_integer_parse(now->value, now->value_length, &ignored);
    return 0;
}

/* Replies with what `tell` says of the item, or null without one. */
static int tell_of_item(struct okv_resp_call *call,
                        void (*tell)(struct okv_resp_call *call, const struct look *look))
{
    struct look look;
    int rc = okv_resp_look(call, &call->args[2], visit, &look);

    if (rc == OKV_ENOTFOUND)
        okv_resp_null(&call->reply);
    else if (rc)
        return okv_resp_refuse(call, rc);
    else
        tell(call, &look);
    return 0;
}

/* Bytes of flags, lengths and age of an entry. */
#define ENTRY_HEAD 5

static void tell_usage(struct okv_resp_call *call, const struct look *look)
{
    okv_resp_integer(&call->reply, (int64_t)ENTRY_HEAD + call->args[2].length + look->value_length);
}

int okv_resp_run_memory_usage(struct okv_resp_call *call)
{
    return tell_of_item(call, tell_usage);
}

/* Strings of up to this length are "embstr" to Redis. */
#define EMBEDDED_MAX 44

static void tell_encoding(struct okv_resp_call *call, const struct look *look)
{
    okv_resp_text(&call->reply, look->is_integer                     ? "int"
                                : look->value_length <= EMBEDDED_MAX ? "embstr"
                                                                     : "raw");
}

int okv_resp_run_object_encoding(struct okv_resp_call *call)
{
    return tell_of_item(call, tell_encoding);
}

static void tell_refcount(struct okv_resp_call *call, const struct look *look)
{
    (void)look;
    okv_resp_integer(&call->reply, 1);
}

int okv_resp_run_object_refcount(struct okv_resp_call *call)
{
    return tell_of_item(call, tell_refcount);
}

/* ---- INFO ---- */

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

typedef void section(struct okv_server *server, struct okv_resp_buffer *out);

static void add_server(struct okv_server *server, struct okv_resp_buffer *out)
{
    uint64_t uptime_s = okv_server_uptime_ms(server) / 1000;

    add(out, "redis_version:%s\r\nokv_version:%s\r\nredis_mode:standalone\r\n",
        OKV_RESP_REDIS_VERSION, OKV_VERSION);
    add(out, "process_id:%ld\r\nrun_id:%016" PRIx64 "%016" PRIx64 "00000000\r\n", (long)getpid(),
        server->boot_id, server->boot_id);
    add(out, "uptime_in_seconds:%" PRIu64 "\r\nuptime_in_days:%" PRIu64 "\r\n", uptime_s,
        uptime_s / 86400);
    add(out, "io_threads_active:%u\r\n", server->config.workers);
}

static void add_clients(struct okv_server *server, struct okv_resp_buffer *out)
{
    add(out, "connected_clients:%" PRIuFAST64 "\r\nmaxclients:%u\r\nblocked_clients:0\r\n",
        atomic_load(&server->stats.resp_clients), server->config.max_clients);
    add(out, "okv_sessions:%" PRIuFAST64 "\r\n", atomic_load(&server->stats.sessions));
}

static void add_memory(struct okv_server *server, struct okv_resp_buffer *out)
{
    uint64_t used = 0, all = 0;
    char used_text[OKV_SIZE_TEXT], all_text[OKV_SIZE_TEXT];

    for (unsigned i = 0; i < server->database_count; i++) {
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

static void add_persistence(struct okv_server *server, struct okv_resp_buffer *out)
{
    bool has_log = server->config.data != NULL, has_failed = false;

    for (unsigned i = 0; i < server->database_count; i++)
        has_failed = has_failed ||
                     (server->databases[i].wal && atomic_load(&server->databases[i].wal->failure));
    add(out, "loading:0\r\naof_enabled:%d\r\nrdb_bgsave_in_progress:0\r\n", has_log);
    add(out, "aof_last_write_status:%s\r\nrdb_last_bgsave_status:ok\r\n",
        has_failed ? "err" : "ok");
}

static void add_stats(struct okv_server *server, struct okv_resp_buffer *out)
{
    uint64_t expired = 0;

    for (unsigned i = 0; i < server->database_count; i++)
        expired += atomic_load(&server->databases[i].store.totals.expired);
    add(out, "total_connections_received:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_clients_total));
    add(out, "total_commands_processed:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_commands));
    add(out, "expired_keys:%" PRIu64 "\r\nevicted_keys:0\r\n", expired);
    add(out, "keyspace_hits:%" PRIuFAST64 "\r\nkeyspace_misses:%" PRIuFAST64 "\r\n",
        atomic_load(&server->stats.resp_hits), atomic_load(&server->stats.resp_misses));
}

static void add_replication(struct okv_server *server, struct okv_resp_buffer *out)
{
    (void)server;
    add(out, "role:master\r\nconnected_slaves:0\r\n");
}

static void add_cpu(struct okv_server *server, struct okv_resp_buffer *out)
{
    struct rusage usage;

    (void)server;
    getrusage(RUSAGE_SELF, &usage);
    add(out, "used_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\n", (long)usage.ru_stime.tv_sec,
        (long)usage.ru_stime.tv_usec, (long)usage.ru_utime.tv_sec, (long)usage.ru_utime.tv_usec);
}

static void add_keyspace(struct okv_server *server, struct okv_resp_buffer *out)
{
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store_totals *totals = &server->databases[i].store.totals;
        if (atomic_load(&totals->items))
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

/* Whether INFO is to have this section. */
static bool is_wanted(const struct okv_resp_call *call, const char *name)
{
    for (uint32_t i = 1; i < call->count; i++)
        if (okv_resp_is(&call->args[i], name) || okv_resp_is(&call->args[i], "all") ||
            okv_resp_is(&call->args[i], "default") || okv_resp_is(&call->args[i], "everything"))
            return true;
    return call->count == 1;
}

int okv_resp_run_info(struct okv_resp_call *call)
{
    struct okv_resp_buffer text = {.used = 0};

    for (size_t i = 0; i < sizeof sections / sizeof *sections; i++) {
        if (!is_wanted(call, sections[i].name))
            continue;
        add(&text, "%s# %s\r\n", text.used ? "\r\n" : "", sections[i].title);
        sections[i].add(call->client->resp->server, &text);
    }
    okv_resp_verbatim(&call->reply, text.used ? (const char *)text.bytes : "", text.used);
    okv_resp_buffer_fini(&text);
    return 0;
}

/* ---- CONFIG ---- */

/* What dashboards and clients ask for, as it is here. */
static void tell_setting(const struct okv_server *server, unsigned index, char *out, size_t size)
{
    uint64_t memory = 0;

    switch (index) {
    case 0:
        for (unsigned i = 0; i < server->database_count; i++)
            memory += server->databases[i].region.length;
        snprintf(out, size, "%" PRIu64, memory);
        break;
    case 1:
        snprintf(out, size, "%u", server->config.max_clients);
        break;
    case 2:
        snprintf(out, size, "%u", server->database_count);
        break;
    case 3:
        snprintf(out, size, "%u", server->config.idle_s);
        break;
    case 4:
        snprintf(out, size, "%s", server->config.data ? "yes" : "no");
        break;
    case 5:
        snprintf(out, size, "%u", OKV_VALUE_MAX);
        break;
    case 6:
        snprintf(out, size, "noeviction");
        break;
    default:
        *out = '\0';
        break;
    }
}

static const char *const settings[] = {"maxmemory",        "maxclients", "databases",
                                       "timeout",          "appendonly", "proto-max-bulk-len",
                                       "maxmemory-policy", "save"};
#define SETTING_COUNT (sizeof settings / sizeof *settings)

static bool is_asked_for(const struct okv_resp_call *call, const char *name)
{
    for (uint32_t i = 2; i < call->count; i++) {
        char pattern[64];
        uint32_t length = call->args[i].length < sizeof pattern ? call->args[i].length : 0;
        for (uint32_t k = 0; k < length; k++)
            pattern[k] = (char)tolower(call->args[i].text[k]);
        if (okv_resp_matches((const uint8_t *)pattern, length, (const uint8_t *)name, strlen(name)))
            return true;
    }
    return false;
}

int okv_resp_run_config_get(struct okv_resp_call *call)
{
    char value[64];
    size_t count = 0;

    for (size_t i = 0; i < SETTING_COUNT; i++)
        count += is_asked_for(call, settings[i]);
    okv_resp_map(&call->reply, count);
    for (unsigned i = 0; i < SETTING_COUNT; i++) {
        if (!is_asked_for(call, settings[i]))
            continue;
        tell_setting(call->client->resp->server, i, value, sizeof value);
        okv_resp_text(&call->reply, settings[i]);
        okv_resp_text(&call->reply, value);
    }
    return 0;
}

/* What runs is set by the options of okv-server; SIGHUP has it read some of them again. */
int okv_resp_run_config_set(struct okv_resp_call *call)
{
    const struct okv_resp_arg *name = &call->args[2];

    if (call->count % 2 == 1)
        return okv_resp_syntax_error(call);
    okv_resp_error(&call->reply,
                   "ERR CONFIG SET failed (possibly related to argument '%.*s') - set it in the "
                   "configuration file of okv-server",
                   (int)(name->length < 64 ? name->length : 64), (const char *)name->text);
    return 0;
}
