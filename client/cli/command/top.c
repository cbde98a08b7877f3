/* okv top: the server's rates, a line for each interval. */
#include <math.h>
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

/* Which servers have a column: bits. */
enum column_group { ALWAYS = 1, OF_CACHE = 2, OF_CLUSTER = 4 };

/* A column: the rate of a figure per second, or its value. */
struct column {
    const char *name;       /* in JSON, with _per_s for a rate */
    const char *heading;    /* at most 7 characters */
    const char *figures[4]; /* whose sum it is, up to NULL */
    bool is_rate;
    enum column_group group;
};

static const struct column columns[] = {
    {"puts", "puts/s", {"puts"}, true, ALWAYS},
    {"gets", "gets/s", {"client_gets"}, true, ALWAYS},
    {"gets_by_request", "byreq/s", {"gets"}, true, ALWAYS},
    {"deletes", "dels/s", {"deletes"}, true, ALWAYS},
    {"other_writes", "other/s", {"incrs", "appends", "touches"}, true, ALWAYS},
    {"refused", "refus/s", {"puts_refused", "conditions_failed", "denied"}, true, ALWAYS},
    {"redis_commands", "redis/s", {"resp_commands"}, true, ALWAYS},
    {"bytes_in", "in/s", {"bytes_in"}, true, ALWAYS},
    {"bytes_out", "out/s", {"bytes_out"}, true, ALWAYS},
    {"log_syncs", "syncs/s", {"log_syncs"}, true, ALWAYS},
    {"items", "items", {"items"}, false, ALWAYS},
    {"index_and_heap_bytes",
     "memory",
     {"index_bytes", "overflow_bytes", "extent_bytes"},
     false,
     ALWAYS},
    {"sessions", "clients", {"sessions", "resp_clients"}, false, ALWAYS},
    {"requests_waiting", "waiting", {"requests_waiting"}, false, ALWAYS},
    {"evicted", "evict/s", {"evicted_new", "evicted_main"}, true, OF_CACHE},
    {"puts_of_evicted", "back/s", {"puts_of_evicted"}, true, OF_CACHE},
    {"puts_refused_evicting", "full/s", {"puts_refused_evicting"}, true, OF_CACHE},
    {"new_hand_ms", "new ms", {"new_hand_ms"}, false, OF_CACHE},
    {"main_hand_ms", "main ms", {"main_hand_ms"}, false, OF_CACHE},
    {"behind_bytes", "behind", {"copies_behind_bytes"}, false, OF_CLUSTER},
    {"epoch", "epoch", {"copies_epoch"}, false, OF_CLUSTER},
    {"suspected", "suspect", {"copies_suspected"}, false, OF_CLUSTER},
    {"took_over", "elected", {"copies_took_over"}, false, OF_CLUSTER},
    {"deposed", "deposed", {"copies_deposed"}, false, OF_CLUSTER},
    {"late_us", "late us", {"cluster_late_us"}, false, OF_CLUSTER},
};
#define COLUMN_COUNT (sizeof columns / sizeof *columns)

/* A figure that the server does not send: of a log without a log, or not to this user. */
#define UNKNOWN UINT64_MAX

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
    unsigned groups;       /* that are shown */
    uint64_t values[COLUMN_COUNT];
};

/* Of those of `names`, up to NULL, that there are. */
static uint64_t sum_of(const char *text, const char *const *names)
{
    uint64_t sum = UNKNOWN, number;

    for (; *names; names++)
        if (cli_stat_number(text, *names, 10, &number))
            sum = sum == UNKNOWN ? number : sum + number;
    return sum;
}

#define SUM_OF(text, ...) sum_of(text, (const char *const[]){__VA_ARGS__, NULL})

static int take(struct cli *cli, struct sample *sample)
{
    char *text = NULL;
    uint64_t number;
    int rc = cli_fetch_stat(cli->handle, NULL, &text);

    if (rc != OKV_OK)
        return rc;
    *sample = (struct sample){
        .ns = okv_clock_ns(),
        .cpu_ms = SUM_OF(text, "cpu_ms"),
        .gets = {SUM_OF(text, "client_gets_timed"), SUM_OF(text, "client_gets_timed_ns")},
        .writes = {SUM_OF(text, "writes_timed"), SUM_OF(text, "writes_timed_ns")},
        .hits = SUM_OF(text, "client_hits", "resp_hits"),
        .misses = SUM_OF(text, "client_misses", "resp_misses"),
        .groups = ALWAYS};
    if (cli_stat_number(text, "evicts", 10, &number) && number)
        sample->groups |= OF_CACHE;
    if (cli_stat_number(text, "copies_epoch", 10, &number))
        sample->groups |= OF_CLUSTER;
    cli_stat_number(text, "boot_id", 16, &sample->boot_id);
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        sample->values[i] = sum_of(text, columns[i].figures);
    free(text);
    return OKV_OK;
}

/* What is shown of two samples; NAN: not known. */
struct line {
    unsigned groups; /* that are shown */
    double values[COLUMN_COUNT];
    double hit_percent, get_us, write_us, cpu_percent, seconds;
};

/* By how much a figure has risen. A restarted server counts from 0. */
static double rise(uint64_t before, uint64_t now, bool is_same_server)
{
    if (now == UNKNOWN || (is_same_server && before == UNKNOWN))
        return NAN;
    if (!is_same_server)
        return (double)now;
    return now > before ? (double)(now - before) : 0;
}

static double mean_us(const struct timed *before, const struct timed *now, bool is_same_server)
{
    double count = rise(before->count, now->count, is_same_server);

    return count == 0 ? 0 : rise(before->ns, now->ns, is_same_server) / count / 1000;
}

static void compare(const struct sample *before, const struct sample *now, struct line *line)
{
    bool is_same = before->boot_id == now->boot_id;
    double hits = rise(before->hits, now->hits, is_same);
    double gets = hits + rise(before->misses, now->misses, is_same);

    line->groups = now->groups;
    line->seconds = (double)(now->ns - before->ns) / 1e9;
    for (size_t i = 0; i < COLUMN_COUNT; i++) {
        if (columns[i].is_rate)
            line->values[i] = rise(before->values[i], now->values[i], is_same) / line->seconds;
        else
            line->values[i] = now->values[i] == UNKNOWN ? NAN : (double)now->values[i];
    }
    line->hit_percent = gets > 0 ? 100 * hits / gets : NAN;
    line->get_us = mean_us(&before->gets, &now->gets, is_same);
    line->write_us = mean_us(&before->writes, &now->writes, is_same);
    line->cpu_percent = rise(before->cpu_ms, now->cpu_ms, is_same) / 10 / line->seconds;
}

static void print_heading(unsigned groups)
{
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        if (columns[i].group & groups)
            printf("%8s", columns[i].heading);
    printf("%8s%8s%9s%8s\n", "hit %", "us/get", "us/write", "cpu %");
}

static void print_cell(int width, int digits, double number)
{
    if (isnan(number))
        printf("%*s", width, "-");
    else
        printf("%*.*f", width, digits, number);
}

static void print_line(const struct line *line)
{
    char text[16];

    for (size_t i = 0; i < COLUMN_COUNT; i++)
        if (columns[i].group & line->groups)
            printf("%8s", isnan(line->values[i]) ? "-" : cli_short_number(line->values[i], text));
    print_cell(8, 1, line->hit_percent);
    print_cell(8, 1, line->get_us);
    print_cell(9, 1, line->write_us);
    print_cell(8, 0, line->cpu_percent);
    putchar('\n');
}

static void print_member(const char *name, const char *end, int digits, double number)
{
    printf("\"%s%s\": ", name, end);
    if (isnan(number))
        printf("null, ");
    else
        printf("%.*f, ", digits, number);
}

static void print_object(const struct line *line)
{
    putchar('{');
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        if (columns[i].group & line->groups)
            print_member(columns[i].name, columns[i].is_rate ? "_per_s" : "", 0, line->values[i]);
    print_member("hit_percent", "", 1, line->hit_percent);
    print_member("get_us", "", 1, line->get_us);
    print_member("write_us", "", 1, line->write_us);
    print_member("cpu_percent", "", 1, line->cpu_percent);
    printf("\"seconds\": %.3f}\n", line->seconds);
}

static int show(const struct top_arguments *arguments)
{
    struct cli *cli = arguments->cli;
    struct sample before, now;
    struct line shown;
    int rc = take(cli, &before);

    cli_interrupt_catch(true);
    for (uint64_t line = 0; rc == OKV_OK && line < arguments->count; line++) {
        if (!cli_pause(arguments->interval_ms))
            break;
        rc = take(cli, &now);
        if (rc != OKV_OK)
            break;
        if (!arguments->json && line % LINES_PER_HEADING == 0)
            print_heading(now.groups);
        compare(&before, &now, &shown);
        if (arguments->json)
            print_object(&shown);
        else
            print_line(&shown);
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
        .doc =
            "Print the server's rates, a line each second, until ^C.\v"
            "Columns that end with /s are rates per second; the others are current values. "
            "gets/s and us/get, the mean time of a get, are what clients report from time to "
            "time; byreq/s are gets that the server answered. hit % is the share that found their "
            "key, of the gets that clients report and of GET and MGET of Redis clients in all "
            "databases; - without any. us/write "
            "is the mean time of a write in the server, without the network. redis/s are "
            "commands of Redis clients. refus/s are refused writes: no room, a condition, no "
            "right. memory is that of index and values; waiting is the number of queued "
            "requests. cpu % is of one processor. A database that evicts (--full) has more "
            "columns: "
            "evict/s are items that were evicted, back/s those of the puts whose item had been "
            "not long before: misses that more memory would save. full/s are changes without "
            "room all the same. new ms is the age at which new items go, main ms the time since "
            "the last use of others. One of a cluster has others: behind are bytes of the log that "
            "the slowest copy lacks, or this one has not applied; since the start, suspect is how "
            "often this copy found its primary silent, elected how often it began an epoch that "
            "nobody handed over, deposed how often another one so ended an epoch that this server "
            "led; late us is how late the thread of the cluster was at most in the last minutes. "
            "- stands for what there is not: of the log "
            "without --data, of the server without the right admin; --json has null there.\n"
            "\nExamples:\n  okv top\n  okv top -i 10s -n 6\n"
            "  okv top --json -n 1 | jq .puts_per_s"};
    struct top_arguments arguments = {.cli = cli, .interval_ms = INTERVAL_MS, .count = UINT64_MAX};

    cli->may_observe = true;
    int status = cli_begin(cli, &parser, argc, argv, &arguments);
    return status != CLI_DONE ? status : show(&arguments);
}
