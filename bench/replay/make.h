/*
 * Makes traces: requests of a popularity that follows Zipf's law, and of what spoils that for a
 * cache.
 */
#ifndef OKV_BENCH_REPLAY_MAKE_H
#define OKV_BENCH_REPLAY_MAKE_H

#include <stdint.h>
#include <stdio.h>

#include "shared/base/diag.h"

/* Shares are of the requests. */
struct make {
    const char *kind; /* NULL: no trace is to be made */
    uint64_t requests;
    uint64_t items; /* that are popular at one time */
    double theta;   /* of Zipf's law: rank r is asked for in proportion to 1 / r^theta */
    double drift;   /* share before which a new key takes the rank of one that is asked for, */
    double churn;   /* or any rank */
    double once;    /* share that is of keys of their own, asked for once */
    uint64_t scan; /* a sixth of the requests: keys of their own, in runs of this length; 0: none */
    uint64_t loop; /* a third of the requests: so many keys, round and round; 0: none */
    uint64_t key_bytes;   /* 0: keys and values have the sizes of traces without any */
    uint64_t value_bytes; /* mean of the values, whose sizes are lognormal */
    uint64_t seed;
};

/* Reads "KIND[,NAME=VALUE]...": a kind is a set of values, some of which may follow. Returns 0, or
 * OKV_EINVAL. */
int make_parse(const char *text, struct make *make, struct okv_diag *why);
/* Writes the trace. Equal makes give equal traces. Returns 0, OKV_ENOMEM, or OKV_EIO. */
int make_trace(const struct make *make, FILE *out);

#endif
