/*
 * Latencies in a fixed amount of memory: a log-linear histogram.
 *
 * Each power of two is divided into 128 equal buckets, and a percentile is the
 * middle of its bucket: at most 0.4 % away from the sample it stands for, and
 * exact below 256. The extremes and the mean are exact.
 */
#ifndef OKV_BENCH_LOAD_HISTOGRAM_H
#define OKV_BENCH_LOAD_HISTOGRAM_H

#include <stdbool.h>
#include <stdint.h>

#define HISTOGRAM_SUB_BITS 7
/* Values below 256 have a bucket each; every further power of two has 128. */
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_SUB_BITS + 1) << HISTOGRAM_SUB_BITS)

struct histogram {
    uint64_t count;
    uint64_t min;
    uint64_t max;
    double sum;
    uint64_t buckets[HISTOGRAM_BUCKETS];
};

void histogram_init(struct histogram *histogram);
void histogram_record(struct histogram *histogram, uint64_t value);

/* Adds the samples of `from` to `into`. */
void histogram_merge(struct histogram *into, const struct histogram *from);

/* The least value that at least `percent` (0 to 100) of the samples do not
 * exceed, as exactly as the buckets tell; 0 when there are none. */
uint64_t histogram_percentile(const struct histogram *histogram, double percent);

/* 0 when there are no samples. */
double histogram_mean(const struct histogram *histogram);

/* Some of the samples: how many, and a value that none of them exceeds. */
struct histogram_step {
    uint64_t upper;
    uint64_t count;
};

/* Goes through all samples, from the least to the largest: the bucket at `*bucket` or, when it is
 * empty, the next one that is not; false after the last. Begin with 0. */
bool histogram_next(const struct histogram *histogram, unsigned *bucket,
                    struct histogram_step *step);

#endif
