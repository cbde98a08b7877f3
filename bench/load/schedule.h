/* Generates the operations of a thread: kinds by the mix, records by the distribution, and in an
 * open loop the times at which they are due. Comments call a generated operation an order. */
#ifndef OKV_BENCH_LOAD_SCHEDULE_H
#define OKV_BENCH_LOAD_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/inserts.h"
#include "bench/load/loop.h"
#include "bench/load/operation.h"
#include "bench/load/workload.h"

/* Shared by all threads. */
struct schedule_plan {
    const struct workload_chooser *chooser; /* not owned */
    struct inserts *inserts;                /* not owned; NULL when the mix has none */
    double shares[OPERATION_MIXED_COUNT];   /* cumulative, up to 1 */
    double distance_ns;                     /* open loop: mean time between orders of one thread;
                                               0: closed */
    bool even;                              /* a fixed distance, else a Poisson process */
};

/* `mix`: percentages with a sum of 100. */
void schedule_plan_mix(struct schedule_plan *plan, const double mix[OPERATION_MIXED_COUNT]);

/* State of one thread. */
struct schedule {
    const struct schedule_plan *plan; /* not owned */
    struct workload_random random;
    uint64_t remaining;
    uint64_t start_ns; /* open loop: start of the schedule, */
    uint64_t end_ns;   /* and its end; 0: none */
    double due_ns;     /* of the next order, relative to start_ns */
    bool over;         /* no more orders */
};

/* Begins a run of at most `count` operations. `phase`, 0 to 1: the start of an even schedule within
 * its first distance. */
void schedule_begin(struct schedule *schedule, uint64_t count, uint64_t start_ns, uint64_t end_ns,
                    double phase);

/* A loop_next over struct schedule. */
bool schedule_next(void *user, struct loop_order *order);

/* Open loop: how many orders were due before the end but never begun. Exact for an even schedule,
 * else the expected number. */
uint64_t schedule_left(const struct schedule *schedule);

#endif
