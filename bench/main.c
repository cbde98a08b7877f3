/* kv-bench(1): load, warm up, measure, report. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/floor.h"
#include "bench/options.h"
#include "bench/report.h"
#include "bench/runner.h"

enum { STATUS_DONE = 0, STATUS_USAGE = 2, STATUS_FAILED = 3 };

static int fail(const char *what, const char *why)
{
    fprintf(stderr, "kv-bench: %s: %s\n", what, why);
    return STATUS_FAILED;
}

/* What to do about a phase that could not be finished. */
static const char *advice(int code)
{
    switch (code) {
    case OKV_EFULL:
        return ": start okv-server with a larger --memory, or give fewer --records";
    case OKV_EVALUESIZE:
        return ": give a smaller --value-size";
    case OKV_ETIMEDOUT:
    case OKV_EUNKNOWN:
    case OKV_EDISCONNECTED:
    case OKV_ESHUTDOWN:
        return ": see that the server runs, then measure again: a run whose connection broke has "
               "no figures";
    default:
        return "";
    }
}

static int fail_phase(const char *what, const struct loop_tally *tally)
{
    fprintf(stderr, "kv-bench: %s: %s%s\n", what, tally->why, advice(tally->code));
    return STATUS_FAILED;
}

static int run_load(struct runner *runner, struct report *report)
{
    int rc = runner_load(runner, &report->load);

    loop_tally_merge(&report->tally, &report->load.tally);
    report->loaded = true;
    return rc == OKV_OK ? STATUS_DONE : fail_phase("load", &report->load.tally);
}

/* Its latencies are left out, but not what it found wrong. */
static int run_warmup(struct runner *runner, struct report *report)
{
    struct phase phase;
    int rc = runner_run(runner, "warm-up", report->options->warmup, 0, &phase);

    loop_tally_merge(&report->tally, &phase.tally);
    return rc == OKV_OK ? STATUS_DONE : fail_phase("warm-up", &phase.tally);
}

static int run_rounds(struct runner *runner, struct report *report)
{
    const struct options *options = report->options;
    char label[32];

    for (uint32_t i = 0; i < options->rounds; i++) {
        struct phase *phase = &report->run[i];
        snprintf(label, sizeof label, "round %u of %u", i + 1, options->rounds);
        int rc = runner_run(runner, label, options->seconds, options->operations, phase);
        loop_tally_merge(&report->tally, &phase->tally);
        if (rc != OKV_OK)
            return fail_phase(label, &phase->tally);
        report->rounds++;
    }
    return STATUS_DONE;
}

static int run_floor(struct runner *runner, struct report *report)
{
    for (uint32_t i = 0; i < report->options->rounds; i++) {
        int rc = floor_round_run(runner, i + 1, &report->floor[i], &report->tally);
        if (rc != OKV_OK)
            return fail_phase("floor", &report->tally);
        report->rounds++;
    }
    return STATUS_DONE;
}

static int measure(struct runner *runner, struct report *report)
{
    const struct options *options = report->options;
    int status = STATUS_DONE;

    if (options->floor)
        report->floor = calloc(options->rounds, sizeof *report->floor);
    else
        report->run = calloc(options->rounds, sizeof *report->run);
    if (!report->floor && !report->run)
        return fail("rounds", "out of memory: give fewer --rounds");

    if (options->load)
        status = run_load(runner, report);
    if (status == STATUS_DONE && options->warmup > 0)
        status = run_warmup(runner, report);
    if (status == STATUS_DONE)
        status = options->floor ? run_floor(runner, report) : run_rounds(runner, report);
    return status;
}

/* Prints what there is; `json` may be NULL. */
static int publish(const struct report *report, FILE *json, int status)
{
    const struct loop_tally *tally = &report->tally;

    report_print(report, json == stdout ? stderr : stdout);
    if (json && report_write_json(report, json) != 0)
        return fail(report->options->json, "cannot write the JSON: see that the disk has room");
    if (status != STATUS_DONE || report_good(report))
        return status;
    if (tally->wrong > 0 || tally->missing > 0)
        return fail("values were wrong or missing",
                    "see the counts above; another client that writes the same keys, or an "
                    "earlier run with another --value-size, has the same effect");
    return fail_phase("operations failed, the first with", tally);
}

int main(int argc, char **argv)
{
    struct options options;
    struct runner runner;
    struct report report = {.options = &options};
    FILE *json = NULL;
    char why[512] = "";
    int status = STATUS_FAILED;

    options_parse(&options, argc, argv);
    environment_read(&report.environment, argc, argv);
    loop_tally_init(&report.tally);
    /* Before the run, whose result would be lost if this failed after it. */
    if (options.json) {
        json = strcmp(options.json, "-") == 0 ? stdout : fopen(options.json, "w");
        if (!json)
            return fail(options.json, strerror(errno));
    }
    int rc = runner_open(&runner, &options, why, sizeof why);
    if (rc != OKV_OK) {
        fprintf(stderr, "kv-bench: cannot reach %s: %s%s\n", options.uri, why,
                options.server_named ? "" : "; for another server give -s URI or set OKV_SERVER");
        status = rc == OKV_EURI ? STATUS_USAGE : STATUS_FAILED;
        goto close_json;
    }
    okv_info(runner.workers[0].handle, &report.info);
    if (options.value_size > report.info.max_value) {
        fprintf(stderr,
                "kv-bench: --value-size %u: the value is larger than the server accepts: give at "
                "most %u\n",
                options.value_size, report.info.max_value);
        goto close_runner;
    }
    status = publish(&report, json, measure(&runner, &report));

    free(report.floor);
    free(report.run);
close_runner:
    runner_close(&runner);
close_json:
    if (json && json != stdout && fclose(json) != 0 && status == STATUS_DONE)
        status = fail(options.json, strerror(errno));
    return status;
}
