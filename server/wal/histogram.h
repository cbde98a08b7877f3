/* A histogram with a cell for each eighth of a power of two. One thread adds, any thread reads. */
#ifndef OKV_SERVER_WAL_HISTOGRAM_H
#define OKV_SERVER_WAL_HISTOGRAM_H

#include <stdatomic.h>
#include <stdint.h>

#define OKV_WAL_HISTOGRAM_CELLS 496

/* Zeros: no values. */
struct okv_wal_histogram {
    atomic_uint_fast64_t cells[OKV_WAL_HISTOGRAM_CELLS];
    atomic_uint_fast64_t count, sum, max;
};

void okv_wal_histogram_add(struct okv_wal_histogram *histogram, uint64_t value);
/* The number of values below 2^`exponent`, which is 3 to 63. */
uint64_t okv_wal_histogram_below(const struct okv_wal_histogram *histogram, unsigned exponent);
/* The `percent` quantile of the values, rounded up by at most an eighth; 0: there are none. */
uint64_t okv_wal_histogram_quantile(const struct okv_wal_histogram *histogram, unsigned percent);

#endif
