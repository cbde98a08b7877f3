/* kv-bench(1): load, warm up, measure, report, clean up. */
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/floor/floor.h"
#include "bench/interrupt.h"
#include "bench/load/room.h"
#include "bench/load/runner.h"
#include "bench/options.h"
#include "bench/replay/exact.h"
#include "bench/report/output.h"
#include "bench/report/report.h"
#include "shared/base/printable.h"
#include "shared/base/standard_files.h"
#include "shared/base/standard_output.h"

enum { STATUS_DONE = 0, STATUS_USAGE = 2, STATUS_FAILED = 3, STATUS_INTERRUPTED = 4 };

#define LABEL_TEXT 320

/* The state of the program: a runner for each target, and the report. */
struct bench {
    struct options options;
    struct report *report;
    struct runner *runners[OPTIONS_TARGETS_MAX];
    struct trace trace;                   /* of --replay */
    bool has_others[OPTIONS_TARGETS_MAX]; /* items of another run were there before: all stay */
};

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "kv-bench: %s: %s\n", what, why);
    return STATUS_FAILED;
}

/* Advice about a phase that failed. */
static const char *advice(int code)
{
    switch (code) {
    case OKV_EFULL:
        return ": start okv-server with a larger --memory, or give fewer --records";
    case OKV_EVALUESIZE:
        return ": give a smaller --value-size";
    case OKV_EUNSUPPORTED:
        return ": leave that out of --mix";
    case OKV_ETIMEDOUT:
    case OKV_EUNKNOWN:
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
        return ": see that the server runs, then measure again: a run whose connection broke has "
               "no results";
    default:
        return "";
    }
}

static int fail_phase(const char *what, const struct loop_tally *tally)
{
    fprintf(stderr, "kv-bench: %s: %s%s\n", what, tally->why, advice(tally->code));
    return STATUS_FAILED;
}

/* "round 1 of 5", with the target's name when there are several. */
static const char *label_of(const struct bench *bench, uint32_t target, const char *what,
                            char text[LABEL_TEXT])
{
    bool several = bench->options.target_count > 1;

    snprintf(text, LABEL_TEXT, "%s%s%s", several ? bench->options.targets[target].name : "",
             several ? ": " : "", what);
    return text;
}

/* ---- phases ------------------------------------------------------------- */

static int status_now(void)
{
    return interrupted() ? STATUS_INTERRUPTED : STATUS_DONE;
}

/* Says what becomes of items that were there. Of any of them a replay makes too many hits. */
static void note_others(struct bench *bench, uint32_t target, const struct phase *look)
{
    bool *has_others = &bench->has_others[target];
    bool is_replay = bench->options.trace != NULL;

    *has_others = *has_others || (is_replay && look->after.items > 0);
    if (!*has_others || (bench->options.keep && !is_replay))
        return;
    fprintf(stderr,
            "kv-bench: %s has items of another run: they stay, and so do those of this one%s\n",
            bench->options.targets[target].uri,
            is_replay ? "; an empty server has another hit ratio" : "");
}

/* Looks for the items of another run, which this one is not to delete. */
static int run_look(struct bench *bench, uint32_t target)
{
    bool *has_others = &bench->has_others[target];
    char label[LABEL_TEXT];
    struct phase phase;
    int status = STATUS_DONE;

    label_of(bench, target, "look for items", label);
    int rc = runner_look(bench->runners[target], has_others, &phase);
    if (rc != OKV_OK)
        status = fail_phase(label, &phase.tally);
    else
        note_others(bench, target, &phase);
    phase_fini(&phase);
    return status == STATUS_DONE ? status_now() : status;
}

static int run_load(struct bench *bench, uint32_t target)
{
    struct report_target *into = &bench->report->targets[target];
    char label[LABEL_TEXT];

    int rc = runner_load(bench->runners[target], &into->load);
    into->loaded = true;
    loop_tally_merge(&into->tally, &into->load.tally);
    if (rc == OKV_OK)
        return status_now();
    return fail_phase(label_of(bench, target, "load", label), &into->load.tally);
}

/* Drops its latencies, keeps its errors. */
static int run_warmup(struct bench *bench, uint32_t target)
{
    struct report_target *into = &bench->report->targets[target];
    char label[LABEL_TEXT];
    struct phase phase;

    label_of(bench, target, "warm-up", label);
    int rc = runner_run(bench->runners[target], label, bench->options.warmup, 0, &phase);
    loop_tally_merge(&into->tally, &phase.tally);
    int status = rc == OKV_OK ? status_now() : fail_phase(label, &phase.tally);
    phase_fini(&phase);
    return status;
}

/* What the exact policies make of the trace, with the room that the server had. */
static int compare_exact(struct bench *bench, struct report_target *into)
{
    double held = held_mean(&into->run[0].held);
    uint32_t items = bench->options.replay_items;

    if (items == 0 && held >= 1)
        items = (uint32_t)(held + 0.5);
    if (items == 0 || interrupted())
        return STATUS_DONE;
    if (exact_count(&bench->trace, items, &into->exact) != OKV_OK)
        return fail("exact policies", "out of memory");
    into->exact_items = items;
    return STATUS_DONE;
}

static int run_replay(struct bench *bench, uint32_t target)
{
    struct report_target *into = &bench->report->targets[target];
    struct phase *phase = &into->run[0];
    char label[LABEL_TEXT];

    label_of(bench, target, "replay", label);
    int rc = runner_replay(bench->runners[target], label, phase);
    loop_tally_merge(&into->tally, &phase->tally);
    if (rc != OKV_OK)
        return fail_phase(label, &phase->tally);
    if (!interrupted())
        into->rounds = 1;
    int status = compare_exact(bench, into);
    return status == STATUS_DONE ? status_now() : status;
}

static int run_round(struct bench *bench, uint32_t target, uint32_t round)
{
    const struct options *options = &bench->options;
    struct report_target *into = &bench->report->targets[target];
    const struct loop_tally *tally = &into->tally;
    char label[LABEL_TEXT];
    char what[64];
    int rc;

    snprintf(what, sizeof what, "round %u of %u", round + 1, options->rounds);
    label_of(bench, target, what, label);
    if (into->floor) {
        rc = floor_round_run(bench->runners[target], round + 1, &into->floor[round], &into->tally);
    } else {
        struct phase *phase = &into->run[round];
        rc =
            runner_run(bench->runners[target], label, options->seconds, options->operations, phase);
        loop_tally_merge(&into->tally, &phase->tally);
        tally = &phase->tally;
    }
    if (rc != OKV_OK)
        return fail_phase(label, tally);
    if (!interrupted())
        into->rounds++;
    return status_now();
}

/* In reverse order every other round, so that no target always follows the same one. */
static int run_rounds(struct bench *bench)
{
    uint32_t count = bench->options.target_count;
    int status = STATUS_DONE;

    for (uint32_t round = 0; status == STATUS_DONE && round < bench->options.rounds; round++) {
        for (uint32_t i = 0; status == STATUS_DONE && i < count; i++)
            status = run_round(bench, round % 2 == 0 ? i : count - 1 - i, round);
    }
    return status;
}

static int run_replays(struct bench *bench)
{
    int status = STATUS_DONE;

    for (uint32_t i = 0; status == STATUS_DONE && i < bench->options.target_count; i++)
        status = run_replay(bench, i);
    return status;
}

static int measure(struct bench *bench)
{
    const struct options *options = &bench->options;
    bool stores = !options->no_load && !options->trace;
    int status = STATUS_DONE;

    /* All of them before any load: two may be one server. */
    for (uint32_t i = 0; status == STATUS_DONE && !options->no_load && i < options->target_count;
         i++)
        if (options->targets[i].load)
            status = run_look(bench, i);
    for (uint32_t i = 0; status == STATUS_DONE && stores && i < options->target_count; i++)
        if (options->targets[i].load)
            status = run_load(bench, i);
    if (status != STATUS_DONE || options->load_only)
        return status;
    if (options->trace)
        return run_replays(bench);
    for (uint32_t i = 0; status == STATUS_DONE && options->warmup > 0 && i < options->target_count;
         i++)
        status = run_warmup(bench, i);
    return status == STATUS_DONE ? run_rounds(bench) : status;
}

/* Deletes what was put to a target. */
static int run_removal(struct bench *bench, uint32_t target)
{
    bool is_okv = strcmp(bench->report->targets[target].info.kind, "okv") == 0;
    struct phase phase;
    int status = STATUS_DONE;

    if (runner_remove(bench->runners[target], &phase) != OKV_OK) {
        fprintf(stderr, "kv-bench: items of this run are left on %s: %s%s\n",
                bench->options.targets[target].uri, phase.tally.why,
                is_okv ? "; `okv flush' removes all that is there" : "");
        status = STATUS_FAILED;
    }
    phase_fini(&phase);
    return status;
}

/* Whether the server let nothing be put. */
static bool is_denied(const struct loop_tally *tally)
{
    return tally->code == OKV_EDENIED && tally->latency[OPERATION_PUT].count == 0;
}

/* After a failure, too: most of them leave a full server. */
static int remove_items(struct bench *bench, int status)
{
    for (uint32_t i = 0; !bench->options.keep && i < bench->options.target_count; i++) {
        const struct report_target *target = &bench->report->targets[i];
        int removed = STATUS_DONE;
        bool stored = target->loaded || bench->options.trace;
        if (stored && bench->runners[i] && !bench->has_others[i] && !is_denied(&target->tally))
            removed = run_removal(bench, i);
        if (status == STATUS_DONE)
            status = removed;
    }
    return status;
}

/* ---- before and after --------------------------------------------------- */

/* Checks before the run: results that cannot be written would be lost. */
static int check_output(const char *name)
{
    int error = name ? output_check(name) : 0;

    return error ? fail(name, strerror(error)) : STATUS_DONE;
}

static int write_output(const struct report *report, const char *name,
                        int (*write)(const struct report *report, FILE *out))
{
    struct output output;
    char *kept, why[PATH_MAX + 128];

    if (!name)
        return STATUS_DONE;
    int error = output_begin(&output, name);
    if (error)
        return fail(name, strerror(error));
    errno = 0;
    int rc = write(report, output.file);
    int cause = rc == 0 ? 0 : errno; /* a stream does not keep it */
    error = output_end(&output, rc == 0, &kept);
    if (cause)
        error = cause;
    if (rc == 0 && !error)
        return STATUS_DONE;
    if (kept)
        snprintf(why, sizeof why, "cannot be replaced (%s): what was to be there is in %s",
                 strerror(error), kept);
    else
        snprintf(why, sizeof why, "cannot be written%s%s: see that the disk has room",
                 error ? ": " : "", error ? strerror(error) : "");
    free(kept);
    return fail(name, why);
}

/* Allocates the rounds of a target. */
static int make_room(struct bench *bench, struct report_target *target)
{
    const struct options *options = &bench->options;

    loop_tally_init(&target->tally);
    if (options->load_only)
        return STATUS_DONE;
    if (options->floor && strcmp(target->info.kind, "okv") == 0)
        target->floor = calloc(options->rounds, sizeof *target->floor);
    else
        target->run = calloc(options->rounds, sizeof *target->run);
    return target->floor || target->run ? STATUS_DONE
                                        : fail("rounds", "out of memory: give fewer --rounds");
}

/* Refuses what a load would find out after minutes. */
static int check_sizes(const struct options *options, const struct report_target *target)
{
    const struct room_wanted wanted = {.values = &options->values,
                                       .key_size = options->key_size,
                                       .bucket_bytes = target->info.bucket_bytes,
                                       .records = options->choice.records};
    uint64_t table_bytes = target->info.region_bytes; /* 0: not known */
    char why[512];

    if (options->values.high > target->info.max_value) {
        fprintf(stderr, "kv-bench: %s %u: the value is larger than %s accepts: give at most %u\n",
                options->trace ? "a trace with a value of" : "--value-size", options->values.high,
                target->target->name, target->info.max_value);
        return STATUS_FAILED;
    }
    if (options->no_load || options->trace || !target->target->load || table_bytes == 0 ||
        target->info.evicts || room_check(&wanted, table_bytes, why, sizeof why) == OKV_OK)
        return STATUS_DONE;
    return fail(target->target->name, why);
}

static int open_target(struct bench *bench, uint32_t index)
{
    const struct options *options = &bench->options;
    struct report_target *target = &bench->report->targets[index];
    char why[512] = "";

    target->target = &options->targets[index];
    int rc = runner_create(options, target->target, &bench->runners[index], why, sizeof why);
    if (rc != OKV_OK) {
        /* The sentence names the server, or an option. */
        fprintf(stderr, "kv-bench: %s%s\n", why,
                options->server_named || rc == OKV_EINVAL
                    ? ""
                    : "; for another server give -s URI or set OKV_SERVER");
        return rc == OKV_EURI || rc == OKV_EINVAL ? STATUS_USAGE : STATUS_FAILED;
    }
    runner_info(bench->runners[index], &target->info);
    int status = check_sizes(options, target);
    return status == STATUS_DONE ? make_room(bench, target) : status;
}

static void close_targets(struct bench *bench)
{
    for (uint32_t i = 0; i < bench->options.target_count; i++) {
        struct report_target *target = &bench->report->targets[i];
        runner_destroy(bench->runners[i]);
        phase_fini(&target->load);
        for (uint32_t round = 0; target->run && round < bench->options.rounds; round++)
            phase_fini(&target->run[round]);
        free(target->run);
        free(target->floor);
    }
}

/* Says why a target's outcome is not good. */
static int judge(const struct bench *bench, uint32_t index)
{
    const struct report_target *target = &bench->report->targets[index];
    char label[LABEL_TEXT];

    if (report_target_good(bench->report, target))
        return STATUS_DONE;
    if (target->tally.wrong > 0 || target->tally.missing > 0)
        return fail(label_of(bench, index, "values were wrong or missing", label),
                    "see the counts above; another client that writes the same keys, or an "
                    "earlier run with another --value-size, has the same effect");
    return fail_phase(label_of(bench, index, "operations failed, the first with", label),
                      &target->tally);
}

/* True when any round was finished. */
static bool has_figures(const struct bench *bench, int status)
{
    for (uint32_t i = 0; status != STATUS_DONE && i < bench->options.target_count; i++) {
        if (bench->report->targets[i].rounds > 0)
            return true;
    }
    return status == STATUS_DONE;
}

/* Warns about an open loop whose rate was too high for the server. */
static void note_not_begun(const struct bench *bench)
{
    char label[LABEL_TEXT];
    char what[64];

    for (uint32_t i = 0; i < bench->options.target_count; i++) {
        const struct report_target *target = &bench->report->targets[i];
        for (uint32_t round = 0; target->run && round < target->rounds; round++) {
            snprintf(what, sizeof what, "round %u of %u", round + 1, bench->options.rounds);
            if (target->run[round].not_begun > 0)
                fprintf(stderr,
                        "kv-bench: %s: about %llu operations that were due could not be begun in "
                        "twice the time: give a lower --rate\n",
                        label_of(bench, i, what, label),
                        (unsigned long long)target->run[round].not_begun);
        }
    }
}

static bool is_stdout(const char *name)
{
    return name && strcmp(name, "-") == 0;
}

/* Prints and writes the report. */
static int publish(const struct bench *bench, int status)
{
    const struct options *options = &bench->options;
    const struct report *report = bench->report;

    if (has_figures(bench, status))
        report_print(report, is_stdout(options->json) || is_stdout(options->csv) ? stderr : stdout);
    note_not_begun(bench);
    int json = write_output(report, options->json, report_write_json);
    int csv = write_output(report, options->csv, report_write_csv);
    if (json != STATUS_DONE || csv != STATUS_DONE)
        return STATUS_FAILED;
    if (options->hdr && report_write_hdr(report, options->hdr) != 0)
        return fail(options->hdr, "cannot write the histograms: see that the directory is there "
                                  "and has room");
    for (uint32_t i = 0; status == STATUS_DONE && i < options->target_count; i++)
        status = judge(bench, i);
    return status;
}

/* Its keys take the place of the records. */
static int read_trace(struct bench *bench)
{
    struct options *options = &bench->options;
    const struct trace *trace = &bench->trace;
    char why[TRACE_WHY_TEXT];

    if (!options->replay)
        return STATUS_DONE;
    int rc = trace_read(options->replay, &bench->trace, why);
    if (rc != OKV_OK) {
        fail("--replay", why);
        return rc == OKV_EINVAL ? STATUS_USAGE : STATUS_FAILED;
    }
    options->trace = trace;
    options->choice.records = trace->keys;
    options->key_size = trace->key_most;
    options->values =
        (struct workload_values){WORKLOAD_SIZES_UNIFORM, trace->value_least, trace->value_most};
    return STATUS_DONE;
}

static int run(struct bench *bench)
{
    int status = read_trace(bench);

    if (status == STATUS_DONE)
        status = check_output(bench->options.json);
    if (status == STATUS_DONE)
        status = check_output(bench->options.csv);
    for (uint32_t i = 0; status == STATUS_DONE && i < bench->options.target_count; i++)
        status = open_target(bench, i);
    if (status == STATUS_DONE) {
        status = measure(bench);
        if (status == STATUS_INTERRUPTED && !bench->options.keep)
            fputs("kv-bench: interrupted: deletes what it stored; once more leaves it\n", stderr);
        status = remove_items(bench, publish(bench, status));
    }
    close_targets(bench);
    trace_fini(&bench->trace);
    return status;
}

static int write_trace(const struct make *make)
{
    int rc = make_trace(make, stdout);

    return rc == OKV_OK ? STATUS_DONE : fail("--make-trace", okv_strerror(rc));
}

int main(int argc, char **argv)
{
    static struct okv_printable out, err;
    struct bench bench = {.runners = {NULL}};

    if (okv_standard_files_open()) {
        perror("kv-bench: /dev/null for a descriptor that is closed");
        return STATUS_FAILED;
    }
    okv_standard_output_check_at_exit("kv-bench");
    signal(SIGXFSZ, SIG_IGN); /* results beyond the limit on files fail by their write */
    bench.report = calloc(1, sizeof *bench.report);
    if (!bench.report || !okv_printable_stream(&out, &stdout) ||
        !okv_printable_stream(&err, &stderr))
        return fail("start", "out of memory");
    /* First of all: parsing options modifies the command line. */
    environment_read(&bench.report->environment, argc, argv);
    options_parse(&bench.options, argc, argv);
    bench.report->options = &bench.options;
    interrupt_catch();
    int status = bench.options.make.kind ? write_trace(&bench.options.make) : run(&bench);
    free(bench.report);
    interrupt_end();
    return status;
}
