/*
 * The workload: which records, and their keys and values.
 *
 * Keys and values are functions of the record's number and a counter, so any value that comes back
 * can be checked without a memory of what was stored.
 */
#ifndef OKV_BENCH_LOAD_WORKLOAD_H
#define OKV_BENCH_LOAD_WORKLOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A value has at least its counter and eight bytes that prove it. */
#define WORKLOAD_VALUE_MIN 16

/* ---- random numbers ----------------------------------------------------- */

/* SplitMix64: one per thread, equal for equal seeds. */
struct workload_random {
    uint64_t state;
};

/* The finaliser of SplitMix64: a permutation of 64 bits. */
static inline uint64_t workload_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t workload_random_next(struct workload_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return workload_mix(random->state);
}

/* 0 <= result < 1 */
static inline double workload_random_unit(struct workload_random *random)
{
    return (double)(workload_random_next(random) >> 11) * 0x1p-53;
}

/* 0 <= result < bound; bound is not 0. Multiply-shift: its bias is below 2^-32 for any number of
 * records that fits memory. */
static inline uint64_t workload_random_below(struct workload_random *random, uint64_t bound)
{
    return (uint64_t)(((unsigned __int128)workload_random_next(random) * bound) >> 64);
}

/* ---- which record ------------------------------------------------------- */

/*
 * WORKLOAD_LATEST: Zipfian over how recently a record was inserted, the newest the most
 * popular (YCSB D). WORKLOAD_HOTSPOT: a share of the operations (hot_operations) goes to
 * a share of the records (hot_records), uniformly within each share.
 */
enum workload_distribution {
    WORKLOAD_UNIFORM,
    WORKLOAD_ZIPFIAN,
    WORKLOAD_LATEST,
    WORKLOAD_HOTSPOT
};

/*
 * A distribution over records 0 to records - 1; shared by threads, read only.
 *
 * Zipfian: rank r (from 0) has a probability proportional to 1 / (r + 1)^theta,
 * by the method of Gray et al., "Quickly Generating Billion-Record Synthetic
 * Databases", SIGMOD 1994, which YCSB uses. As in YCSB, ranks are scattered by
 * hashing, so that popular records are not neighbours; here the hash is a
 * permutation, so that no two ranks share a record.
 */
struct workload_chooser {
    enum workload_distribution distribution;
    uint64_t records;
    double hot_records;    /* hotspot: share of the records, above 0 and below 1, */
    double hot_operations; /* and of the operations that goes to them */
    double theta;
    double zeta; /* sum of 1 / i^theta for i from 1 to records */
    double alpha;
    double eta;
    unsigned scatter_bits;
};

struct workload_choice {
    enum workload_distribution distribution;
    uint64_t records;   /* at least 1 */
    double theta;       /* zipfian, latest: above 0, below 1 */
    double hot_records; /* hotspot: as below */
    double hot_operations;
};

void workload_chooser_init(struct workload_chooser *chooser, const struct workload_choice *choice);

/* The record to use next, when `inserted` (>= records) are there: only the latest distribution
 * reaches those beyond `records`. */
uint64_t workload_chooser_next(const struct workload_chooser *chooser,
                               struct workload_random *random, uint64_t inserted);

/* The rank before it is scattered, 0 the most popular; Zipfian only. */
uint64_t workload_chooser_rank(const struct workload_chooser *chooser,
                               struct workload_random *random);

/* The record of a rank: a permutation of 0 to records - 1. */
uint64_t workload_chooser_scatter(const struct workload_chooser *chooser, uint64_t rank);

/* ---- keys and values ---------------------------------------------------- */

/*
 * How long values are. A record keeps its size: it follows from its number.
 * WORKLOAD_SIZES_TRACE: generalised Pareto (location 0, scale 214.476, shape 0.348238), which
 * Atikoglu et al., "Workload Analysis of a Large-Scale Key-Value Store", SIGMETRICS 2012, fitted
 * to the values of Facebook's ETC pool; within WORKLOAD_VALUE_MIN and `high`.
 */
enum workload_sizes { WORKLOAD_SIZES_FIXED, WORKLOAD_SIZES_UNIFORM, WORKLOAD_SIZES_TRACE };

struct workload_values {
    enum workload_sizes sizes;
    uint32_t low;  /* uniform: from here */
    uint32_t high; /* fixed: all; else the largest */
};

uint32_t workload_value_size(const struct workload_values *values, uint64_t record);

/* Whether `records` different keys of `size` bytes exist. */
bool workload_key_fits(uint64_t records, size_t size);

/* Writes the record's key: its number in hexadecimal, zeros in front. */
void workload_key_write(uint64_t record, char *key, size_t size);
/* The key of a number (OPERATION_INCR), unlike that of any record: 'n' in front. */
void workload_number_key_write(uint64_t record, char *key, size_t size);

/* Fills a value of at least WORKLOAD_VALUE_MIN bytes: the counter, then bytes
 * that follow from the record, the counter and the size. */
void workload_value_write(uint64_t record, uint64_t counter, char *value, size_t size);

/* Whether these bytes are a value that was written for this record, whole. */
bool workload_value_check(uint64_t record, const char *value, size_t size);

/* "zipfian", "trace": as options and reports say it; static. */
/* In the order of enum workload_distribution; ends with NULL. */
extern const char *const workload_distributions[];
const char *workload_sizes_name(enum workload_sizes sizes);

#endif
