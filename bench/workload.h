/*
 * What is asked for: which records, under which keys, with which values.
 *
 * Everything follows from the record's number and a counter, so that a value
 * that comes back can be checked without remembering what was stored.
 */
#ifndef OKV_BENCH_WORKLOAD_H
#define OKV_BENCH_WORKLOAD_H

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

uint64_t workload_random_next(struct workload_random *random);
/* 0 <= result < 1 */
double workload_random_unit(struct workload_random *random);
/* 0 <= result < bound; bound is not 0 */
uint64_t workload_random_below(struct workload_random *random, uint64_t bound);

/* ---- which record ------------------------------------------------------- */

enum workload_distribution { WORKLOAD_UNIFORM, WORKLOAD_ZIPFIAN };

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
    double theta;
    double zeta; /* sum of 1 / i^theta for i from 1 to records */
    double alpha;
    double eta;
    unsigned scatter_bits;
};

/* records >= 1; 0 < theta < 1 for the Zipfian distribution. */
void workload_chooser_init(struct workload_chooser *chooser,
                           enum workload_distribution distribution, uint64_t records, double theta);

/* The record to use next. */
uint64_t workload_chooser_next(const struct workload_chooser *chooser,
                               struct workload_random *random);

/* The rank before it is scattered, 0 the most popular; Zipfian only. */
uint64_t workload_chooser_rank(const struct workload_chooser *chooser,
                               struct workload_random *random);

/* The record of a rank: a permutation of 0 to records - 1. */
uint64_t workload_chooser_scatter(const struct workload_chooser *chooser, uint64_t rank);

/* ---- keys and values ---------------------------------------------------- */

/* Whether `records` different keys of `size` bytes exist. */
bool workload_key_fits(uint64_t records, size_t size);

/* Writes the record's key: its number in hexadecimal, zeros in front. */
void workload_key_write(uint64_t record, char *key, size_t size);

/* Fills a value of at least WORKLOAD_VALUE_MIN bytes: the counter, then bytes
 * that follow from the record, the counter and the size. */
void workload_value_write(uint64_t record, uint64_t counter, char *value, size_t size);

/* Whether these bytes are a value that was written for this record, whole. */
bool workload_value_check(uint64_t record, const char *value, size_t size);

#endif
