/*
 * The store against a model: random operations of every kind on some hundred keys,
 * while the table fills and empties. After each operation its key is read through the store and
 * from the raw images; from time to time the whole table is compared. $OKV_TEST_SEED repeats a run;
 * $OKV_LONG=1 makes it 20 times as long.
 */
#ifndef OKV_TESTS_STORE_MODEL_H
#define OKV_TESTS_STORE_MODEL_H

#include "tests/support/store_region.h"

struct store_model_params {
    struct okv_store_params store;
    unsigned keys;
    unsigned common_bits; /* low bits that the hashes of all keys share */
    unsigned steps;
    uint32_t usual_value; /* most values have fewer bytes than this */
    bool roomy;           /* OKV_EFULL and OKV_EBUCKETFULL would be errors */
};

/* What a run met. A run that never met a full region tests little. */
struct store_model_seen {
    unsigned full;        /* writes that found no room */
    unsigned bucket_full; /* writes that found none in their bucket */
    unsigned references;  /* comparisons that found extents */
    unsigned longest;     /* pages of the longest bucket */
    uint64_t splits, merges, expired;
    uint64_t most_buckets;
};

/* Fails the test if store and model differ, or if anything is left after deleting all. */
void store_model_run(const struct store_model_params *params, struct store_model_seen *seen);

#endif
