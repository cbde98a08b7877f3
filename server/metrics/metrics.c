#include "server/metrics/metrics.h"

#include <errno.h>
#include <microhttpd.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "server/core/server.h"
#include "server/core/takeover.h"
#include "server/database/database.h"
#include "server/wal/histogram.h"
#include "server/wal/wal.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/resolve.h"
#include "shared/base/thread.h"

#define TEXT_TYPE "text/plain; version=0.0.4; charset=utf-8"
#define BACKLOG 64
#define SAMPLES_MAX 160
/* Times of syncs, from 2^14 to 2^35 ns: 16 us to 34 s. */
#define SYNCS "okv_sync_seconds"
#define SYNC_LEAST 14u
#define SYNC_MOST 35u

/* ---- names ---- */

/* Cuts the unit off the name. Returns how many of it are one base unit. */
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

struct sample {
    struct okv_metric metric;
    const char *database; /* NULL: of the server */
    uint64_t value;
    bool is_written;
};

struct samples {
    struct sample *list;
    size_t count, size;
    const char *database; /* of those that are collected now */
};

static void collect(void *user, const struct okv_metric *metric, uint64_t value)
{
    struct samples *samples = user;

    if (samples->count < samples->size)
        samples->list[samples->count++] =
            (struct sample){.metric = *metric, .database = samples->database, .value = value};
}

/* Writes what the metric is, and its name to `name`. Returns the factor of its unit. */
static unsigned write_head(FILE *page, const struct okv_metric *metric, char name[64])
{
    snprintf(name, 48, "okv_%s", metric->name);
    unsigned factor = take_unit(name);
    if (factor > 1)
        strcat(name, "_seconds");
    if (metric->is_counter && !ends_with(name, "_total"))
        strcat(name, "_total");
    fprintf(page, "# HELP %s %s\n# TYPE %s %s\n", name, metric->help, name,
            metric->is_counter ? "counter" : "gauge");
    return factor;
}

static void write_sample(FILE *page, const char *name, const struct sample *sample, unsigned factor)
{
    fputs(name, page);
    if (sample->database)
        fprintf(page, "{database=\"%s\"}", sample->database);
    if (factor > 1)
        fprintf(page, " %.9f\n", (double)sample->value / factor);
    else
        fprintf(page, " %llu\n", (unsigned long long)sample->value);
}

/* All samples of a metric have to be together, and not all databases have all metrics. */
static void write_samples(FILE *page, struct samples *samples)
{
    char name[64];

    for (size_t i = 0; i < samples->count; i++) {
        const struct okv_metric *metric = &samples->list[i].metric;
        if (samples->list[i].is_written)
            continue;
        unsigned factor = write_head(page, metric, name);
        for (struct sample *sample = &samples->list[i]; sample < &samples->list[samples->count];
             sample++) {
            if (strcmp(sample->metric.name, metric->name) != 0)
                continue;
            write_sample(page, name, sample, factor);
            sample->is_written = true;
        }
    }
}

static void write_about(FILE *page, const struct okv_server *server, bool is_ready)
{
    fprintf(page,
            "# HELP okv_info what runs\n# TYPE okv_info gauge\n"
            "okv_info{version=\"%s\",boot_id=\"%016llx\"} 1\n"
            "# HELP okv_ready 1: it serves, 0: it reads its log, or ends\n# TYPE okv_ready gauge\n"
            "okv_ready %d\n",
            OKV_VERSION, (unsigned long long)server->boot_id, is_ready);
}

static void write_histogram_head(FILE *page, const char *metric, const char *help)
{
    fprintf(page, "# HELP %s %s\n# TYPE %s histogram\n", metric, help, metric);
}

static void write_bucket(FILE *page, const char *metric, const char *database, uint64_t end_ns,
                         uint64_t count)
{
    fprintf(page, "%s_bucket{database=\"%s\",le=\"%.9f\"} %llu\n", metric, database,
            (double)end_ns / 1e9, (unsigned long long)count);
}

static void write_histogram_end(FILE *page, const char *metric, const char *database,
                                uint64_t sum_ns, unsigned long long count)
{
    fprintf(page,
            "%s_bucket{database=\"%s\",le=\"+Inf\"} %llu\n"
            "%s_sum{database=\"%s\"} %.9f\n"
            "%s_count{database=\"%s\"} %llu\n",
            metric, database, count, metric, database, (double)sum_ns / 1e9, metric, database,
            count);
}

/* A power of two of nanoseconds has two cells; one bucket is enough for both. */
static void write_times(FILE *page, const char *metric, const char *database,
                        const struct okv_times *times)
{
    uint64_t count = 0;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++) {
        count += atomic_load(&times->cells[i]);
        if (i % 2 == 0)
            write_bucket(page, metric, database, okv_report_cell_end(i), count);
    }
    write_histogram_end(page, metric, database, atomic_load(&times->ns), count);
}

/* A bucket for each power of two of nanoseconds. */
static void write_syncs(FILE *page, const char *database, struct okv_wal *wal)
{
    struct okv_wal_stats stats;
    okv_wal_get_stats(wal, &stats);
    const struct okv_wal_histogram *syncs = stats.syncs;

    for (unsigned exponent = SYNC_LEAST; exponent <= SYNC_MOST; exponent++)
        write_bucket(page, SYNCS, database, UINT64_C(1) << exponent,
                     okv_wal_histogram_below(syncs, exponent));
    write_histogram_end(page, SYNCS, database, atomic_load(&syncs->sum),
                        okv_wal_histogram_below(syncs, 63));
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
        if (server->databases[i].durable && server->databases[i].wal)
            write_syncs(page, server->config.databases[i].name, server->databases[i].wal);
}

/* Returns the page to free(), or NULL without memory. While the server is not ready its databases
 * are main's alone. */
static char *render(struct okv_server *server, bool is_ready, size_t *length)
{
    unsigned databases = is_ready ? server->database_count : 0;
    struct samples samples = {.size = SAMPLES_MAX * (1 + databases)};
    char *page = NULL;

    samples.list = calloc(samples.size, sizeof *samples.list);
    FILE *out = samples.list ? open_memstream(&page, length) : NULL;
    if (!out)
        goto free_samples;
    write_about(out, server, is_ready);
    okv_stats_each(server, NULL, collect, &samples);
    for (unsigned i = 0; i < databases; i++) {
        samples.database = server->config.databases[i].name;
        okv_stats_each(server, &server->databases[i], collect, &samples);
    }
    write_samples(out, &samples);
    if (is_ready)
        write_all_times(out, server);
    if (fclose(out)) {
        free(page);
        page = NULL;
    }
free_samples:
    free(samples.list);
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

static enum MHD_Result respond_with_metrics(struct okv_metrics *metrics,
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

/* The target of a request may be a whole URI, as for a proxy (RFC 9112, section 3.2.2). */
static const char *path_of(const char *target)
{
    static const char scheme[] = "http://";

    if (strncasecmp(target, scheme, sizeof scheme - 1) != 0)
        return target;
    return strchrnul(target + sizeof scheme - 1, '/');
}

static enum MHD_Result answer(void *user, struct MHD_Connection *connection, const char *target,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_size, void **state)
{
    struct okv_metrics *metrics = user;
    const char *path = path_of(target);

    (void)version, (void)upload, (void)upload_size, (void)state;
    if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 && strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
        return say(connection, MHD_HTTP_METHOD_NOT_ALLOWED, "GET only\n");
    if (strcmp(path, "/metrics") == 0)
        return respond_with_metrics(metrics, connection);
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

/* While the port is in use: waits for it. */
static int open_port(struct okv_metrics *metrics, struct okv_diag *diag)
{
    struct okv_server *server = metrics->server;
    const struct okv_config_address *where = &server->config.metrics;
    struct okv_takeover takeover = {&server->log, "metrics", 0};
    char what[sizeof where->host + sizeof where->port + 18];
    int rc;

    snprintf(what, sizeof what, strchr(where->host, ':') ? "--metrics [%s]:%s" : "--metrics %s:%s",
             where->host, where->port);
    do
        rc = listen_at(where->host, where->port, &metrics->sock, diag);
    while (rc == OKV_EAGAIN && okv_takeover_wait(&takeover, what));
    if (rc)
        okv_diag_begin(diag, what);
    return rc;
}

static void say_where(struct okv_metrics *metrics)
{
    struct sockaddr_storage address = {0};
    socklen_t length = sizeof address;
    char text[100];

    getsockname(metrics->sock, (struct sockaddr *)&address, &length);
    okv_address_text((const struct sockaddr *)&address, text, sizeof text);
    snprintf(metrics->where, sizeof metrics->where, "http://%s/metrics", text);
    okv_log_say(&metrics->server->log, OKV_LOG_NOTICE, "metrics", "metrics: %s", metrics->where);
}

static bool has_room(const struct okv_metrics *metrics)
{
    return MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS)
               ->num_connections < OKV_SCRAPERS_ADMITTED;
}

/* libmicrohttpd would ask for a client again and again, while there is no descriptor for it. */
static void accept_one(struct okv_metrics *metrics)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    int fd = okv_entrance_accept(&metrics->entrance, (struct sockaddr *)&address, &length);

    if (fd >= 0)
        MHD_add_connection(metrics->daemon, fd, (struct sockaddr *)&address, length);
    okv_server_log_shortage(metrics->server, &metrics->entrance, metrics->where);
}

/* Its own loop, not that of libmicrohttpd, which has no deadline for a request. */
static void *serve(void *user)
{
    struct okv_metrics *metrics = user;
    const union MHD_DaemonInfo *info =
        MHD_get_daemon_info(metrics->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[] = {{.fd = info->epoll_fd, .events = POLLIN},
                           {.fd = metrics->stop_fd, .events = POLLIN},
                           {.events = POLLIN}};

    while (!fds[1].revents) {
        MHD_UNSIGNED_LONG_LONG ms = 0;
        int wait_ms = okv_scrapers_end_overdue(&metrics->scrapers, okv_clock_ns());
        if (MHD_get_timeout(metrics->daemon, &ms) == MHD_YES &&
            (wait_ms < 0 || ms < (unsigned)wait_ms))
            wait_ms = (int)ms;
        fds[2].fd = has_room(metrics) ? metrics->entrance.fd : -1;
        poll(fds, 3, wait_ms);
        if (fds[2].revents)
            accept_one(metrics);
        MHD_run(metrics->daemon);
    }
    return NULL;
}

/* The thread takes no signals. */
static int start_thread(struct okv_metrics *metrics, struct okv_diag *why)
{
    sigset_t all, before;

    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    int rc = okv_thread_start(&metrics->thread, serve, metrics, why);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

static int lack(int errnum, struct okv_diag *why)
{
    return okv_diag_set(why, okv_error_from_errno(errnum),
                        "%s: raise the limit on open files (ulimit -n)", strerror(errnum));
}

static int start_daemon(struct okv_metrics *metrics, struct okv_diag *why)
{
    okv_scrapers_init(&metrics->scrapers);
    int rc = okv_entrance_open(&metrics->entrance, metrics->sock);
    if (rc)
        return lack(rc, why);
    metrics->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (metrics->stop_fd < 0) {
        rc = lack(errno, why);
        goto close_entrance;
    }
    errno = 0;
    metrics->daemon = MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_NO_LISTEN_SOCKET, 0, NULL, NULL, answer, metrics,
        MHD_OPTION_CONNECTION_LIMIT, OKV_SCRAPERS_ADMITTED, MHD_OPTION_NOTIFY_CONNECTION,
        okv_scrapers_on_connection, &metrics->scrapers, MHD_OPTION_NOTIFY_COMPLETED,
        okv_scrapers_on_completed, &metrics->scrapers, MHD_OPTION_END);
    if (!metrics->daemon) {
        rc = errno ? lack(errno, why) : OKV_EIO;
        goto close_fd;
    }
    rc = start_thread(metrics, why);
    if (rc == 0)
        return 0;
    MHD_stop_daemon(metrics->daemon);
    metrics->daemon = NULL;
close_fd:
    close(metrics->stop_fd);
close_entrance:
    okv_entrance_close(&metrics->entrance);
    return rc;
}

int okv_metrics_start(struct okv_metrics *metrics, struct okv_server *server, struct okv_diag *diag)
{
    *metrics = (struct okv_metrics){.server = server, .lock = PTHREAD_MUTEX_INITIALIZER};
    if (!server->config.metrics.host[0])
        return 0;
    int rc = open_port(metrics, diag);
    if (rc)
        return rc;
    say_where(metrics);
    struct okv_diag why = {.text = ""};
    rc = start_daemon(metrics, &why);
    if (rc) {
        close(metrics->sock);
        return okv_diag_set(diag, rc, "--metrics: cannot be served: %s",
                            why.text[0] ? why.text : okv_error_text(rc));
    }
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
    if (!metrics->daemon)
        return;
    eventfd_write(metrics->stop_fd, 1);
    pthread_join(metrics->thread, NULL);
    MHD_stop_daemon(metrics->daemon);
    okv_entrance_close(&metrics->entrance);
    close(metrics->sock);
    close(metrics->stop_fd);
}
