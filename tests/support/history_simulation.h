/*
 * Histories that are linearizable by construction, for tests of the checker: threads
 * carry out random operations on a simulated store, each at one moment between
 * its call and its return. The outcome of some is made UNKNOWN; they take effect in their
 * time, or late, or never.
 */
#ifndef OKV_TESTS_HISTORY_SIMULATION_H
#define OKV_TESTS_HISTORY_SIMULATION_H

#include "tests/support/history.h"

struct history_simulation {
    uint64_t seed;
    uint32_t threads;
    uint32_t keys;
    uint32_t counters;     /* how many of the keys, the last ones, are used with INCR */
    uint64_t operations;   /* all threads' */
    uint32_t duration;     /* of a half of an operation, and of a pause, at most */
    uint32_t version_step; /* versions rise by 1 to this */
    uint32_t unknown_permille;
    uint32_t hot_percent; /* how many of the operations go to the first key alone */
    uint32_t odd_percent; /* of what expects a version: one out of the air */
    bool ambiguous;       /* counters: several deltas, and the same few numbers are put again */
    bool incr_needs_item;
};

/* xorshift64*: `state` is not 0. */
static inline uint64_t history_random(uint64_t *state)
{
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(2685821657736338717);
}

static inline uint64_t history_random_below(uint64_t *state, uint64_t bound)
{
    return (history_random(state) >> 11) % bound;
}

/* False: no memory. */
bool history_simulate(const struct history_simulation *simulation, struct history *out);

#endif
