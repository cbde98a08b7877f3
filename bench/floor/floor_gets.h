/*
 * The gets of a floor's slices. A raw READ has nothing to prepare and nothing to check, so keys are
 * written before a slice and values are checked after it: between the two clocks there are the
 * library and what any caller does, to submit, to poll and to note the time.
 */
#ifndef OKV_BENCH_FLOOR_FLOOR_GETS_H
#define OKV_BENCH_FLOOR_FLOOR_GETS_H

#include <okv.h>
#include <stdint.h>

#include "bench/load/loop.h"
#include "bench/load/workload.h"
#include "bench/options.h"
#include "bench/report/histogram.h"

struct floor_gets {
    okv *handle;
    const struct options *options;
    uint32_t slots;                 /* gets that are prepared at a time */
    uint32_t depth;                 /* of them under way, or in a batch */
    struct floor_get *gets;         /* [slots] */
    struct okv_command *commands;   /* [slots], whose tags are their places */
    struct okv_result *results;     /* [slots] of a batch, or of a poll */
    char *memory;                   /* values, then keys */
    okv_registration *registration; /* of it, if wanted */
};

/* Returns 0, OKV_ENOMEM, or why the memory cannot be registered. */
int floor_gets_init(struct floor_gets *gets, okv *handle, const struct options *options,
                    uint32_t slice);
void floor_gets_fini(struct floor_gets *gets); /* accepts one of zeros */

/* Where the records of a slice come from, and what it came to. */
struct floor_gets_slice {
    const struct workload_chooser *chooser;
    struct workload_random *random;
    uint32_t count;
    struct histogram *latency; /* NULL: not to be compared */
    struct loop_tally *tally;  /* its latencies stay as they are */
    uint64_t total_ns;         /* result: from submissions to last results */
};

/* Returns 0, or the code after which the handle has nothing more to give. */
int floor_gets_run(struct floor_gets *gets, struct floor_gets_slice *slice);

#endif
