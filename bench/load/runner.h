/*
 * The threads that measure one target. Each has its own connections and a loop over them.
 * Connections live through all rounds, threads through one phase. With several targets, each has a
 * runner, and their phases alternate.
 */
#ifndef OKV_BENCH_LOAD_RUNNER_H
#define OKV_BENCH_LOAD_RUNNER_H

#include <okv.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/load/held.h"
#include "bench/load/loop.h"
#include "bench/load/series.h"
#include "bench/load/workload.h"
#include "bench/options.h"

/* The results of one phase, of all threads. */
struct phase {
    struct loop_tally tally;
    struct okv_counters counters; /* of all connections, during the phase; zero for peers */
    struct series series;
    double seconds;       /* from the first thread's start to the last one's end */
    double client_cpu_ms; /* of the threads that measured */
    double server_cpu_ms; /* of the server meanwhile, or NAN */
    uint64_t not_begun; /* open loop: about how many were due but did not begin in twice the time */
    struct target_stat after; /* the server's figures after it */
    struct held held;         /* replay: its items meanwhile */
};

void phase_fini(struct phase *phase);

struct runner;

/* Connects all threads to one target. Returns 0, or a code with a sentence in `why`. */
int runner_create(const struct options *options, const struct options_target *target,
                  struct runner **out, char *why, size_t why_size);
void runner_destroy(struct runner *runner); /* accepts NULL */

/* Describes the first connection. */
void runner_info(struct runner *runner, struct target_info *info);
const struct options *runner_options(const struct runner *runner);

/* Puts every record once. Fills *phase; call phase_fini() in any case. Returns 0 or the code that
 * ended it, with a sentence in the phase's tally. */
int runner_load(struct runner *runner, struct phase *phase);

/* Runs the mix for `seconds` (0: no limit) or `operations` of all threads (0: no limit), whichever
 * comes first. An open loop finishes late operations too, for up to twice the time. As
 * runner_load(). */
int runner_run(struct runner *runner, const char *label, double seconds, uint64_t operations,
               struct phase *phase);

/* Replays options->trace: each request is a get, by the thread that is free next, and a put after a
 * miss. As runner_load(). */
int runner_replay(struct runner *runner, const char *label, struct phase *phase);

/* Looks up the first record: sets *is_there if an earlier run left its records. As runner_load().
 */
int runner_look(struct runner *runner, bool *is_there, struct phase *phase);

/* Deletes all records that the load (complete or not) and the runs put, and all numbers. Ends at
 * the first failure. As runner_load(). */
int runner_remove(struct runner *runner, struct phase *phase);

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
