#include <jansson.h>
#include <stddef.h>

#include "bench/report.h"

static json_t *json_count(uint64_t number)
{
    return json_integer((json_int_t)number);
}

static json_t *json_microseconds(double ns)
{
    return json_real(ns / 1e3);
}

static json_t *json_latency(const struct histogram *latency)
{
    static const struct {
        const char *name;
        double percent;
    } percentiles[] = {{"p50_us", 50},     {"p90_us", 90},       {"p99_us", 99},
                       {"p99_9_us", 99.9}, {"p99_99_us", 99.99}, {"max_us", 100}};
    json_t *object = json_object();

    json_object_set_new(object, "count", json_count(latency->count));
    if (latency->count == 0)
        return object;
    json_object_set_new(object, "min_us", json_microseconds((double)latency->min));
    json_object_set_new(object, "mean_us", json_microseconds(histogram_mean(latency)));
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
        uint64_t ns = histogram_percentile(latency, percentiles[i].percent);
        json_object_set_new(object, percentiles[i].name, json_microseconds((double)ns));
    }
    return object;
}

static json_t *json_counters(const struct okv_counters *counters)
{
    json_t *object = json_object();

#define SET_COUNTER(name, text) json_object_set_new(object, #name, json_count(counters->name));
    OKV_COUNTER_LIST(SET_COUNTER)
#undef SET_COUNTER
    return object;
}

static json_t *json_parameters(const struct options *options)
{
    return json_pack(
        "{s:I, s:I, s:f, s:f, s:I, s:I, s:s, s:f, s:I, s:I, s:I, s:I, s:I, s:I, s:b, "
        "s:b, s:I, s:b}",
        "records", (json_int_t)options->records, "operations", (json_int_t)options->operations,
        "seconds", options->seconds, "warmup", options->warmup, "threads",
        (json_int_t)options->threads, "depth", (json_int_t)options->depth, "distribution",
        options_distribution_name(options->distribution), "theta", options->theta, "key_size",
        (json_int_t)options->key_size, "value_size", (json_int_t)options->value_size, "get_percent",
        (json_int_t)options->get_percent, "put_percent", (json_int_t)(100 - options->get_percent),
        "rounds", (json_int_t)options->rounds, "seed", (json_int_t)options->seed, "load",
        (int)options->load, "floor", (int)options->floor, "get_many", (json_int_t)options->get_many,
        "registered", (int)options->registered);
}

static json_t *json_environment(const struct report *report)
{
    const struct environment *environment = &report->environment;
    const struct okv_info *info = &report->info;

    return json_pack(
        "{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "date",
        environment->date, "kernel", environment->kernel, "machine", environment->machine, "cpu",
        environment->cpu, "cpus", (json_int_t)environment->cpus, "command", environment->command,
        "server", report->options->uri, "transport", info->transport, "path", info->path,
        "region_bytes", (json_int_t)info->region_bytes, "buckets", (json_int_t)info->buckets,
        "bucket_bytes", (json_int_t)info->bucket_bytes, "max_value", (json_int_t)info->max_value,
        "credits", (json_int_t)info->credits);
}

static json_t *json_phase(const struct phase *phase)
{
    const struct loop_tally *tally = &phase->tally;
    uint64_t count = tally->latency[LOOP_GET].count + tally->latency[LOOP_PUT].count;

    return json_pack(
        "{s:f, s:f, s:o, s:o, s:I, s:I, s:I, s:o}", "seconds", phase->seconds,
        "operations_per_second", phase->seconds > 0 ? (double)count / phase->seconds : 0.0, "get",
        json_latency(&tally->latency[LOOP_GET]), "put", json_latency(&tally->latency[LOOP_PUT]),
        "missing", (json_int_t)tally->missing, "wrong", (json_int_t)tally->wrong, "failed",
        (json_int_t)tally->failed, "counters", json_counters(&phase->counters));
}

static json_t *json_server_cpu(const struct floor_round *round)
{
    if (!round->cpu_known)
        return json_null();
    double per_get =
        round->stretch_gets > 0 ? round->cpu_gets_ms * 1e6 / (double)round->stretch_gets : 0;
    return json_pack("{s:f, s:f, s:f}", "gets_ms", round->cpu_gets_ms, "nothing_ms",
                     round->cpu_nothing_ms, "per_get_ns", per_get);
}

static json_t *json_floor_round(const struct floor_round *round)
{
    struct floor_figures figures;

    floor_round_figures(round, &figures);
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:f, s:f, s:f, s:f, s:f, s:I, s:o, s:o}", "read_bytes",
        (json_int_t)round->read_bytes, "read", json_latency(&round->latency[FLOOR_READ]), "get",
        json_latency(&round->latency[FLOOR_GET]), "put", json_latency(&round->latency[FLOOR_PUT]),
        "ping", json_latency(&round->latency[FLOOR_PING]), "get_over_read_p50",
        figures.get_over_read, "put_over_ping_p50", figures.put_over_ping, "reads_per_get",
        figures.reads_per_get, "gets_per_second", figures.get_rate, "stretch_seconds",
        round->stretch_seconds, "stretch_gets", (json_int_t)round->stretch_gets, "server_cpu",
        json_server_cpu(round), "get_counters", json_counters(&round->counters));
}

static json_t *json_rounds(const struct report *report)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < report->rounds; i++)
        json_array_append_new(array, report->floor ? json_floor_round(&report->floor[i])
                                                   : json_phase(&report->run[i]));
    return array;
}

/* Medians over the rounds, with the least and the most. */
static json_t *json_floor_summary(const struct report *report)
{
    static const struct {
        const char *name;
        size_t offset;
    } figures[] = {
        {"read_p50_us", offsetof(struct floor_figures, read_p50_us)},
        {"read_p99_us", offsetof(struct floor_figures, read_p99_us)},
        {"get_p50_us", offsetof(struct floor_figures, get_p50_us)},
        {"get_p99_us", offsetof(struct floor_figures, get_p99_us)},
        {"get_over_read_p50", offsetof(struct floor_figures, get_over_read)},
        {"put_p50_us", offsetof(struct floor_figures, put_p50_us)},
        {"put_p99_us", offsetof(struct floor_figures, put_p99_us)},
        {"ping_p50_us", offsetof(struct floor_figures, ping_p50_us)},
        {"ping_p99_us", offsetof(struct floor_figures, ping_p99_us)},
        {"put_over_ping_p50", offsetof(struct floor_figures, put_over_ping)},
        {"gets_per_second", offsetof(struct floor_figures, get_rate)},
        {"reads_per_get", offsetof(struct floor_figures, reads_per_get)},
    };
    json_t *object = json_object();

    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        struct report_spread spread = report_floor_spread(report, figures[i].offset);
        json_object_set_new(object, figures[i].name,
                            json_pack("{s:f, s:f, s:f}", "median", spread.median, "min", spread.min,
                                      "max", spread.max));
    }
    return object;
}

static json_t *json_outcome(const struct report *report)
{
    const struct loop_tally *tally = &report->tally;

    return json_pack("{s:b, s:I, s:I, s:I, s:s}", "good", (int)report_good(report), "missing",
                     (json_int_t)tally->missing, "wrong", (json_int_t)tally->wrong, "failed",
                     (json_int_t)tally->failed, "why", tally->why);
}

int report_write_json(const struct report *report, FILE *out)
{
    json_t *root = json_pack("{s:s, s:s, s:o, s:o, s:o}", "program", "kv-bench", "version",
                             okv_version(), "environment", json_environment(report), "parameters",
                             json_parameters(report->options), "outcome", json_outcome(report));

    if (!root)
        return -1;
    if (report->loaded)
        json_object_set_new(root, "load", json_phase(&report->load));
    json_object_set_new(root, "rounds", json_rounds(report));
    if (report->floor && report->rounds > 0)
        json_object_set_new(root, "summary", json_floor_summary(report));
    int rc = json_dumpf(root, out, JSON_INDENT(2) | JSON_REAL_PRECISION(8));
    json_decref(root);
    return rc == 0 && putc('\n', out) != EOF && fflush(out) == 0 ? 0 : -1;
}
