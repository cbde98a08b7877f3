/* okv cluster: creates a cluster, changes it, shows it, and has other servers lead. */
#include <inttypes.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "client/cli/args.h"
#include "client/cli/command/cluster_recovery.h"
#include "client/cli/command/cluster_report.h"
#include "client/cli/output.h"

#define ANSWER_MAX 4096
#define COMMAND_MAX 128
#define PAUSE_MS 20
/* etcd has answered by then, or is away. */
#define RESULT_LOOKS 500
#define WORDS "give `create', `set', `status', `handover [DATABASE]' or `recover [DATABASE]'"
/* Of create. */
#define COPIES 2
#define COPIES_MIN 1
#define LEASE_MS 1000
#define REPLACE_MS 60000
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
    const char *name; /* of the database */
    bool force, wait, json, yes, accept_loss;
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
    {"accept-loss", 0, NULL,
     .help = "recover: lead without what only servers had that are lost, for good",
     CLI_FLAG(struct cluster_arguments, accept_loss)},
    {"yes", 0, NULL, .help = "create, set, recover: do not ask",
     CLI_FLAG(struct cluster_arguments, yes)},
    {0},
};

static bool is(const struct cluster_arguments *arguments, const char *word)
{
    return strcmp(arguments->word, word) == 0;
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

static const char *replacement_of(const json_t *report, char text[32])
{
    int64_t replace_ms = cli_cluster_number(report, "replace_ms");

    if (replace_ms == 0)
        return "never";
    snprintf(text, 32, "%" PRId64 "s", replace_ms / 1000);
    return text;
}

/* A setting that was given, and what it is now unless the cluster is to be created. */
static void plan_setting(const struct cluster_arguments *arguments, const char *what,
                         const char *value, const char *now)
{
    bool exists = is(arguments, "set");

    if (value[0])
        fprintf(stderr, "  %s: %s%s%s%s\n", what, value, exists ? " (now " : "", exists ? now : "",
                exists ? ")" : "");
}

static void plan_number(const struct cluster_arguments *arguments, const json_t *report,
                        const char *what, uint64_t value, const char *name)
{
    char text[24] = "", now[24];

    if (value)
        snprintf(text, sizeof text, "%" PRIu64, value);
    snprintf(now, sizeof now, "%" PRId64, cli_cluster_number(report, name));
    plan_setting(arguments, what, text, now);
}

static void plan_servers(const json_t *report)
{
    json_t *server;
    size_t i;

    fprintf(stderr, "The cluster %s, with the databases of %s, which leads them. Servers:\n",
            cli_cluster_text(report, "cluster"),
            cli_cluster_place(report, cli_cluster_text(report, "server")));
    json_array_foreach(json_object_get(report, "servers"), i, server) fprintf(
        stderr, "  %s on host %s\n", cli_cluster_place(report, cli_cluster_text(server, "id")),
        cli_cluster_text(server, "host"));
}

/* What is about to happen. */
static void plan(const struct cluster_arguments *arguments, const json_t *report)
{
    char now[32];

    if (is(arguments, "create"))
        plan_servers(report);
    fprintf(stderr, "Settings of the cluster %s:\n", cli_cluster_text(report, "cluster"));
    plan_number(arguments, report, "copies", arguments->copies, "copies");
    plan_number(arguments, report, "copies in sync that writes need", arguments->min_copies,
                "min_copies");
    plan_number(arguments, report, "lease, ms", arguments->lease_ms, "lease_ms");
    plan_setting(arguments, "a missing server is replaced after",
                 arguments->replace_after ? arguments->replace_after : "",
                 replacement_of(report, now));
    plan_setting(arguments, "a host may have several copies", arguments->force ? "yes" : "",
                 cli_cluster_is(report, "shares_hosts") ? "yes" : "no");
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
        cli_cluster_follow(cli, arguments->name);
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

/* As the server would have them, so that the plan names them. */
static void set_defaults(struct cluster_arguments *arguments)
{
    if (!arguments->copies)
        arguments->copies = COPIES;
    if (!arguments->min_copies)
        arguments->min_copies = COPIES_MIN;
    if (!arguments->lease_ms)
        arguments->lease_ms = LEASE_MS;
    if (!arguments->replace_after) {
        arguments->replace_after = "60s";
        arguments->replace_ms = REPLACE_MS;
    }
}

static int change(struct cli *cli, struct cluster_arguments *arguments)
{
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, arguments->word, rc);
    if (is(arguments, "create"))
        set_defaults(arguments);
    plan(arguments, report);
    json_decref(report);
    if (!arguments->yes && !cli_confirm("Do it?")) {
        fprintf(stderr, "okv: cluster %s: nothing was changed\n", arguments->word);
        return CLI_MISS;
    }
    int status = give(cli, arguments);
    return status == CLI_DONE ? await_copies(cli, arguments) : status;
}

/* ---- handover ---- */

/* It is done when another epoch has begun. */
static int await_epoch(struct cli *cli, const struct cluster_arguments *arguments, int64_t before)
{
    const char *name = arguments->name;
    int64_t epoch = before;
    int status = CLI_FAILED;

    for (unsigned i = 0; i < RESULT_LOOKS && epoch == before; i++) {
        json_t *report;
        cli_pause(PAUSE_MS);
        int rc = cli_cluster_read(cli, &report);
        if (rc)
            return cli_cluster_fail(cli, arguments->word, rc);
        const json_t *database = cli_cluster_database(report, name);
        epoch = database ? cli_cluster_number(database, "epoch") : before;
        if (epoch != before) {
            fprintf(stderr, "%s leads %s in epoch %" PRId64 "\n",
                    cli_cluster_place(report, cli_cluster_text(database, "primary")), name, epoch);
            status = arguments->json ? print(arguments, report) : CLI_DONE;
        }
        json_decref(report);
    }
    if (epoch == before)
        fprintf(stderr, "okv: cluster %s: no other epoch has begun yet: see okv cluster status\n",
                arguments->word);
    return status;
}

/* NULL: no server has this address or id. */
static const char *id_of(const json_t *report, const char *name)
{
    json_t *server, *uri;
    size_t i, k;

    json_array_foreach(json_object_get(report, "servers"), i, server)
    {
        json_array_foreach(json_object_get(server, "uris"), k, uri)
        {
            if (strcmp(json_string_value(uri), name) == 0)
                return cli_cluster_text(server, "id");
        }
    }
    return cli_cluster_server(report, name) ? name : NULL;
}

/* Gives an order that has another epoch begin. */
static int begin_epoch(struct cli *cli, const struct cluster_arguments *arguments, const char *to)
{
    char text[COMMAND_MAX];
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, arguments->word, rc);
    int64_t epoch = cli_cluster_number(cli_cluster_database(report, arguments->name), "epoch");
    const char *id = to ? id_of(report, to) : "";
    int status = CLI_FAILED;
    if (id) {
        snprintf(text, sizeof text, "%s %s%s%s", arguments->word, arguments->name, id[0] ? " " : "",
                 id);
        status = order(cli, arguments->word, text);
    } else {
        fprintf(stderr,
                "okv: cluster %s: no server that runs has the address or the id %s: see okv "
                "cluster status\n",
                arguments->word, to);
    }
    json_decref(report);
    return status == CLI_DONE ? await_epoch(cli, arguments, epoch) : status;
}

/* ---- recover ---- */

static int recover(struct cli *cli, const struct cluster_arguments *arguments)
{
    json_t *report;
    int rc = cli_cluster_read(cli, &report);

    if (rc)
        return cli_cluster_fail(cli, arguments->word, rc);
    bool has_most = cli_cluster_plan_recovery(cli, report, arguments->name);
    if (has_most)
        fprintf(stderr,
                "%s leads %s with what it has. What other servers alone have is lost, and those "
                "that come back load what this one has. Versions rise above those that are lost.\n",
                cli_cluster_place(report, cli_cluster_text(report, "server")), arguments->name);
    json_decref(report);
    if (!has_most)
        return CLI_FAILED;
    if (!arguments->yes && !cli_confirm("Do it?")) {
        fputs("okv: cluster recover: nothing was changed\n", stderr);
        return CLI_MISS;
    }
    return begin_epoch(cli, arguments, NULL);
}

/* ---- the command ---- */

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
    bool recovers = is(arguments, "recover");
    bool has_setting =
        arguments->copies || arguments->min_copies || arguments->replace_after || arguments->force;

    if (!creates && !sets && !recovers && !is(arguments, "status") && !is(arguments, "handover"))
        return cli_usage(state, WORDS);
    if (arguments->database && !is(arguments, "handover") && !recovers)
        return cli_usage(state, "unexpected argument '%s'", arguments->database);
    if (recovers != arguments->accept_loss)
        return cli_usage(state, recovers
                                    ? "what only lost servers had stays lost: give --accept-loss"
                                    : "--accept-loss is for `recover'");
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
    if ((creates || sets || recovers) && !arguments->yes && !isatty(STDIN_FILENO))
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
        .missing = WORDS,
        .unexpected = "unexpected argument '%s'",
        .check = check_cluster,
        .args_doc = "create | set | status | handover [DATABASE] | recover [DATABASE]",
        .doc =
            "Create a cluster, change it, show it, or have another server lead a database; takes "
            "the right admin. Any server of the cluster may be asked.\v"
            "create and set say what they are about to do, ask, and wait until all copies that "
            "have a server are in sync; interrupted, the copies are made all the same.\n"
            "\nExamples:\n  okv -s tcp://a cluster create --copies 2\n  okv cluster status --json\n"
            "  okv cluster set --copies 3 --min-copies 2\n  okv cluster handover default"};
    struct cluster_arguments arguments = {.cli = cli};
    char name[CLI_DATABASE_SIZE];

    cli->observes = true;
    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    arguments.name = arguments.database ? arguments.database : cli_cluster_database_name(cli, name);
    if (is(&arguments, "status"))
        return arguments.wait ? await_copies(cli, &arguments) : show_status(cli, &arguments);
    if (is(&arguments, "recover"))
        return recover(cli, &arguments);
    if (!is(&arguments, "handover"))
        return change(cli, &arguments);
    cli_cluster_follow(cli, arguments.name);
    return begin_epoch(cli, &arguments, arguments.to);
}
