#include "server/stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/database.h"
#include "server/durable.h"
#include "server/server.h"
#include "server/session/reply_cache.h"
#include "server/store/pending.h"
#include "server/wal/histogram.h"
#include "shared/base/clock.h"
#include "shared/format/superblock.h"

/* Whom to tell of each number. */
struct writer {
    void (*visit)(void *user, const char *name, uint64_t value);
    void *user;
};

/* Not inline: there are a hundred calls in a row. */
__attribute__((noinline)) static void write_figure(const struct writer *writer, const char *name,
                                                   uint64_t value)
{
    writer->visit(writer->user, name, value);
}

static uint64_t cpu_ms(void)
{
    struct timespec used;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (uint64_t)used.tv_sec * 1000u + (uint64_t)used.tv_nsec / 1000000u;
}

/* 0: the system does not say. */
static uint64_t resident_bytes(void)
{
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long long pages = 0;

    if (!file)
        return 0;
    if (fscanf(file, "%*u %llu", &pages) != 1)
        pages = 0;
    fclose(file);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void write_items(const struct writer *writer, struct okv_store *store)
{
    const struct okv_store_totals *totals = &store->totals;
    uint64_t items = atomic_load(&totals->items);

    write_figure(writer, "items", items);
    write_figure(writer, "user_bytes", atomic_load(&totals->user_bytes));
    write_figure(writer, "entry_bytes", atomic_load(&totals->entry_bytes));
    write_figure(writer, "items_in_extents", atomic_load(&totals->references));
    write_figure(writer, "extra_reads_per_1000",
                 items ? 1000 * atomic_load(&totals->extra_reads) / items : 0);
    write_figure(writer, "items_expiring", atomic_load(&totals->expiring));
    write_figure(writer, "expired", atomic_load(&totals->expired));
}

static void write_index(const struct writer *writer, struct okv_store *store)
{
    const struct okv_table *table = &store->table;

    write_figure(writer, "buckets", atomic_load(&store->bucket_count));
    write_figure(writer, "buckets_max", store->buckets_max);
    write_figure(writer, "overflow_buckets", atomic_load(&store->totals.overflow_pages));
    write_figure(writer, "splits", atomic_load(&store->totals.splits));
    write_figure(writer, "merges", atomic_load(&store->totals.merges));
    write_figure(writer, "bucket_bytes", table->bucket_size);
    write_figure(writer, "segment_bytes", (uint64_t)table->segment_buckets * table->bucket_size);
}

/* The parts of the region. They add up to the first number. */
static void write_region(const struct writer *writer, struct okv_store *store)
{
    uint64_t index = okv_store_index_length(store);
    uint64_t overflow = okv_store_overflow_length(store);
    uint64_t slack = okv_store_slack_length(store);
    uint64_t reached = okv_heap_reached(&store->heap);
    uint64_t used = okv_heap_used(&store->heap) - slack;

    write_figure(writer, "used_bytes", OKV_HEAP_OFFSET + used);
    write_figure(writer, "region_bytes", store->length);
    write_figure(writer, "superblock_bytes", OKV_HEAP_OFFSET);
    write_figure(writer, "index_bytes", index);
    write_figure(writer, "overflow_bytes", overflow);
    write_figure(writer, "extent_bytes", used - index - overflow);
    write_figure(writer, "heap_unused_bytes", reached - used);
    write_figure(writer, "never_used_bytes", store->length - OKV_HEAP_OFFSET - reached);
}

static void write_batches(const struct writer *writer, const struct okv_wal_stats *stats)
{
    const struct okv_wal_histogram *batches = stats->batches, *syncs = stats->syncs;

    if (stats->sync_within_ns != OKV_WAL_NEVER)
        write_figure(writer, "sync_within_ms", stats->sync_within_ns / 1000000u);
    write_figure(writer, "log_failed", stats->failure != 0);
    write_figure(writer, "disk_full", stats->is_disk_full);
    write_figure(writer, "unsynced_bytes", stats->unsynced_bytes);
    write_figure(writer, "log_bytes", stats->log_bytes);
    write_figure(writer, "value_file_bytes", stats->blob_bytes);
    write_figure(writer, "log_records", atomic_load(&batches->sum));
    write_figure(writer, "log_batches", atomic_load(&batches->count));
    write_figure(writer, "log_syncs", atomic_load(&syncs->count));
    write_figure(writer, "batch_records_p50", okv_wal_histogram_quantile(batches, 50));
    write_figure(writer, "batch_records_max", atomic_load(&batches->max));
    write_figure(writer, "sync_p50_us", okv_wal_histogram_quantile(syncs, 50) / 1000u);
    write_figure(writer, "sync_p99_us", okv_wal_histogram_quantile(syncs, 99) / 1000u);
    write_figure(writer, "sync_max_us", atomic_load(&syncs->max) / 1000u);
}

/* Without a snapshot there is no such figure. The wall clock may have been set back. */
static void write_snapshot_age(const struct writer *writer, uint64_t made_ms)
{
    uint64_t now_ms = okv_clock_wall_ms();

    if (made_ms)
        write_figure(writer, "snapshot_age_ms", now_ms > made_ms ? now_ms - made_ms : 0);
}

/* Of a durable database. */
static void write_log(const struct writer *writer, struct okv_durable *durable)
{
    const struct okv_wal_found *found = &durable->found;
    struct okv_wal_stats stats;

    okv_wal_get_stats(durable->wal, &stats);
    write_batches(writer, &stats);
    write_figure(writer, "snapshots", stats.snapshots);
    write_figure(writer, "snapshots_failed", stats.snapshots_failed);
    write_figure(writer, "snapshot_bytes", stats.snapshot_bytes);
    write_figure(writer, "snapshot_ms", stats.snapshot_ns / 1000000u);
    write_snapshot_age(writer,
                       stats.snapshot_wall_ms ? stats.snapshot_wall_ms : found->snapshot_wall_ms);
    write_figure(writer, "recovery_ms", durable->found_ns / 1000000u);
    write_figure(writer, "recovery_items", found->items);
}

static uint64_t times_count(const struct okv_times *times)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        count += atomic_load(&times->cells[i]);
    return count;
}

/* What `percent` of them took at most: the end of a cell, or the beginning of the last one, which
 * has none. 0: there are none. */
static uint64_t times_quantile_ns(const struct okv_times *times, unsigned percent)
{
    uint64_t count = times_count(times);
    uint64_t rank = count / 100 * percent + (count % 100 * percent + 99) / 100, below = 0;
    unsigned cell = 0;

    while (cell < OKV_REPORT_CELLS - 1 && (below += atomic_load(&times->cells[cell])) < rank)
        cell++;
    if (count == 0)
        return 0;
    return okv_report_cell_end(cell < OKV_REPORT_CELLS - 1 ? cell : cell - 1);
}

/* Beside the counts that they report. */
static void write_clients(const struct writer *writer, struct okv_database *database)
{
    const struct okv_times *times = &database->client_times;

    write_figure(writer, "client_reporting", atomic_load(&database->reporting));
    write_figure(writer, "client_gets_timed", times_count(times));
    write_figure(writer, "client_gets_timed_ns", atomic_load(&times->ns));
    write_figure(writer, "client_get_p50_ns", times_quantile_ns(times, 50));
    write_figure(writer, "client_get_p99_ns", times_quantile_ns(times, 99));
}

static void write_writes(const struct writer *writer, const struct okv_times *times)
{
    write_figure(writer, "writes_timed", times_count(times));
    write_figure(writer, "writes_timed_ns", atomic_load(&times->ns));
    write_figure(writer, "write_p50_ns", times_quantile_ns(times, 50));
    write_figure(writer, "write_p99_ns", times_quantile_ns(times, 99));
}

static void write_server(const struct writer *writer, struct okv_server *server)
{
    struct okv_stats *stats = &server->stats;

    write_figure(writer, "pid", (uint64_t)getpid());
    write_figure(writer, "cpu_ms", cpu_ms());
    write_figure(writer, "resident_bytes", resident_bytes());
    write_figure(writer, "workers", server->config.workers);
    write_figure(writer, "max_clients", server->config.max_clients);
#define OKV_STATS_WRITE(name, text) write_figure(writer, #name, atomic_load(&stats->name));
    OKV_STATS_NOW_LIST(OKV_STATS_WRITE)
    OKV_STATS_LIST(OKV_STATS_WRITE)
#undef OKV_STATS_WRITE
}

static void write_database(const struct writer *writer, struct okv_server *server,
                           struct okv_database *database)
{
    struct okv_counts *counts = &database->counts;

    write_figure(writer, "uptime_ms", okv_server_uptime_ms(server));
    write_figure(writer, "reply_caches", okv_reply_caches_count(database->reply_caches));
    write_items(writer, &database->store);
    write_index(writer, &database->store);
    write_region(writer, &database->store);
    if (database->wal)
        write_log(writer, database->durable);
#define OKV_COUNTS_WRITE(name, text) write_figure(writer, #name, atomic_load(&counts->name));
    OKV_COUNTS_LIST(OKV_COUNTS_WRITE)
#undef OKV_COUNTS_WRITE
    write_clients(writer, database);
    write_writes(writer, &database->write_times);
}

void okv_stats_each(struct okv_server *server, struct okv_database *database,
                    void (*visit)(void *user, const char *name, uint64_t value), void *user)
{
    const struct writer writer = {visit, user};

    if (database)
        write_database(&writer, server, database);
    else
        write_server(&writer, server);
}

/* ---- lines ---- */

struct lines {
    char *out;
    size_t size;
    size_t used; /* bytes so far; those beyond `size` are not written */
};

__attribute__((format(printf, 2, 3))) static void add_text(struct lines *lines, const char *format,
                                                           ...)
{
    char line[512];
    va_list arguments;

    va_start(arguments, format);
    size_t length = (size_t)vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    if (length >= sizeof line)
        length = sizeof line - 1;
    if (lines->used < lines->size) {
        size_t room = lines->size - lines->used;
        memcpy(lines->out + lines->used, line, length < room ? length : room);
    }
    lines->used += length;
}

static void add_line(void *user, const char *name, uint64_t value)
{
    add_text(user, "%s %" PRIu64 "\n", name, value);
}

/* The command-line program takes the first line for the beginning of what is the server's. */
static void add_server(struct lines *lines, struct okv_server *server)
{
    add_text(lines, "version %s\n", OKV_VERSION);
    for (unsigned i = 0; i < server->listener_count; i++)
        add_text(lines, "listener_%u %s %s\n", i + 1, server->listeners[i]->where,
                 server->listeners[i]->how);
    for (unsigned i = 0; i < server->socket_count; i++)
        add_text(lines, "listener_%u %s %s\n", server->listener_count + i + 1,
                 server->sockets[i].where, server->sockets[i].how);
    okv_stats_each(server, NULL, add_line, lines);
}

size_t okv_stats_render(struct okv_server *server, struct okv_database *database, bool with_server,
                        char *out, size_t size)
{
    struct lines lines = {.out = out, .size = size};

    add_text(&lines, "boot_id %016" PRIx64 "\n", server->boot_id);
    okv_stats_each(server, database, add_line, &lines);
    if (with_server)
        add_server(&lines, server);
    return lines.used;
}

size_t okv_stats_render_server(struct okv_server *server, char *out, size_t size)
{
    struct lines lines = {.out = out, .size = size};

    add_server(&lines, server);
    return lines.used;
}
