/* Sections of INFO that measure: memory, persistence, stats, commandstats, errorstats. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/database/database.h"
#include "server/resp/commands/commands.h"
#include "server/resp/commands/info.h"
#include "server/resp/proto/args.h"
#include "server/resp/run/call.h"
#include "server/resp/run/call_stats.h"
#include "server/resp/run/rates.h"
#include "server/resp/run/shared.h"
#include "server/resp/script/cache.h"
#include "server/wal/wal.h"
#include "shared/base/size.h"

#define LINE_MAX_TEXT 512

void okv_resp_info_add(struct okv_resp_buffer *out, const char *format, ...)
{
    char line[LINE_MAX_TEXT];
    va_list args;

    va_start(args, format);
    int length = vsnprintf(line, sizeof line, format, args);
    va_end(args);
    okv_resp_buffer_add(out, line, (size_t)length < sizeof line ? (size_t)length : sizeof line - 1);
}

/* ---- memory ---- */

/* Sums over the databases that the client sees. */
struct memory {
    uint64_t used, peak, resident, all;
};

/* Bytes that the kernel has provided for a region: the blocks of its memfd. */
static uint64_t resident_of(const struct okv_region *region)
{
    struct stat state;

    return fstat(region->fd, &state) == 0 ? (uint64_t)state.st_blocks * 512 : region->length;
}

static void measure(const struct okv_resp_client *client, struct memory *memory)
{
    const struct okv_server *server = client->resp->server;

    *memory = (struct memory){.used = 0};
    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_database *database = &server->databases[i];
        if (!okv_resp_sees(client, i))
            continue;
        memory->used += okv_heap_used(&database->store.heap);
        memory->peak += okv_heap_peak(&database->store.heap);
        memory->resident += resident_of(&database->region);
        memory->all += database->region.length;
    }
}

static void add_bytes(struct okv_resp_buffer *out, const char *name, uint64_t bytes)
{
    char text[OKV_SIZE_TEXT];

    okv_size_format(bytes, text, sizeof text);
    okv_resp_info_add(out, "%s:%" PRIu64 "\r\n%s_human:%s\r\n", name, bytes, name, text);
}

static double ratio(uint64_t a, uint64_t b)
{
    return b ? (double)a / (double)b : 0;
}

void okv_resp_info_memory(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    struct memory memory;
    unsigned scripts;
    size_t script_bytes;

    measure(client, &memory);
    okv_resp_script_count(client->resp->shared->scripts, &scripts, &script_bytes);
    add_bytes(out, "used_memory", memory.used);
    add_bytes(out, "used_memory_rss", memory.resident);
    add_bytes(out, "used_memory_peak", memory.peak);
    okv_resp_info_add(out, "used_memory_peak_perc:%.2f%%\r\n",
                      100 * ratio(memory.used, memory.peak));
    add_bytes(out, "total_system_memory",
              (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    okv_resp_info_add(out, "used_memory_scripts_eval:%zu\r\nnumber_of_cached_scripts:%u\r\n",
                      script_bytes, scripts);
    add_bytes(out, "maxmemory", memory.all);
    okv_resp_info_add(out,
                      "maxmemory_policy:%s\r\nmem_fragmentation_ratio:%.2f\r\n"
                      "mem_fragmentation_bytes:%" PRId64 "\r\n",
                      okv_resp_policy_of(client), ratio(memory.resident, memory.used),
                      (int64_t)memory.resident - (int64_t)memory.used);
    okv_resp_info_add(out,
                      "mem_clients_normal:%" PRIdFAST64 "\r\nmem_allocator:jemalloc-%d.%d.%d\r\n",
                      atomic_load(&client->resp->shared->memory), JEMALLOC_VERSION_MAJOR,
                      JEMALLOC_VERSION_MINOR, JEMALLOC_VERSION_BUGFIX);
}

/* ---- persistence ---- */

/* Of the logs that the client sees. */
struct logs {
    uint64_t saves, bytes, unsynced;
    uint64_t saved_ms; /* when the one was saved that was saved first; 0: one never was */
    uint64_t took_ns;  /* the longest of their last snapshots */
    bool is_saving, has_save_failed, has_log_failed;
};

static void add_log(struct logs *logs, const struct okv_database *database)
{
    uint64_t saved_ms = okv_resp_saved_ms(database);
    struct okv_wal_stats stats;

    logs->saved_ms = saved_ms < logs->saved_ms ? saved_ms : logs->saved_ms;
    if (!database->wal || !okv_wal_has_files(database->wal))
        return;
    okv_wal_get_stats(database->wal, &stats);
    logs->saves += stats.snapshots;
    logs->bytes += stats.log_bytes;
    logs->unsynced += stats.unsynced_bytes;
    logs->took_ns = stats.snapshot_ns > logs->took_ns ? stats.snapshot_ns : logs->took_ns;
    logs->is_saving = logs->is_saving || stats.is_snapshot_active;
    logs->has_save_failed = logs->has_save_failed || stats.has_snapshot_failed;
    logs->has_log_failed = logs->has_log_failed || stats.failure;
}

static void look_at_logs(const struct okv_resp_client *client, struct logs *logs)
{
    const struct okv_server *server = client->resp->server;

    *logs = (struct logs){.saved_ms = UINT64_MAX};
    for (unsigned i = 0; i < server->database_count; i++)
        if (okv_resp_sees(client, i))
            add_log(logs, &server->databases[i]);
    logs->saved_ms = logs->saved_ms == UINT64_MAX ? 0 : logs->saved_ms;
}

/* A log of okv is Redis' AOF, a snapshot its RDB file. Nothing rewrites a log. */
void okv_resp_info_persistence(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    bool has_log = client->resp->server->config.data != NULL;
    struct logs logs;

    look_at_logs(client, &logs);
    okv_resp_info_add(out, "loading:0\r\nasync_loading:0\r\nrdb_bgsave_in_progress:%d\r\n",
                      logs.is_saving);
    okv_resp_info_add(out, "rdb_last_save_time:%" PRIu64 "\r\nrdb_last_bgsave_status:%s\r\n",
                      logs.saved_ms / 1000, logs.has_save_failed ? "err" : "ok");
    okv_resp_info_add(out, "rdb_last_bgsave_time_sec:%lld\r\nrdb_saves:%" PRIu64 "\r\n",
                      logs.saves ? (long long)(logs.took_ns / 1000000000) : -1, logs.saves);
    okv_resp_info_add(out,
                      "aof_enabled:%d\r\naof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0\r\n"
                      "aof_last_rewrite_time_sec:-1\r\naof_current_rewrite_time_sec:-1\r\n"
                      "aof_last_bgrewrite_status:ok\r\naof_last_write_status:%s\r\n",
                      has_log, logs.has_log_failed ? "err" : "ok");
    if (has_log)
        okv_resp_info_add(out, "aof_current_size:%" PRIu64 "\r\naof_buffer_length:%" PRIu64 "\r\n",
                          logs.bytes, logs.unsynced);
}

/* ---- stats ---- */

static uint64_t count_expired(const struct okv_resp_client *client)
{
    const struct okv_server *server = client->resp->server;
    uint64_t expired = 0;

    for (unsigned i = 0; i < server->database_count; i++)
        if (okv_resp_sees(client, i))
            expired += atomic_load(&server->databases[i].store.totals.expired);
    return expired;
}

static uint64_t count_evicted(const struct okv_resp_client *client)
{
    const struct okv_server *server = client->resp->server;
    uint64_t evicted = 0;

    for (unsigned i = 0; i < server->database_count; i++) {
        const struct okv_store_eviction *eviction = &server->databases[i].store.eviction;
        if (okv_resp_sees(client, i))
            evicted += atomic_load(&eviction->evicted_new) + atomic_load(&eviction->evicted_main);
    }
    return evicted;
}

static uint64_t count_errors(const struct okv_server *server)
{
    uint64_t errors = 0;

    for (unsigned i = 0; i < OKV_RESP_ERROR_CODES; i++)
        errors += okv_resp_errors(server, (enum okv_resp_error_code)i);
    return errors;
}

/* Requests and replies of all clients; what RDMA and shared memory READ is not among them. */
static void add_traffic(struct okv_server *server, struct okv_resp_buffer *out)
{
    const struct okv_stats *stats = &server->stats;
    struct okv_resp_sample rate;

    okv_resp_rates_get(server, okv_clock_ns(), &rate);
    okv_resp_info_add(out, "instantaneous_ops_per_sec:%" PRIu64 "\r\n", rate.commands);
    okv_resp_info_add(
        out, "total_net_input_bytes:%" PRIuFAST64 "\r\ntotal_net_output_bytes:%" PRIuFAST64 "\r\n",
        atomic_load(&stats->bytes_in), atomic_load(&stats->bytes_out));
    okv_resp_info_add(out, "instantaneous_input_kbps:%.2f\r\ninstantaneous_output_kbps:%.2f\r\n",
                      (double)rate.bytes_in / 1024, (double)rate.bytes_out / 1024);
}

void okv_resp_info_stats(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    struct okv_server *server = client->resp->server;
    const struct okv_stats *stats = &server->stats;
    uint64_t rejected = atomic_load(&stats->rejected_busy) + atomic_load(&stats->rejected_user) +
                        atomic_load(&stats->rejected_address);

    okv_resp_info_add(out,
                      "total_connections_received:%" PRIuFAST64
                      "\r\ntotal_commands_processed:%" PRIuFAST64 "\r\n",
                      atomic_load(&stats->resp_clients_total), atomic_load(&stats->resp_commands));
    add_traffic(server, out);
    okv_resp_info_add(out, "rejected_connections:%" PRIu64 "\r\n", rejected);
    okv_resp_info_add(out, "sync_full:0\r\nsync_partial_ok:0\r\nsync_partial_err:0\r\n");
    okv_resp_info_add(
        out, "expired_keys:%" PRIu64 "\r\nevicted_keys:%" PRIu64 "\r\nevicted_clients:0\r\n",
        count_expired(client), count_evicted(client));
    okv_resp_info_add(out, "keyspace_hits:%" PRIuFAST64 "\r\nkeyspace_misses:%" PRIuFAST64 "\r\n",
                      atomic_load(&stats->resp_hits), atomic_load(&stats->resp_misses));
    okv_resp_info_add(
        out, "pubsub_channels:0\r\npubsub_patterns:0\r\nlatest_fork_usec:0\r\ntotal_forks:0\r\n");
    okv_resp_info_add(out, "total_error_replies:%" PRIu64 "\r\n", count_errors(server));
}

/* ---- commandstats, errorstats ---- */

static void add_command(const struct okv_server *server, const struct okv_resp_command_table *table,
                        unsigned index, struct okv_resp_buffer *out)
{
    const struct okv_resp_command_stats stats = okv_resp_command_stats(server, index);
    uint64_t us = okv_resp_steps_us(server, stats.steps);
    char name[32];

    if (!stats.calls && !stats.rejected)
        return;
    okv_resp_lower(table->commands[index].name, name, sizeof name);
    okv_resp_info_add(out,
                      "cmdstat_%s:calls=%" PRIu64 ",usec=%" PRIu64
                      ",usec_per_call=%.2f,rejected_calls=%" PRIu64 ",failed_calls=%" PRIu64 "\r\n",
                      name, stats.calls, us, ratio(us, stats.calls), stats.rejected, stats.failed);
}

void okv_resp_info_commandstats(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    const struct okv_resp_command_table *table = client->resp->commands;

    for (unsigned i = 0; i < table->count; i++)
        add_command(client->resp->server, table, i, out);
}

void okv_resp_info_errorstats(const struct okv_resp_client *client, struct okv_resp_buffer *out)
{
    for (unsigned i = 0; i < OKV_RESP_ERROR_CODES; i++) {
        enum okv_resp_error_code code = (enum okv_resp_error_code)i;
        uint64_t count = okv_resp_errors(client->resp->server, code);
        if (count)
            okv_resp_info_add(out, "errorstat_%s:count=%" PRIu64 "\r\n", okv_resp_error_name(code),
                              count);
    }
}
