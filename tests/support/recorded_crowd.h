/* Recorded clients of a cluster, from before its faults until after them, and the check of what
 * they saw: one order of the operations on each key explains all, in which its versions rise.
 * All functions fail the test where something is wrong. */
#ifndef OKV_TESTS_RECORDED_CROWD_H
#define OKV_TESTS_RECORDED_CROWD_H

#include "tests/support/recorded_client.h"

#define RECORDED_CROWD_BEGIN 8u
#define RECORDED_CROWD_MAX 24u

struct recorded_crowd {
    struct recorded_load load;
    struct recorded_client clients[RECORDED_CROWD_MAX];
    unsigned started;
    atomic_bool is_over;
};

/* With RECORDED_CROWD_BEGIN clients; returns when they make progress. */
void recorded_crowd_start(struct recorded_crowd *crowd, const char *uri, uint64_t seed);
void recorded_crowd_add(struct recorded_crowd *crowd);
/* Waits for some operations of all together, acknowledged writes among them. */
void recorded_crowd_await(struct recorded_crowd *crowd);
/* Once, before the check. */
void recorded_crowd_stop(struct recorded_crowd *crowd);
void recorded_crowd_check(struct recorded_crowd *crowd);
/* At any time, also of one that is all zeros. */
void recorded_crowd_fini(struct recorded_crowd *crowd);

#endif
