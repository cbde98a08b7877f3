/*
 * The store against a model: random operations of every kind on some hundred keys,
 * with the table filling and emptying in turn. After each operation its key is read through
 * the store and from the raw images; from time to time everything is compared.
 * $OKV_TEST_SEED repeats a run; $OKV_LONG=1 makes it 20 times as long.
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
    bool roomy;           /* OKV_EFULL would be a fault */
};

/* What a run came to: a run that never saw a full region tests little. */
struct store_model_seen {
    unsigned full;       /* writes that found no room */
    unsigned references; /* looks at the table that found extents */
    unsigned longest;    /* pages of the longest bucket */
    uint64_t splits, merges, expired;
    uint64_t most_buckets;
};

/* Fails the test when store and model differ, or anything is left after all was deleted. */
void store_model_run(const struct store_model_params *params, struct store_model_seen *seen);

#endif
