/*
 * The store against a model: random puts, gets and deletes on a few buckets of
 * a small region, so that items spill, buckets chain and the region is full
 * again and again. After each step the key is read through the store and from
 * the raw images. $OKV_TEST_SEED repeats a run; $OKV_TEST_STEPS lengthens it.
 */
#ifndef OKV_TESTS_STORE_MODEL_H
#define OKV_TESTS_STORE_MODEL_H

#include "tests/support/store_region.h"

struct store_model_params {
    uint64_t length;
    uint32_t bucket_size;
    uint32_t inline_max;
    uint64_t buckets; /* that the keys are in */
    unsigned shorten; /* divides the number of steps */
};

/* What a run came to: a run that never saw a full region tests little. */
struct store_model_seen {
    unsigned full;    /* puts that found no room */
    unsigned spilled; /* looks at the table that found extents */
    unsigned longest; /* parts of the longest bucket */
};

/* Fails the test when store and model differ, or anything is left after all was deleted. */
void store_model_run(const struct store_model_params *params, struct store_model_seen *seen);

#endif
