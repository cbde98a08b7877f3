#include "server/metrics/stats.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "server/core/door.h"
#include "server/core/server.h"
#include "server/database/database.h"
#include "server/database/durable.h"
#include "server/database/reply_cache.h"
#include "server/store/ages.h"
#include "server/store/pending.h"
#include "server/wal/histogram.h"
#include "shared/base/clock.h"
#include "shared/format/superblock.h"

struct writer {
    okv_stats_visit *visit;
    void *user;
};

/* Not inline: there are a hundred calls in a row. */
__attribute__((noinline)) static void write_gauge(const struct writer *writer, const char *name,
                                                  const char *help, uint64_t value)
{
    writer->visit(writer->user, &(const struct okv_metric){name, help, false}, value);
}

__attribute__((noinline)) static void write_counter(const struct writer *writer, const char *name,
                                                    const char *help, uint64_t value)
{
    writer->visit(writer->user, &(const struct okv_metric){name, help, true}, value);
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

    write_gauge(writer, "items", "items, expired ones included until they are removed", items);
    write_gauge(writer, "user_bytes", "bytes of keys and values", atomic_load(&totals->user_bytes));
    write_gauge(writer, "entry_bytes", "bytes that items take in buckets and extents",
                atomic_load(&totals->entry_bytes));
    write_gauge(writer, "items_in_extents", "items outside of their buckets",
                atomic_load(&totals->references));
    write_gauge(writer, "extra_reads_per_1000", "READs that 1000 gets take beyond the first",
                items ? 1000 * atomic_load(&totals->extra_reads) / items : 0);
    write_gauge(writer, "items_expiring", "items with a time to live",
                atomic_load(&totals->expiring));
    write_counter(writer, "expired", "items removed when they had expired",
                  atomic_load(&totals->expired));
}

static void write_eviction(const struct writer *writer, const struct okv_store *store)
{
    const struct okv_store_eviction *eviction = &store->eviction;

    write_gauge(writer, "evicts", "1: items are evicted for room; 2: those with a time to live",
                eviction->mode);
    write_counter(writer, "evicted_new", "items evicted before they were used again",
                  atomic_load(&eviction->evicted_new));
    write_counter(writer, "evicted_main", "items evicted that had been used again",
                  atomic_load(&eviction->evicted_main));
    write_counter(writer, "evicted_in_bucket", "of both, for room in their bucket",
                  atomic_load(&eviction->evicted_in_bucket));
    write_counter(writer, "evicted_bytes", "bytes of keys and values that were evicted",
                  atomic_load(&eviction->evicted_bytes));
    write_counter(writer, "puts_of_evicted", "new items that had been evicted not long before",
                  atomic_load(&eviction->puts_of_evicted));
    write_counter(writer, "puts_refused_evicting", "changes that found no room for all that",
                  atomic_load(&eviction->refused));
    write_counter(writer, "copied_bytes", "bytes copied to put free memory together",
                  atomic_load(&eviction->copied_bytes));
    write_gauge(writer, "new_hand_ms",
                "time since the last use of new items evicted last, mean of a sample",
                okv_ages_mean_ms(store->table.ages, true));
    write_gauge(writer, "main_hand_ms", "the same of other items",
                okv_ages_mean_ms(store->table.ages, false));
}

static void write_index(const struct writer *writer, struct okv_store *store)
{
    const struct okv_table *table = &store->table;

    write_gauge(writer, "buckets", "buckets of the index", atomic_load(&store->bucket_count));
    write_gauge(writer, "buckets_max", "most buckets that there may be", store->buckets_max);
    write_gauge(writer, "overflow_buckets", "pages of buckets beyond the first",
                atomic_load(&store->totals.overflow_pages));
    write_counter(writer, "splits", "buckets split", atomic_load(&store->totals.splits));
    write_counter(writer, "merges", "buckets merged", atomic_load(&store->totals.merges));
    write_gauge(writer, "bucket_bytes", "bytes of a bucket", table->bucket_size);
    write_gauge(writer, "segment_bytes", "bytes of a segment of the index",
                (uint64_t)table->segment_buckets * table->bucket_size);
}

/* The parts of the region. They add up to the first number. */
static void write_region(const struct writer *writer, struct okv_store *store)
{
    uint64_t index = okv_store_index_length(store);
    uint64_t overflow = okv_store_overflow_length(store);
    uint64_t slack = okv_store_slack_length(store);
    uint64_t reached = okv_heap_reached(&store->heap);
    uint64_t used = okv_heap_used(&store->heap) - slack;

    write_gauge(writer, "used_bytes", "bytes of it in use", OKV_HEAP_OFFSET + used);
    write_gauge(writer, "region_bytes", "bytes of the registered memory", store->length);
    write_gauge(writer, "superblock_bytes", "bytes of the region's head", OKV_HEAP_OFFSET);
    write_gauge(writer, "index_bytes", "bytes of the index", index);
    write_gauge(writer, "overflow_bytes", "bytes of overflow pages", overflow);
    write_gauge(writer, "extent_bytes", "bytes of extents", used - index - overflow);
    write_gauge(writer, "heap_unused_bytes", "bytes that were used and are free", reached - used);
    write_gauge(writer, "never_used_bytes", "bytes that were never used",
                store->length - OKV_HEAP_OFFSET - reached);
}

static void write_batches(const struct writer *writer, const struct okv_wal_stats *stats)
{
    const struct okv_wal_histogram *batches = stats->batches, *syncs = stats->syncs;

    if (stats->sync_within_ns != OKV_WAL_NEVER)
        write_gauge(writer, "sync_within_ms", "time that a change may wait for its sync",
                    stats->sync_within_ns / 1000000u);
    write_gauge(writer, "log_failed", "1: the log failed, and there are no writes",
                stats->failure != 0);
    write_gauge(writer, "disk_full", "1: there are no writes until the disk has space",
                stats->is_disk_full);
    write_gauge(writer, "unsynced_bytes", "bytes of the log that are not durable",
                stats->unsynced_bytes);
    write_gauge(writer, "log_bytes", "bytes of the log that a start reads", stats->log_bytes);
    write_gauge(writer, "value_file_bytes", "bytes of long values in files of their own",
                stats->blob_bytes);
    write_counter(writer, "log_records", "changes written to the log", atomic_load(&batches->sum));
    write_counter(writer, "log_batches", "batches written to the log",
                  atomic_load(&batches->count));
    write_counter(writer, "log_syncs", "syncs of the log", atomic_load(&syncs->count));
    write_gauge(writer, "batch_records_p50", "records of a batch, median",
                okv_wal_histogram_quantile(batches, 50));
    write_gauge(writer, "batch_records_max", "records of the largest batch",
                atomic_load(&batches->max));
    write_gauge(writer, "sync_p50_us", "time of a sync, median",
                okv_wal_histogram_quantile(syncs, 50) / 1000u);
    write_gauge(writer, "sync_p99_us", "time of a sync, 99th percentile",
                okv_wal_histogram_quantile(syncs, 99) / 1000u);
    write_gauge(writer, "sync_max_us", "time of the longest sync",
                atomic_load(&syncs->max) / 1000u);
}

/* Left out without a snapshot. The wall clock may have been set back. */
static void write_snapshot_age(const struct writer *writer, uint64_t made_ms)
{
    uint64_t now_ms = okv_clock_wall_ms();

    if (made_ms)
        write_gauge(writer, "snapshot_age_ms", "age of the newest snapshot",
                    now_ms > made_ms ? now_ms - made_ms : 0);
}

/* Of a durable database. */
static void write_log(const struct writer *writer, struct okv_durable *durable)
{
    const struct okv_wal_found *found = &durable->found;
    struct okv_wal_stats stats;

    okv_wal_get_stats(durable->wal, &stats);
    write_batches(writer, &stats);
    write_counter(writer, "snapshots", "snapshots made", stats.snapshots);
    write_counter(writer, "snapshots_failed", "snapshots that failed", stats.snapshots_failed);
    write_gauge(writer, "snapshot_bytes", "bytes of the last snapshot", stats.snapshot_bytes);
    write_gauge(writer, "snapshot_ms", "time that it took", stats.snapshot_ns / 1000000u);
    write_snapshot_age(writer,
                       stats.snapshot_wall_ms ? stats.snapshot_wall_ms : found->snapshot_wall_ms);
    write_gauge(writer, "recovery_ms", "time that the start took to read log and snapshot",
                durable->found_ns / 1000000u);
    write_gauge(writer, "recovery_items", "items that it found", found->items);
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

    write_gauge(writer, "client_reporting", "clients connected that report",
                atomic_load(&database->reporting));
    write_gauge(writer, "client_gets_timed", "gets whose time clients have reported",
                times_count(times));
    write_gauge(writer, "client_gets_timed_ns", "time that these took together",
                atomic_load(&times->ns));
    write_gauge(writer, "client_get_p50_ns", "time of a get at clients, median since the start",
                times_quantile_ns(times, 50));
    write_gauge(writer, "client_get_p99_ns",
                "time of a get at clients, 99th percentile since the start",
                times_quantile_ns(times, 99));
}

static void write_writes(const struct writer *writer, const struct okv_times *times)
{
    write_gauge(writer, "writes_timed", "writes whose time was taken", times_count(times));
    write_gauge(writer, "writes_timed_ns", "time that these took together",
                atomic_load(&times->ns));
    write_gauge(writer, "write_p50_ns", "time of a write at the server, median since the start",
                times_quantile_ns(times, 50));
    write_gauge(writer, "write_p99_ns",
                "time of a write at the server, 99th percentile since the start",
                times_quantile_ns(times, 99));
}

/* Of a server of a cluster. */
static void write_copies(const struct writer *writer, const struct okv_database *database)
{
    const struct okv_copies_figures *copies = &database->copies;
    uint64_t until_us = atomic_load(&database->store.valid_until_us);
    uint64_t now_us = okv_clock_lease_us();

#define OKV_COPIES_WRITE(name, help) write_gauge(writer, #name, help, atomic_load(&copies->name));
#define OKV_ELECTIONS_WRITE(name, help) \
    write_counter(writer, #name, help, atomic_load(&copies->name));
    OKV_COPIES_LIST(OKV_COPIES_WRITE)
    OKV_ELECTIONS_LIST(OKV_ELECTIONS_WRITE)
#undef OKV_COPIES_WRITE
#undef OKV_ELECTIONS_WRITE
    write_gauge(writer, "lease_left_us", "time for which clients may trust what they read",
                until_us > now_us ? until_us - now_us : 0);
}

static void write_server(const struct writer *writer, struct okv_server *server)
{
    struct okv_stats *stats = &server->stats;

    write_gauge(writer, "pid", "process id", (uint64_t)getpid());
    write_counter(writer, "cpu_ms", "processor time of the server", cpu_ms());
    write_gauge(writer, "resident_bytes",
                "memory of the process, regions included as far as they were used",
                resident_bytes());
    write_gauge(writer, "workers", "threads that serve requests", server->config.workers);
    write_gauge(writer, "max_clients", "most clients at once", server->config.max_clients);
#define OKV_STATS_WRITE_GAUGE(name, text) \
    write_gauge(writer, #name, text, atomic_load(&stats->name));
#define OKV_STATS_WRITE_COUNTER(name, text) \
    write_counter(writer, #name, text, atomic_load(&stats->name));
    OKV_STATS_NOW_LIST(OKV_STATS_WRITE_GAUGE)
    OKV_STATS_LIST(OKV_STATS_WRITE_COUNTER)
#undef OKV_STATS_WRITE_GAUGE
#undef OKV_STATS_WRITE_COUNTER
    if (server->config.cluster.name[0]) {
        write_gauge(writer, "etcd_silent_us", "time since etcd answered last",
                    okv_clock_lease_us() - atomic_load(&server->etcd_answered_us));
        write_gauge(writer, "cluster_late_us",
                    "how late the thread of the cluster was at most, in the last 1 to 2 minutes",
                    atomic_load(&server->cluster_late_us));
    }
}

static void write_database(const struct writer *writer, struct okv_server *server,
                           struct okv_database *database)
{
    struct okv_counts *counts = &database->counts;

    write_gauge(writer, "uptime_ms", "time since the process began", okv_server_uptime_ms(server));
    write_gauge(writer, "reply_caches", "clients whose last writes are remembered",
                okv_reply_caches_count(database->reply_caches));
    write_items(writer, &database->store);
    write_eviction(writer, &database->store);
    write_index(writer, &database->store);
    write_region(writer, &database->store);
    if (database->durable && database->wal)
        write_log(writer, database->durable);
    if (server->config.cluster.name[0])
        write_copies(writer, database);
#define OKV_COUNTS_WRITE(name, text) write_counter(writer, #name, text, atomic_load(&counts->name));
    OKV_COUNTS_LIST(OKV_COUNTS_WRITE)
#undef OKV_COUNTS_WRITE
    write_clients(writer, database);
    write_writes(writer, &database->write_times);
}

void okv_stats_each(struct okv_server *server, struct okv_database *database,
                    okv_stats_visit *visit, void *user)
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

static void add_line(void *user, const struct okv_metric *metric, uint64_t value)
{
    add_text(user, "%s %" PRIu64 "\n", metric->name, value);
}

/* The command-line program takes the first line for the beginning of what is the server's. */
static void add_server(struct lines *lines, struct okv_server *server)
{
    add_text(lines, "version %s\n", OKV_VERSION);
    for (unsigned i = 0; i < server->listener_count; i++) {
        struct okv_door_text door;
        okv_door_describe(server, i, &door);
        add_text(lines, "listener_%u %s %s\n", i + 1, door.where, door.how);
    }
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
