/* The state of a loop, for loop.c and loop_results.c. */
#ifndef OKV_BENCH_LOAD_LOOP_STATE_H
#define OKV_BENCH_LOAD_LOOP_STATE_H

#include "bench/load/loop.h"

/* An operation under way. */
struct slot {
    uint64_t start_ns; /* due or submission time; 0: not submitted */
    uint64_t record;
    size_t value_length; /* of a put */
    enum operation operation;
    bool is_number;
    bool writes; /* rmw, cas: in its put */
    char *key;
    char *value; /* of a put, or the buffer of a get */
};

/* A connection and its operations. */
struct connection {
    struct target *target;
    struct slot *slots;
    uint32_t *free_slots; /* a stack of indexes */
    uint32_t free_count;
    uint32_t gathered;            /* commands to submit; their tags are slots */
    struct okv_command *commands; /* gathered, or of a batch */
    struct okv_result got;        /* result of the target's get(), */
    bool has_got;                 /* not collected yet */
    char *memory;                 /* of each slot a value, then a key */
    size_t memory_size;
    okv_registration *registration;
};

struct loop {
    struct loop_config config;
    struct connection *connections; /* [config.target_count] */
    struct okv_result *results;     /* of a batch */
    uint32_t next_connection;       /* index: it gets the next order */
    size_t echo_max;                /* payload limit of an echo */
    uint64_t now_ns;                /* time of the latest results */
    uint64_t counter; /* of the latest put; its high bits make it unique among loops */

    /* of the present run */
    const struct loop_run_config *run;
    struct loop_tally *tally;
    struct histogram *second; /* of the series, for results before */
    uint64_t second_until_ns; /* this time; NULL: none */
    struct loop_order order;  /* the next order, if `held` */
    bool held;
    bool over; /* no more orders */
};

/* Records the first failure and its connection. */
void loop_note_failure(struct loop *loop, const struct connection *connection, int code);
/* Call it when results arrive: sets the time. */
void loop_see_results(struct loop *loop);
/* True while the slot is in a get. */
bool loop_slot_gets(const struct slot *slot);
/* What the record's value follows from, its bytes, and those of the slot's key. */
uint64_t loop_value_number(const struct loop *loop, uint64_t record);
uint32_t loop_value_size(const struct loop *loop, uint64_t record);
size_t loop_key_size(const struct loop *loop, const struct slot *slot);
/* Counts the bytes of a success, and checks the value of a get. */
void loop_check_success(struct loop *loop, const struct slot *slot,
                        const struct okv_result *result);
/* Counts the result of a slot's operation. Returns 0, or a final code: later operations would fail
 * alike. */
int loop_count_result(struct loop *loop, const struct connection *connection,
                      const struct slot *slot, const struct okv_result *result);

#endif
