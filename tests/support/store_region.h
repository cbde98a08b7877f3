/* A table for tests of the store, with helpers that fail the test. */
#ifndef OKV_TESTS_STORE_REGION_H
#define OKV_TESTS_STORE_REGION_H

#include <stdbool.h>
#include <stdint.h>

#include "server/store/commands.h"
#include "server/store/long_value.h"
#include "server/store/store.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_audit.h"
#include "tests/support/store_reader.h"

/* Divides the steps of long runs, because sanitizers are several times slower. */
#define STORE_TEST_SLOWNESS (OKV_SANITIZED ? 4u : 1u)

struct store_region {
    uint8_t *base;
    uint64_t length;
    struct okv_store store;
    struct okv_store_work work; /* of the thread that opened it */
    struct store_reader reader; /* likewise */
    uint8_t *buffer;            /* of max_value */
    uint64_t empty_used;        /* bytes of the heap that an empty table uses */
};

/* Makes the region and sets base, boot_id and hash_seed. Other fields of `wanted` that are 0 get
 * the store's default; max_value gets 64 KiB. */
void store_region_open(struct store_region *region, const struct okv_store_params *wanted);
void store_region_close(struct store_region *region);

/* The calls of the store with the region's own working memory. `version` may be NULL. */
int store_region_put(struct store_region *region, const void *key, uint32_t key_length,
                     const void *value, uint32_t value_length, uint64_t *version);
int store_region_delete(struct store_region *region, const void *key, uint32_t key_length);

/* As okv_store_append(), in steps of `slice` bytes if it is long. */
int store_region_append(struct store_region *region, const struct okv_store_write *write,
                        uint64_t slice, struct okv_store_outcome *outcome);
/* Makes a complete long value of write->value for a put. False: there is no room. */
bool store_region_make_long(struct store_region *region, const struct okv_store_write *write,
                            struct okv_store_long_value *value);

/* Fails unless store and raw images agree that the key has these bytes and this version;
 * `version` 0: that there is no such key. */
void store_region_expect(struct store_region *region, const void *key, uint32_t key_length,
                         const void *value, uint32_t value_length, uint64_t version);

/* Walks the whole table; fails unless it matches totals and heap. */
void store_region_audit(struct store_region *region, store_audit_visit *visit, void *context,
                        struct store_audit *audit);
/* Fails unless the table is empty and, if `as_made`, the heap is as at the start. */
void store_region_expect_empty(struct store_region *region, bool as_made);

/* The next key "k<number>", from *number on, whose hash ends in `bits` zero bits. */
void store_region_key(const struct store_region *region, unsigned bits, unsigned *number,
                      char key[24]);

/* The bucket of a key, until the next split or merge. */
uint64_t store_region_bucket(const struct store_region *region, const char *key);

/* Random numbers, repeatable by their seed. */
struct store_random {
    uint64_t state;
};
/* Seeded by random_seed(). */
void store_random_init(struct store_random *random);
uint64_t store_random_next(struct store_random *random);
uint32_t store_random_below(struct store_random *random, uint32_t limit);

/* Whether $OKV_LONG asks for a long run. */
bool store_test_is_long(void);

#endif
