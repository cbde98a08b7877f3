/* A runner and its threads, as the files that connect and that run them see both. */
#ifndef OKV_BENCH_LOAD_RUNNER_STATE_H
#define OKV_BENCH_LOAD_RUNNER_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "bench/load/runner.h"
#include "bench/load/schedule.h"
#include "bench/targets/target.h"

struct worker {
    struct runner *runner;
    pthread_t thread;
    struct target **targets; /* [options->connections] */
    uint32_t target_count;   /* open ones */
    struct loop *loop;
    struct schedule schedule;
    uint64_t next_record; /* look, load, removal: the next record, */
    uint64_t end_record;  /* and the end of this thread's share */
    atomic_ulong done;
    /* of the present phase */
    struct loop_run_config run;
    bool has_records;    /* each of its share once; else the mix, */
    uint64_t operations; /* at most */
    double seconds;      /* at most; 0: no limit */
    uint64_t start_ns;
    uint64_t end_ns;
    double cpu_ms;
    struct loop_tally tally;
    struct series series;
    struct okv_counters before;
};

struct runner {
    const struct options *options;
    const struct options_target *target;
    struct workload_chooser chooser;
    struct inserts inserts;
    struct schedule_plan plan;
    struct worker *workers; /* [target->threads] */
    uint32_t opened;        /* workers that have connections and a loop */
    atomic_bool stop;
    bool is_loaded;
    atomic_size_t cursor; /* replay: the next request */
    struct target *watch; /* replay: a connection that asks how many items there are; else NULL */
    struct held held;     /* replay: of the present phase */
    enum operation each;  /* of a phase that visits all records: get, put or delete */
    pthread_mutex_t lock; /* over `running` */
    pthread_cond_t ended;
    uint32_t running;
};

/* The first connection. */
static inline struct target *runner_first_target(struct runner *runner)
{
    return runner->workers[0].targets[0];
}

/* Operations in flight while records are loaded, on each connection. */
uint32_t runner_load_depth(const struct runner *runner);

#endif
