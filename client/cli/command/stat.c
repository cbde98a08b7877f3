/* okv stat: the statistics of the server and of this connection. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <okv_admin.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/command/stat_summary.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/clock.h"

#define FIGURES "the server's statistics"

struct stat_arguments {
    struct cli *cli;
    bool json, all;
    uint32_t interval_ms; /* 0: without rates */
};

static const struct okv_option stat_options[] = {
    {"all", 0, NULL,
     .help = "Every database, one \"database name value\" a line, then the sums and the server; "
             "needs the right admin",
     CLI_FLAG(struct stat_arguments, all)},
    {"interval", 'i', "TIME",
     .help =
         "Wait for TIME, such as 500ms or 10s, and also print the rate of each figure per second",
     CLI_TIME(struct stat_arguments, interval_ms)},
    {"json", 0, NULL, .help = "One JSON object instead of lines",
     CLI_FLAG(struct stat_arguments, json)},
    {0},
};

/* A statistic as a JSON number where one can hold it exactly, else as a string. An id may have
 * decimal digits only. */
static json_t *json_statistic(const char *name, const char *text)
{
    char *end = NULL;

    if (strcmp(name, "boot_id") == 0 || strcmp(name, "version") == 0)
        return json_string(text);
    errno = 0;
    long long whole = strtoll(text, &end, 10);
    if (end != text && *end == '\0' && errno == 0)
        return json_integer(whole);
    double real = strtod(text, &end);
    if (end != text && *end == '\0' && isfinite(real) && strchr(text, '.'))
        return json_real(real);
    return json_string(text);
}

/* The lines as an object. NULL: no memory. */
static json_t *json_figures(const char *text)
{
    char *copy = cli_json_text(text), *rest = NULL;
    json_t *figures = copy ? json_object() : NULL;

    for (char *line = copy ? strtok_r(copy, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest)) {
        char *space = strchr(line, ' ');
        if (!space)
            continue;
        *space = '\0';
        json_object_set_new(figures, line, json_statistic(line, space + 1));
    }
    free(copy);
    return figures;
}

static json_t *json_connection(const struct okv_info *info)
{
    return json_pack(
        "{s:s, s:s, s:o, s:o, s:I, s:I, s:I, s:I, s:I, s:I, s:b, s:s, s:I, s:I}", "transport",
        info->transport, "path", info->path, "boot_id", cli_json_id(info->boot_id), "session_id",
        cli_json_id(info->session_id), "region_bytes", (json_int_t)info->region_bytes, "buckets",
        (json_int_t)info->buckets, "bucket_bytes", (json_int_t)info->bucket_bytes, "max_value",
        (json_int_t)info->max_value, "credits", (json_int_t)info->credits, "depth",
        (json_int_t)info->depth, "one_sided", (int)info->one_sided, "uri", info->uri, "epoch",
        (json_int_t)info->epoch, "lease_ms", (json_int_t)info->lease_ms);
}

/* True for a figure that can be summed over databases, and subtracted over time. */
static bool is_summable(const char *name)
{
    static const char *const others[] = {
        "uptime_ms",         "extra_reads_per_1000", "bucket_bytes",    "segment_bytes",
        "batch_records_p50", "batch_records_max",    "sync_p50_us",     "sync_p99_us",
        "sync_max_us",       "snapshot_ms",          "snapshot_age_ms", "recovery_ms",
        "client_get_p50_ns", "client_get_p99_ns",    "write_p50_ns",    "write_p99_ns",
        "new_hand_ms",       "main_hand_ms",         "evicts"};

    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(name, others[i]) == 0)
            return false;
    return true;
}

static void print_lines(const char *text, const struct okv_info *info)
{
    size_t length = strlen(text);

    fputs(text, stdout);
    if (length > 0 && text[length - 1] != '\n')
        putchar('\n');
    printf("connection_transport %s\n", info->transport);
    printf("connection_path %s\n", info->path);
    printf("connection_uri %s\n", info->uri);
    printf("connection_epoch %llu\n", (unsigned long long)info->epoch);
    printf("connection_lease_ms %llu\n", (unsigned long long)info->lease_ms);
    printf("connection_one_sided %u\n", info->one_sided);
    printf("connection_session_id %016llx\n", (unsigned long long)info->session_id);
    printf("connection_buckets %llu\n", (unsigned long long)info->buckets);
    printf("connection_credits %u\n", info->credits);
    printf("connection_depth %u\n", info->depth);
    printf("connection_max_value %u\n", info->max_value);
}

/* ---- one database ---- */

/* The statistics of one moment. */
struct sample {
    char *text;      /* as the server gives it */
    json_t *figures; /* the same */
    uint64_t ns;
};

static int sample_take(struct cli *cli, struct sample *sample)
{
    int rc = cli_fetch_stat(cli->handle, NULL, &sample->text);

    sample->ns = okv_clock_ns();
    if (rc == OKV_OK)
        sample->figures = json_figures(sample->text);
    return rc == OKV_OK && !sample->figures ? OKV_ENOMEM : rc;
}

static void sample_fini(struct sample *sample)
{
    json_decref(sample->figures);
    free(sample->text);
}

/* The sum, where a server may send anything. */
static json_int_t wrapped(json_int_t a, uint64_t b)
{
    return (json_int_t)((uint64_t)a + b);
}

/* The change of each figure per second, without those at 0. A restarted server has none. */
static json_t *json_rates(const struct sample *before, const struct sample *now)
{
    double seconds = (double)(now->ns - before->ns) / 1e9;
    json_t *rates = json_object(), *value;
    const char *name;

    if (!json_equal(json_object_get(before->figures, "boot_id"),
                    json_object_get(now->figures, "boot_id")))
        return rates;
    json_object_foreach(now->figures, name, value)
    {
        const json_t *old = json_object_get(before->figures, name);
        json_int_t gain = wrapped(json_integer_value(value), -(uint64_t)json_integer_value(old));
        if (is_summable(name) && json_is_integer(value) && json_is_integer(old) && gain != 0)
            json_object_set_new(rates, name, json_real((double)gain / seconds));
    }
    return rates;
}

static void print_rates(json_t *rates)
{
    const char *name;
    json_t *value;

    json_object_foreach(rates, name, value)
    {
        double rate = json_real_value(value);
        printf(fabs(rate) < 10 ? "%s_per_s %.6f\n" : "%s_per_s %.1f\n", name, rate);
    }
}

/* `rates` may be NULL. */
static int print_sample(struct cli *cli, const struct sample *sample, json_t *rates, bool json)
{
    struct okv_info info;

    okv_info(cli->handle, &info);
    if (json)
        return cli_print_json("stat", FIGURES,
                              json_pack("{s:O, s:O*, s:o*}", "server", sample->figures,
                                        "per_second", rates, "connection", json_connection(&info)));
    cli_stat_summarize(sample->text);
    print_lines(sample->text, &info);
    print_rates(rates);
    return CLI_DONE;
}

static int stat_connection(const struct stat_arguments *arguments)
{
    struct cli *cli = arguments->cli;
    struct sample before = {0}, now = {0};
    json_t *rates = NULL;
    int rc = OKV_OK, status;

    if (arguments->interval_ms) {
        rc = sample_take(cli, &before);
        cli_pause(rc == OKV_OK ? arguments->interval_ms : 0);
    }
    if (rc == OKV_OK && !cli_interrupted())
        rc = sample_take(cli, &now);
    if (now.figures && before.figures)
        rates = json_rates(&before, &now);
    if (rc != OKV_OK)
        status = cli_fail(cli, "stat", NULL, 0, rc);
    else if (!now.figures) /* in a shell, which goes on */
        status = cli_output_end("stat");
    else
        status = print_sample(cli, &now, rates, arguments->json);
    json_decref(rates);
    sample_fini(&now);
    sample_fini(&before);
    return status;
}

/* ---- all databases ---- */

struct all {
    const char *server; /* the server's lines */
    json_t *databases;  /* NULL: lines are printed */
    json_t *totals;
};

/* A database's text ends with the server's lines, if the user may see them. */
static void cut_server(char *text, const char *server)
{
    size_t length = strcspn(server, " ") + 1;

    while (*text && strncmp(text, server, length) != 0) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    *text = '\0';
}

static void add_figures(json_t *totals, json_t *figures)
{
    const char *name;
    json_t *value;

    json_object_foreach(figures, name, value)
    {
        json_int_t before = json_integer_value(json_object_get(totals, name));
        if (is_summable(name) && json_is_integer(value))
            json_object_set_new(totals, name,
                                json_integer(wrapped(before, (uint64_t)json_integer_value(value))));
    }
}

static void print_totals(json_t *totals)
{
    const char *name;
    json_t *value;

    json_object_foreach(totals, name, value)
        printf("%s %" JSON_INTEGER_FORMAT "\n", name, json_integer_value(value));
}

/* Prints the lines with the database's name before each. */
static void print_database(const char *name, const char *text)
{
    for (size_t length; *text; text += length + (text[length] == '\n')) {
        length = strcspn(text, "\n");
        printf("%s %.*s\n", name, (int)length, text);
    }
}

static int stat_database(struct cli *cli, const char *name, void *user)
{
    struct all *all = user;
    char *text = NULL;
    int rc = cli_fetch_stat(cli->handle, NULL, &text);

    if (rc != OKV_OK)
        return cli_fail(cli, "stat", name, strlen(name), rc);
    cut_server(text, all->server);
    if (!all->databases)
        print_database(name, text);
    json_t *figures = json_figures(text);
    add_figures(all->totals, figures);
    if (all->databases)
        json_object_set(all->databases, name, figures);
    json_decref(figures);
    free(text);
    return CLI_DONE;
}

static int stat_databases(struct cli *cli, char *names, char *server, bool json)
{
    struct all all = {server, json ? json_object() : NULL, json_object()};

    if (!all.totals || (json && !all.databases)) {
        json_decref(all.databases);
        json_decref(all.totals);
        fprintf(stderr, "okv: stat: out of memory\n");
        return CLI_FAILED;
    }
    int status = cli_each_database(cli, names, stat_database, &all);
    if (!json) {
        print_totals(all.totals);
        fputs(server, stdout);
        json_decref(all.totals);
        return status;
    }
    json_t *root = json_pack("{s:o, s:o, s:o*}", "databases", all.databases, "total", all.totals,
                             "server", json_figures(server));
    return cli_worse(status, cli_print_json("stat", FIGURES, root));
}

static int stat_all(struct cli *cli, bool json)
{
    char *names = NULL, *server = NULL;
    int status;
    int rc = cli_fetch_stat(cli->handle, "databases", &names);

    if (rc == OKV_OK)
        rc = cli_fetch_stat(cli->handle, "server", &server);
    if (rc != OKV_OK) {
        status = cli_fail(cli, "stat --all", NULL, 0, rc);
    } else {
        cli_disconnect(cli);
        status = stat_databases(cli, names, server, json);
    }
    free(server);
    free(names);
    return status;
}

#define COUNTER_LINE(name, text) "  " #name ": " text "\n"

int cli_stat(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = stat_options,
        .unexpected = "unexpected argument '%s': stat takes no arguments",
        .doc =
            "Print the server's statistics, then those of this connection, one \"name value\" a "
            "line. Five lines in front, which begin with #, say what matters most: memory, hits, "
            "clients, refusals and syncs.\v"
            "The man page okv(1) explains the server's statistics. With --interval a figure that "
            "changed has a line NAME_per_s, too; okv top prints the most important ones again "
            "and again. What this client counts is printed by any command with "
            "--counters:\n" OKV_COUNTER_LIST(
                COUNTER_LINE) "\n"
                              "Examples:\n  okv stat\n  okv stat -i 1s | grep _per_s\n  okv stat "
                              "--json | jq .server.items\n"
                              "  okv stat --all | grep ' items '"};
    struct stat_arguments arguments = {.cli = cli};

    cli->may_observe = true;
    int status = cli_read(&parser, argc, argv, &arguments);
    if (status != CLI_DONE)
        return status;
    if (arguments.all && arguments.interval_ms) {
        fprintf(stderr, "okv: stat: --interval is for one database: leave --all out\n");
        return CLI_USAGE;
    }
    if (arguments.all && cli_uri_names_database(cli, "stat --all"))
        return CLI_USAGE;
    status = cli_connect(cli, 0);
    if (status != CLI_DONE)
        return status;
    status = arguments.all ? stat_all(cli, arguments.json) : stat_connection(&arguments);
    return status == CLI_DONE ? cli_output_end("stat") : status;
}
