/* A thread that lets a table grow and shrink, over and over, by items nobody else uses. */
#ifndef OKV_TESTS_TIDE_H
#define OKV_TESTS_TIDE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct tide {
    const char *uri;
    uint64_t seed;
    uint64_t begin;       /* number of the first item */
    uint64_t least, most; /* items at a high tide */
    pthread_t thread;
    atomic_bool stop;
    atomic_bool turned; /* there was a whole tide, or the thread failed */
    uint64_t tides;     /* whole ones */
    int failure;        /* bulk_run()'s or okv_open()'s; OKV_ENOTFOUND: an item was lost */
    uint64_t culprit;
};

/* False: no thread. The caller has set uri, seed, begin, least and most. */
bool tide_start(struct tide *tide);
/* Ends it, in the middle of a tide as well, and waits for that. */
void tide_stop(struct tide *tide);

#endif
