/*
 * All that can happen in a small world, breadth first: each state is visited once, and what fails
 * is found by the fewest events that lead there. A state is told by a hash of 64 bits.
 */
#ifndef OKV_TESTS_CLUSTER_SEARCH_H
#define OKV_TESTS_CLUSTER_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/support/cluster_small.h"

struct cluster_search_result {
    uint64_t states, outside; /* of the latter: events that would have left the bounds */
    unsigned depth;           /* the most events that lead to a state */
    bool is_complete;         /* no state within the bounds is left */
    bool has_failed;
    char failure[160];
};

/* Until something fails, or `states_max` are visited. A failure's events go to stderr if
 * `is_told`. */
struct cluster_search_result cluster_search(const struct small_options *options,
                                            uint64_t states_max, bool is_told);

#endif
