/* The JSON of docs/benchmark-json.md. */
#include <jansson.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/report/report_figures.h"

#define SCHEMA "okv-bench-1"

static json_t *json_count(uint64_t number)
{
    return json_integer((json_int_t)number);
}

/* An unknown value is null. */
static json_t *json_number(double number)
{
    return isfinite(number) ? json_real(number) : json_null();
}

/* File names and arguments may be any bytes; JSON is UTF-8. */
static json_t *json_text(const char *text)
{
    json_t *string = json_string(text ? text : "");

    if (string)
        return string;
    char *plain = strdup(text);
    for (char *at = plain; at && *at; at++)
        if ((unsigned char)*at >= 0x80)
            *at = '?';
    string = plain ? json_string(plain) : NULL;
    free(plain);
    return string;
}

/* There are none of 0. */
static json_t *json_ratio(double ratio)
{
    return json_number(ratio > 0 ? ratio : NAN);
}

static json_t *json_microseconds(double ns)
{
    return json_real(ns / 1e3);
}

/* ---- latencies ----------------------------------------------------------- */

static json_t *json_histogram(const struct histogram *latency)
{
    json_t *array = json_array();
    struct histogram_step step;
    unsigned bucket = 0;

    while (histogram_next(latency, &bucket, &step))
        json_array_append_new(array, json_pack("[o, o]", json_microseconds((double)step.upper),
                                               json_count(step.count)));
    return array;
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
    json_object_set_new(object, "histogram", json_histogram(latency));
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

/* ---- what was asked for, and of what ------------------------------------- */

static json_t *json_mix(const struct options *options)
{
    json_t *object = json_object();

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++)
        if (options->mix[i] > 0)
            json_object_set_new(object, operation_name((enum operation)i),
                                json_real(options->mix[i]));
    return object;
}

/* A number, or an array of the numbers compared. */
static json_t *json_threads(const struct options *options)
{
    if (options->threads_count == 1)
        return json_count(options->threads[0]);
    json_t *array = json_array();
    for (uint32_t i = 0; i < options->threads_count; i++)
        json_array_append_new(array, json_count(options->threads[i]));
    return array;
}

static json_t *json_parameters(const struct options *options)
{
    const struct workload_choice *choice = &options->choice;
    char workload[2] = {options->workload, '\0'};
    json_t *what = json_pack(
        "{s:s?, s:o, s:o, s:s, s:f, s:f, s:f, s:I, s:s, s:I, s:I, s:o}", "workload",
        options->workload ? workload : NULL, "mix", json_mix(options), "records",
        json_count(choice->records), "distribution", workload_distributions[choice->distribution],
        "theta", choice->theta, "hot_records", choice->hot_records, "hot_operations",
        choice->hot_operations, "key_size", (json_int_t)options->key_size, "value_sizes",
        workload_sizes_name(options->values.sizes), "value_size", (json_int_t)options->values.high,
        "value_size_low",
        (json_int_t)(options->values.sizes == WORKLOAD_SIZES_FIXED ? options->values.high
                                                                   : options->values.low),
        "seed", json_count(options->seed));
    json_t *how = json_pack(
        "{s:b, s:b, s:o, s:f, s:f, s:f, s:b, s:o, s:I, s:I, s:I, s:I, s:I, s:b, s:b}", "load",
        (int)!options->no_load, "load_only", (int)options->load_only, "operations",
        json_count(options->operations), "seconds", options->seconds, "warmup", options->warmup,
        "rate", (double)options->rate, "even", (int)options->even, "threads", json_threads(options),
        "connections", (json_int_t)options->connections, "depth", (json_int_t)options->depth,
        "get_many", (json_int_t)options->get_many, "rounds", (json_int_t)options->rounds,
        "timeout_ms", (json_int_t)options->timeout_ms, "floor", (int)options->floor, "registered",
        (int)options->registered);

    json_object_set_new(what, "replay", options->replay ? json_text(options->replay) : json_null());
    json_object_set_new(what, "replay_items", json_count(options->replay_items));
    json_object_update(what, how);
    json_decref(how);
    return what;
}

/* Of the first target with a path: okv over rdma://. */
static json_t *json_mtu(const struct report *report)
{
    static const char label[] = "MTU ";
    unsigned mtu = 0;

    for (uint32_t i = 0; i < report->options->target_count; i++) {
        const char *path = report->targets[i].info.path;
        const char *found = path ? strstr(path, label) : NULL;
        if (found && sscanf(found + strlen(label), "%u", &mtu) == 1)
            return json_count(mtu);
    }
    return json_null();
}

static json_t *json_environment(const struct report *report)
{
    const struct environment *environment = &report->environment;

    return json_pack(
        "{s:s, s:s, s:s, s:o, s:I, s:o, s:b, s:b, s:f, s:o, s:o}", "date", environment->date,
        "kernel", environment->kernel, "machine", environment->machine, "cpu",
        json_text(environment->cpu), "cpus", (json_int_t)environment->cpus, "allowed_cpus",
        environment->allowed_cpus[0] ? json_text(environment->allowed_cpus) : json_null(),
        "emulated", (int)environment->emulated, "virtual", (int)environment->is_virtual,
        "busy_cpus", environment->busy_cpus, "mtu", json_mtu(report), "command",
        json_text(environment->command));
}

/* ---- rounds -------------------------------------------------------------- */

static json_t *json_series(const struct series *series)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < series->seconds; i++) {
        const struct histogram *latency = series->latency[i];
        bool any = latency && latency->count > 0;
        double p50 = any ? (double)histogram_percentile(latency, 50) / 1e3 : NAN;
        double p99 = any ? (double)histogram_percentile(latency, 99) / 1e3 : NAN;
        json_array_append_new(array,
                              json_pack("{s:I, s:o, s:o, s:o}", "second", (json_int_t)i,
                                        "operations", json_count(any ? latency->count : 0),
                                        "p50_us", json_number(p50), "p99_us", json_number(p99)));
    }
    return array;
}

static json_t *json_phase(const struct phase *phase)
{
    json_t *latency = json_object();

    for (int i = 0; i < OPERATION_COUNT; i++)
        if (phase->tally.latency[i].count > 0)
            json_object_set_new(latency, operation_name((enum operation)i),
                                json_latency(&phase->tally.latency[i]));
    json_t *fill = json_pack("{s:o, s:o, s:o}", "items", json_number(phase->after.items),
                             "user_bytes", json_number(phase->after.user_bytes), "memory_bytes",
                             json_number(phase->after.memory_bytes));
    return json_pack(
        "{s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "seconds", phase->seconds,
        "operations", json_count(report_operations(&phase->tally)), "operations_per_second",
        json_number(report_rate(phase)), "not_begun", json_count(phase->not_begun), "latency",
        latency, "reads_per_get", json_number(report_reads_per_get(&phase->counters)),
        "wire_bytes_per_operation", json_number(report_wire_bytes(phase)),
        "client_cpu_us_per_operation", json_number(report_cpu_us(phase, phase->client_cpu_ms)),
        "server_cpu_us_per_operation", json_number(report_cpu_us(phase, phase->server_cpu_ms)),
        "fill", fill, "counters", json_counters(&phase->counters), "series",
        json_series(&phase->series));
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
    json_t *latency = json_object();
    json_t *rate = json_object();

    floor_round_figures(round, &figures);
    for (int i = 0; i < FLOOR_KIND_COUNT; i++) {
        const char *name = floor_kind_name((enum floor_kind)i);
        json_object_set_new(latency, name, json_latency(&round->latency[i]));
        json_object_set_new(rate, name, json_real(figures.rate[i]));
    }
    return json_pack(
        "{s:I, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "read_bytes",
        (json_int_t)round->read_bytes, "latency", latency, "rate", rate, "get_over_copy",
        json_ratio(figures.get_over_copy), "get_over_read", json_ratio(figures.get_over_read),
        "put_over_echo", json_ratio(figures.put_over_echo), "get_rate_over_read",
        json_ratio(figures.get_rate_over_read), "reads_per_get", json_ratio(figures.reads_per_get),
        "counters", json_counters(&round->counters), "server_cpu", json_server_cpu(round));
}

static json_t *json_rounds(const struct report_target *target)
{
    json_t *array = json_array();

    for (uint32_t i = 0; i < target->rounds; i++)
        json_array_append_new(array, target->floor ? json_floor_round(&target->floor[i])
                                                   : json_phase(&target->run[i]));
    return array;
}

/* ---- a replay -------------------------------------------------------------- */

static json_t *json_share(const struct report *report, uint64_t hits)
{
    return json_real((double)hits / (double)report->options->trace->count);
}

static json_t *json_exact(const struct report *report, const struct report_target *target)
{
    const struct exact_hits *exact = &target->exact;

    if (target->exact_items == 0)
        return json_null();
    return json_pack("{s:I, s:o, s:o, s:o}", "items", (json_int_t)target->exact_items, "lru",
                     json_share(report, exact->lru), "s3_fifo", json_share(report, exact->s3_fifo),
                     "belady", json_share(report, exact->belady));
}

static json_t *json_replay(const struct report *report, const struct report_target *target)
{
    const struct trace *trace = report->options->trace;

    if (!trace || target->rounds == 0)
        return json_null();
    const struct loop_tally *tally = &target->run[0].tally;
    const struct held *held = &target->run[0].held;
    return json_pack(
        "{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "requests", json_count(trace->count),
        "keys", json_count(trace->keys), "hits", json_count(report_hits(tally)), "misses",
        json_count(tally->missing), "hit_ratio", json_share(report, report_hits(tally)), "puts",
        json_count(report_puts(tally)), "refused", json_count(tally->refused), "items",
        json_number(held_mean(held)), "items_most",
        json_number(held->samples > 0 ? held->most : NAN), "exact", json_exact(report, target));
}

/* ---- over the rounds ----------------------------------------------------- */

static json_t *json_spread(const struct report_spread *spread)
{
    return json_pack("{s:f, s:f, s:f}", "median", spread->median, "min", spread->min, "max",
                     spread->max);
}

static json_t *json_summary(const struct report_rounds *rounds)
{
    json_t *object = json_object();
    struct report_spread spread;

    for (uint32_t i = 0; i < rounds->figures; i++)
        if (report_rounds_spread(rounds, i, &spread))
            json_object_set_new(object, rounds->names[i], json_spread(&spread));
    return object;
}

static json_t *json_outcome(const struct report *report, const struct report_target *target)
{
    const struct loop_tally *tally = &target->tally;

    return json_pack("{s:b, s:o, s:o, s:o, s:o, s:o}", "good",
                     (int)report_target_good(report, target), "missing", json_count(tally->missing),
                     "conflicts", json_count(tally->conflicts), "wrong", json_count(tally->wrong),
                     "failed", json_count(tally->failed), "why", json_text(tally->why));
}

static json_t *json_target(const struct report *report, const struct report_target *target,
                           const struct report_rounds *rounds)
{
    const struct target_info *info = &target->info;

    return json_pack("{s:o, s:o, s:I, s:o, s:o, s:o, s:o, s:I, s:o, s:I, s:o, s:o, s:o, s:o, s:o}",
                     "name", json_text(target->target->name), "uri", json_text(target->target->uri),
                     "threads", (json_int_t)target->target->threads, "kind", json_text(info->kind),
                     "transport", json_text(info->transport), "path", json_text(info->path),
                     "version", json_text(info->version), "bucket_bytes",
                     (json_int_t)info->bucket_bytes, "region_bytes", json_count(info->region_bytes),
                     "max_value", (json_int_t)info->max_value, "load",
                     target->loaded ? json_phase(&target->load) : json_null(), "rounds",
                     json_rounds(target), "replay", json_replay(report, target), "summary",
                     json_summary(rounds), "outcome", json_outcome(report, target));
}

/* Adds the ratios of a target to the first. */
static void add_ratios(json_t *array, const struct report *report, uint32_t index,
                       const struct report_rounds *rounds)
{
    const struct options_target *targets = report->options->targets;
    struct report_spread spread;

    for (uint32_t i = 0; i < rounds[index].figures; i++)
        if (report_rounds_ratio(&rounds[index], &rounds[0], i, &spread))
            json_array_append_new(array, json_pack("{s:o, s:o, s:s, s:f, s:f, s:f}", "target",
                                                   json_text(targets[index].name), "to",
                                                   json_text(targets[0].name), "figure",
                                                   rounds[index].names[i], "median", spread.median,
                                                   "min", spread.min, "max", spread.max));
}

static json_t *json_report(const struct report *report, const struct report_rounds *rounds)
{
    json_t *targets = json_array();
    json_t *ratios = json_array();

    for (uint32_t i = 0; i < report->options->target_count; i++) {
        json_array_append_new(targets, json_target(report, &report->targets[i], &rounds[i]));
        if (i > 0)
            add_ratios(ratios, report, i, rounds);
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:o, s:o, s:o, s:o}", "schema", SCHEMA, "program",
                     "kv-bench", "version", okv_version(), "git", report->environment.git,
                     "environment", json_environment(report), "parameters",
                     json_parameters(report->options), "targets", targets, "ratios", ratios);
}

int report_write_json(const struct report *report, FILE *out)
{
    struct report_rounds rounds[OPTIONS_TARGETS_MAX] = {{.values = NULL}};
    json_t *root = NULL;
    int rc = 0;

    for (uint32_t i = 0; i < report->options->target_count && rc == 0; i++)
        rc = report_rounds_init(&rounds[i], &report->targets[i]);
    if (rc == 0)
        root = json_report(report, rounds);
    for (uint32_t i = 0; i < report->options->target_count; i++)
        report_rounds_fini(&rounds[i]);
    if (!root)
        return -1;
    rc = json_dumpf(root, out, JSON_INDENT(1) | JSON_REAL_PRECISION(8));
    json_decref(root);
    return rc == 0 && putc('\n', out) != EOF && fflush(out) == 0 ? 0 : -1;
}
