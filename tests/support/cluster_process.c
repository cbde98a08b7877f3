#include "tests/support/cluster_process.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <jansson.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include <okv_admin.h>

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

#define ANSWER_MAX 4096
#define LOOK_MS 10
#define LEASE_MAX_MS 10000
/* Looks until an order is given again: it comes to nothing when a copy is slow. */
#define LOOKS_OF_AN_ORDER 300
#define ARGUMENTS_MAX 32
/* Below those that the system gives away; those of server_process.c are above. */
#define OWN_PORTS 10000u
#define OWN_PORTS_COUNT 10000u

/* ---- what servers say ---- */

static void ask(struct cluster_process *cluster, unsigned server, const char *command,
                char out[ANSWER_MAX], size_t *length)
{
    okv *observer = cluster->observers[server];
    int rc = okv_admin(observer, command, out, ANSWER_MAX, length);

    if (rc)
        fail_msg("server %u: %s: %s: %s", server, command, okv_errname(rc), okv_why(observer));
}

/* NULL: it changed while it was read. To json_decref(). */
static json_t *report_of(struct cluster_process *cluster, unsigned server)
{
    char text[4 * ANSWER_MAX] = "", part[ANSWER_MAX], command[64];
    size_t used = 0, length = 1;

    while (length > 0 && used + ANSWER_MAX <= sizeof text) {
        snprintf(command, sizeof command, "cluster %zx", used);
        ask(cluster, server, command, part, &length);
        memcpy(text + used, part, length);
        used += length;
    }
    return json_loadb(text, used, 0, NULL);
}

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static const char *name_of_database(const struct cluster_process *cluster)
{
    return cluster->database ? cluster->database : "default";
}

static const json_t *database_of(const struct cluster_process *cluster, const json_t *report)
{
    const json_t *databases = json_object_get(report, "databases"), *found = NULL;

    for (size_t i = 0; i < json_array_size(databases) && !found; i++)
        if (strcmp(text_at(json_array_get(databases, i), "name"), name_of_database(cluster)) == 0)
            found = json_array_get(databases, i);
    return found;
}

/* The id of a server; "": the report does not have it, and no earlier one had it. One that was
 * killed is listed for 10 s, and has the same id when it is started again. */
static const char *id_of(struct cluster_process *cluster, const json_t *report, unsigned server)
{
    const json_t *servers = json_object_get(report, "servers");
    char *id = cluster->ids[server];

    for (size_t i = 0; i < json_array_size(servers); i++) {
        const json_t *of = json_array_get(servers, i);
        const char *uri = json_string_value(json_array_get(json_object_get(of, "uris"), 0));
        if (uri && strcmp(uri, cluster->servers[server].uri) == 0)
            snprintf(id, sizeof cluster->ids[server], "%s", text_at(of, "id"));
    }
    return id;
}

/* A report is up to 100 ms old: of two servers that lead by theirs, the later epoch counts. */
static bool leads_in(struct cluster_process *cluster, unsigned server, uint64_t *epoch)
{
    uint64_t *latest = &cluster->epochs[cluster->database != NULL];
    json_t *report = report_of(cluster, server);
    const json_t *database = database_of(cluster, report);
    bool is_leading = json_is_true(json_object_get(database, "leads"));

    *epoch = (uint64_t)json_integer_value(json_object_get(database, "epoch"));
    json_decref(report);
    if (*epoch > *latest)
        *latest = *epoch;
    return is_leading && *epoch == *latest;
}

static bool leads(struct cluster_process *cluster, unsigned server)
{
    uint64_t epoch;

    return leads_in(cluster, server, &epoch);
}

static bool find_leader(struct cluster_process *cluster, unsigned *server)
{
    for (*server = 0; *server < cluster->count; ++*server)
        if (cluster->servers[*server].pid && !cluster->stands[*server] && leads(cluster, *server))
            return true;
    return false;
}

unsigned cluster_process_leader(struct cluster_process *cluster)
{
    uint64_t end = pace_guard_end();
    unsigned server;

    while (!find_leader(cluster, &server)) {
        if (okv_clock_ns() > end)
            fail_msg("no server leads");
        pace_sleep_ms(LOOK_MS);
    }
    return server;
}

unsigned cluster_process_leader_in(struct cluster_process *cluster, uint64_t *epoch)
{
    uint64_t end = pace_guard_end();
    bool is_leading = false;
    unsigned server = 0;

    while (!is_leading) {
        if (okv_clock_ns() > end)
            fail_msg("no server leads for long");
        server = cluster_process_leader(cluster);
        is_leading = leads_in(cluster, server, epoch);
    }
    return server;
}

/* In the set, with all that the primary has sent it: +1. Not in the set: -1. */
static int sync_of(struct cluster_process *cluster, unsigned server)
{
    json_t *report = report_of(cluster, cluster_process_leader(cluster));
    const json_t *copies = json_object_get(database_of(cluster, report), "copies");
    const char *id = id_of(cluster, report, server);
    int state = 0;

    for (size_t i = 0; i < json_array_size(copies); i++) {
        const json_t *copy = json_array_get(copies, i);
        if (!id[0] || strcmp(text_at(copy, "server"), id) != 0)
            continue;
        if (!json_is_true(json_object_get(copy, "in_sync")))
            state = -1;
        else if (json_is_true(json_object_get(copy, "connected")))
            state = 1;
    }
    json_decref(report);
    return state;
}

bool cluster_process_is_led(struct cluster_process *cluster)
{
    unsigned server;

    return find_leader(cluster, &server);
}

bool cluster_process_is_in_sync(struct cluster_process *cluster, unsigned server)
{
    return sync_of(cluster, server) == 1;
}

void cluster_process_await(struct cluster_process *cluster, unsigned server, bool in_sync)
{
    uint64_t end = pace_guard_end();

    while (sync_of(cluster, server) != (in_sync ? 1 : -1)) {
        if (okv_clock_ns() > end)
            fail_msg("server %u is %sin sync", server, in_sync ? "not " : "");
        pace_sleep_ms(LOOK_MS);
    }
}

/* ---- orders ---- */

/* Writes the result, "done" or a reason. */
static void order(struct cluster_process *cluster, unsigned server, const char *text,
                  char result[ANSWER_MAX])
{
    uint64_t end = pace_guard_end();
    char command[128];
    size_t length;

    snprintf(command, sizeof command, "cluster order %s", text);
    ask(cluster, server, command, result, &length);
    snprintf(command, sizeof command, "cluster result %.*s", (int)length, result);
    for (length = 0; length == 0; pace_sleep_ms(1)) {
        if (okv_clock_ns() > end)
            fail_msg("%s: there is no result", text);
        ask(cluster, server, command, result, &length);
    }
    result[length] = '\0';
}

static void order_hand_over(struct cluster_process *cluster, unsigned from, unsigned to)
{
    char text[64], result[ANSWER_MAX];
    json_t *report = report_of(cluster, from);

    snprintf(text, sizeof text, "handover %s %s", name_of_database(cluster),
             id_of(cluster, report, to));
    json_decref(report);
    order(cluster, from, text, result);
}

void cluster_process_hand_over(struct cluster_process *cluster, unsigned to)
{
    uint64_t end = pace_guard_end();

    for (unsigned i = 0; !leads(cluster, to); i++) {
        unsigned from;
        if (okv_clock_ns() > end)
            fail_msg("server %u does not lead", to);
        if (i % LOOKS_OF_AN_ORDER == 0 && find_leader(cluster, &from) && from != to)
            order_hand_over(cluster, from, to);
        pace_sleep_ms(LOOK_MS);
    }
}

/* ---- processes ---- */

/* A server's log goes where standard error is when it starts. */
static int log_to_file(const struct cluster_process *cluster, unsigned server)
{
    char path[sizeof cluster->directory + 8];
    int kept = dup(STDERR_FILENO);

    snprintf(path, sizeof path, "%s/log%u", cluster->directory, server);
    int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    assert_true(kept >= 0 && fd >= 0);
    dup2(fd, STDERR_FILENO);
    close(fd);
    return kept;
}

static void log_as_before(int kept)
{
    dup2(kept, STDERR_FILENO);
    close(kept);
}

static void add(const char *arguments[ARGUMENTS_MAX], unsigned *count, const char *const *further)
{
    for (; further && *further && *count + 1 < ARGUMENTS_MAX; further++)
        arguments[(*count)++] = *further;
}

static void start_server(struct cluster_process *cluster, unsigned i)
{
    struct server_process *server = &cluster->servers[i], there = *server;
    char data[sizeof cluster->directory + 8];
    const char *arguments[ARGUMENTS_MAX] = {
        "--memory",    cluster->memory, "--cluster",        "test", "--etcd", cluster->etcd.urls,
        "--advertise", there.uri,       "--snapshot-ratio", "0.1"};
    unsigned count = 10;

    snprintf(data, sizeof data, "%s/d%u", cluster->directory, i);
    if (cluster->options.has_files)
        add(arguments, &count, (const char *const[]){"--data", data, NULL});
    if (cluster->options.has_two)
        add(arguments, &count,
            (const char *const[]){"--database=default", "--database=other:1M", NULL});
    add(arguments, &count, cluster->arguments[i]);
    server_start_after(server, &there, arguments);
}

static void observe(struct cluster_process *cluster, unsigned i)
{
    struct okv_options options = cluster->client;
    char why[320];

    options.observe = 1;
    int rc =
        patient_open(cluster->servers[i].uri, &options, &cluster->observers[i], why, sizeof why);
    if (rc)
        fail_msg("%s: %s: %s", cluster->servers[i].uri, okv_errname(rc), why);
}

/* For the servers that start from now on. */
static void set_clock(int ppm)
{
    char text[16];

    snprintf(text, sizeof text, "%d", ppm);
    setenv("OKV_TEST_CLOCK_PPM", text, 1);
    setenv("LD_PRELOAD", OKV_SKEWED_CLOCK, 1);
}

void cluster_process_restart(struct cluster_process *cluster, unsigned i)
{
    int kept = cluster->options.has_logs ? log_to_file(cluster, i) : -1;

    if (cluster->options.clock_ppm)
        set_clock(((int)i - 1) * cluster->options.clock_ppm);
    start_server(cluster, i);
    unsetenv("LD_PRELOAD");
    if (kept >= 0)
        log_as_before(kept);
    if (!cluster->observers[i])
        observe(cluster, i);
}

void cluster_process_signal(struct cluster_process *cluster, unsigned server, int signal)
{
    if (signal != SIGKILL)
        cluster->stands[server] = signal == SIGSTOP;
    server_signal(&cluster->servers[server], signal);
}

static bool log_has(const struct cluster_process *cluster, unsigned server, const char *text)
{
    char path[sizeof cluster->directory + 8];
    char line[1024];
    bool is_there = false;

    snprintf(path, sizeof path, "%s/log%u", cluster->directory, server);
    FILE *file = fopen(path, "r");
    while (file && !is_there && fgets(line, sizeof line, file))
        is_there = strstr(line, text);
    if (file)
        fclose(file);
    return is_there;
}

void cluster_process_await_log(struct cluster_process *cluster, unsigned server, const char *text)
{
    uint64_t end = pace_guard_end();

    while (!log_has(cluster, server, text)) {
        if (okv_clock_ns() > end)
            fail_msg("the log of server %u has no '%s'", server, text);
        pace_sleep_ms(LOOK_MS);
    }
}

/* ---- start and end ---- */

/* A port of 127.0.0.1 that nobody has at this moment. */
static unsigned take_port(unsigned *next)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

    for (unsigned tries = 0; tries < OWN_PORTS_COUNT; tries++) {
        unsigned port = OWN_PORTS + (*next)++ % OWN_PORTS_COUNT;
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        address.sin_port = htons((uint16_t)port);
        bool is_free = bind(fd, (struct sockaddr *)&address, sizeof address) == 0;
        close(fd);
        if (is_free)
            return port;
    }
    fail_msg("no port is free");
    return 0;
}

static void name_server(struct cluster_process *cluster, unsigned i, unsigned *port)
{
    struct server_process *server = &cluster->servers[i];
    const char *scheme = cluster->options.scheme;
    const char *host = cluster->options.host ? cluster->options.host : "127.0.0.1";

    if (scheme)
        snprintf(server->uri, sizeof server->uri, "%s://%s:%u", scheme, host, take_port(port));
    else
        snprintf(server->uri, sizeof server->uri, "local://%s/s%u", cluster->directory, i);
    memcpy(server->listen, server->uri, sizeof server->listen);
}

static void name_places(struct cluster_process *cluster)
{
    const char *scheme = cluster->options.scheme;
    unsigned port = (unsigned)getpid() * CLUSTER_SERVERS_MAX;
    size_t used = 0;

    snprintf(cluster->directory, sizeof cluster->directory, "/tmp/okv-test-XXXXXX");
    assert_non_null(mkdtemp(cluster->directory));
    for (unsigned i = 0; i < cluster->count; i++) {
        name_server(cluster, i, &port);
        used += (size_t)snprintf(cluster->uri + used, sizeof cluster->uri - used, "%s%s",
                                 i ? "," : "okv://", strstr(cluster->servers[i].uri, "://") + 3);
    }
    snprintf(cluster->uri + used, sizeof cluster->uri - used, "/test%s%s",
             scheme ? "?transport=" : "", scheme ? scheme : "");
}

static bool knows_all(struct cluster_process *cluster, unsigned server)
{
    json_t *report = report_of(cluster, server);
    bool is_whole = json_array_size(json_object_get(report, "servers")) == cluster->count;

    json_decref(report);
    return is_whole;
}

/* To server 0. Where etcd did not answer in time it is given again, and may have been done. */
static void order_surely(struct cluster_process *cluster, const char *text)
{
    char result[ANSWER_MAX] = "";
    uint64_t end = pace_guard_end();
    bool is_done = false, is_again = false;

    while (!is_done && okv_clock_ns() < end) {
        order(cluster, 0, text, result);
        is_done = strcmp(result, "done") == 0 || (is_again && strstr(result, "the cluster exists"));
        if (!is_done && !strstr(result, "etcd"))
            break;
        is_again = true;
    }
    if (!is_done)
        fail_msg("%s: %s", text, result);
}

void cluster_process_order_creation(struct cluster_process *cluster)
{
    char text[128];
    uint64_t end = pace_guard_end();
    unsigned copies_min = cluster->options.copies_min ? cluster->options.copies_min : 1;

    while (!knows_all(cluster, 0) && okv_clock_ns() < end)
        pace_sleep_ms(LOOK_MS);
    snprintf(text, sizeof text, "create copies=%u min_copies=%u lease_ms=%u shares_hosts=1",
             cluster->count, copies_min, cluster->lease_ms);
    order_surely(cluster, text);
}

void cluster_process_create(struct cluster_process *cluster)
{
    cluster_process_order_creation(cluster);
    for (unsigned i = 0; i < cluster->count; i++)
        cluster_process_await(cluster, i, true);
}

void cluster_process_prepare(struct cluster_process *cluster, unsigned count, const char *memory,
                             uint32_t lease_ms)
{
    *cluster = (struct cluster_process){
        .options = cluster->options,
        .count = count,
        .memory = memory,
    };
    lease_ms = pace_ms(lease_ms);
    cluster->lease_ms = lease_ms < LEASE_MAX_MS ? lease_ms : LEASE_MAX_MS;
    etcd_process_start(&cluster->etcd, cluster->options.etcd_has_three ? ETCD_MEMBERS_MAX : 1,
                       cluster->options.etcd_has_tls);
    name_places(cluster);
}

void cluster_process_run(struct cluster_process *cluster)
{
    for (unsigned i = 0; i < cluster->count; i++)
        cluster_process_restart(cluster, i);
}

void cluster_process_start(struct cluster_process *cluster, unsigned count, const char *memory,
                           uint32_t lease_ms)
{
    cluster_process_prepare(cluster, count, memory, lease_ms);
    cluster_process_run(cluster);
    cluster_process_create(cluster);
}

/* They say why the test failed. */
static void show_logs(const struct cluster_process *cluster)
{
    char command[sizeof cluster->directory + 32];

    snprintf(command, sizeof command, "cat %s/log? >&2", cluster->directory);
    if (system(command))
        print_error("no logs of servers\n");
}

void cluster_process_stop(struct cluster_process *cluster)
{
    char command[128];

    for (unsigned i = 0; i < cluster->count; i++) {
        okv_close(&cluster->observers[i]);
        if (cluster->servers[i].pid)
            server_stop(&cluster->servers[i]);
    }
    etcd_process_stop(&cluster->etcd);
    if (!cluster->directory[0])
        return;
    if (cluster->options.has_logs)
        show_logs(cluster);
    snprintf(command, sizeof command, "rm -rf %s", cluster->directory);
    assert_int_equal(system(command), 0);
}

okv *cluster_process_connect(const struct cluster_process *cluster)
{
    char why[320];
    char uri[sizeof cluster->uri + 64];
    okv *handle;

    snprintf(uri, sizeof uri, "%s%cdatabase=%s", cluster->uri,
             strchr(cluster->uri, '?') ? '&' : '?', name_of_database(cluster));
    int rc = patient_open(uri, &cluster->client, &handle, why, sizeof why);
    if (rc)
        fail_msg("%s: %s: %s", uri, okv_errname(rc), why);
    return handle;
}
