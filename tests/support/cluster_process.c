#include "tests/support/cluster_process.h"

#include <jansson.h>
#include <signal.h>
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

/* The id of a server; "": the report does not have it. */
static const char *id_of(struct cluster_process *cluster, const json_t *report, unsigned server)
{
    const json_t *servers = json_object_get(report, "servers");

    for (size_t i = 0; i < json_array_size(servers); i++) {
        const json_t *of = json_array_get(servers, i);
        const char *uri = json_string_value(json_array_get(json_object_get(of, "uris"), 0));
        if (uri && strcmp(uri, cluster->servers[server].uri) == 0)
            return text_at(of, "id");
    }
    return "";
}

static bool leads(struct cluster_process *cluster, unsigned server)
{
    json_t *report = report_of(cluster, server);
    bool is_leading = json_is_true(json_object_get(database_of(cluster, report), "leads"));

    json_decref(report);
    return is_leading;
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

void cluster_process_restart(struct cluster_process *cluster, unsigned i)
{
    struct server_process *server = &cluster->servers[i], there = *server;
    char data[sizeof cluster->directory + 8];
    const char *arguments[20] = {
        "--memory",    cluster->memory, "--cluster",        "test", "--etcd", cluster->etcd.urls,
        "--advertise", there.uri,       "--snapshot-ratio", "0.1"};
    unsigned count = 10;

    if (cluster->has_files) {
        arguments[count++] = "--data";
        arguments[count++] = data;
    }
    if (cluster->has_two) {
        arguments[count++] = "--database=default";
        arguments[count++] = "--database=other:1M";
    }
    snprintf(data, sizeof data, "%s/d%u", cluster->directory, i);

    server_start_after(server, &there, arguments);
    if (!cluster->observers[i])
        assert_int_equal(patient_open(server->uri, &(struct okv_options){.observe = 1},
                                      &cluster->observers[i], NULL, 0),
                         OKV_OK);
}

void cluster_process_signal(struct cluster_process *cluster, unsigned server, int signal)
{
    if (signal != SIGKILL)
        cluster->stands[server] = signal == SIGSTOP;
    server_signal(&cluster->servers[server], signal);
}

static void name_places(struct cluster_process *cluster)
{
    size_t used = 0;

    snprintf(cluster->directory, sizeof cluster->directory, "/tmp/okv-test-XXXXXX");
    assert_non_null(mkdtemp(cluster->directory));
    for (unsigned i = 0; i < cluster->count; i++) {
        struct server_process *server = &cluster->servers[i];
        snprintf(server->uri, sizeof server->uri, "local://%s/s%u", cluster->directory, i);
        memcpy(server->listen, server->uri, sizeof server->listen);
        used += (size_t)snprintf(cluster->uri + used, sizeof cluster->uri - used, "%s%s",
                                 i ? "," : "okv://", server->uri + strlen("local://"));
    }
    snprintf(cluster->uri + used, sizeof cluster->uri - used, "/test");
}

static bool knows_all(struct cluster_process *cluster, unsigned server)
{
    json_t *report = report_of(cluster, server);
    bool is_whole = json_array_size(json_object_get(report, "servers")) == cluster->count;

    json_decref(report);
    return is_whole;
}

void cluster_process_create(struct cluster_process *cluster)
{
    char text[64], result[ANSWER_MAX];
    uint64_t end = pace_guard_end();

    while (!knows_all(cluster, 0) && okv_clock_ns() < end)
        pace_sleep_ms(LOOK_MS);
    snprintf(text, sizeof text, "create copies=%u lease_ms=%u shares_hosts=1", cluster->count,
             cluster->lease_ms);
    order(cluster, 0, text, result);
    assert_string_equal(result, "done");
    for (unsigned i = 0; i < cluster->count; i++)
        cluster_process_await(cluster, i, true);
}

void cluster_process_start(struct cluster_process *cluster, unsigned count, const char *memory,
                           uint32_t lease_ms)
{
    *cluster = (struct cluster_process){
        .count = count,
        .memory = memory,
        .has_files = cluster->has_files,
        .has_two = cluster->has_two,
    };
    etcd_process_start(&cluster->etcd, 1, false);
    name_places(cluster);
    for (unsigned i = 0; i < count; i++)
        cluster_process_restart(cluster, i);
    lease_ms = pace_ms(lease_ms);
    cluster->lease_ms = lease_ms < LEASE_MAX_MS ? lease_ms : LEASE_MAX_MS;
    cluster_process_create(cluster);
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
    snprintf(command, sizeof command, "rm -rf %s", cluster->directory);
    assert_int_equal(system(command), 0);
}

okv *cluster_process_connect(const struct cluster_process *cluster)
{
    char why[320];
    char uri[sizeof cluster->uri + 64];
    okv *handle;

    snprintf(uri, sizeof uri, "%s?database=%s", cluster->uri, name_of_database(cluster));
    int rc = patient_open(uri, NULL, &handle, why, sizeof why);
    if (rc)
        fail_msg("%s: %s: %s", uri, okv_errname(rc), why);
    return handle;
}
