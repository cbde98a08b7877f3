#include "bench/report.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "shared/size.h"

#define COUNTER_TOTAL(report, name) counter_total(report, offsetof(struct okv_counters, name))

/* ---- figures ------------------------------------------------------------ */

static int compare_doubles(const void *a, const void *b)
{
    double left = *(const double *)a;
    double right = *(const double *)b;
    return (left > right) - (left < right);
}

struct report_spread report_spread(double *values, uint32_t count)
{
    qsort(values, count, sizeof *values, compare_doubles);
    double middle = values[count / 2];
    if (count % 2 == 0)
        middle = (middle + values[count / 2 - 1]) / 2;
    return (struct report_spread){.median = middle, .min = values[0], .max = values[count - 1]};
}

struct report_spread report_floor_spread(const struct report *report, size_t offset)
{
    struct report_spread spread = {0};
    double *values = calloc(report->rounds, sizeof *values);

    if (!values)
        return spread;
    for (uint32_t i = 0; i < report->rounds; i++) {
        struct floor_figures figures;
        floor_round_figures(&report->floor[i], &figures);
        values[i] = *(const double *)((const char *)&figures + offset);
    }
    spread = report_spread(values, report->rounds);
    free(values);
    return spread;
}

bool report_good(const struct report *report)
{
    const struct loop_tally *tally = &report->tally;

    return tally->wrong == 0 && tally->failed == 0 && tally->code == OKV_OK &&
           (tally->missing == 0 || !report->loaded);
}

/* One counter over all rounds. */
static uint64_t counter_total(const struct report *report, size_t offset)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < report->rounds; i++) {
        const struct okv_counters *counters =
            report->floor ? &report->floor[i].counters : &report->run[i].counters;
        total += *(const uint64_t *)((const char *)counters + offset);
    }
    return total;
}

/* ---- the table ---------------------------------------------------------- */

static void print_head(const struct report *report, FILE *out)
{
    const struct options *options = report->options;
    const struct environment *environment = &report->environment;
    char region[OKV_SIZE_TEXT];

    okv_size_format(report->info.region_bytes, region, sizeof region);
    fprintf(out, "kv-bench %s, %s\n", okv_version(), environment->date);
    fprintf(out, "server   %s (%s: %s)\n", options->uri, report->info.transport, report->info.path);
    fprintf(out, "machine  %s, %ld CPUs, %s %s\n", environment->cpu, environment->cpus,
            environment->kernel, environment->machine);
    fprintf(out, "table    region %s, buckets of %u bytes\n", region, report->info.bucket_bytes);
    fprintf(out, "items    %llu of %u + %u bytes, %s", (unsigned long long)options->records,
            options->key_size, options->value_size,
            options_distribution_name(options->distribution));
    if (options->distribution == WORKLOAD_ZIPFIAN)
        fprintf(out, " %.4g", options->theta);
    fprintf(out, "\nclient   %u thread%s, depth %u", options->threads,
            options->threads == 1 ? "" : "s", options->depth);
    if (options->get_many > 0)
        fprintf(out, ", gets in batches of %u: times are of whole batches", options->get_many);
    else if (!options->floor)
        fprintf(out, ", %u %% get, %u %% put", options->get_percent, 100 - options->get_percent);
    if (options->registered)
        fputs(", into registered memory", out);
    fputs("\n\n", out);
}

/* Four columns; dashes when there are no samples. */
static void print_latency(const struct histogram *latency, FILE *out)
{
    static const double percents[] = {50, 99, 99.9, 100};

    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        if (latency->count == 0)
            fprintf(out, " %9s", "-");
        else
            fprintf(out, " %9.2f", (double)histogram_percentile(latency, percents[i]) / 1e3);
    }
}

static void print_phase(const char *label, const struct phase *phase, FILE *out)
{
    uint64_t count = phase->tally.latency[LOOP_GET].count + phase->tally.latency[LOOP_PUT].count;
    double rate = phase->seconds > 0 ? (double)count / phase->seconds : 0;

    fprintf(out, "%-6s %11.0f |", label, rate);
    print_latency(&phase->tally.latency[LOOP_GET], out);
    fputs(" |", out);
    print_latency(&phase->tally.latency[LOOP_PUT], out);
    putc('\n', out);
}

static void print_run(const struct report *report, FILE *out)
{
    fprintf(out, "%-6s %11s | %-39s | %s\n", "round", "ops/s", "get us", "put us");
    fprintf(out, "%-6s %11s |", "", "");
    for (int i = 0; i < 2; i++)
        fprintf(out, " %9s %9s %9s %9s%s", "p50", "p99", "p99.9", "max", i == 0 ? " |" : "\n");
    if (report->loaded)
        print_phase("load", &report->load, out);
    for (uint32_t i = 0; i < report->rounds; i++) {
        char label[16];
        snprintf(label, sizeof label, "%u", i + 1);
        print_phase(label, &report->run[i], out);
    }
    putc('\n', out);
}

/* The columns of the comparison. */
static const struct column {
    const char *head;
    const char *below;
    int decimals;
    size_t offset; /* in struct floor_figures */
} columns[] = {
    {"READ", "p50 us", 2, offsetof(struct floor_figures, read_p50_us)},
    {"READ", "p99 us", 2, offsetof(struct floor_figures, read_p99_us)},
    {"GET", "p50 us", 2, offsetof(struct floor_figures, get_p50_us)},
    {"GET", "p99 us", 2, offsetof(struct floor_figures, get_p99_us)},
    {"GET/READ", "p50", 3, offsetof(struct floor_figures, get_over_read)},
    {"PING", "p50 us", 2, offsetof(struct floor_figures, ping_p50_us)},
    {"PUT", "p50 us", 2, offsetof(struct floor_figures, put_p50_us)},
    {"PUT/PING", "p50", 3, offsetof(struct floor_figures, put_over_ping)},
    {"GET/s", "alone", 0, offsetof(struct floor_figures, get_rate)},
};
#define COLUMN_COUNT (sizeof columns / sizeof *columns)

static void print_floor_rounds(const struct report *report, FILE *out)
{
    fprintf(out, "%-6s", "round");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        fprintf(out, " %9s", columns[i].head);
    fprintf(out, "\n%-6s", "");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        fprintf(out, " %9s", columns[i].below);
    for (uint32_t round = 0; round < report->rounds; round++) {
        struct floor_figures figures;
        floor_round_figures(&report->floor[round], &figures);
        fprintf(out, "\n%-6u", round + 1);
        for (size_t i = 0; i < COLUMN_COUNT; i++) {
            double value = *(const double *)((const char *)&figures + columns[i].offset);
            fprintf(out, " %9.*f", columns[i].decimals, value);
        }
    }
    fprintf(out, "\n%-6s", "median");
    for (size_t i = 0; i < COLUMN_COUNT; i++)
        fprintf(out, " %9.*f", columns[i].decimals,
                report_floor_spread(report, columns[i].offset).median);
    fputs("\n\n", out);
}

static void print_server_cpu(const struct report *report, FILE *out)
{
    double gets_ms = 0;
    double nothing_ms = 0;
    double seconds = 0;
    uint64_t gets = 0;
    bool known = true;

    for (uint32_t i = 0; i < report->rounds; i++) {
        const struct floor_round *round = &report->floor[i];
        known = known && round->cpu_known;
        gets_ms += round->cpu_gets_ms;
        nothing_ms += round->cpu_nothing_ms;
        seconds += round->stretch_seconds;
        gets += round->stretch_gets;
    }
    if (!known) {
        fprintf(out, "server CPU: not known, its figures have no cpu_ms\n");
        return;
    }
    fprintf(out,
            "server CPU: %.1f ms during %llu gets in %.1f s (%.1f ns per get), %.1f ms in as long "
            "a time of nothing\n",
            gets_ms, (unsigned long long)gets, seconds, gets > 0 ? gets_ms * 1e6 / (double)gets : 0,
            nothing_ms);
}

static void print_floor(const struct report *report, FILE *out)
{
    struct report_spread get_over_read =
        report_floor_spread(report, offsetof(struct floor_figures, get_over_read));
    struct report_spread put_over_ping =
        report_floor_spread(report, offsetof(struct floor_figures, put_over_ping));

    print_floor_rounds(report, out);
    fprintf(out, "a READ is of %u bytes, an item has %u\n", report->floor[0].read_bytes,
            report->options->key_size + report->options->value_size);
    fprintf(out, "GET/READ %.3f (%.3f to %.3f over %u rounds), PUT/PING %.3f (%.3f to %.3f)\n",
            get_over_read.median, get_over_read.min, get_over_read.max, report->rounds,
            put_over_ping.median, put_over_ping.min, put_over_ping.max);
    print_server_cpu(report, out);
}

static void print_counts(const struct report *report, FILE *out)
{
    const struct loop_tally *tally = &report->tally;
    uint64_t gets = COUNTER_TOTAL(report, gets);
    uint64_t reads = COUNTER_TOTAL(report, reads);

    fprintf(out, "READs per get: %.4f (%llu for %llu)\n",
            gets > 0 ? (double)reads / (double)gets : 0, (unsigned long long)reads,
            (unsigned long long)gets);
    fprintf(out,
            "torn images read again: %llu of buckets, %llu of extents; gets that fell back "
            "on the server: %llu\n",
            (unsigned long long)COUNTER_TOTAL(report, torn_buckets),
            (unsigned long long)COUNTER_TOTAL(report, torn_extents),
            (unsigned long long)COUNTER_TOTAL(report, fallbacks));
    uint64_t right = COUNTER_TOTAL(report, hints_right);
    uint64_t wrong = COUNTER_TOTAL(report, hints_wrong);
    if (right > 0 || wrong > 0)
        fprintf(out, "extents read together with their bucket: %llu rightly, %llu for nothing\n",
                (unsigned long long)right, (unsigned long long)wrong);
    fprintf(out, "values: %llu wrong, %llu missing; operations failed: %llu\n",
            (unsigned long long)tally->wrong, (unsigned long long)tally->missing,
            (unsigned long long)tally->failed);
}

void report_print(const struct report *report, FILE *out)
{
    if (report->rounds == 0)
        return;
    print_head(report, out);
    if (report->floor)
        print_floor(report, out);
    else
        print_run(report, out);
    print_counts(report, out);
}
