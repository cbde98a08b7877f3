/* Results, as a table for people and as files for programs (docs/benchmark-json.md). */
#ifndef OKV_BENCH_REPORT_REPORT_H
#define OKV_BENCH_REPORT_REPORT_H

#include <okv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/floor/floor.h"
#include "bench/load/runner.h"
#include "bench/options.h"
#include "bench/replay/exact.h"
#include "bench/report/environment.h"

/* Of one target. */
struct report_target {
    const struct options_target *target;
    struct target_info info; /* its strings belong to the first connection */
    bool loaded;
    struct phase load;
    uint32_t rounds;           /* finished ones */
    struct phase *run;         /* [options->rounds]; NULL with --floor or --load-only */
    struct floor_round *floor; /* [options->rounds], or NULL without */
    struct loop_tally tally;   /* of everything */
    uint32_t exact_items;      /* replay: room of the exact policies; 0: not known */
    struct exact_hits exact;   /* what they make of the trace, if it is */
};

struct report {
    const struct options *options;
    struct environment environment;
    struct report_target targets[OPTIONS_TARGETS_MAX];
};

/* A figure over all rounds. */
struct report_spread {
    double median;
    double min;
    double max;
};

/* Sorts values[0..count) and returns their spread; count is not 0. */
struct report_spread report_spread(double *values, uint32_t count);

/* True when every operation was done and every value was right. */
bool report_target_good(const struct report *report, const struct report_target *target);

/* Prints the table; nothing without a finished round. With several targets also the ratios of each
 * to the first, by round. */
void report_print(const struct report *report, FILE *out);

/* Prints what a replay has besides, and of several targets side by side. */
void report_replay_print(const struct report *report, const struct report_target *target,
                         FILE *out);
void report_replay_compare(const struct report *report, FILE *out);

/* Each returns 0, or -1 without memory or on a write error. */
int report_write_json(const struct report *report, FILE *out);
int report_write_csv(const struct report *report, FILE *out);
/* One file for each target and operation: PREFIX.TARGET.OPERATION.hgrm. */
int report_write_hdr(const struct report *report, const char *prefix);

/* A field of CSV, quoted if necessary; one histogram. */
void report_csv_text(const char *text, FILE *out);
int report_hdr_text(const struct histogram *latency, FILE *out);

#endif
