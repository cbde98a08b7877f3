/* Operations and latencies of a run, second by second. */
#ifndef OKV_BENCH_LOAD_SERIES_H
#define OKV_BENCH_LOAD_SERIES_H

#include <stdint.h>

#include "bench/load/histogram.h"

/* The most seconds with a histogram of their own. */
#define SERIES_SECONDS_MAX 600

struct series {
    uint64_t start_ns; /* of okv_clock_ns() */
    uint32_t limit;    /* the most seconds; the last one has all later results */
    uint32_t seconds;  /* so far */
    struct histogram *latency[SERIES_SECONDS_MAX]; /* ns, of all operations; NULL: none */
};

/* A limit of 0, or above SERIES_SECONDS_MAX, means SERIES_SECONDS_MAX. */
void series_init(struct series *series, uint64_t start_ns, uint32_t limit);
void series_fini(struct series *series);
/* The histogram for results from `end_ns` until *until_ns; NULL without memory for that second. */
struct histogram *series_at(struct series *series, uint64_t end_ns, uint64_t *until_ns);
/* Adds a series second by second, each counted from its own start. */
void series_merge(struct series *into, const struct series *from);

#endif
