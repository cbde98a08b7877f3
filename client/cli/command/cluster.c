/* okv cluster: creates a cluster, shows it, and moves its primaries. */
#include <inttypes.h>
#include <jansson.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/output.h"

#define ANSWER_MAX 4096
#define COMMAND_MAX 128
#define PAUSE_MS 20
/* A report that changes while it is read is read again. */
#define READS_MAX 100
/* etcd has answered by then, or is away. */
#define RESULT_LOOKS 500
#define LEASE_DEFAULT_MS 1000

struct cluster_arguments {
    struct cli *cli;
    const char *word, *database;
    const char *to;
    uint64_t copies, min_copies, lease_ms;
    bool json, yes;
};

static const struct okv_option cluster_options[] = {
    {"copies", 0, "N", .help = "create: copies of each database, the primary included (2)",
     CLI_NUMBER(struct cluster_arguments, copies, 1, 8)},
    {"min-copies", 0, "N", .help = "create: refuse writes while fewer copies are in sync (1)",
     CLI_NUMBER(struct cluster_arguments, min_copies, 1, 8)},
    {"lease", 0, "TIME", .help = "create: how long clients may trust a primary that is silent (1s)",
     CLI_TIME(struct cluster_arguments, lease_ms)},
    {"to", 0, "SERVER", .help = "handover: the server that is to lead (another one in sync)",
     CLI_TEXT(struct cluster_arguments, to)},
    {"json", 0, NULL, .help = "status: as JSON", CLI_FLAG(struct cluster_arguments, json)},
    {"yes", 0, NULL, .help = "create, handover: do not ask",
     CLI_FLAG(struct cluster_arguments, yes)},
    {0},
};

/* ---- what the server says ---- */

static int fail(struct cli *cli, const char *word, int rc)
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
    char command[COMMAND_MAX], part[ANSWER_MAX];
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

static int read_report(struct cli *cli, json_t **out)
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

/* ---- status ---- */

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "-";
}

static bool is_true(const json_t *object, const char *name)
{
    return json_is_true(json_object_get(object, name));
}

/* The first address of a server, or its id where it does not run. */
static const char *name_of(const json_t *report, const char *id)
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

    printf("  %-12s %s (%s)", state, name_of(report, text_at(copy, "server")),
           text_at(copy, "server"));
    if (json_is_integer(behind) && !is_primary)
        printf(", %" PRId64 " bytes behind%s", (int64_t)json_integer_value(behind),
               is_true(copy, "connected") ? "" : ", not connected");
    putchar('\n');
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
}

static void print_report(const json_t *report)
{
    json_t *database;
    size_t i;

    printf("cluster %s: %s, %zu server%s, %" PRId64 " copies, at least %" PRId64
           " for writes, lease %" PRId64 " ms\n",
           text_at(report, "cluster"), is_true(report, "exists") ? "exists" : "not created",
           json_array_size(json_object_get(report, "servers")),
           cli_s(json_array_size(json_object_get(report, "servers"))),
           (int64_t)json_integer_value(json_object_get(report, "copies")),
           (int64_t)json_integer_value(json_object_get(report, "min_copies")),
           (int64_t)json_integer_value(json_object_get(report, "lease_ms")));
    json_array_foreach(json_object_get(report, "databases"), i, database)
        print_database(report, database);
}

static int show_status(struct cli *cli, const struct cluster_arguments *arguments)
{
    json_t *report;
    int rc = read_report(cli, &report);

    if (rc)
        return fail(cli, "status", rc);
    if (arguments->json) {
        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
        putchar('\n');
    } else {
        print_report(report);
    }
    json_decref(report);
    return cli_output_end("cluster status");
}

/* ---- orders ---- */

static bool confirm(const char *what)
{
    char *answer = NULL;
    size_t size = 0;

    fprintf(stderr, "%s [y/N] ", what);
    bool answered = getline(&answer, &size, stdin) > 0;
    bool yes = answered && (answer[0] == 'y' || answer[0] == 'Y');
    if (!answered)
        putc('\n', stderr);
    free(answer);
    return yes;
}

/* Waits for the result of an order. */
static int await_result(struct cli *cli, const char *word, const char *number)
{
    char command[COMMAND_MAX], result[ANSWER_MAX];
    size_t length = 0;
    int rc = OKV_OK;

    snprintf(command, sizeof command, "cluster result %.16s", number);
    for (unsigned i = 0; i < RESULT_LOOKS && rc == OKV_OK && length == 0; i++) {
        cli_pause(PAUSE_MS);
        rc = okv_admin(cli->handle, command, result, sizeof result - 1, &length);
    }
    if (rc)
        return fail(cli, word, rc);
    result[length] = '\0';
    if (strcmp(result, "done") == 0)
        return CLI_DONE;
    fprintf(stderr, "okv: cluster %s: %s\n", word,
            length ? result : "etcd has not answered: see okv cluster status");
    return CLI_FAILED;
}

static int order(struct cli *cli, const char *word, const char *text)
{
    char command[COMMAND_MAX], number[ANSWER_MAX];
    size_t length;

    snprintf(command, sizeof command, "cluster order %s", text);
    int rc = okv_admin(cli->handle, command, number, sizeof number - 1, &length);
    if (rc)
        return fail(cli, word, rc);
    number[length] = '\0';
    return await_result(cli, word, number);
}

static int create(struct cli *cli, const struct cluster_arguments *arguments)
{
    char text[COMMAND_MAX], question[256];

    snprintf(question, sizeof question,
             "Create the cluster of %s, with the databases of this server, %" PRIu64
             " copies of each and a lease of %" PRIu64 " ms?",
             cli->server, arguments->copies, arguments->lease_ms);
    if (!arguments->yes && !confirm(question)) {
        fputs("okv: cluster create: nothing was changed\n", stderr);
        return CLI_MISS;
    }
    snprintf(text, sizeof text, "create %" PRIu64 " %" PRIu64 " %" PRIu64, arguments->copies,
             arguments->min_copies, arguments->lease_ms);
    return order(cli, "create", text);
}

static const char *primary_of(const json_t *report, const char *name, int64_t *epoch)
{
    json_t *database;
    size_t i;

    json_array_foreach(json_object_get(report, "databases"), i, database)
    {
        if (strcmp(text_at(database, "name"), name) != 0)
            continue;
        *epoch = json_integer_value(json_object_get(database, "epoch"));
        return text_at(database, "primary");
    }
    return NULL;
}

/* It is done when another server leads. */
static int await_hand_over(struct cli *cli, const char *name, int64_t before)
{
    int64_t epoch = before;
    json_t *report;

    for (unsigned i = 0; i < RESULT_LOOKS && epoch == before; i++) {
        cli_pause(PAUSE_MS);
        int rc = read_report(cli, &report);
        if (rc)
            return fail(cli, "handover", rc);
        if (primary_of(report, name, &epoch) && epoch != before)
            printf("%s leads %s in epoch %" PRId64 "\n",
                   name_of(report, primary_of(report, name, &epoch)), name, epoch);
        json_decref(report);
    }
    if (epoch != before)
        return cli_output_end("cluster handover");
    fprintf(stderr, "okv: cluster handover: no other server leads yet: see okv cluster status\n");
    return CLI_FAILED;
}

static int hand_over(struct cli *cli, const struct cluster_arguments *arguments)
{
    const char *name = arguments->database ? arguments->database : "default";
    char text[COMMAND_MAX];
    int64_t epoch = 0;
    json_t *report;
    int rc = read_report(cli, &report);

    if (rc)
        return fail(cli, "handover", rc);
    primary_of(report, name, &epoch);
    json_decref(report);
    snprintf(text, sizeof text, "handover %.31s %.16s", name, arguments->to ? arguments->to : "");
    int status = order(cli, "handover", text);
    return status == CLI_DONE ? await_hand_over(cli, name, epoch) : status;
}

/* ---- the command ---- */

static error_t check_cluster(struct argp_state *state, void *input)
{
    struct cluster_arguments *arguments = input;
    const char *word = arguments->word;
    bool creates = strcmp(word, "create") == 0;

    if (!creates && strcmp(word, "status") != 0 && strcmp(word, "handover") != 0)
        return cli_usage(state, "give `create', `status' or `handover [DATABASE]'");
    if (arguments->database && strcmp(word, "handover") != 0)
        return cli_usage(state, "unexpected argument '%s'", arguments->database);
    if (arguments->min_copies > arguments->copies)
        return cli_usage(state, "--min-copies is more than --copies");
    if (creates && !arguments->yes && !isatty(STDIN_FILENO))
        return cli_usage(state, "this creates a cluster, and there is no terminal to ask at: give "
                                "--yes if that is what you want");
    return 0;
}

int cli_cluster(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = cluster_options,
        .least = 1,
        .most = 2,
        .arguments = {offsetof(struct cluster_arguments, word),
                      offsetof(struct cluster_arguments, database)},
        .missing = "give `create', `status' or `handover [DATABASE]'",
        .unexpected = "unexpected argument '%s'",
        .check = check_cluster,
        .args_doc = "create | status | handover [DATABASE]",
        .doc =
            "Create a cluster, show it, or have another server lead a database; takes the right "
            "admin. Any server of the cluster may be asked, for a handover the primary.\v"
            "Examples:\n  okv -s tcp://a cluster create --copies 2\n  okv cluster status --json\n"
            "  okv cluster handover default"};
    struct cluster_arguments arguments = {
        .cli = cli, .copies = 2, .min_copies = 1, .lease_ms = LEASE_DEFAULT_MS};

    cli->observes = true;
    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (strcmp(arguments.word, "create") == 0)
        return create(cli, &arguments);
    return strcmp(arguments.word, "status") == 0 ? show_status(cli, &arguments)
                                                 : hand_over(cli, &arguments);
}
