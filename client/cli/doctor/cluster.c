/* The cluster of a server: what would keep it from going on when a server is lost. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/command/cluster_report.h"
#include "client/cli/doctor/checks.h"
#include "client/cli/doctor/clocks.h"
#include "client/cli/stats.h"

#define WHAT "cluster"
/* etcd answers every 3 s. */
#define SILENT_MS 5000
/* A slower one makes takeovers slow. */
#define SLOW_US 100000
/* Between two readings of the clocks: an exchange takes some 100 us. */
#define APART_MS 1000
/* What docs/copies.md assumes of each lease clock. */
#define RHO_PPM 500
/* Items expire so much sooner or later when another server leads. */
#define AHEAD_US 100000
#define SERVERS_MAX 64

/* A server whose clocks are compared. */
struct server {
    const char *uri;
    okv *handle; /* NULL: it was not reached */
    struct doctor_clocks first;
};

static void check_etcd(struct doctor_report *report, const json_t *cluster)
{
    int64_t silent_ms = cli_cluster_number(cluster, "etcd_silent_ms"),
            us = cli_cluster_number(cluster, "etcd_us");
    bool is_slow = us > SLOW_US;

    if (silent_ms < 0 || silent_ms > SILENT_MS)
        doctor_add(report, DOCTOR_PROBLEM, "etcd",
                   "see that etcd runs and is reached from the server: its log says why not",
                   "no answer to this server%s: no copy leaves or joins, and nobody takes over",
                   silent_ms < 0 ? " since its start" : "");
    else
        doctor_add(report, is_slow ? DOCTOR_NOTE : DOCTOR_OK, "etcd",
                   is_slow ? "give etcd a disk of its own, and more processor time" : NULL,
                   "answers in %" PRId64 ".%03" PRId64 " ms", us / 1000, us % 1000);
}

/* Servers that have a copy of this database and run on the host of another one. */
static bool shares_host(const json_t *cluster, const json_t *database)
{
    json_t *copy, *server;
    const char *hosts[SERVERS_MAX];
    size_t i, k, count = 0;

    json_array_foreach(json_object_get(database, "copies"), i, copy)
    {
        json_array_foreach(json_object_get(cluster, "servers"), k, server)
        {
            if (strcmp(cli_cluster_text(server, "id"), cli_cluster_text(copy, "server")) != 0)
                continue;
            for (size_t n = 0; n < count; n++)
                if (strcmp(hosts[n], cli_cluster_text(server, "host")) == 0)
                    return true;
            if (count < SERVERS_MAX)
                hosts[count++] = cli_cluster_text(server, "host");
        }
    }
    return false;
}

static void check_database(struct doctor_report *report, const json_t *cluster,
                           const json_t *database)
{
    const char *name = cli_cluster_text(database, "name");
    int64_t copies = cli_cluster_number(cluster, "copies"), in_sync = 0;
    json_t *copy;
    size_t i;

    json_array_foreach(json_object_get(database, "copies"), i, copy) in_sync +=
        cli_cluster_is(copy, "in_sync");
    doctor_add(report, in_sync < copies ? DOCTOR_PROBLEM : DOCTOR_OK, WHAT,
               in_sync < copies ? "see okv cluster status for which one, and that server's log"
                                : NULL,
               "database %s: %" PRId64 " of %" PRId64 " copies in sync", name, in_sync, copies);
    if (cli_cluster_is(database, "alarmed"))
        doctor_add(report, DOCTOR_PROBLEM, WHAT, "see docs/cluster.md for an etcd that was lost",
                   "database %s: etcd is not what it was: nobody takes over", name);
    if (shares_host(cluster, database))
        doctor_add(report, DOCTOR_NOTE, WHAT, "start servers on other hosts",
                   "database %s: copies on one host are lost together", name);
}

/* ---- clocks ---- */

static void tell_clocks(struct doctor_report *report, const struct server *server)
{
    struct doctor_clocks second;
    int rc = doctor_clocks_read(server->handle, &second);

    if (rc) {
        doctor_add(report, DOCTOR_NOTE, "clock", NULL, "%s: no second reading: %s", server->uri,
                   okv_strerror(rc));
        return;
    }
    struct doctor_clock_rates rates = doctor_clocks_compare(&server->first, &second);
    int64_t off_ppm = llabs(rates.ppm) - rates.error_ppm;
    bool is_ahead = llabs(rates.ahead_us) > AHEAD_US;
    enum doctor_level level = off_ppm > 2 * RHO_PPM           ? DOCTOR_PROBLEM
                              : off_ppm > RHO_PPM || is_ahead ? DOCTOR_NOTE
                                                              : DOCTOR_OK;
    doctor_add(report, level, "clock",
               off_ppm > RHO_PPM ? "see dmesg of both hosts: gets rest on clocks within 500 ppm"
               : is_ahead
                   ? "run chrony or systemd-timesyncd on both: items expire by the wall clock"
                   : NULL,
               "%s: wall clock %+" PRId64 " ms, lease clock %+" PRId64 " ppm (give or take %" PRId64
               ") beside this host",
               server->uri, rates.ahead_us / 1000, rates.ppm, rates.error_ppm);
}

static void check_clocks(struct doctor_report *report, const struct cli *cli, const json_t *cluster)
{
    struct server servers[SERVERS_MAX] = {{0}};
    char why[CLI_WHY_TEXT];
    json_t *value;
    size_t i, count = 0;

    json_array_foreach(json_object_get(cluster, "servers"), i, value)
    {
        struct server *server = &servers[count];
        if (count == SERVERS_MAX)
            break;
        server->handle = cli_cluster_open(cli, value, &server->uri, why);
        if (server->handle && doctor_clocks_read(server->handle, &server->first))
            okv_close(&server->handle);
        if (!server->handle)
            doctor_add(report, DOCTOR_PROBLEM, WHAT,
                       "see that it runs, and that this host reaches it: clients must, too",
                       "no connection to %s, which etcd lists: %s", server->uri, why);
        count += server->handle != NULL;
    }
    cli_pause(APART_MS);
    for (i = 0; i < count; i++) {
        tell_clocks(report, &servers[i]);
        okv_close(&servers[i].handle);
    }
}

/* ---- the check ---- */

static bool leads(const struct cli *cli, const json_t *cluster)
{
    char name[CLI_DATABASE_SIZE];

    return cli_cluster_is(cli_cluster_database(cluster, cli_cluster_database_name(cli, name)),
                          "leads");
}

static void check(struct doctor_report *report, const struct cli *cli, const json_t *cluster)
{
    json_t *database;
    size_t i;

    check_etcd(report, cluster);
    if (!cli_cluster_is(cluster, "read"))
        return;
    if (!cli_cluster_is(cluster, "exists"))
        doctor_add(report, DOCTOR_PROBLEM, WHAT, "okv cluster create",
                   "%s does not exist yet, and nobody leads", cli_cluster_text(cluster, "cluster"));
    json_array_foreach(json_object_get(cluster, "databases"), i, database)
        check_database(report, cluster, database);
    check_clocks(report, cli, cluster);
}

bool doctor_check_cluster(struct doctor_report *report, const struct cli *cli)
{
    struct cli observer = *cli;
    char why[CLI_WHY_TEXT];
    json_t *cluster = NULL;
    bool is_copy = false;

    observer.handle = NULL;
    observer.observes = true;
    if (cli_open(&observer, 0, why, sizeof why))
        return false; /* the next step says why */
    int rc = cli_cluster_read(&observer, &cluster);
    if (rc == OKV_EDENIED && strncmp(cli->server, "okv://", 6) == 0)
        doctor_add(report, DOCTOR_NOTE, WHAT, "ask as a user with the right admin",
                   "not looked at: this user lacks the right admin");
    if (rc == OKV_OK) {
        check(report, cli, cluster);
        is_copy = strncmp(cli->server, "okv://", 6) != 0 && !leads(cli, cluster);
    }
    if (is_copy)
        doctor_add(report, DOCTOR_NOTE, "server", "name the primary, or the cluster by okv://",
                   "this one does not lead the database: no put and no get was tried");
    json_decref(cluster);
    okv_close(&observer.handle);
    return is_copy;
}
