/* A loop of kv-bench over stubs of targets, and what it is told to do. */
#ifndef OKV_TEST_LOOP_FIXTURE_H
#define OKV_TEST_LOOP_FIXTURE_H

#include <stdint.h>

#include "bench/load/loop.h"
#include "tests/support/stub_target.h"

#define KEY_SIZE 16
#define RECORDS 100
#define SLOTS 256
#define TARGETS 3
#define MS UINT64_C(1000000)

struct fixture {
    struct stub_target *stubs[TARGETS];
    struct target *targets[TARGETS];
    struct workload_values values;
    struct inserts *inserts;
    struct loop *loop;
    struct loop_tally *tally;
    struct series *series;
    atomic_bool stop;
    atomic_ulong done;

    enum operation operation; /* of all orders, */
    uint64_t next;            /* on this record and those after it */
    uint64_t remaining;
    uint64_t distance_ns; /* open loop: orders are due one after the other */
    uint64_t due_ns;
};

/* `targets` connections; values of one size. */
struct fixture *fixture_create(uint32_t targets, uint32_t value_size);
void fixture_destroy(struct fixture *fixture);

/* Runs `count` operations of a kind at a depth. */
int fixture_run(struct fixture *fixture, enum operation operation, uint64_t count, uint32_t depth,
                uint64_t deadline_ns);
/* A loop_next over a fixture. */
bool fixture_next(void *user, struct loop_order *order);
/* Puts every record; the tally is empty again. */
void fixture_load(struct fixture *fixture);
const struct histogram *fixture_latency(const struct fixture *fixture, enum operation operation);

#endif
