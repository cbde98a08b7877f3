/* What was measured, as a table for people and as JSON for programs. */
#ifndef OKV_BENCH_REPORT_H
#define OKV_BENCH_REPORT_H

#include <okv.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "bench/environment.h"
#include "bench/floor.h"
#include "bench/options.h"
#include "bench/runner.h"

struct report {
    const struct options *options;
    struct environment environment;
    struct okv_info info; /* its strings are the first handle's */
    bool loaded;
    struct phase load;
    uint32_t rounds;           /* that were finished */
    struct phase *run;         /* [rounds], or NULL with --floor */
    struct floor_round *floor; /* [rounds], or NULL without */
    struct loop_tally tally;   /* of everything */
};

/* A row of numbers over the rounds. */
struct report_spread {
    double median;
    double min;
    double max;
};

/* The spread of values[0..count), which are sorted; count is not 0. */
struct report_spread report_spread(double *values, uint32_t count);

/* Of one of the numbers in struct floor_figures, by its offset there. */
struct report_spread report_floor_spread(const struct report *report, size_t offset);

/* Whether all that was asked for was done and every value was right. */
bool report_good(const struct report *report);

/* Prints nothing when no round was finished. */
void report_print(const struct report *report, FILE *out);

/* Returns 0, or -1 when it could not be made or written. */
int report_write_json(const struct report *report, FILE *out);

#endif
