/* The floor under a get over shared memory: a bucket is copied from a random place and hashed. */
#ifndef OKV_BENCH_FLOOR_FLOOR_COPY_H
#define OKV_BENCH_FLOOR_FLOOR_COPY_H

#include <stdint.h>

#include "bench/load/workload.h"
#include "bench/report/histogram.h"

struct floor_copy {
    uint8_t *memory; /* what is copied from; as shared memory is, in pages of the usual size */
    uint64_t buckets;
    uint32_t bucket_bytes;
    uint64_t hash; /* of all, so that no work can be left out */
};

/* Returns 0, or OKV_ENOMEM. */
int floor_copy_init(struct floor_copy *copy, uint64_t buckets, uint32_t bucket_bytes);
void floor_copy_fini(struct floor_copy *copy); /* accepts one of zeros */

/* Times `count` of them, each from its beginning to its end, unless `latency` is NULL. Returns the
 * time that all took, in ns. */
uint64_t floor_copy_run(struct floor_copy *copy, struct workload_random *random, uint32_t count,
                        struct histogram *latency);

#endif
