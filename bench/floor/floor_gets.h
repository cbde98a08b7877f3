/*
 * Slices of gets for the floor. A raw READ has no key to write and no value to check. So keys are
 * written before a slice and values are checked after it: only the library and a caller's minimum,
 * submitting, polling and reading the clock, are timed.
 */
#ifndef OKV_BENCH_FLOOR_FLOOR_GETS_H
#define OKV_BENCH_FLOOR_FLOOR_GETS_H

#include <okv.h>
#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/loop.h"
#include "bench/load/workload.h"
#include "bench/options.h"

struct floor_gets {
    okv *handle;
    const struct options *options;
    uint32_t slots;                 /* gets prepared at a time */
    uint32_t depth;                 /* gets under way, or of a batch */
    struct floor_get *gets;         /* [slots] */
    struct okv_command *commands;   /* [slots]; tags are indexes */
    struct okv_result *results;     /* [slots] of a batch, or of a poll */
    char *memory;                   /* values, then keys */
    okv_registration *registration; /* of `memory`, if wanted */
};

/* Returns 0, OKV_ENOMEM, or why the memory cannot be registered. */
int floor_gets_init(struct floor_gets *gets, okv *handle, const struct options *options,
                    uint32_t slice);
void floor_gets_fini(struct floor_gets *gets); /* accepts one of zeros */

/* A slice: its source of records, and its results. */
struct floor_gets_slice {
    const struct workload_chooser *chooser;
    struct workload_random *random;
    uint32_t count;
    struct histogram *latency; /* NULL: not compared */
    struct loop_tally *tally;  /* its latencies stay as they are */
    uint64_t total_ns;         /* result: from submission to last result */
};

/* Returns 0 or the handle's failure. */
int floor_gets_run(struct floor_gets *gets, struct floor_gets_slice *slice);

#endif
