/* How many items a server holds while it is measured, from samples. */
#ifndef OKV_BENCH_LOAD_HELD_H
#define OKV_BENCH_LOAD_HELD_H

#include <stdint.h>

/* Zero it before the first sample. */
struct held {
    double most;
    double first; /* of the samples that `sum` has */
    double sum;
    uint64_t samples;
};

/* Adds a sample; NAN is none. */
void held_add(struct held *held, double items);
/* The mean since the server was full, that is since it first held nearly the most; NAN: no sample.
 * What it held while it filled up would say less than it has room for. */
double held_mean(const struct held *held);

#endif
