/* okv top: the server's rates, a line for each interval. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "client/cli/args.h"
#include "client/cli/output.h"
#include "client/cli/stats.h"
#include "shared/base/clock.h"

#define LINES_PER_HEADING 20u
#define INTERVAL_MS 1000u

struct top_arguments {
    struct cli *cli;
    uint32_t interval_ms;
    uint64_t count;
    bool json;
};

static const struct okv_option top_options[] = {
    {"count", 'n', "N", .help = "End after N lines",
     CLI_NUMBER(struct top_arguments, count, 1, UINT64_MAX)},
    {"interval", 'i', "TIME", .help = "Time between two lines, such as 500ms or 5s (1s)",
     CLI_TIME(struct top_arguments, interval_ms)},
    {"json", 0, NULL, .help = "Each line is a JSON object", CLI_FLAG(struct top_arguments, json)},
    {0},
};

/* A column: the rate of a figure per second, or its value. */
struct column {
    const char *name;       /* in JSON, with _per_s for a rate */
    const char *heading;    /* at most 7 characters */
    const char *figures[5]; /* whose sum it is */
    bool is_rate;
};

static const struct column columns[] = {
    {"puts", "puts/s", {"puts"}, true},
    {"gets", "gets/s", {"client_gets"}, true},
    {"gets_by_request", "byreq/s", {"gets"}, true},
    {"deletes", "dels/s", {"deletes"}, true},
    {"other_writes", "other/s", {"incrs", "appends", "touches"}, true},
    {"refused", "refus/s", {"puts_refused", "conditions_failed", "denied"}, true},
    {"redis_commands", "redis/s", {"resp_commands"}, true},
    {"bytes_in", "in/s", {"bytes_in"}, true},
    {"bytes_out", "out/s", {"bytes_out"}, true},
    {"log_syncs", "syncs/s", {"log_syncs"}, true},
    {"items", "items", {"items"}, false},
    {"index_and_heap_bytes", "memory", {"index_bytes", "overflow_bytes", "extent_bytes"}, false},
    {"sessions", "clients", {"sessions", "resp_clients"}, false},
    {"requests_waiting", "waiting", {"requests_waiting"}, false},
};
#define COLUMN_COUNT (sizeof columns / sizeof *columns)

/* Operations that were timed. */
struct timed {
    uint64_t count, ns; /* all together */
};

/* The statistics of one moment. */
struct sample {
    uint64_t ns;
    uint64_t boot_id, cpu_ms;
    struct timed gets, writes;
    uint64_t hits, misses; /* of all gets whose outcome is counted */
    uint64_t values[COLUMN_COUNT];
};

/* 0: the server does not send it, such as figures of a log without a log. */
static uint64_t figure(const char *text, const char *name, int base)
{
    uint64_t number = 0;

    cli_stat_number(text, name, base, &number);
    return number;
}

static int take(struct cli *cli, struct sample *sample)
{
    char *text = NULL;
    int rc = cli_fetch_stat(cli->handle, NULL, &text);

    if (rc != OKV_OK)
        return rc;
    *sample = (struct sample){
        .ns = okv_clock_ns(),
        .boot_id = figure(text, "boot_id", 16),
        .cpu_ms = figure(text, "cpu_ms", 10),
        .gets = {figure(text, "client_gets_timed", 10), figure(text, "client_gets_timed_ns", 10)},
        .writes = {figure(text, "writes_timed", 10), figure(text, "writes_timed_ns", 10)},
        .hits = figure(text, "client_hits", 10) + figure(text, "resp_hits", 10),
        .misses = figure(text, "client_misses", 10) + figure(text, "resp_misses", 10)};
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        for (const char *const *name = columns[i].figures; *name; name++)
            sample->values[i] += figure(text, *name, 10);
    free(text);
    return OKV_OK;
}

/* The value of column i between two samples. A restarted server counts from 0. */
static double value_of(const struct sample *before, const struct sample *now, size_t i)
{
    double seconds = (double)(now->ns - before->ns) / 1e9;

    if (!columns[i].is_rate)
        return (double)now->values[i];
    uint64_t since = before->boot_id == now->boot_id ? before->values[i] : 0;
    return now->values[i] > since ? (double)(now->values[i] - since) / seconds : 0;
}

static double cpu_percent(const struct sample *before, const struct sample *now)
{
    uint64_t since = before->boot_id == now->boot_id ? before->cpu_ms : 0;

    return now->cpu_ms > since
               ? (double)(now->cpu_ms - since) * 1e8 / (double)(now->ns - before->ns)
               : 0;
}

/* The mean of those between two samples. */
static double mean_us(const struct timed *before, const struct timed *now, bool is_same_server)
{
    uint64_t count = now->count - (is_same_server ? before->count : 0);
    uint64_t ns = now->ns - (is_same_server ? before->ns : 0);

    return count > 0 ? (double)ns / (double)count / 1000.0 : 0;
}

static double get_us(const struct sample *before, const struct sample *now)
{
    return mean_us(&before->gets, &now->gets, before->boot_id == now->boot_id);
}

static double write_us(const struct sample *before, const struct sample *now)
{
    return mean_us(&before->writes, &now->writes, before->boot_id == now->boot_id);
}

/* Of the gets between two samples. False: there are none. */
static bool hit_percent(const struct sample *before, const struct sample *now, double *out)
{
    bool is_same_server = before->boot_id == now->boot_id;
    uint64_t hits = now->hits - (is_same_server ? before->hits : 0);
    uint64_t misses = now->misses - (is_same_server ? before->misses : 0);

    if (hits + misses > 0)
        *out = 100.0 * (double)hits / (double)(hits + misses);
    return hits + misses > 0;
}

static void print_heading(void)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        printf("%8s", columns[i].heading);
    printf("%8s%8s%9s%8s\n", "hit %", "us/get", "us/write", "cpu %");
}

static void print_line(const struct sample *before, const struct sample *now)
{
    char text[16];
    double hits;

    for (size_t i = 0; i < COLUMN_COUNT; i++)
        printf("%8s", cli_short_number(value_of(before, now, i), text));
    if (hit_percent(before, now, &hits))
        printf("%8.1f", hits);
    else
        printf("%8s", "-");
    printf("%8.1f%9.1f%8.0f\n", get_us(before, now), write_us(before, now),
           cpu_percent(before, now));
}

static void print_object(const struct sample *before, const struct sample *now)
{
    double hits;

    printf("{");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        printf("\"%s%s\": %.0f, ", columns[i].name, columns[i].is_rate ? "_per_s" : "",
               value_of(before, now, i));
    if (hit_percent(before, now, &hits))
        printf("\"hit_percent\": %.1f, ", hits);
    else
        printf("\"hit_percent\": null, ");
    printf("\"get_us\": %.1f, \"write_us\": %.1f, \"cpu_percent\": %.1f, \"seconds\": %.3f}\n",
           get_us(before, now), write_us(before, now), cpu_percent(before, now),
           (double)(now->ns - before->ns) / 1e9);
}

static int show(const struct top_arguments *arguments)
{
    struct cli *cli = arguments->cli;
    struct sample before, now;
    int rc = take(cli, &before);

    cli_interrupt_catch(true);
    for (uint64_t line = 0; rc == OKV_OK && line < arguments->count; line++) {
        if (!cli_pause(arguments->interval_ms))
            break;
        rc = take(cli, &now);
        if (rc != OKV_OK)
            break;
        if (!arguments->json && line % LINES_PER_HEADING == 0)
            print_heading();
        if (arguments->json)
            print_object(&before, &now);
        else
            print_line(&before, &now);
        if (fflush(stdout))
            return cli_output_end("top");
        before = now;
    }
    return rc == OKV_OK ? cli_output_end("top") : cli_fail(cli, "top", NULL, 0, rc);
}

int cli_top(struct cli *cli, int argc, char **argv)
{
    static const struct cli_parser parser = {
        .options = top_options,
        .unexpected = "unexpected argument '%s': top takes no arguments",
        .doc = "Print the server's rates, a line each second, until ^C.\v"
               "Columns that end with /s are rates per second; the others are current values. "
               "gets/s and us/get, the mean time of a get, are what clients report from time to "
               "time; byreq/s are gets that the server answered. hit % is the share of gets that "
               "found "
               "their key, of Redis clients in all databases, too; - without gets. us/write is the "
               "mean time of a write in the server, without the network. redis/s are commands of "
               "Redis clients. refus/s are refused writes: no room, a condition, no right. memory "
               "is that of index "
               "and values; waiting is the number of queued requests. cpu % is of one processor. A "
               "user without the right admin sees only the database.\n"
               "\nExamples:\n  okv top\n  okv top -i 10s -n 6\n"
               "  okv top --json -n 1 | jq .puts_per_s"};
    struct top_arguments arguments = {.cli = cli, .interval_ms = INTERVAL_MS, .count = UINT64_MAX};

    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    return status != CLI_DONE ? status : show(&arguments);
}
