/* What loop.c and loop_results.c share of a loop. */
#ifndef OKV_BENCH_LOAD_LOOP_STATE_H
#define OKV_BENCH_LOAD_LOOP_STATE_H

#include "bench/load/loop.h"

/* An operation under way. */
struct slot {
    uint64_t start_ns; /* when it was due or submitted; 0: not yet */
    uint64_t record;
    size_t value_length; /* of what is put */
    enum operation operation;
    bool writes; /* rmw, cas: it is at its put */
    char *key;
    char *value; /* of a put, or where a get's goes */
};

/* A connection and what is under way on it. */
struct connection {
    struct target *target;
    struct slot *slots;
    uint32_t *free_slots; /* a stack of indexes */
    uint32_t free_count;
    uint32_t gathered;            /* commands that are to be submitted; their tags are the slots */
    struct okv_command *commands; /* gathered, or of a batch */
    struct okv_result got;        /* by the target's get(): to be collected, */
    bool has_got;                 /* if there is one */
    char *memory;                 /* each slot's value and, behind it, its key */
    size_t memory_size;
    okv_registration *registration;
};

struct loop {
    struct loop_config config;
    struct connection *connections; /* [config.target_count] */
    struct okv_result *results;     /* of a batch */
    uint32_t next_connection;       /* the connection that gets the next order */
    size_t echo_max;                /* bytes that an echo may carry */
    uint64_t now_ns;                /* when results came last */
    uint64_t counter;               /* of the value put last; unique among loops by its high bits */

    /* of the run under way */
    const struct loop_run_config *run;
    struct loop_tally *tally;
    struct histogram *second; /* of the run's series, until */
    uint64_t second_until_ns; /* then; NULL: there is none */
    struct loop_order order;  /* what is next, if it is `held` */
    bool held;
    bool over; /* nothing more is to be asked for */
};

/* Remembers the first failure, which was on this connection. */
void loop_note_failure(struct loop *loop, const struct connection *connection, int code);
/* Notes the time of results that have come. */
void loop_see_results(struct loop *loop);
/* Whether what a slot is at is a get. */
bool loop_slot_gets(const struct slot *slot);
/* Counts the bytes of what succeeded, and sees that it brought what it should. */
void loop_check_success(struct loop *loop, const struct slot *slot,
                        const struct okv_result *result);
/* Counts the result of what is in a slot, which has ended. Returns 0 or a code that every later
 * operation would meet too. */
int loop_count_result(struct loop *loop, const struct connection *connection,
                      const struct slot *slot, const struct okv_result *result);

#endif
