/*
 * The loop of one thread: operations over one or more connections. It times each operation and
 * checks every value that comes back.
 *
 * Closed loop: each connection keeps up to `depth` operations under way. A latency runs from
 * submission to result. With batches, one batch of gets follows the other.
 * Open loop: operations are due on a schedule, whether or not earlier ones have ended. A latency
 * runs from the due time, and an operation that cannot start yet waits. So a stalled server makes
 * all operations slow that were due meanwhile, not one of them (no coordinated omission).
 */
#ifndef OKV_BENCH_LOAD_LOOP_H
#define OKV_BENCH_LOAD_LOOP_H

#include <okv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/inserts.h"
#include "bench/load/operation.h"
#include "bench/load/series.h"
#include "bench/load/workload.h"
#include "bench/replay/trace.h"
#include "bench/targets/target.h"

/* Counts and latencies. */
struct loop_tally {
    /* ns, of successes, misses and conflicts */
    struct histogram latency[OPERATION_COUNT];
    uint64_t missing;     /* gets without an item, also of rmw and cas */
    uint64_t conflicts;   /* cas on an outdated version */
    uint64_t wrong;       /* gets with a value that was not put */
    uint64_t refused;     /* puts after a miss, by a full server */
    uint64_t failed;      /* operations with any other code */
    uint64_t key_bytes;   /* of successful operations, */
    uint64_t value_bytes; /* sent and received */
    int code;             /* of the first failure, or of the end of the loop */
    char why[320];        /* its sentence */
};

void loop_tally_init(struct loop_tally *tally);
void loop_tally_merge(struct loop_tally *into, const struct loop_tally *from);

/* The next operation. */
struct loop_order {
    enum operation operation;
    uint64_t record;
    bool is_number;  /* delete: of the number, not of the record */
    uint64_t due_ns; /* open loop: on okv_clock_ns(); 0: now */
};

/* Fills in the next order; false at the end. The loop executes every order unless it fails. */
typedef bool loop_next(void *user, struct loop_order *order);

struct loop_config {
    struct target *const *targets; /* the thread's connections; not owned */
    uint32_t target_count;
    atomic_bool *stop;   /* a loop that fails sets it; all that share it end */
    atomic_ulong *done;  /* operations so far, for progress */
    uint32_t slot_count; /* of each connection */
    uint32_t key_size;
    const struct workload_values *values; /* not owned */
    const struct trace *trace;            /* not owned: records are its keys; NULL: none */
    struct inserts *inserts;              /* told of inserts that end; may be NULL */
    bool registered;                      /* registers the values if the target can */
    uint16_t id;                          /* unique among the loops that put */
};

struct loop;

/* Returns 0, OKV_ENOMEM, or the failure of registering memory. */
int loop_create(const struct loop_config *config, struct loop **out);
/* Close the targets first: they may still use its memory. Accepts NULL. */
void loop_destroy(struct loop *loop);

struct loop_run_config {
    loop_next *next;
    void *user;
    uint32_t depth;       /* of each connection, or of a batch: 1 to slot_count */
    bool batches;         /* gets alone, by get_many */
    bool stores_misses;   /* a get that misses is followed by a put of the record */
    bool fails_once;      /* any failure ends it, not only one that later operations share */
    uint64_t deadline_ns; /* no orders after it; 0: none */
    struct loop_tally *tally;
    struct series *series; /* may be NULL */
};

/*
 * Runs until `next` returns false, the deadline has passed or *stop is set; then waits for the
 * operations under way, but not after a failure: those end as the next run begins. With several
 * connections it never sleeps while operations are under way. Adds to the tally. Returns 0, or the
 * code that ended the loop, also in the tally.
 */
int loop_run(struct loop *loop, const struct loop_run_config *config);

#endif
