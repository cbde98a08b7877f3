#include "server/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/database.h"
#include "server/server.h"
#include "server/wal/histogram.h"
#include "server/wal/wal.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
/* A scraper needs one connection, for a moment. */
#define CONNECTIONS_MAX 8u
#define IDLE_S 10u
#define BACKLOG 8
#define FIGURES_MAX 160
/* Times of syncs, from 2^14 to 2^35 ns: 16 us to 34 s. */
#define SYNCS "okv_sync_seconds"
#define SYNC_LEAST 14u
#define SYNC_MOST 35u

/* ---- names ---- */

struct description {
    const char *name, *text;
};

/* Those that only rise. */
static const struct description counters[] = {
#define DESCRIPTION(name, text) {#name, text},
    OKV_COUNTS_LIST(DESCRIPTION) OKV_STATS_LIST(DESCRIPTION)
#undef DESCRIPTION
        {"expired", "items removed when they had expired"},
    {"splits", "buckets split"},
    {"merges", "buckets merged"},
    {"log_records", "changes written to the log"},
    {"log_batches", "batches written to the log"},
    {"log_syncs", "syncs of the log"},
    {"snapshots", "snapshots made"},
    {"snapshots_failed", "snapshots that failed"},
    {"cpu_ms", "processor time of the server"},
};

static const struct description gauges[] = {
#define DESCRIPTION(name, text) {#name, text},
    OKV_STATS_NOW_LIST(DESCRIPTION)
#undef DESCRIPTION
        {"uptime_ms", "time since the process began"},
    {"pid", "process id"},
    {"resident_bytes", "memory of the process, regions included as far as they were used"},
    {"workers", "threads that serve requests"},
    {"max_clients", "most clients at once"},
    {"reply_caches", "clients whose last writes are remembered"},
    {"items", "items, expired ones included until they are removed"},
    {"items_expiring", "items with a time to live"},
    {"items_in_extents", "items outside of their buckets"},
    {"user_bytes", "bytes of keys and values"},
    {"entry_bytes", "bytes that items take in buckets and extents"},
    {"extra_reads_per_1000", "READs that 1000 gets take beyond the first"},
    {"buckets", "buckets of the index"},
    {"buckets_max", "most buckets that there may be"},
    {"overflow_buckets", "pages of buckets beyond the first"},
    {"bucket_bytes", "bytes of a bucket"},
    {"segment_bytes", "bytes of a segment of the index"},
    {"used_bytes", "bytes of it in use"},
    {"region_bytes", "bytes of the registered memory"},
    {"superblock_bytes", "bytes of the region's head"},
    {"index_bytes", "bytes of the index"},
    {"overflow_bytes", "bytes of overflow pages"},
    {"extent_bytes", "bytes of extents"},
    {"heap_unused_bytes", "bytes that were used and are free"},
    {"never_used_bytes", "bytes that were never used"},
    {"sync_within_ms", "time that a change may wait for its sync"},
    {"log_failed", "1: the log failed, and there are no writes"},
    {"disk_full", "1: there are no writes until the disk has space"},
    {"unsynced_bytes", "bytes of the log that are not durable"},
    {"log_bytes", "bytes of the log that a start reads"},
    {"value_file_bytes", "bytes of long values in files of their own"},
    {"batch_records_p50", "records of a batch, median"},
    {"batch_records_max", "records of the largest batch"},
    {"sync_p50_us", "time of a sync, median"},
    {"sync_p99_us", "time of a sync, 99th percentile"},
    {"sync_max_us", "time of the longest sync"},
    {"snapshot_bytes", "bytes of the last snapshot"},
    {"snapshot_ms", "time that it took"},
    {"snapshot_age_ms", "age of the newest snapshot"},
    {"recovery_ms", "time that the start took to read log and snapshot"},
    {"recovery_items", "items that it found"},
    {"client_reporting", "clients connected that report"},
    {"client_gets_timed", "gets whose time clients have reported"},
    {"client_gets_timed_ns", "time that these took together"},
    {"client_get_p50_ns", "time of a get at clients, median since the start"},
    {"client_get_p99_ns", "time of a get at clients, 99th percentile since the start"},
    {"writes_timed", "writes whose time was taken"},
    {"writes_timed_ns", "time that these took together"},
    {"write_p50_ns", "time of a write at the server, median since the start"},
    {"write_p99_ns", "time of a write at the server, 99th percentile since the start"},
};

static const char *find(const struct description *descriptions, size_t count, const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(descriptions[i].name, name) == 0)
            return descriptions[i].text;
    return NULL;
}

/* How many of the figure are one in the metric's unit. Cuts off the figure's. */
static unsigned take_unit(char *name)
{
    static const struct {
        const char *suffix;
        unsigned factor;
    } units[] = {{"_ms", 1000}, {"_us", 1000000}, {"_ns", 1000000000}};
    size_t length = strlen(name);

    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (length > 3 && strcmp(name + length - 3, units[i].suffix) == 0) {
            name[length - 3] = '\0';
            return units[i].factor;
        }
    return 1;
}

static bool ends_with(const char *name, const char *suffix)
{
    size_t length = strlen(name), tail = strlen(suffix);

    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

/* ---- the page ---- */

struct figure {
    const char *name;
    uint64_t value;
};

struct figures {
    size_t count;
    struct figure list[FIGURES_MAX];
};

static void collect(void *user, const char *name, uint64_t value)
{
    struct figures *figures = user;

    if (figures->count < FIGURES_MAX)
        figures->list[figures->count++] = (struct figure){name, value};
}

/* Writes what the metric is, and its name to `metric`. Returns the factor of its unit. */
static unsigned write_head(FILE *page, const char *name, char metric[64])
{
    const char *help = find(counters, sizeof counters / sizeof *counters, name);
    bool is_counter = help != NULL;

    snprintf(metric, 48, "okv_%s", name);
    unsigned factor = take_unit(metric);
    if (factor > 1)
        strcat(metric, "_seconds");
    if (is_counter && !ends_with(metric, "_total"))
        strcat(metric, "_total");
    if (!help)
        help = find(gauges, sizeof gauges / sizeof *gauges, name);
    if (help)
        fprintf(page, "# HELP %s %s\n", metric, help);
    fprintf(page, "# TYPE %s %s\n", metric, is_counter ? "counter" : "gauge");
    return factor;
}

static void write_sample(FILE *page, const char *metric, const char *database, uint64_t value,
                         unsigned factor)
{
    fputs(metric, page);
    if (database)
        fprintf(page, "{database=\"%s\"}", database);
    if (factor > 1)
        fprintf(page, " %.9f\n", (double)value / factor);
    else
        fprintf(page, " %llu\n", (unsigned long long)value);
}

static void write_server(FILE *page, struct okv_server *server, bool is_ready)
{
    struct figures figures = {0};
    char metric[64];

    fprintf(page,
            "# HELP okv_info what runs\n# TYPE okv_info gauge\n"
            "okv_info{version=\"%s\",boot_id=\"%016llx\"} 1\n"
            "# HELP okv_ready 1: it serves, 0: it reads its log, or ends\n# TYPE okv_ready gauge\n"
            "okv_ready %d\n",
            OKV_VERSION, (unsigned long long)server->boot_id, is_ready);
    okv_stats_each(server, NULL, collect, &figures);
    for (size_t i = 0; i < figures.count; i++) {
        unsigned factor = write_head(page, figures.list[i].name, metric);
        write_sample(page, metric, NULL, figures.list[i].value, factor);
    }
}

static const struct figure *find_figure(const struct figures *figures, const char *name)
{
    for (size_t i = 0; i < figures->count; i++)
        if (strcmp(figures->list[i].name, name) == 0)
            return &figures->list[i];
    return NULL;
}

/* All samples of a metric have to be together, and not all databases have all figures. */
static void write_databases(FILE *page, const struct okv_server *server,
                            const struct figures *figures)
{
    unsigned count = server->database_count;
    char metric[64];

    for (unsigned i = 0; i < count; i++)
        for (size_t k = 0; k < figures[i].count; k++) {
            const char *name = figures[i].list[k].name;
            bool is_written = false;
            for (unsigned j = 0; j < i; j++)
                is_written |= find_figure(&figures[j], name) != NULL;
            if (is_written)
                continue;
            unsigned factor = write_head(page, name, metric);
            for (unsigned j = i; j < count; j++) {
                const struct figure *figure = find_figure(&figures[j], name);
                if (figure)
                    write_sample(page, metric, server->config.databases[j].name, figure->value,
                                 factor);
            }
        }
}

static void write_histogram_head(FILE *page, const char *metric, const char *help)
{
    fprintf(page, "# HELP %s %s\n# TYPE %s histogram\n", metric, help, metric);
}

/* A power of two of nanoseconds has two cells; one sample is enough for both. */
static void write_times(FILE *page, const char *metric, const char *database,
                        const struct okv_times *times)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++) {
        count += atomic_load(&times->cells[i]);
        if (i % 2 == 0)
            fprintf(page, "%s_bucket{database=\"%s\",le=\"%.9f\"} %llu\n", metric, database,
                    (double)okv_report_cell_end(i) / 1e9, (unsigned long long)count);
    }
    fprintf(page,
            "%s_bucket{database=\"%s\",le=\"+Inf\"} %llu\n"
            "%s_sum{database=\"%s\"} %.9f\n"
            "%s_count{database=\"%s\"} %llu\n",
            metric, database, (unsigned long long)count, metric, database,
            (double)atomic_load(&times->ns) / 1e9, metric, database, (unsigned long long)count);
}

/* A sample for each power of two of nanoseconds. */
static void write_syncs(FILE *page, const char *database, struct okv_wal *wal)
{
    struct okv_wal_stats stats;
    okv_wal_get_stats(wal, &stats);
    const struct okv_wal_histogram *syncs = stats.syncs;
    unsigned long long count = 0;

    for (unsigned exponent = SYNC_LEAST; exponent <= SYNC_MOST; exponent++) {
        count = okv_wal_histogram_below(syncs, exponent);
        fprintf(page, SYNCS "_bucket{database=\"%s\",le=\"%.9f\"} %llu\n", database,
                (double)(UINT64_C(1) << exponent) / 1e9, count);
    }
    count = okv_wal_histogram_below(syncs, 63);
    fprintf(page,
            SYNCS "_bucket{database=\"%s\",le=\"+Inf\"} %llu\n" SYNCS
                  "_sum{database=\"%s\"} %.9f\n" SYNCS "_count{database=\"%s\"} %llu\n",
            database, count, database, (double)atomic_load(&syncs->sum) / 1e9, database, count);
}

static void write_all_times(FILE *page, const struct okv_server *server)
{
    static const char gets[] = "okv_client_get_seconds", writes[] = "okv_write_seconds";
    unsigned count = server->database_count;

    write_histogram_head(page, gets, "time of a get at clients, of one in 64");
    for (unsigned i = 0; i < count; i++)
        write_times(page, gets, server->config.databases[i].name,
                    &server->databases[i].client_times);
    write_histogram_head(
        page, writes, "time of a write at the server, of one request in 61 of each client of okv");
    for (unsigned i = 0; i < count; i++)
        write_times(page, writes, server->config.databases[i].name,
                    &server->databases[i].write_times);
    if (server->config.data)
        write_histogram_head(page, SYNCS, "time of a sync of the log");
    for (unsigned i = 0; i < count; i++)
        if (server->databases[i].wal)
            write_syncs(page, server->config.databases[i].name, server->databases[i].wal);
}

static void write_all_databases(FILE *page, struct okv_server *server, struct figures *figures)
{
    for (unsigned i = 0; i < server->database_count; i++)
        okv_stats_each(server, &server->databases[i], collect, &figures[i]);
    write_databases(page, server, figures);
    write_all_times(page, server);
}

/* Returns the page to free(), or NULL without memory. While the server is not ready its databases
 * are main's alone. */
static char *render(struct okv_server *server, bool is_ready, size_t *length)
{
    struct figures *figures = calloc(OKV_DATABASES_MAX, sizeof *figures);
    char *page = NULL;
    FILE *out = figures ? open_memstream(&page, length) : NULL;

    if (!out)
        goto free_figures;
    write_server(out, server, is_ready);
    if (is_ready)
        write_all_databases(out, server, figures);
    if (fclose(out)) {
        free(page);
        page = NULL;
    }
free_figures:
    free(figures);
    return page;
}

/* ---- requests ---- */

static enum MHD_Result respond(struct MHD_Connection *connection, unsigned status, char *text,
                               size_t length, enum MHD_ResponseMemoryMode mode)
{
    struct MHD_Response *response = MHD_create_response_from_buffer(length, text, mode);

    if (!response) {
        if (mode == MHD_RESPMEM_MUST_FREE)
            free(text);
        return MHD_NO;
    }
    MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, TEXT_TYPE);
    enum MHD_Result result = MHD_queue_response(connection, status, response);
    MHD_destroy_response(response);
    return result;
}

static enum MHD_Result say(struct MHD_Connection *connection, unsigned status, const char *text)
{
    return respond(connection, status, (char *)text, strlen(text), MHD_RESPMEM_PERSISTENT);
}

static enum MHD_Result respond_with_figures(struct okv_metrics *metrics,
                                            struct MHD_Connection *connection)
{
    size_t length = 0;

    pthread_mutex_lock(&metrics->lock);
    char *page = render(metrics->server, metrics->is_ready, &length);
    pthread_mutex_unlock(&metrics->lock);
    if (!page)
        return MHD_NO;
    return respond(connection, MHD_HTTP_OK, page, length, MHD_RESPMEM_MUST_FREE);
}

static enum MHD_Result respond_with_state(struct okv_metrics *metrics,
                                          struct MHD_Connection *connection)
{
    pthread_mutex_lock(&metrics->lock);
    bool is_ready = metrics->is_ready;
    pthread_mutex_unlock(&metrics->lock);
    return is_ready ? say(connection, MHD_HTTP_OK, "ready\n")
                    : say(connection, MHD_HTTP_SERVICE_UNAVAILABLE, "starting or ending\n");
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *path,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct okv_metrics *metrics = user;

    (void)version, (void)upload, (void)upload_size, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
    if (strcmp(path, "/metrics") == 0)
        return respond_with_figures(metrics, connection);
    if (strcmp(path, "/healthz") == 0)
        return say(connection, MHD_HTTP_OK, "ok\n");
    if (strcmp(path, "/readyz") == 0)
        return respond_with_state(metrics, connection);
    return say(connection, MHD_HTTP_NOT_FOUND, "there are /metrics, /healthz and /readyz\n");
}

/* ---- start and stop ---- */

static int listen_at(const char *host, const char *port, int *out, struct okv_diag *diag)
{
    struct addrinfo *addresses;
    int rc = okv_resolve(host, port, AI_PASSIVE | AI_NUMERICSERV, &addresses, diag), on = 1;

    if (rc)
        return rc;
    int fd = socket(addresses->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) ||
        bind(fd, addresses->ai_addr, addresses->ai_addrlen) || listen(fd, BACKLOG)) {
        rc = okv_bind_failed(errno, host, port, diag);
        if (fd >= 0)
            close(fd);
    }
    freeaddrinfo(addresses);
    *out = fd;
    return rc;
}

static void say_where(struct okv_log *log, int fd)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char text[128];

    getsockname(fd, (struct sockaddr *)&address, &length);
    okv_address_text((const struct sockaddr *)&address, text, sizeof text);
    okv_log_say(log, OKV_LOG_NOTICE, "metrics", "metrics: http://%s/metrics", text);
}

/* On a thread that takes no signals. */
static struct MHD_Daemon *start_daemon(struct okv_metrics *metrics, int fd)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    struct MHD_Daemon *daemon = MHD_start_daemon(
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_POLL | MHD_USE_ITC, 0, NULL, NULL, answer,
        metrics, MHD_OPTION_LISTEN_SOCKET, fd, MHD_OPTION_CONNECTION_LIMIT, CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_TIMEOUT, IDLE_S, MHD_OPTION_END);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return daemon;
}

int okv_metrics_start(struct okv_metrics *metrics, struct okv_server *server, struct okv_diag *diag)
{
    const struct okv_config_address *where = &server->config.metrics;
    int fd = -1;

    *metrics = (struct okv_metrics){.server = server, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!where->host[0])
        return 0;
    int rc = listen_at(where->host, where->port, &fd, diag);
    if (rc)
        return rc;
    metrics->daemon = start_daemon(metrics, fd);
    if (!metrics->daemon) {
        close(fd);
        return okv_diag_set(diag, OKV_ENOMEM, "--metrics: cannot start its thread");
    }
    say_where(&server->log, fd);
    return 0;
}

void okv_metrics_set_ready(struct okv_metrics *metrics, bool is_ready)
{
    pthread_mutex_lock(&metrics->lock);
    metrics->is_ready = is_ready;
    pthread_mutex_unlock(&metrics->lock);
}

void okv_metrics_stop(struct okv_metrics *metrics)
{
    if (metrics->daemon)
        MHD_stop_daemon(metrics->daemon); /* closes the socket, too */
}
