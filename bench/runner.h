/* The threads of a run: each has its own connection and its own closed loop. */
#ifndef OKV_BENCH_RUNNER_H
#define OKV_BENCH_RUNNER_H

#include <okv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "bench/loop.h"
#include "bench/options.h"
#include "bench/workload.h"

/* What one phase of all threads together came to. */
struct phase {
    struct loop_tally tally;
    struct okv_counters counters; /* of all connections, during the phase */
    double seconds;               /* from the first thread's start to the last one's end */
};

struct runner;

struct runner_worker {
    struct runner *runner;
    pthread_t thread;
    okv *handle;
    struct loop loop;
    struct workload_random random;
    atomic_ulong done;
    loop_next *next;      /* of the phase under way; its input is the worker */
    uint64_t next_record; /* load: what to put next, */
    uint64_t end_record;  /* and where this thread's share ends */
    uint64_t remaining;   /* run: operations left */
    bool batches;         /* run: gets in batches */
    uint64_t start_ns;
    uint64_t end_ns;
    struct loop_tally tally;
    struct okv_counters before;
};

struct runner {
    const struct options *options;
    struct workload_chooser chooser;
    struct runner_worker *workers;
    uint32_t opened; /* workers that have a handle and a loop */
    atomic_bool stop;
    uint64_t deadline_ns; /* of the phase under way */
    pthread_mutex_t lock; /* over `running` */
    pthread_cond_t ended;
    uint32_t running;
};

/* Connects all threads. Returns 0, or a code with a sentence in `why`. */
int runner_open(struct runner *runner, const struct options *options, char *why, size_t why_size);
void runner_close(struct runner *runner);

/* Puts every record once. Returns 0 or the code that ended it; its sentence is
 * in the phase's tally. */
int runner_load(struct runner *runner, struct phase *phase);

/* Runs the mix for `seconds` (0: no limit) or `operations` of all threads (0: no
 * limit), whichever comes first. Returns as runner_load(). */
int runner_run(struct runner *runner, const char *label, double seconds, uint64_t operations,
               struct phase *phase);

/* Field by field: into += after - before. */
void runner_counters_add(struct okv_counters *into, const struct okv_counters *after,
                         const struct okv_counters *before);

#endif
