/*
 * What a thread does next: an operation of the mix on a record of the distribution and, in an
 * open loop, when.
 */
#ifndef OKV_BENCH_LOAD_ORDERS_H
#define OKV_BENCH_LOAD_ORDERS_H

#include <stdbool.h>
#include <stdint.h>

#include "bench/load/inserts.h"
#include "bench/load/loop.h"
#include "bench/load/operation.h"
#include "bench/load/workload.h"

/* What threads share. */
struct orders_plan {
    const struct workload_chooser *chooser; /* not owned */
    struct inserts *inserts;                /* not owned; NULL when the mix has none */
    double shares[OPERATION_MIXED_COUNT];   /* of each operation and those before it, up to 1 */
    double distance_ns;                     /* open loop: mean time between orders of one thread;
                                               0: closed */
    bool even;                              /* at that distance, else as a Poisson process */
};

/* `mix` is percentages, whose sum is 100. */
void orders_plan_mix(struct orders_plan *plan, const double mix[OPERATION_MIXED_COUNT]);

/* One thread's. */
struct orders {
    const struct orders_plan *plan; /* not owned */
    struct workload_random random;
    uint64_t remaining;
    uint64_t start_ns; /* open loop: of the schedule, */
    uint64_t end_ns;   /* and when nothing more is due; 0: never */
    double due_ns;     /* of the next order, after start_ns */
    bool over;         /* all was ordered */
};

/* Begins a run of `count` operations at most. `phase` is where in the first distance an even
 * schedule begins, 0 to 1. */
void orders_begin(struct orders *orders, uint64_t count, uint64_t start_ns, uint64_t end_ns,
                  double phase);

/* A loop_next over struct orders. */
bool orders_next(void *user, struct loop_order *order);

/* Open loop: orders that were due before the end and were not asked for. Exact at even distances,
 * else what is to be expected of the time that was left. */
uint64_t orders_left(const struct orders *orders);

#endif
