/*
 * The threads that measure one target: each has connections of its own, and one loop over them.
 * Connections live through all rounds, threads as long as a phase; several runners, one for each
 * target, take turns.
 */
#ifndef OKV_BENCH_LOAD_RUNNER_H
#define OKV_BENCH_LOAD_RUNNER_H

#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/load/loop.h"
#include "bench/load/series.h"
#include "bench/load/workload.h"
#include "bench/options.h"

/* What one phase of all threads together came to. */
struct phase {
    struct loop_tally tally;
    struct okv_counters counters; /* of all connections, during the phase; zero for peers */
    struct series series;
    double seconds;       /* from the first thread's start to the last one's end */
    double client_cpu_ms; /* of the threads that measured */
    double server_cpu_ms; /* of the server meanwhile, or NAN */
    uint64_t not_begun;   /* open loop: about how many were due and not begun in twice the time */
    struct target_stat after; /* the server's figures after it */
};

void phase_fini(struct phase *phase);

struct runner;

/* Connects all threads to one target. Returns 0, or a code with a sentence in `why`. */
int runner_create(const struct options *options, const struct options_target *target,
                  struct runner **out, char *why, size_t why_size);
void runner_destroy(struct runner *runner); /* accepts NULL */

/* Of the first connection. */
void runner_info(struct runner *runner, struct target_info *info);
const struct options *runner_options(const struct runner *runner);

/* Fill *phase, which is to be given to phase_fini() whatever they return. */
/* Puts every record once. Returns 0 or the code that ended it; its sentence is
 * in the phase's tally. */
int runner_load(struct runner *runner, struct phase *phase);

/* Runs the mix for `seconds` (0: no limit) or `operations` of all threads (0: no
 * limit), whichever comes first. In an open loop what is due within `seconds` is done, however
 * late, unless that takes more than twice the time. Returns as runner_load(). */
int runner_run(struct runner *runner, const char *label, double seconds, uint64_t operations,
               struct phase *phase);

/* For the floor, which runs in the calling thread: the first thread's loop, its first connection,
 * random numbers and chooser. */
struct runner_first {
    struct loop *loop;
    struct target *target;
    struct workload_random *random;
    const struct workload_chooser *chooser;
};
void runner_first(struct runner *runner, struct runner_first *first);

/* Field by field: into += after - before. */
void runner_counters_add(struct okv_counters *into, const struct okv_counters *after,
                         const struct okv_counters *before);

#endif
