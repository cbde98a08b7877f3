/*
 * Honest clients of database "one", and what they see: they put and get values that prove
 * themselves, each under keys of its own, and one of them comes anew for every pair of operations.
 */
#ifndef OKV_TESTS_HONEST_H
#define OKV_TESTS_HONEST_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <okv.h>

#include "bench/load/histogram.h"

#define HONEST_CLIENTS 3
#define HONEST_KEYS 64
#define HONEST_LATE_NS UINT64_C(5000000000)

enum honest_kind { HONEST_PUT, HONEST_GET, HONEST_OPEN, HONEST_KINDS };

struct honest_figures {
    struct histogram times[HONEST_KINDS]; /* ns, of those that succeeded */
    uint64_t failed[HONEST_KINDS];
    uint64_t late;  /* of those that succeeded, beyond the library's own deadline */
    uint64_t wrong; /* values that are no right answer */
    char why[256];  /* of the last failure */
};

struct honest_client {
    struct honest *all;
    unsigned index;
    pthread_t thread;
    okv *handle;
    struct honest_figures figures;
    uint64_t number;             /* of the last value */
    uint64_t least[HONEST_KEYS]; /* number of the last acknowledged value; 0: none yet */
    uint64_t most[HONEST_KEYS];  /* of the last value that may be there */
};

struct honest {
    const char *uri;
    struct okv_options options;
    atomic_bool stop;
    struct honest_client clients[HONEST_CLIENTS];
};

/* `options` is borrowed as far as its pointers go. */
void honest_init(struct honest *honest, const char *uri, const struct okv_options *options);
/* Starts the clients; may be called again after honest_end(). */
void honest_begin(struct honest *honest);
/* Ends them and adds what they saw to `*out`. */
void honest_end(struct honest *honest, struct honest_figures *out);

void honest_figures_init(struct honest_figures *figures);

#endif
