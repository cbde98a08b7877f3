/* The table for people. */
#include "bench/report/report.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

#include "bench/report/report_figures.h"
#include "bench/report/report_summary.h"
#include "bench/report/report_text.h"
#include "shared/base/size.h"

#define COUNTER(target, name) report_counter(target, offsetof(struct okv_counters, name))
/* So many that are busy are worth a word. */
#define BUSY_CPUS 0.5

/* The median; with several rounds also the least and the greatest. */
static void print_spread(const struct report_spread *spread, uint32_t rounds, FILE *out)
{
    char median[REPORT_NUMBER_TEXT], min[REPORT_NUMBER_TEXT], max[REPORT_NUMBER_TEXT];

    fprintf(out, "%10s", report_number_text(spread->median, median));
    if (rounds > 1)
        fprintf(out, "   (%s to %s)", report_number_text(spread->min, min),
                report_number_text(spread->max, max));
}

/* ---- what was measured --------------------------------------------------- */

static void print_mix(const struct options *options, FILE *out)
{
    const char *comma = "";

    for (int i = 0; i < OPERATION_MIXED_COUNT; i++) {
        if (options->mix[i] > 0) {
            fprintf(out, "%s%g %% %s", comma, options->mix[i], operation_name((enum operation)i));
            comma = ", ";
        }
    }
}

static void print_choice(const struct options *options, FILE *out)
{
    const struct workload_choice *choice = &options->choice;

    fprintf(out, "; %s", workload_distributions[choice->distribution]);
    if (choice->distribution == WORKLOAD_ZIPFIAN || choice->distribution == WORKLOAD_LATEST)
        fprintf(out, " %g", choice->theta);
    if (choice->distribution == WORKLOAD_HOTSPOT)
        fprintf(out, ", %g %% of the operations to %g %% of the records",
                choice->hot_operations * 100, choice->hot_records * 100);
}

static void print_trace(const struct options *options, FILE *out)
{
    const struct trace *trace = options->trace;

    fprintf(out, "items    %u of %u to %u + %u to %u bytes\n", trace->keys, trace->key_least,
            trace->key_most, trace->value_least, trace->value_most);
    fprintf(out, "asked    %zu requests of the trace %s, a put after each miss\n", trace->count,
            options->replay);
}

static void print_asked(const struct options *options, FILE *out)
{
    const struct workload_values *values = &options->values;

    fprintf(out, "items    %llu of %u + ", (unsigned long long)options->choice.records,
            options->key_size);
    if (values->sizes == WORKLOAD_SIZES_FIXED)
        fprintf(out, "%u bytes\n", values->high);
    else if (values->sizes == WORKLOAD_SIZES_UNIFORM)
        fprintf(out, "%u to %u bytes\n", values->low, values->high);
    else
        fprintf(out, "up to %u bytes, %s\n", values->high, workload_sizes_name(values->sizes));
    if (options->load_only)
        return;
    fputs("asked    ", out);
    if (options->floor)
        fputs("gets and puts, and the floor under them", out);
    else if (options->workload)
        fprintf(out, "workload %c: ", options->workload);
    if (!options->floor)
        print_mix(options, out);
    print_choice(options, out);
    putc('\n', out);
}

static void print_way(const struct options *options, FILE *out)
{
    uint32_t connections = options->threads[0] * options->connections;

    if (options->threads_count == 1) {
        fprintf(out, "driven   by %u connection%s in %u thread%s, ", connections,
                connections > 1 ? "s" : "", options->threads[0],
                options->threads[0] > 1 ? "s" : "");
    } else {
        fputs("driven   by ", out);
        for (uint32_t i = 0; i < options->threads_count; i++)
            fprintf(out, "%s%u", i > 0 ? " or " : "", options->threads[i]);
        fprintf(out, " threads of %u connection%s each, ", options->connections,
                options->connections > 1 ? "s" : "");
    }
    if (options->get_many > 0)
        fprintf(out, "gets in batches of %u", options->get_many);
    if (options->get_many > 0 && options->floor)
        fputs(", puts at ", out);
    if (options->get_many == 0 || options->floor)
        fprintf(out, "depth %u", options->depth);
    if (options->rate > 0)
        fprintf(out, ", open loop: %g operations/s%s", (double)options->rate,
                options->even ? " at even distances" : "");
    if (options->trace) {
        putc('\n', out);
        return;
    }
    fprintf(out, "; %u round%s of ", options->rounds, options->rounds > 1 ? "s" : "");
    if (options->seconds > 0)
        fprintf(out, "%g s", options->seconds);
    if (options->seconds > 0 && options->operations > 0)
        fputs(" or ", out);
    if (options->operations > 0)
        fprintf(out, "%llu operations", (unsigned long long)options->operations);
    putc('\n', out);
}

/* Whether a target wakes a receiver for each operation, which costs more on another processor. */
static bool has_socket(const struct report *report)
{
    for (uint32_t i = 0; i < report->options->target_count; i++) {
        const char *transport = report->targets[i].info.transport;
        if (transport && (strcmp(transport, "tcp") == 0 || strcmp(transport, "unix") == 0 ||
                          strcmp(transport, "ofi") == 0))
            return true;
    }
    return false;
}

/* Of kv-bench: where servers run, only who starts them knows. */
static void print_placement(const struct report *report, FILE *out)
{
    const char *cpus = report->environment.allowed_cpus;

    if (cpus[0] == '\0')
        return;
    if (!strpbrk(cpus, ",-")) {
        fprintf(out, "placed   on CPU %s\n", cpus);
        return;
    }
    fprintf(out, "placed   by the scheduler, on CPUs %s\n", cpus);
    if (has_socket(report))
        fputs("         on one host, which target is faster over sockets can depend on that: "
              "pin by taskset(1)\n",
              out);
}

static void print_head(const struct report *report, FILE *out)
{
    const struct environment *environment = &report->environment;

    fprintf(out, "kv-bench %s%s%s, %s\n", okv_version(), environment->git[0] ? " " : "",
            environment->git, environment->date);
    fprintf(out, "machine  %s%s, %ld CPUs, %s %s\n", environment->cpu,
            environment->emulated     ? " (emulated)"
            : environment->is_virtual ? " (virtual)"
                                      : "",
            environment->cpus, environment->kernel, environment->machine);
    if (environment->busy_cpus >= BUSY_CPUS)
        fprintf(out,
                "busy     %.1f of %ld CPUs were busy before the run: figures are worse, and vary\n",
                environment->busy_cpus, environment->cpus);
    print_placement(report, out);
    if (report->options->trace)
        print_trace(report->options, out);
    else
        print_asked(report->options, out);
    if (!report->options->load_only)
        print_way(report->options, out);
}

/* ---- a target ------------------------------------------------------------ */

static void print_target(const struct report_target *target, FILE *out)
{
    const struct target_info *info = &target->info;
    char region[OKV_SIZE_TEXT];

    fprintf(out, "\n%s\n", target->target->name);
    fprintf(out, "  server        %s%s%s over %s", info->kind,
            info->version && info->version[0] ? " " : "", info->version ? info->version : "",
            info->transport);
    if (info->path && info->path[0])
        fprintf(out, ": %s", info->path);
    putc('\n', out);
    if (info->region_bytes == 0)
        return;
    okv_size_format(info->region_bytes, region, sizeof region);
    fprintf(out, "  table         region %s, buckets of %u bytes\n", region, info->bucket_bytes);
}

static void print_fill(const struct target_stat *stat, FILE *out)
{
    char user[OKV_SIZE_TEXT], memory[OKV_SIZE_TEXT];

    if (!isfinite(stat->items))
        return;
    fprintf(out, "  fill          %.0f items", stat->items);
    if (isfinite(stat->user_bytes)) {
        okv_size_format((uint64_t)stat->user_bytes, user, sizeof user);
        fprintf(out, ", %s of keys and values", user);
    }
    if (isfinite(stat->memory_bytes)) {
        okv_size_format((uint64_t)stat->memory_bytes, memory, sizeof memory);
        fprintf(out, " in %s", memory);
    }
    if (isfinite(stat->user_bytes) && stat->memory_bytes > 0)
        fprintf(out, " (%.0f %%)", 100 * stat->user_bytes / stat->memory_bytes);
    putc('\n', out);
}

static void print_load(const struct report_target *target, FILE *out)
{
    uint64_t operations = report_operations(&target->load.tally);

    fprintf(out, "  load          %llu puts in %.1f s", (unsigned long long)operations,
            target->load.seconds);
    if (target->load.seconds > 0)
        fprintf(out, ": %.0f a second", report_rate(&target->load));
    putc('\n', out);
}

/* A figure that has a line of its own. */
static void print_figure(const struct report_rounds *rounds, uint32_t figure, const char *name,
                         FILE *out)
{
    struct report_spread spread;

    fprintf(out, "  %-32s", name);
    if (report_rounds_spread(rounds, figure, &spread))
        print_spread(&spread, rounds->rounds, out);
    else
        fprintf(out, "%10s", "-");
    putc('\n', out);
}

static void print_latency(const struct report_target *target, const struct report_rounds *rounds,
                          enum operation operation, FILE *out)
{
    char text[REPORT_NUMBER_TEXT];
    struct report_spread spread;
    uint64_t count = 0;

    for (uint32_t i = 0; i < target->rounds; i++)
        count += target->run[i].tally.latency[operation].count;
    if (count == 0)
        return;
    fprintf(out, "  %-8s", operation_name(operation));
    for (int i = 0; i < REPORT_PERCENTILES; i++) {
        bool any = report_rounds_spread(rounds, (uint32_t)REPORT_LATENCY(operation, i), &spread);
        fprintf(out, " %10s", report_number_text(any ? spread.median : NAN, text));
    }
    fprintf(out, " %12llu", (unsigned long long)count);
    if (target->rounds > 1 &&
        report_rounds_spread(rounds, (uint32_t)REPORT_LATENCY(operation, REPORT_P50), &spread)) {
        fprintf(out, "   p50 %s", report_number_text(spread.min, text));
        fprintf(out, " to %s", report_number_text(spread.max, text));
    }
    putc('\n', out);
}

/* Operations that an open loop did not begin: the table has no latencies of them. */
static void print_not_begun(const struct report_target *target, FILE *out)
{
    uint64_t left = 0, begun = 0;

    for (uint32_t i = 0; i < target->rounds; i++) {
        left += target->run[i].not_begun;
        begun += report_operations(&target->run[i].tally);
    }
    if (left > 0)
        fprintf(
            out,
            "  not begun     about %llu operations, %.1f %% of those that were due: see --rate\n",
            (unsigned long long)left, 100 * (double)left / (double)(left + begun));
}

/* Whether bytes leave the host's memory on the way to the target, or could. */
static bool has_wire(const struct target_info *info)
{
    static const char *const without[] = {"local", "unix", "process"};

    for (size_t i = 0; i < sizeof without / sizeof *without; i++)
        if (strcmp(info->transport, without[i]) == 0)
            return false;
    return true;
}

static void print_run(const struct report_target *target, const struct report_rounds *rounds,
                      FILE *out)
{
    fprintf(out, "  %-8s %10s %10s %10s %10s %10s %12s   (us%s)\n", "latency", "p50", "p90", "p99",
            "p99.9", "max", "count", rounds->rounds > 1 ? ", medians of the rounds" : "");
    for (int i = 0; i < OPERATION_COUNT; i++)
        print_latency(target, rounds, (enum operation)i, out);
    print_not_begun(target, out);
    print_figure(rounds, REPORT_RATE, "operations per second", out);
    print_figure(rounds, REPORT_CLIENT_CPU, "client CPU us per operation", out);
    print_figure(rounds, REPORT_SERVER_CPU, "server CPU us per operation", out);
    print_figure(rounds, REPORT_WIRE_BYTES,
                 has_wire(&target->info) ? "bytes on the wire per operation"
                                         : "bytes read or sent per operation",
                 out);
}

/* ---- its floor ----------------------------------------------------------- */

static void print_floor_kind(const struct report_rounds *rounds, enum floor_kind kind, FILE *out)
{
    char text[REPORT_NUMBER_TEXT];
    struct report_spread spread;

    if (!report_rounds_spread(rounds, (uint32_t)REPORT_FLOOR(kind, REPORT_FLOOR_P50), &spread))
        return;
    fprintf(out, "  %-8s", floor_kind_name(kind));
    for (int which = 0; which < 3; which++) {
        bool any = report_rounds_spread(rounds, (uint32_t)REPORT_FLOOR(kind, which), &spread);
        fprintf(out, " %10s", report_number_text(any ? spread.median : NAN, text));
    }
    putc('\n', out);
}

static void print_server_cpu(const struct report_target *target, FILE *out)
{
    double gets_ms = 0, nothing_ms = 0, seconds = 0;
    uint64_t gets = 0;
    bool known = true;

    for (uint32_t i = 0; i < target->rounds; i++) {
        const struct floor_round *round = &target->floor[i];
        known = known && round->cpu_known;
        gets_ms += round->cpu_gets_ms;
        nothing_ms += round->cpu_nothing_ms;
        seconds += round->stretch_seconds;
        gets += round->stretch_gets;
    }
    if (!known) {
        fprintf(out, "  server CPU    not known: its statistics have no cpu_ms\n");
        return;
    }
    fprintf(out,
            "  server CPU    %.0f ms while %llu gets took %.1f s: %.0f ns per get; "
            "%.0f ms in as long of nothing\n",
            gets_ms, (unsigned long long)gets, seconds, gets > 0 ? gets_ms * 1e6 / (double)gets : 0,
            nothing_ms);
}

static void print_floor(const struct report *report, const struct report_target *target,
                        const struct report_rounds *rounds, FILE *out)
{
    const struct options *options = report->options;
    struct report_spread spread;
    char median[REPORT_NUMBER_TEXT], min[REPORT_NUMBER_TEXT], max[REPORT_NUMBER_TEXT];

    fprintf(out, "  a raw READ is of %u bytes, an item has %u\n", target->floor[0].read_bytes,
            options->key_size + options->values.high);
    if (!target->floor[0].read_whole || !target->floor[0].echo_whole)
        fprintf(out, "  %s fewer bytes than an item has: their ratio is none\n",
                target->floor[0].read_whole ? "an echo has" : "a READ and an echo have");
    fprintf(out, "  %-8s %10s %10s %10s   (us%s)\n", "", "p50", "p99", "a second",
            rounds->rounds > 1 ? "; medians of the rounds" : "");
    for (int i = 0; i < FLOOR_KIND_COUNT; i++)
        print_floor_kind(rounds, (enum floor_kind)i, out);
    /* Copies run one at a time. */
    if (options->depth == 1 && options->get_many == 0 &&
        report_rounds_spread(rounds, REPORT_GET_OVER_COPY, &spread))
        print_figure(rounds, REPORT_GET_OVER_COPY, "get / copy and hash, p50", out);
    if (options->get_many == 0)
        print_figure(rounds, REPORT_GET_OVER_READ, "get / READ, p50", out);
    print_figure(rounds, REPORT_GET_RATE_OVER_READ, "get / READ, rate", out);
    /* A greater rate is a lesser time: swap the least and the greatest. */
    if (options->get_many > 0 && report_rounds_spread(rounds, REPORT_GET_RATE_OVER_READ, &spread))
        fprintf(out, "  %-32s%10s   (%s to %s)\n", "time per key / time per READ",
                report_number_text(1 / spread.median, median),
                report_number_text(1 / spread.max, min), report_number_text(1 / spread.min, max));
    print_figure(rounds, REPORT_PUT_OVER_ECHO, "put / echo, p50", out);
    print_server_cpu(target, out);
}

/* ---- what the client counted --------------------------------------------- */

static void print_counts(const struct report_target *target, FILE *out)
{
    const struct loop_tally *tally = &target->tally;
    uint64_t gets = COUNTER(target, gets);
    uint64_t right = COUNTER(target, hints_right);
    uint64_t wrong = COUNTER(target, hints_wrong);

    if (gets > 0) {
        uint64_t reads = COUNTER(target, reads);
        fprintf(out, "  READs         %.4f per get (%llu for %llu)\n", (double)reads / (double)gets,
                (unsigned long long)reads, (unsigned long long)gets);
        fprintf(out,
                "  read again    %llu torn buckets, %llu torn extents; %llu gets fell back on the "
                "server\n",
                (unsigned long long)COUNTER(target, torn_buckets),
                (unsigned long long)COUNTER(target, torn_extents),
                (unsigned long long)COUNTER(target, fallbacks));
    }
    if (right > 0 || wrong > 0)
        fprintf(out,
                "  hints         %.1f %% of gets read their extent with the bucket (%llu), %.1f %% "
                "did for nothing (%llu)\n",
                100 * (double)right / (double)gets, (unsigned long long)right,
                100 * (double)wrong / (double)gets, (unsigned long long)wrong);
    fprintf(out,
            "  values        %llu wrong, %llu missing, %llu conflicts; %llu operations failed\n",
            (unsigned long long)tally->wrong, (unsigned long long)tally->missing,
            (unsigned long long)tally->conflicts, (unsigned long long)tally->failed);
}

/* ---- side by side -------------------------------------------------------- */

static bool is_compared(const struct report_rounds *rounds, uint32_t figure)
{
    if (rounds->figures == REPORT_FLOOR_FIGURES)
        return figure < REPORT_GET_OVER_COPY && figure % 3 != REPORT_FLOOR_P99;
    return figure == REPORT_RATE || figure == REPORT_CLIENT_CPU || figure == REPORT_SERVER_CPU ||
           (figure >= REPORT_LATENCIES &&
            (figure - REPORT_LATENCIES) % REPORT_PERCENTILES == REPORT_P50);
}

static void print_ratios(const struct report *report, const struct report_rounds *rounds, FILE *out)
{
    const struct options_target *targets = report->options->targets;
    struct report_spread spread;

    fprintf(out, "\nratios to %s, round by round: the median%s\n", targets[0].name,
            rounds[0].rounds > 1 ? ", and the least to the most" : "");
    for (uint32_t i = 1; i < report->options->target_count; i++) {
        fprintf(out, "%s\n", targets[i].name);
        for (uint32_t figure = 0; figure < rounds[i].figures; figure++) {
            if (!is_compared(&rounds[i], figure) ||
                !report_rounds_ratio(&rounds[i], &rounds[0], figure, &spread))
                continue;
            fprintf(out, "  %-32s", rounds[i].names[figure]);
            print_spread(&spread, rounds[i].rounds, out);
            putc('\n', out);
        }
    }
}

/* ---- all of it ----------------------------------------------------------- */

static void print_block(const struct report *report, const struct report_target *target,
                        const struct report_rounds *rounds, FILE *out)
{
    const struct phase *last = NULL;

    if (target->loaded)
        last = &target->load;
    if (target->run && target->rounds > 0)
        last = &target->run[target->rounds - 1];
    print_target(target, out);
    if (last)
        print_fill(&last->after, out);
    if (target->loaded)
        print_load(target, out);
    if (target->rounds == 0)
        return;
    if (target->floor)
        print_floor(report, target, rounds, out);
    else
        print_run(target, rounds, out);
    if (report->options->trace)
        report_replay_print(report, target, out);
    else
        print_counts(target, out);
}

void report_print(const struct report *report, FILE *out)
{
    struct report_rounds rounds[OPTIONS_TARGETS_MAX] = {{.values = NULL}};
    uint32_t count = report->options->target_count;
    bool any = false;
    bool all = true;

    for (uint32_t i = 0; i < count; i++) {
        any = any || report->targets[i].rounds > 0 || report->targets[i].loaded;
        all = all && report_rounds_init(&rounds[i], &report->targets[i]) == 0;
    }
    if (any && all) {
        print_head(report, out);
        for (uint32_t i = 0; i < count; i++)
            if (report->targets[i].target)
                print_block(report, &report->targets[i], &rounds[i], out);
        if (count > 1 && rounds[0].rounds > 0)
            print_ratios(report, rounds, out);
        if (rounds[0].rounds > 0)
            report_summary_print(report, rounds, out);
        if (report->options->trace)
            report_replay_compare(report, out);
    }
    for (uint32_t i = 0; i < count; i++)
        report_rounds_fini(&rounds[i]);
}
