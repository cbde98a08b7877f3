/* The floor of a get over shared memory: copies a bucket from a random address and hashes it. */
#ifndef OKV_BENCH_FLOOR_FLOOR_COPY_H
#define OKV_BENCH_FLOOR_FLOOR_COPY_H

#include <stdint.h>

#include "bench/load/histogram.h"
#include "bench/load/workload.h"

struct floor_copy {
    uint8_t *memory; /* the source: shared memory in pages of the usual size */
    uint64_t buckets;
    uint32_t bucket_bytes;
    uint64_t hash; /* of all copies, so that the compiler keeps the work */
};

/* Returns 0, or OKV_ENOMEM. */
int floor_copy_init(struct floor_copy *copy, uint64_t buckets, uint32_t bucket_bytes);
void floor_copy_fini(struct floor_copy *copy); /* accepts one of zeros */

/* Makes `count` copies, and times each unless `latency` is NULL. Returns the total time in ns. */
uint64_t floor_copy_run(struct floor_copy *copy, struct workload_random *random, uint32_t count,
                        struct histogram *latency);

#endif
