/* A small table for tests of the store, with helpers that fail the test. */
#ifndef OKV_TESTS_STORE_REGION_H
#define OKV_TESTS_STORE_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store.h"
#include "tests/support/store_reader.h"

#define STORE_REGION_VALUE_MAX 16000u

struct store_region {
    uint8_t *base;
    uint64_t length;
    struct okv_store store;
    struct okv_store_bucket work;
};

void store_region_open(struct store_region *region, uint64_t length, uint32_t bucket_size,
                       uint32_t inline_max);
void store_region_close(struct store_region *region);

/* Puts a text under a text; returns the version. */
uint64_t store_region_put(struct store_region *region, const char *key, const char *value);
/* The next text of the form "k<number>", from *number on, whose bucket is below `buckets`. */
void store_region_key(const struct store_region *region, uint64_t buckets, unsigned *number,
                      char key[24]);

/* Fails unless store and raw images agree that the key has these bytes and this
 * version; `version` 0: that it is not there. */
void store_region_expect(struct store_region *region, const void *key, uint32_t key_length,
                         const void *value, uint32_t value_length, uint64_t version);
/* Walks the whole table; fails unless the store's totals are what is there. */
void store_region_audit(struct store_region *region, struct store_audit *audit);

/* Numbers that repeat with the same seed. */
struct store_random {
    uint64_t state;
};
/* Seeded by $OKV_TEST_SEED or the clock; prints the seed. */
void store_random_init(struct store_random *random);
uint32_t store_random_below(struct store_random *random, uint32_t limit);

#endif
