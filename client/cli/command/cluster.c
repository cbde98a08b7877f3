/* okv cluster: creates a cluster, shows it, changes it, and moves its primaries. */
#include <inttypes.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/command/cluster_report.h"
#include "client/cli/output.h"

#define ANSWER_MAX 4096
#define COMMAND_MAX 192
#define PAUSE_MS 20
/* etcd has answered by then, or is away. */
#define RESULT_LOOKS 500
/* As the server has them. */
#define REPLACE_LEAST_MS 1000
#define REPLACE_MOST_MS (7 * CLI_TIME_MAX_MS)

struct cluster_arguments {
    struct cli *cli;
    const char *word, *database;
    const char *to;
    uint64_t copies, min_copies, lease_ms; /* 0: not given */
    const char *replace_after;
    uint64_t replace_ms;
    bool force, wait, json, yes;
};

static const struct okv_option cluster_options[] = {
    {"copies", 0, "N", .help = "create, set: copies of each database, the primary included (2)",
     CLI_NUMBER(struct cluster_arguments, copies, 1, 8)},
    {"min-copies", 0, "N", .help = "create, set: refuse writes while fewer copies are in sync (1)",
     CLI_NUMBER(struct cluster_arguments, min_copies, 1, 8)},
    {"replace-after", 0, "TIME",
     .help = "create, set: another server gets the copy of one that is missing for TIME, "
             "`never' or 1s to 7d (60s)",
     CLI_TEXT(struct cluster_arguments, replace_after)},
    {"lease", 0, "TIME", .help = "create: how long clients may trust a primary that is silent (1s)",
     CLI_TIME(struct cluster_arguments, lease_ms)},
    {"force", 0, NULL, .help = "create, set: allow several copies of a database on one host",
     CLI_FLAG(struct cluster_arguments, force)},
    {"to", 0, "SERVER",
     .help = "handover: the server that is to lead, its address or id (another one in sync)",
     CLI_TEXT(struct cluster_arguments, to)},
    {"wait", 0, NULL, .help = "status: wait until all copies that have a server are in sync",
     CLI_FLAG(struct cluster_arguments, wait)},
    {"json", 0, NULL, .help = "Print the cluster as JSON, after a change as it is then",
     CLI_FLAG(struct cluster_arguments, json)},
    {"yes", 0, NULL, .help = "create, set: do not ask", CLI_FLAG(struct cluster_arguments, yes)},
    {0},
};

static const char *text_at(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));

    return text ? text : "";
}

static int64_t number_at(const json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

/* ---- status ---- */

static int print(const struct cluster_arguments *arguments, const json_t *report)
{
    char command[32];

    snprintf(command, sizeof command, "cluster %s", arguments->word);
    if (arguments->json) {
        json_dumpf(report, stdout, JSON_INDENT(2) | JSON_SORT_KEYS);
        putchar('\n');
    } else {
        cli_cluster_print(report);
    }
    return cli_output_end(command);
}

static int show_status(struct cli *cli, const struct cluster_arguments *arguments)
{
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, arguments->word, rc);
    int status = print(arguments, report);
    json_decref(report);
    return status;
}

/* ---- orders ---- */

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
        return cli_cluster_fail(cli, word, rc);
    result[length] = '\0';
    if (strcmp(result, "done") == 0)
        return CLI_DONE;
    fprintf(stderr, "okv: cluster %s: %s\n", word,
            length ? result : "etcd has not answered: see okv cluster status");
    return CLI_FAILED;
}

static int order(struct cli *cli, const char *word, const char *text)
{
    char command[COMMAND_MAX + 16], number[ANSWER_MAX];
    size_t length;

    snprintf(command, sizeof command, "cluster order %s", text);
    int rc = okv_admin(cli->handle, command, number, sizeof number - 1, &length);
    if (rc)
        return cli_cluster_fail(cli, word, rc);
    number[length] = '\0';
    return await_result(cli, word, number);
}

/* ---- create and set ---- */

static bool confirm(void)
{
    char *answer = NULL;
    size_t size = 0;

    fputs("Do it? [y/N] ", stderr);
    bool answered = getline(&answer, &size, stdin) > 0;
    bool yes = answered && (answer[0] == 'y' || answer[0] == 'Y');
    if (!answered)
        putc('\n', stderr);
    free(answer);
    return yes;
}

static void plan_number(const json_t *report, const char *name, const char *what, uint64_t value)
{
    if (value == 0)
        return;
    fprintf(stderr, "  %s: %" PRIu64, what, value);
    if (json_is_true(json_object_get(report, "exists")))
        fprintf(stderr, " (now %" PRId64 ")", number_at(report, name));
    putc('\n', stderr);
}

static void plan_servers(const struct cli *cli, const json_t *report)
{
    json_t *server;
    size_t i;

    fprintf(stderr, "The cluster %s, with the databases of %s, which leads them. Servers:\n",
            text_at(report, "cluster"), cli->server);
    json_array_foreach(json_object_get(report, "servers"), i, server)
        fprintf(stderr, "  %s on host %s\n", cli_cluster_server(report, text_at(server, "id")),
                text_at(server, "host"));
    fputs("Settings:\n", stderr);
}

/* What is about to happen. */
static void plan(const struct cluster_arguments *arguments, const json_t *report)
{
    if (strcmp(arguments->word, "create") == 0)
        plan_servers(arguments->cli, report);
    else
        fprintf(stderr, "Settings of the cluster %s:\n", text_at(report, "cluster"));
    plan_number(report, "copies", "copies", arguments->copies);
    plan_number(report, "min_copies", "least copies for writes", arguments->min_copies);
    plan_number(report, "lease_ms", "lease, ms", arguments->lease_ms);
    if (arguments->replace_after)
        fprintf(stderr, "  a missing server is replaced after: %s\n", arguments->replace_after);
    if (arguments->force)
        fputs("  several copies may be on one host\n", stderr);
}

static void add_word(char text[COMMAND_MAX], const char *name, uint64_t value)
{
    size_t used = strlen(text);

    snprintf(text + used, COMMAND_MAX - used, " %s=%" PRIu64, name, value);
}

static int give(struct cli *cli, const struct cluster_arguments *arguments)
{
    char text[COMMAND_MAX];

    snprintf(text, sizeof text, "%s", arguments->word);
    if (arguments->copies)
        add_word(text, "copies", arguments->copies);
    if (arguments->min_copies)
        add_word(text, "min_copies", arguments->min_copies);
    if (arguments->lease_ms)
        add_word(text, "lease_ms", arguments->lease_ms);
    if (arguments->replace_after)
        add_word(text, "replace_ms", arguments->replace_ms);
    if (arguments->force)
        add_word(text, "shares_hosts", 1);
    return order(cli, arguments->word, text);
}

/* As long as copies are made. They are also made when this command ends. */
static int await_copies(struct cli *cli, const struct cluster_arguments *arguments)
{
    char seen[CLI_CLUSTER_SYNC_TEXT] = "";
    bool is_whole = false;
    int status = CLI_DONE;

    while (!is_whole && status == CLI_DONE && cli_pause(CLI_CLUSTER_LOOK_MS)) {
        json_t *report;
        int rc = cli_cluster_read(cli, &report);
        if (rc)
            return cli_cluster_fail(cli, arguments->word, rc);
        is_whole = cli_cluster_print_sync(report, seen);
        if (is_whole)
            status = print(arguments, report);
        json_decref(report);
    }
    return status;
}

static int change(struct cli *cli, const struct cluster_arguments *arguments)
{
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, arguments->word, rc);
    plan(arguments, report);
    json_decref(report);
    if (!arguments->yes && !confirm()) {
        fprintf(stderr, "okv: cluster %s: nothing was changed\n", arguments->word);
        return CLI_MISS;
    }
    int status = give(cli, arguments);
    return status == CLI_DONE ? await_copies(cli, arguments) : status;
}

/* ---- handover ---- */

/* It is done when another server leads. */
static int await_hand_over(struct cli *cli, const struct cluster_arguments *arguments,
                           const char *name, int64_t before)
{
    int64_t epoch = before;
    int status = CLI_FAILED;

    for (unsigned i = 0; i < RESULT_LOOKS && epoch == before; i++) {
        json_t *report;
        cli_pause(PAUSE_MS);
        int rc = cli_cluster_read(cli, &report);
        if (rc)
            return cli_cluster_fail(cli, "handover", rc);
        const json_t *database = cli_cluster_database(report, name);
        epoch = database ? number_at(database, "epoch") : before;
        if (epoch != before) {
            fprintf(stderr, "%s leads %s in epoch %" PRId64 "\n",
                    cli_cluster_server(report, text_at(database, "primary")), name, epoch);
            status = arguments->json ? print(arguments, report) : CLI_DONE;
        }
        json_decref(report);
    }
    if (epoch == before)
        fputs("okv: cluster handover: no other server leads yet: see okv cluster status\n", stderr);
    return status;
}

/* Of a server that is named by one of its addresses; else the name, which is its id. */
static const char *id_of(const json_t *report, const char *name)
{
    json_t *server, *uri;
    size_t i, k;

    json_array_foreach(json_object_get(report, "servers"), i, server)
    {
        json_array_foreach(json_object_get(server, "uris"), k, uri)
        {
            if (strcmp(json_string_value(uri), name) == 0)
                return text_at(server, "id");
        }
    }
    return name;
}

static int hand_over(struct cli *cli, const struct cluster_arguments *arguments)
{
    const char *name = arguments->database ? arguments->database : "default";
    char text[COMMAND_MAX];
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, "handover", rc);
    int64_t epoch = number_at(cli_cluster_database(report, name), "epoch");
    snprintf(text, sizeof text, "handover %.31s %.16s", name,
             arguments->to ? id_of(report, arguments->to) : "");
    json_decref(report);
    int status = order(cli, "handover", text);
    return status == CLI_DONE ? await_hand_over(cli, arguments, name, epoch) : status;
}

/* ---- the command ---- */

static bool is(const struct cluster_arguments *arguments, const char *word)
{
    return strcmp(arguments->word, word) == 0;
}

/* 0: never. */
static error_t read_replace_after(struct argp_state *state, struct cluster_arguments *arguments)
{
    static const struct okv_option option = {
        .name = "replace-after",
        .argument = "TIME",
        .kind = OKV_OPTION_DURATION,
        CLI_FIELD(struct cluster_arguments, replace_ms),
        .least = REPLACE_LEAST_MS,
        .most = REPLACE_MOST_MS,
        .example = "60s or 10m",
    };

    if (!arguments->replace_after || strcmp(arguments->replace_after, "never") == 0)
        return 0;
    return cli_read_option(&option, arguments->replace_after, arguments, state);
}

static error_t check_cluster(struct argp_state *state, void *input)
{
    struct cluster_arguments *arguments = input;
    bool creates = is(arguments, "create"), sets = is(arguments, "set");
    bool has_setting =
        arguments->copies || arguments->min_copies || arguments->replace_after || arguments->force;

    if (!creates && !sets && !is(arguments, "status") && !is(arguments, "handover"))
        return cli_usage(state, "give `create', `set', `status' or `handover [DATABASE]'");
    if (arguments->database && !is(arguments, "handover"))
        return cli_usage(state, "unexpected argument '%s'", arguments->database);
    if (!creates && arguments->lease_ms)
        return cli_usage(state, "--lease is for `create'");
    if (sets && !has_setting)
        return cli_usage(state, "give what is to be set: --copies, --min-copies, --replace-after "
                                "or --force");
    if (!creates && !sets && has_setting)
        return cli_usage(state, "--copies, --min-copies, --replace-after and --force are for "
                                "`create' and `set'");
    if (arguments->wait && !is(arguments, "status"))
        return cli_usage(state, "--wait is for `status'");
    if ((creates || sets) && !arguments->yes && !isatty(STDIN_FILENO))
        return cli_usage(state, "this changes a cluster, and there is no terminal to ask at: give "
                                "--yes if that is what you want");
    return read_replace_after(state, arguments);
}

int cli_cluster(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = cluster_options,
        .least = 1,
        .most = 2,
        .arguments = {offsetof(struct cluster_arguments, word),
                      offsetof(struct cluster_arguments, database)},
        .missing = "give `create', `set', `status' or `handover [DATABASE]'",
        .unexpected = "unexpected argument '%s'",
        .check = check_cluster,
        .args_doc = "create | set | status | handover [DATABASE]",
        .doc =
            "Create a cluster, change it, show it, or have another server lead a database; takes "
            "the right admin. Any server of the cluster may be asked.\v"
            "create and set say what they are about to do, ask, and wait until all copies that "
            "have a server are in sync; interrupted, the copies are made all the same.\n"
            "\nExamples:\n  okv -s tcp://a cluster create --copies 2\n  okv cluster status --json\n"
            "  okv cluster set --copies 3 --min-copies 2\n  okv cluster handover default"};
    struct cluster_arguments arguments = {.cli = cli};

    cli->observes = true;
    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (arguments.wait || is(&arguments, "handover"))
        cli_cluster_follow(cli, arguments.database ? arguments.database : "default");
    if (is(&arguments, "status"))
        return arguments.wait ? await_copies(cli, &arguments) : show_status(cli, &arguments);
    return is(&arguments, "handover") ? hand_over(cli, &arguments) : change(cli, &arguments);
}
