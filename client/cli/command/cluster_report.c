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
#define READS_MAX 20
/* Answers: 64 servers with 8 addresses and 16 databases take 512 KiB, a slot 1 KiB at least. */
#define PARTS_MAX 1024
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
    unsigned parts = 0;
    char *text = calloc(1, 1);
    int rc = text ? OKV_OK : OKV_ENOMEM;

    while (rc == OKV_OK && length > 0) {
        snprintf(command, sizeof command, "cluster %zx", used);
        rc = okv_admin(cli->handle, command, part, sizeof part, &length);
        if (rc == OKV_OK && ++parts > PARTS_MAX)
            rc = OKV_EPROTO;
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

/* ---- its members ---- */

const char *cli_cluster_text(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

int64_t cli_cluster_number(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

bool cli_cluster_is(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

/* An element of an array of objects with this text; NULL: there is none. */
static const json_t *find(const json_t *array, const char *name, const char *text)
{
    json_t *element;
    size_t i;

    json_array_foreach(array, i, element)
    {
        if (strcmp(cli_cluster_text(element, name), text) == 0)
            return element;
    }
    return NULL;
}

const json_t *cli_cluster_server(const json_t *report, const char *id)
{
    return find(json_object_get(report, "servers"), "id", id);
}

const char *cli_cluster_place(const json_t *report, const char *id)
{
    const json_t *uris = json_object_get(cli_cluster_server(report, id), "uris");
    const char *uri = json_string_value(json_array_get(uris, 0));

    return uri ? uri : id;
}

const json_t *cli_cluster_database(const json_t *report, const char *name)
{
    return find(json_object_get(report, "databases"), "name", name);
}

const char *cli_cluster_database_name(const struct cli *cli, char out[CLI_DATABASE_SIZE])
{
    static const char option[] = "database=";
    const char *found = cli->database ? NULL : strstr(cli->server, option);

    snprintf(out, CLI_DATABASE_SIZE, "%s", cli->database ? cli->database : "default");
    if (found)
        snprintf(out, CLI_DATABASE_SIZE, "%.*s", (int)strcspn(found + strlen(option), "&"),
                 found + strlen(option));
    return out;
}

/* ---- other servers ---- */

okv *cli_cluster_open(const struct cli *cli, const json_t *server, const char **uri,
                      char why[CLI_WHY_TEXT])
{
    json_t *value;
    size_t i;

    *uri = "";
    snprintf(why, CLI_WHY_TEXT, "it has no address for clients of okv");
    json_array_foreach(json_object_get(server, "uris"), i, value)
    {
        struct cli other = *cli;
        other.server = json_string_value(value);
        other.handle = NULL;
        other.observes = true;
        if (!other.server || strncmp(other.server, "resp", 4) == 0)
            continue;
        *uri = other.server;
        if (cli_open(&other, 0, why, CLI_WHY_TEXT) == OKV_OK)
            return other.handle;
    }
    return NULL;
}

static okv *open_primary(const struct cli *cli, const json_t *report, const char *name)
{
    const json_t *database = cli_cluster_database(report, name);
    const json_t *server = cli_cluster_server(report, cli_cluster_text(database, "primary"));
    char why[CLI_WHY_TEXT];
    const char *uri;

    return cli_cluster_is(database, "leads") ? NULL : cli_cluster_open(cli, server, &uri, why);
}

void cli_cluster_follow(struct cli *cli, const char *name)
{
    json_t *report;

    if (cli_cluster_read(cli, &report))
        return; /* the next question says why */
    okv *primary = open_primary(cli, report, name);
    if (primary) {
        okv_close(&cli->handle);
        cli->handle = primary;
    }
    json_decref(report);
}

/* ---- status ---- */

static void print_copy(const json_t *report, const json_t *copy, bool is_primary)
{
    const json_t *behind = json_object_get(copy, "behind_bytes");
    const char *id = cli_cluster_text(copy, "server");

    printf("  %-12s %s (%s)",
           is_primary                        ? "primary"
           : cli_cluster_is(copy, "in_sync") ? "in sync"
                                             : "not in sync",
           cli_cluster_place(report, id), id);
    if (!cli_cluster_server(report, id))
        printf(", not running");
    else if (json_is_integer(behind) && !is_primary)
        printf(", %" PRId64 " bytes behind%s", (int64_t)json_integer_value(behind),
               cli_cluster_is(copy, "connected") ? "" : ", not connected");
    putchar('\n');
}

/* There are fewer servers, or fewer hosts, than the cluster is to have copies. */
static void print_lack(const json_t *report, size_t wanted)
{
    int64_t lacking = cli_cluster_number(report, "copies") - (int64_t)wanted;

    if (lacking > 0)
        printf("  %-12s no server for %" PRId64 " cop%s: start okv-server on another host%s\n",
               "missing", lacking, lacking == 1 ? "y" : "ies",
               cli_cluster_is(report, "shares_hosts") ? "" : ", or see okv cluster set --force");
}

static void print_database(const json_t *report, const json_t *database)
{
    const char *primary = cli_cluster_text(database, "primary");
    json_t *copy;
    size_t i;

    printf("database %s: epoch %" PRId64 "%s\n", cli_cluster_text(database, "name"),
           cli_cluster_number(database, "epoch"),
           cli_cluster_is(database, "alarmed") ? ", etcd is not what it was: roles stay as they are"
                                               : "");
    json_array_foreach(json_object_get(database, "copies"), i, copy)
        print_copy(report, copy, strcmp(cli_cluster_text(copy, "server"), primary) == 0);
    print_lack(report, i);
}

static void print_settings(const json_t *report)
{
    int64_t replace_ms = cli_cluster_number(report, "replace_ms");

    printf("cluster %s: %" PRId64 " copies, at least %" PRId64 " for writes; lease %" PRId64
           " ms; ",
           cli_cluster_text(report, "cluster"), cli_cluster_number(report, "copies"),
           cli_cluster_number(report, "min_copies"), cli_cluster_number(report, "lease_ms"));
    if (replace_ms)
        printf("a missing server is replaced after %" PRId64 " s", replace_ms / 1000);
    else
        printf("a missing server is never replaced");
    printf("%s\n",
           cli_cluster_is(report, "shares_hosts") ? "; a host may have several copies" : "");
}

static void print_servers(const json_t *report)
{
    json_t *server;
    size_t i;

    json_array_foreach(json_object_get(report, "servers"), i, server) printf(
        "server %s (%s): okv %s on host %s\n",
        cli_cluster_place(report, cli_cluster_text(server, "id")), cli_cluster_text(server, "id"),
        cli_cluster_text(server, "version"), cli_cluster_text(server, "host"));
}

void cli_cluster_print(const json_t *report)
{
    int64_t silent_ms = cli_cluster_number(report, "etcd_silent_ms");
    json_t *database;
    size_t i;

    if (!cli_cluster_is(report, "read")) {
        printf("cluster %s: etcd has not answered yet: see the server's log\n",
               cli_cluster_text(report, "cluster"));
        return;
    }
    if (cli_cluster_is(report, "exists"))
        print_settings(report);
    else
        printf("cluster %s: not created\n", cli_cluster_text(report, "cluster"));
    if (silent_ms > SILENT_MS)
        printf("etcd has not answered for %" PRId64 " s: roles stay as they are\n",
               silent_ms / 1000);
    print_servers(report);
    json_array_foreach(json_object_get(report, "databases"), i, database)
        print_database(report, database);
}

/* Adds a line to `text`. False: a copy that has a server is not in sync. */
static bool add_sync(const json_t *report, const json_t *database, char text[CLI_CLUSTER_SYNC_TEXT])
{
    size_t used = strlen(text), in_sync = 0, i;
    json_t *copy;

    json_array_foreach(json_object_get(database, "copies"), i, copy) in_sync +=
        cli_cluster_is(copy, "in_sync");
    snprintf(text + used, CLI_CLUSTER_SYNC_TEXT - used, "%s: %zu of %" PRId64 " copies in sync\n",
             cli_cluster_text(database, "name"), in_sync, cli_cluster_number(report, "copies"));
    return cli_cluster_is(database, "settled") && in_sync == i;
}

bool cli_cluster_print_sync(const json_t *report, char seen[CLI_CLUSTER_SYNC_TEXT])
{
    const json_t *databases = json_object_get(report, "databases");
    char text[CLI_CLUSTER_SYNC_TEXT] = "";
    bool is_whole = json_array_size(databases) > 0;
    json_t *database;
    size_t i;

    json_array_foreach(databases, i, database)
    {
        bool is_in_sync = add_sync(report, database, text);
        is_whole &= is_in_sync;
    }
    if (strcmp(text, seen) != 0)
        fputs(text, stderr);
    strcpy(seen, text);
    return is_whole;
}
