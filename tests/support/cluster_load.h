/*
 * Clients of a cluster, each a thread with a handle of its own, that write counters and rising
 * numbers and verify all that they are told. Each has a counter and a key of its own, which the
 * next one reads, too; one counter is for all. Of a write that ended with OKV_EUNKNOWN nobody knows
 * whether it happened; no other error is taken.
 */
#ifndef OKV_TESTS_CLUSTER_LOAD_H
#define OKV_TESTS_CLUSTER_LOAD_H

#include <okv.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CLUSTER_CLIENTS 4

/* Of a counter or a number: as much was acknowledged, and as many more may have happened. */
struct cluster_count {
    uint64_t acknowledged, unknown;
};

struct cluster_client {
    struct cluster_load *load;
    unsigned index;
    pthread_t thread;
    okv *handle;
    struct cluster_count own, shared;
    uint64_t number;         /* of the last put */
    uint64_t told;           /* the least that the own key may have */
    uint64_t version;        /* and its least version */
    uint64_t seen, seen_all; /* the next one's number, and the counter for all */
    uint64_t longest_put_ns, longest_get_ns;
    atomic_uint_fast64_t rounds;
    atomic_bool has_ended;
    char wrong[256]; /* why it ended before it had to; "": nothing */
};

struct cluster_load {
    const char *uri;
    const struct okv_options *options; /* of the handles; may be NULL */
    unsigned running;                  /* threads */
    atomic_bool has_to_stop;
    struct cluster_client clients[CLUSTER_CLIENTS];
};

/* `load` is zero but for `options` before the first time; it may go on after an end. */
void cluster_load_start(struct cluster_load *load, const char *uri);
/* Waits until each client has done all that it does, from after this call on. */
void cluster_load_await(struct cluster_load *load);
/* Ends the threads, if they run. */
void cluster_load_stop(struct cluster_load *load);
/* After a stop. Fails the test if a client saw something wrong, or if a counter has not what was
 * acknowledged. Prints how much that was, and the longest waits of all. Returns how many increments
 * are unknown. */
uint64_t cluster_load_check(struct cluster_load *load, okv *handle);

#endif
