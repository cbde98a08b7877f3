/*
 * A closed loop over one handle: keeps up to `depth` operations under way, submits together
 * those that there is room for, times each from its submission to its result, and checks
 * every value that comes back.
 * Or the same with batches of gets, one after the other.
 */
#ifndef OKV_BENCH_LOOP_H
#define OKV_BENCH_LOOP_H

#include <okv.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "bench/histogram.h"

enum loop_op { LOOP_GET, LOOP_PUT, LOOP_PING, LOOP_OP_COUNT };

/* What came of it. */
struct loop_tally {
    struct histogram latency[LOOP_OP_COUNT]; /* ns, of what succeeded */
    uint64_t missing;                        /* gets that found nothing */
    uint64_t wrong;                          /* gets that brought another value than was put */
    uint64_t failed;                         /* operations that ended with another code */
    int code;                                /* of the first of them, or what ended the loop */
    char why[320];                           /* its sentence */
};

void loop_tally_init(struct loop_tally *tally);
void loop_tally_merge(struct loop_tally *into, const struct loop_tally *from);

/* Says what to submit next; false when there is nothing more. */
typedef bool loop_next(void *user, enum loop_op *op, uint64_t *record);

struct loop_slot {
    uint64_t start_ns;
    uint64_t record;
    enum loop_op op;
    char *key;
    char *value; /* of a put, or where a get's goes */
};

struct loop {
    okv *handle;        /* not owned */
    atomic_bool *stop;  /* set by a loop that cannot go on, ends all that share it */
    atomic_ulong *done; /* operations that ended, for progress */
    uint32_t slot_count;
    uint32_t depth; /* how many may be under way, or be a batch: 1 to slot_count; may be changed
                       between runs */
    uint32_t key_size;
    uint32_t value_size;
    uint64_t now_ns;  /* when results came last */
    uint64_t counter; /* of the value put last; unique among loops by its high bits */
    struct loop_slot *slots;
    uint32_t *free_slots; /* a stack of indexes */
    uint32_t free_count;
    uint32_t gathered; /* commands that are to be submitted; their tags are the slots */
    char *memory;
    size_t memory_size;
    okv_registration *registration;
    struct okv_command *commands; /* gathered, or of a batch: slot_count */
    struct okv_result *results;
    struct loop_tally *tally; /* of the run under way */
};

struct loop_config {
    okv *handle;
    atomic_bool *stop;
    atomic_ulong *done;
    uint32_t slot_count;
    uint32_t key_size;
    uint32_t value_size;
    bool registered; /* values are in registered memory */
    uint16_t id;     /* unlike that of every other loop that puts */
};

/* Returns 0, OKV_ENOMEM, or why the memory cannot be registered. */
int loop_init(struct loop *loop, const struct loop_config *config);

/* Frees what loop_init() allocated; close the handle first, which may still use it. */
void loop_fini(struct loop *loop);

/*
 * Submits what `next` says until it says no more, `deadline_ns` (of
 * okv_clock_ns(); 0: none) has passed or *stop is set, then waits for what is
 * under way. Results are added to `tally`. Returns 0, or the code that made it
 * impossible to go on, which is also in the tally.
 */
int loop_run(struct loop *loop, loop_next *next, void *user, uint64_t deadline_ns,
             struct loop_tally *tally);

/*
 * The same for gets alone, in batches of `depth` by okv_get_many(). What is timed is the
 * batch, and in the tally it is one sample for each of its gets.
 */
int loop_run_many(struct loop *loop, loop_next *next, void *user, uint64_t deadline_ns,
                  struct loop_tally *tally);

#endif
