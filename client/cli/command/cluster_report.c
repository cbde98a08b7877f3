#include "client/cli/command/cluster_report.h"

#include <inttypes.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/output.h"

#define ANSWER_MAX 4096
#define PAUSE_MS 20
/* A report that changes while it is read is read again. */
#define READS_MAX 100
/* etcd answers every 3 s. */
#define SILENT_MS 5000

/* ---- what the server says ---- */

int cli_cluster_fail(struct cli *cli, const char *word, int rc)
{
    char command[32];

    snprintf(command, sizeof command, "cluster %s", word);
    if (rc == OKV_EUNSUPPORTED)
        return cli_fail_with(cli, command, NULL, 0, rc,
                             "start okv-server with --cluster, --etcd and --advertise");
    return cli_fail(cli, command, NULL, 0, rc);
}

/* The report as text, to free(). */
static int fetch_report(struct cli *cli, char **out)
{
    char command[32], part[ANSWER_MAX];
    size_t length = 1, used = 0;
    char *text = calloc(1, 1);
    int rc = text ? OKV_OK : OKV_ENOMEM;

    while (rc == OKV_OK && length > 0) {
        snprintf(command, sizeof command, "cluster %zx", used);
        rc = okv_admin(cli->handle, command, part, sizeof part, &length);
        char *longer = rc == OKV_OK ? realloc(text, used + length + 1) : NULL;
        if (rc == OKV_OK && !longer)
            rc = OKV_ENOMEM;
        if (rc)
            break;
        text = longer;
        memcpy(text + used, part, length);
        used += length;
        text[used] = '\0';
    }
    if (rc)
        free(text);
    else
        *out = text;
    return rc;
}

int cli_cluster_read(struct cli *cli, json_t **out)
{
    char *text;
    int rc = OKV_OK;

    *out = NULL;
    for (unsigned i = 0; i < READS_MAX && rc == OKV_OK && !*out; i++) {
        if (i > 0)
            cli_pause(PAUSE_MS);
        rc = fetch_report(cli, &text);
        if (rc == OKV_OK) {
            *out = json_loads(text, 0, NULL);
            free(text);
        }
    }
    return rc == OKV_OK && !*out ? OKV_EPROTO : rc;
}

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "-";
}

static bool is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

okv *cli_cluster_open(const struct cli *cli, const json_t *server, const char **uri)
{
    char why[CLI_WHY_TEXT];
    json_t *value;
    size_t i;

    json_array_foreach(json_object_get(server, "uris"), i, value)
    {
        struct cli other = *cli;
        other.server = *uri = json_string_value(value);
        other.handle = NULL;
        other.observes = true;
        if (strncmp(other.server, "resp", 4) != 0 && cli_open(&other, 0, why, sizeof why) == OKV_OK)
            return other.handle;
    }
    return NULL;
}

static void follow(struct cli *cli, const json_t *report, const json_t *database)
{
    const char *uri;
    json_t *server;
    size_t i;

    json_array_foreach(json_object_get(report, "servers"), i, server)
    {
        if (strcmp(text_at(server, "id"), text_at(database, "primary")) != 0)
            continue;
        okv *primary = cli_cluster_open(cli, server, &uri);
        if (!primary)
            return;
        okv_close(&cli->handle);
        cli->handle = primary;
        return;
    }
}

void cli_cluster_follow(struct cli *cli, const char *name)
{
    json_t *report;

    if (cli_cluster_read(cli, &report))
        return; /* the next question says why */
    const json_t *database = cli_cluster_database(report, name);
    if (database && !is_true(database, "leads"))
        follow(cli, report, database);
    json_decref(report);
}

/* ---- status ---- */

const char *cli_cluster_server(const json_t *report, const char *id)
{
    json_t *server;
    size_t i;

    json_array_foreach(json_object_get(report, "servers"), i, server)
    {
        const char *uri = json_string_value(json_array_get(json_object_get(server, "uris"), 0));
        if (strcmp(text_at(server, "id"), id) == 0 && uri)
            return uri;
    }
    return id;
}

static void print_copy(const json_t *report, const json_t *copy, bool is_primary)
{
    const json_t *behind = json_object_get(copy, "behind_bytes");
    const char *state = is_primary                 ? "primary"
                        : is_true(copy, "in_sync") ? "in sync"
                                                   : "not in sync";

    printf("  %-12s %s (%s)", state, cli_cluster_server(report, text_at(copy, "server")),
           text_at(copy, "server"));
    if (json_is_integer(behind) && !is_primary)
        printf(", %" PRId64 " bytes behind%s", (int64_t)json_integer_value(behind),
               is_true(copy, "connected") ? "" : ", not connected");
    putchar('\n');
}

static uint64_t number_at(const json_t *object, const char *name)
{
    json_int_t value = json_integer_value(json_object_get(object, name));

    return value < 0 ? 0 : (uint64_t)value;
}

/* There are fewer servers, or fewer hosts, than the cluster is to have copies. */
static void print_lack(const json_t *report, size_t wanted)
{
    uint64_t copies = number_at(report, "copies");

    if (wanted >= copies)
        return;
    printf("  %-12s no server for %" PRIu64 " cop%s: start okv-server on another host%s\n",
           "missing", copies - wanted, copies - wanted == 1 ? "y" : "ies",
           is_true(report, "shares_hosts") ? "" : ", or see okv cluster set --force");
}

static void print_database(const json_t *report, const json_t *database)
{
    const char *primary = text_at(database, "primary");
    json_t *copy;
    size_t i;

    printf("database %s: epoch %" PRId64 "%s\n", text_at(database, "name"),
           (int64_t)json_integer_value(json_object_get(database, "epoch")),
           is_true(database, "alarmed") ? ", etcd is not what it was: roles stay as they are" : "");
    json_array_foreach(json_object_get(database, "copies"), i, copy)
        print_copy(report, copy, strcmp(text_at(copy, "server"), primary) == 0);
    print_lack(report, i);
}

void cli_cluster_print(const json_t *report)
{
    json_t *database;
    size_t i;

    printf("cluster %s: %s, %zu server%s, %" PRIu64 " copies, at least %" PRIu64
           " for writes, lease %" PRIu64 " ms\n",
           text_at(report, "cluster"), is_true(report, "exists") ? "exists" : "not created",
           json_array_size(json_object_get(report, "servers")),
           cli_s(json_array_size(json_object_get(report, "servers"))), number_at(report, "copies"),
           number_at(report, "min_copies"), number_at(report, "lease_ms"));
    if (json_integer_value(json_object_get(report, "etcd_silent_ms")) > SILENT_MS)
        printf("etcd has not answered for %" PRIu64 " s: roles stay as they are\n",
               number_at(report, "etcd_silent_ms") / 1000);
    json_array_foreach(json_object_get(report, "databases"), i, database)
        print_database(report, database);
}

const json_t *cli_cluster_database(const json_t *report, const char *name)
{
    json_t *database;
    size_t i;

    json_array_foreach(json_object_get(report, "databases"), i, database)
    {
        if (strcmp(text_at(database, "name"), name) == 0)
            return database;
    }
    return NULL;
}

bool cli_cluster_print_sync(const json_t *report, char seen[CLI_CLUSTER_SYNC_TEXT])
{
    uint64_t copies = number_at(report, "copies");
    char text[CLI_CLUSTER_SYNC_TEXT] = "";
    bool is_whole = true;
    json_t *database, *copy;
    size_t i, k, used = 0, databases = json_array_size(json_object_get(report, "databases"));

    json_array_foreach(json_object_get(report, "databases"), i, database)
    {
        uint64_t in_sync = 0;
        json_array_foreach(json_object_get(database, "copies"), k, copy)
        {
            in_sync +=
                is_true(copy, "in_sync") && !json_is_false(json_object_get(copy, "connected"));
        }
        is_whole &= is_true(database, "settled") && in_sync == k;
        if (used < sizeof text)
            used += (size_t)snprintf(text + used, sizeof text - used,
                                     "%s: %" PRIu64 " of %" PRIu64 " copies in sync\n",
                                     text_at(database, "name"), in_sync, copies);
    }
    if (strcmp(text, seen) != 0)
        fputs(text, stderr);
    strcpy(seen, text);
    return is_whole && databases > 0;
}
