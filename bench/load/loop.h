/*
 * Operations over one or more connections of one thread, each timed and every value that
 * comes back checked.
 *
 * Closed: each connection keeps up to `depth` operations under way; the time of one is from
 * its submission to its result. Open: operations are due at moments of their own, whether or
 * not earlier ones have ended, and the time of one is from the moment it was due; what cannot
 * be under way yet waits. So a server that stands still for a while makes all those slow that
 * were due meanwhile, not one of them (no coordinated omission).
 * Or closed with batches of gets, one after the other.
 */
#ifndef OKV_BENCH_LOAD_LOOP_H
#define OKV_BENCH_LOAD_LOOP_H

#include <okv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/load/inserts.h"
#include "bench/load/operation.h"
#include "bench/load/series.h"
#include "bench/load/workload.h"
#include "bench/report/histogram.h"
#include "bench/targets/target.h"

/* What came of it. */
struct loop_tally {
    /* ns, of what succeeded, was a miss or a conflict */
    struct histogram latency[OPERATION_COUNT];
    uint64_t missing;     /* gets that found nothing, those of rmw and cas too */
    uint64_t conflicts;   /* cas that met another version */
    uint64_t wrong;       /* gets that brought another value than was put */
    uint64_t failed;      /* operations that ended with another code */
    uint64_t key_bytes;   /* of the operations that succeeded, */
    uint64_t value_bytes; /* sent and got */
    int code;             /* of the first failure, or what ended the loop */
    char why[320];        /* its sentence */
};

void loop_tally_init(struct loop_tally *tally);
void loop_tally_merge(struct loop_tally *into, const struct loop_tally *from);

/* What to do next. */
struct loop_order {
    enum operation operation;
    uint64_t record;
    uint64_t due_ns; /* open loop: when; of okv_clock_ns(). 0: now */
};

/* Says what to do next; false when there is nothing more. An order that was given is done, unless
 * the loop cannot go on. */
typedef bool loop_next(void *user, struct loop_order *order);

struct loop_config {
    struct target *const *targets; /* the thread's connections; not owned */
    uint32_t target_count;
    atomic_bool *stop;   /* set by a loop that cannot go on, ends all that share it */
    atomic_ulong *done;  /* operations that ended, for progress */
    uint32_t slot_count; /* of each connection */
    uint32_t key_size;
    const struct workload_values *values; /* not owned */
    struct inserts *inserts;              /* hears which have ended; may be NULL */
    bool registered;                      /* values are in registered memory, where there is such */
    uint16_t id;                          /* unlike that of every other loop that puts */
};

struct loop;

/* Returns 0, OKV_ENOMEM, or why the memory cannot be registered. */
int loop_create(const struct loop_config *config, struct loop **out);
/* Close the targets first, which may still use its memory. Accepts NULL. */
void loop_destroy(struct loop *loop);

struct loop_run_config {
    loop_next *next;
    void *user;
    uint32_t depth;       /* of each connection, or of a batch: 1 to slot_count */
    bool batches;         /* gets alone, by get_many */
    uint64_t deadline_ns; /* of okv_clock_ns(), when nothing more is asked of `next`; 0: none */
    struct loop_tally *tally;
    struct series *series; /* may be NULL */
};

/*
 * Goes on until `next` says no more, the deadline has passed or *stop is set, then waits for
 * what is under way. With several connections it never sleeps while something is. Results are added
 * to the tally. Returns 0, or the code that made it impossible to go on, which is also in the
 * tally.
 */
int loop_run(struct loop *loop, const struct loop_run_config *config);

#endif
