#include "tests/support/store_region.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shared/clock.h"
#include "shared/error.h"
#include "shared/hash.h"

void store_region_open(struct store_region *region, uint64_t length, uint32_t bucket_size,
                       uint32_t inline_max)
{
    region->length = length;
    region->base = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region->base != MAP_FAILED);
    const struct okv_store_params params = {
        .base = region->base,
        .length = length,
        .bucket_size = bucket_size,
        .inline_max = inline_max,
        .max_value = STORE_REGION_VALUE_MAX,
        .boot_id = 0x1122334455667788,
        .hash_seed = 42,
    };
    assert_int_equal(okv_store_init(&region->store, &params), 0);
    assert_int_equal(okv_store_bucket_init(&region->work, bucket_size), 0);
}

void store_region_close(struct store_region *region)
{
    okv_store_bucket_fini(&region->work);
    okv_store_fini(&region->store);
    munmap(region->base, region->length);
}

uint64_t store_region_put(struct store_region *region, const char *key, const char *value)
{
    uint64_t version = 0;

    assert_int_equal(okv_store_put(&region->store, &region->work, key, (uint32_t)strlen(key), value,
                                   (uint32_t)strlen(value), &version),
                     0);
    assert_true(version > 0);
    return version;
}

void store_region_key(const struct store_region *region, uint64_t buckets, unsigned *number,
                      char key[24])
{
    uint64_t hash;

    do {
        int length = snprintf(key, 24, "k%u", (*number)++);
        hash = okv_hash_key(key, (size_t)length, region->store.hash_seed);
    } while (okv_hash_bucket(hash, region->store.table.depth) >= buckets);
}

void store_region_expect(struct store_region *region, const void *key, uint32_t key_length,
                         const void *value, uint32_t value_length, uint64_t version)
{
    static _Thread_local uint8_t buffer[STORE_REGION_VALUE_MAX];
    uint32_t length = 0;
    uint64_t found = 0;
    int expected = version ? 0 : OKV_ENOTFOUND;

    assert_int_equal(
        okv_store_get(&region->store, key, key_length, buffer, sizeof buffer, &length, &found),
        expected);
    if (version) {
        assert_int_equal(found, version);
        assert_int_equal(length, value_length);
        assert_memory_equal(buffer, value, length);
    }
    assert_int_equal(store_reader_get(region->base, region->length, key, key_length, buffer,
                                      sizeof buffer, &length, &found),
                     expected);
    if (version) {
        assert_int_equal(found, version);
        assert_int_equal(length, value_length);
        assert_memory_equal(buffer, value, length);
    }
}

void store_region_audit(struct store_region *region, struct store_audit *audit)
{
    struct okv_store_totals *totals = &region->store.totals;

    store_reader_audit(region->base, region->length, audit);
    assert_int_equal(atomic_load(&totals->items), audit->items);
    assert_int_equal(atomic_load(&totals->user_bytes), audit->user_bytes);
    assert_int_equal(atomic_load(&totals->references), audit->references);
    assert_int_equal(atomic_load(&totals->overflow_parts), audit->overflow_parts);
    uint64_t used = okv_heap_used(&region->store.heap);
    assert_true(used >= audit->heap_bytes);
    /* A size class adds at most a quarter, or 15 bytes to the smallest. */
    assert_true(used <= audit->heap_bytes + audit->heap_bytes / 4 +
                            16 * (audit->references + audit->overflow_parts));
}

void store_random_init(struct store_random *random)
{
    const char *seed = getenv("OKV_TEST_SEED");

    random->state = seed ? strtoull(seed, NULL, 0) : okv_clock_ns();
    print_message("seed: OKV_TEST_SEED=%llu\n", (unsigned long long)random->state);
}

/* splitmix64: https://prng.di.unimi.it/splitmix64.c */
uint32_t store_random_below(struct store_random *random, uint32_t limit)
{
    uint64_t z = random->state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return (uint32_t)((z ^ z >> 31) >> 32) % limit;
}
