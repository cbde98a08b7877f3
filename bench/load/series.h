/* How a run went second by second: operations, and their latencies. */
#ifndef OKV_BENCH_LOAD_SERIES_H
#define OKV_BENCH_LOAD_SERIES_H

#include <stdint.h>

#include "bench/report/histogram.h"

/* Seconds that are told apart at most. */
#define SERIES_SECONDS_MAX 600

struct series {
    uint64_t start_ns; /* of okv_clock_ns() */
    uint32_t limit;    /* seconds that are told apart; the last one has what comes after */
    uint32_t seconds;  /* with a histogram, from the first on */
    struct histogram *latency[SERIES_SECONDS_MAX]; /* ns, of all operations; NULL: none */
};

/* `limit` of 0 is SERIES_SECONDS_MAX, which it cannot exceed. */
void series_init(struct series *series, uint64_t start_ns, uint32_t limit);
void series_fini(struct series *series);
/* Where what ended at `end_ns` is recorded, and what ends before *until_ns; NULL when there is no
 * memory for that second. */
struct histogram *series_at(struct series *series, uint64_t end_ns, uint64_t *until_ns);
/* Adds a series second by second, each from its own start. */
void series_merge(struct series *into, const struct series *from);

#endif
