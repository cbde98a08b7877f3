/* What threads of both_worlds_test share. */
#ifndef OKV_TESTS_BOTH_WORLDS_H
#define OKV_TESTS_BOTH_WORLDS_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/support/numbered_value.h"
#include "tests/support/resp_peer.h"
#include "tests/support/server_process.h"

#define THREADS 8 /* every second one is a client of Redis */
#define REGISTERS 32
#define COUNTERS 4
#define LOCKS 2
#define NUMBERS 2
#define PAIRS 2
#define DEPTH 8 /* commands of a pipeline */
#define SETS 60 /* of a transaction that increments */
#define KEY_SIZE 24
#define NUMBER_SIZE 24

struct shared_register {
    atomic_uint_fast64_t begun, done, seen; /* numbers of values */
};

struct shared_counter {
    atomic_uint_fast64_t begun, seen, unknown;
    atomic_uchar *results; /* [most + 1]: whether it came */
    uint64_t most;
};

struct worlds {
    struct server_process server;
    char directory[32], path[48], listen[64];
    const char *arguments[8];
    uint64_t seed, operations, kills;
    bool only_numbers;   /* nothing but increments of numbers */
    atomic_bool is_over; /* with kills */
    struct shared_register registers[REGISTERS];
    struct shared_counter counters[COUNTERS];
    atomic_bool locks[LOCKS];
    atomic_uint_fast64_t numbers[NUMBERS], unknown_numbers; /* increments */
    atomic_uint_fast64_t pairs;                             /* the last number that was given */
    atomic_uint_fast64_t resp_operations, okv_operations, lost;
};

struct worker {
    struct worlds *worlds;
    pthread_t thread;
    unsigned index;
    uint64_t random;
    okv *handle;
    struct resp_peer peer;
    uint8_t value[NUMBERED_VALUE_MAX];
    uint8_t buffer[NUMBERED_VALUE_MAX];
};

enum kind { WRITE, READ, INCR, COUNT, SET_PAIR, GET_PAIR, KINDS };

/* One that is under way. */
struct operation {
    enum kind kind;
    unsigned index;
    uint64_t number; /* WRITE, SET_PAIR */
    uint64_t floor;  /* nothing below it may be seen */
};

size_t worlds_key_of(const char *what, unsigned index, char key[KEY_SIZE]);

/* Decides on an operation, and notes that it has begun. */
struct operation worlds_begin_operation(struct worker *worker, enum kind kind);
/* A write is done. */
void worlds_end_write(struct worlds *worlds, const struct operation *operation);
/* Each fails the test when what was seen cannot be. `value` NULL: there was none. */
void worlds_check_register(struct worlds *worlds, const struct operation *operation,
                           const uint8_t *value, size_t length);
void worlds_check_counter(struct worlds *worlds, const struct operation *operation, int64_t number);
/* It has the lock, and nobody else may. */
void worlds_enter_lock(struct worker *worker, unsigned index);
void worlds_leave_lock(struct worker *worker, unsigned index);

/* A client of Redis does something: both_worlds_redis.c. */
void worlds_redis_step(struct worker *worker);

#endif
