/* A thread that lets a table grow and shrink, over and over, by items nobody else uses: cycles. */
#ifndef OKV_TESTS_GROWTH_CYCLES_H
#define OKV_TESTS_GROWTH_CYCLES_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct growth_cycles {
    const char *uri;
    uint64_t seed;
    uint64_t begin;       /* number of the first item */
    uint64_t least, most; /* items when a cycle is at its highest */
    bool may_vanish;      /* they may be evicted; a phase ends with the first that is missing */
    pthread_t thread;
    atomic_bool stop;
    atomic_bool one_is_over; /* a whole cycle is over, or the thread failed */
    uint64_t whole;          /* cycles that are over */
    int failure;             /* bulk_run()'s or okv_open()'s; OKV_ENOTFOUND: an item was lost */
    uint64_t culprit;
};

/* False: no thread. The caller has set uri, seed, begin, least and most. */
bool growth_cycles_start(struct growth_cycles *cycles);
/* Ends it, in the middle of a cycle as well, and waits for that. */
void growth_cycles_stop(struct growth_cycles *cycles);

#endif
