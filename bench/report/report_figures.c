#include "bench/report/report_figures.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

/* ---- single figures ------------------------------------------------------ */

uint64_t report_operations(const struct loop_tally *tally)
{
    uint64_t count = 0;

    for (int i = 0; i < OPERATION_COUNT; i++)
        count += tally->latency[i].count;
    return count;
}

uint64_t report_hits(const struct loop_tally *tally)
{
    return tally->latency[OPERATION_GET].count - tally->missing;
}

uint64_t report_puts(const struct loop_tally *tally)
{
    return tally->latency[OPERATION_PUT].count - tally->refused;
}

double report_reads_per_get(const struct okv_counters *counters)
{
    return counters->gets > 0 ? (double)counters->reads / (double)counters->gets : NAN;
}

double report_wire_bytes(const struct phase *phase)
{
    const struct okv_counters *counters = &phase->counters;
    uint64_t bytes = counters->read_bytes + counters->request_bytes + counters->reply_bytes;
    uint64_t operations = report_operations(&phase->tally);

    /* Peers have no counters. */
    return bytes > 0 && operations > 0 ? (double)bytes / (double)operations : NAN;
}

double report_cpu_us(const struct phase *phase, double cpu_ms)
{
    uint64_t operations = report_operations(&phase->tally);

    return operations > 0 ? cpu_ms * 1e3 / (double)operations : NAN;
}

double report_rate(const struct phase *phase)
{
    return phase->seconds > 0 ? (double)report_operations(&phase->tally) / phase->seconds : NAN;
}

uint64_t report_counter(const struct report_target *target, size_t offset)
{
    uint64_t total = 0;

    for (uint32_t i = 0; i < target->rounds; i++) {
        const struct okv_counters *counters =
            target->floor ? &target->floor[i].counters : &target->run[i].counters;
        total += *(const uint64_t *)((const char *)counters + offset);
    }
    return total;
}

/* ---- a round ----------------------------------------------------------- */

static const char *const phase_names[REPORT_PHASE_FIGURES] = {
    [REPORT_RATE] = "operations_per_second",
    [REPORT_READS_PER_GET] = "reads_per_get",
    [REPORT_WIRE_BYTES] = "wire_bytes_per_operation",
    [REPORT_CLIENT_CPU] = "client_cpu_us_per_operation",
    [REPORT_SERVER_CPU] = "server_cpu_us_per_operation",
#define LATENCY_NAMES(NAME, name, text)                                                   \
    [REPORT_LATENCY(OPERATION_##NAME,                                                     \
                    REPORT_P50)] = #name "_p50_us",                                       \
                    [REPORT_LATENCY(OPERATION_##NAME, REPORT_P90)] = #name "_p90_us",     \
                    [REPORT_LATENCY(OPERATION_##NAME, REPORT_P99)] = #name "_p99_us",     \
                    [REPORT_LATENCY(OPERATION_##NAME, REPORT_P99_9)] = #name "_p99_9_us", \
                    [REPORT_LATENCY(OPERATION_##NAME, REPORT_MAX)] = #name "_max_us",
    OPERATION_LIST(LATENCY_NAMES)
#undef LATENCY_NAMES
};

static void phase_values(const struct phase *phase, double *values)
{
    static const double percents[REPORT_PERCENTILES] = {50, 90, 99, 99.9, 100};

    values[REPORT_RATE] = report_rate(phase);
    values[REPORT_READS_PER_GET] = report_reads_per_get(&phase->counters);
    values[REPORT_WIRE_BYTES] = report_wire_bytes(phase);
    values[REPORT_CLIENT_CPU] = report_cpu_us(phase, phase->client_cpu_ms);
    values[REPORT_SERVER_CPU] = report_cpu_us(phase, phase->server_cpu_ms);
    for (int operation = 0; operation < OPERATION_COUNT; operation++) {
        const struct histogram *latency = &phase->tally.latency[operation];
        for (int i = 0; i < REPORT_PERCENTILES; i++)
            values[REPORT_LATENCY(operation, i)] =
                latency->count > 0 ? (double)histogram_percentile(latency, percents[i]) / 1e3 : NAN;
    }
}

#define KIND_NAMES(kind, name)                                                   \
    [REPORT_FLOOR(kind, REPORT_FLOOR_P50)] = name "_p50_us",                     \
                        [REPORT_FLOOR(kind, REPORT_FLOOR_P99)] = name "_p99_us", \
                        [REPORT_FLOOR(kind, REPORT_FLOOR_RATE)] = name "_rate"

static const char *const floor_names[REPORT_FLOOR_FIGURES] = {
    KIND_NAMES(FLOOR_COPY, "copy"),
    KIND_NAMES(FLOOR_READ, "read"),
    KIND_NAMES(FLOOR_GET, "get"),
    KIND_NAMES(FLOOR_PUT, "put"),
    KIND_NAMES(FLOOR_ECHO, "echo"),
    KIND_NAMES(FLOOR_PING, "ping"),
    [REPORT_GET_OVER_COPY] = "get_over_copy",
    [REPORT_GET_OVER_READ] = "get_over_read",
    [REPORT_PUT_OVER_ECHO] = "put_over_echo",
    [REPORT_GET_RATE_OVER_READ] = "get_rate_over_read",
    [REPORT_FLOOR_READS_PER_GET] = "reads_per_get",
    [REPORT_FLOOR_SERVER_CPU] = "server_cpu_us_per_get",
};

/* 0 means unknown. */
static double known(double value)
{
    return value > 0 ? value : NAN;
}

static void floor_values(const struct floor_round *round, double *values)
{
    struct floor_figures figures;

    floor_round_figures(round, &figures);
    for (int kind = 0; kind < FLOOR_KIND_COUNT; kind++) {
        values[REPORT_FLOOR(kind, REPORT_FLOOR_P50)] = known(figures.p50_us[kind]);
        values[REPORT_FLOOR(kind, REPORT_FLOOR_P99)] = known(figures.p99_us[kind]);
        values[REPORT_FLOOR(kind, REPORT_FLOOR_RATE)] = known(figures.rate[kind]);
    }
    values[REPORT_GET_OVER_COPY] = known(figures.get_over_copy);
    values[REPORT_GET_OVER_READ] = known(figures.get_over_read);
    values[REPORT_PUT_OVER_ECHO] = known(figures.put_over_echo);
    values[REPORT_GET_RATE_OVER_READ] = known(figures.get_rate_over_read);
    values[REPORT_FLOOR_READS_PER_GET] = known(figures.reads_per_get);
    values[REPORT_FLOOR_SERVER_CPU] = round->cpu_known && round->stretch_gets > 0
                                          ? round->cpu_gets_ms * 1e3 / (double)round->stretch_gets
                                          : NAN;
}

int report_rounds_init(struct report_rounds *rounds, const struct report_target *target)
{
    bool floor = target->floor != NULL;

    *rounds = (struct report_rounds){
        .names = floor ? floor_names : phase_names,
        .figures = floor ? (uint32_t)REPORT_FLOOR_FIGURES : (uint32_t)REPORT_PHASE_FIGURES,
        .rounds = target->rounds,
    };
    /* One more: calloc(0) may return NULL. */
    rounds->values = calloc((size_t)rounds->rounds + 1, rounds->figures * sizeof *rounds->values);
    if (!rounds->values)
        return -1;
    for (uint32_t i = 0; i < rounds->rounds; i++) {
        double *values = rounds->values + (size_t)i * rounds->figures;
        if (floor)
            floor_values(&target->floor[i], values);
        else
            phase_values(&target->run[i], values);
    }
    return 0;
}

void report_rounds_fini(struct report_rounds *rounds)
{
    free(rounds->values);
    rounds->values = NULL;
}

/* ---- over the rounds ----------------------------------------------------- */

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

static double value_of(const struct report_rounds *rounds, uint32_t round, uint32_t figure)
{
    return rounds->values[(size_t)round * rounds->figures + figure];
}

/* The spread of a figure, or of its ratios to another target. */
static bool spread_over(const struct report_rounds *of, const struct report_rounds *to,
                        uint32_t figure, struct report_spread *spread)
{
    uint32_t rounds = to && to->rounds < of->rounds ? to->rounds : of->rounds;
    uint32_t count = 0;
    double *values = calloc((size_t)rounds + 1, sizeof *values);

    if (!values)
        return false;
    for (uint32_t i = 0; i < rounds; i++) {
        double value = value_of(of, i, figure);
        if (to)
            value /= value_of(to, i, figure);
        if (isfinite(value))
            values[count++] = value;
    }
    if (count > 0)
        *spread = report_spread(values, count);
    free(values);
    return count > 0;
}

bool report_rounds_spread(const struct report_rounds *rounds, uint32_t figure,
                          struct report_spread *spread)
{
    return spread_over(rounds, NULL, figure, spread);
}

bool report_rounds_ratio(const struct report_rounds *of, const struct report_rounds *to,
                         uint32_t figure, struct report_spread *spread)
{
    /* A floor and a run have no figures in common. */
    return of->names == to->names && spread_over(of, to, figure, spread);
}

/* ---- the outcome --------------------------------------------------------- */

bool report_target_good(const struct report *report, const struct report_target *target)
{
    const struct options *options = report->options;
    const struct loop_tally *tally = &target->tally;
    bool all = options->load_only || target->rounds == options->rounds;
    bool may_miss = options->no_load || options->trace || options->mix[OPERATION_DELETE] > 0;

    return all && tally->wrong == 0 && tally->failed == 0 && tally->code == OKV_OK &&
           (tally->missing == 0 || may_miss);
}
