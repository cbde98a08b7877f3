/*
 * What exact policies would make of a trace: how many of its requests a cache of a number of items
 * answers that begins empty and stores what it misses.
 */
#ifndef OKV_BENCH_REPLAY_EXACT_H
#define OKV_BENCH_REPLAY_EXACT_H

#include <stdint.h>

#include "bench/replay/trace.h"

struct exact_hits {
    uint64_t lru; /* evicts what was asked for longest ago */
    /* Yang et al., "FIFO Queues are All You Need for Cache Eviction", SOSP 2023: a tenth for new
     * items, those that are hit there go to the others, and so do those that come back soon. */
    uint64_t s3_fifo;
    uint64_t belady; /* the most that is possible: keeps what is asked for soonest */
};

/* `items`: at least 1. Returns 0, or OKV_ENOMEM. */
int exact_count(const struct trace *trace, uint32_t items, struct exact_hits *hits);

#endif
