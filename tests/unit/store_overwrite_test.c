/* The short way of a put: what it takes, and that it leaves all as it was where it takes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/store/bucket_transaction.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define BUCKET 512
#define LENGTH 100u
#define KEYS 60

static const struct okv_store_params params = {
    .length = 4u << 20, .bucket_size = BUCKET, .extra_reads = 1000};
static uint8_t letters[8192];

/* A table in which all keys are in one bucket. */
struct crowd {
    struct store_region region;
    char keys[KEYS][24];
    uint8_t *before; /* a copy of the region */
};

static int crowd_open(void **state)
{
    struct crowd *crowd = calloc(1, sizeof *crowd);
    unsigned number = 0;

    assert_non_null(crowd);
    memset(letters, 'x', sizeof letters);
    store_region_open(&crowd->region, &params);
    crowd->before = malloc(crowd->region.length);
    assert_non_null(crowd->before);
    for (unsigned i = 0; i < KEYS; i++, number++)
        store_region_key(&crowd->region, 6, &number, crowd->keys[i]);
    *state = crowd;
    return 0;
}

static int crowd_close(void **state)
{
    struct crowd *crowd = *state;

    store_region_close(&crowd->region);
    free(crowd->before);
    free(crowd);
    return 0;
}

static const uint8_t *image_of(const struct crowd *crowd, const char *key)
{
    const struct okv_table *table = &crowd->region.store.table;

    return table->base + okv_table_bucket_offset(table, store_region_bucket(&crowd->region, key));
}

static void put(struct crowd *crowd, unsigned key, uint32_t length, uint64_t ttl_ms)
{
    const struct okv_store_write write = {
        .key = crowd->keys[key],
        .key_length = (uint32_t)strlen(crowd->keys[key]),
        .value = letters,
        .value_length = length,
        .ttl_ms = ttl_ms,
    };
    struct okv_store_outcome outcome;

    assert_int_equal(okv_store_put(&crowd->region.store, &crowd->region.work, &write, &outcome), 0);
}

static bool overwrite(struct crowd *crowd, const void *key, uint32_t key_length, uint32_t length,
                      uint64_t *version)
{
    const struct okv_overwrite put = {key, letters + 1, key_length, length};

    return okv_store_overwrite(&crowd->region.store, &crowd->region.work, &put, version);
}

static void assert_unlocked(struct crowd *crowd, const char *key)
{
    pthread_mutex_t *lock =
        &crowd->region.store.locks[store_region_bucket(&crowd->region, key) % OKV_STORE_LOCKS];

    assert_false(crowd->region.store.one_thread);
    assert_int_equal(pthread_mutex_trylock(lock), 0);
    pthread_mutex_unlock(lock);
}

static void assert_taken(struct crowd *crowd, unsigned key, uint32_t length)
{
    const char *name = crowd->keys[key];
    uint64_t before = okv_bucket_version(image_of(crowd, name));
    uint64_t version = 0;

    assert_true(overwrite(crowd, name, (uint32_t)strlen(name), length, &version));
    assert_int_equal(version, before + 1);
    assert_unlocked(crowd, name);
    store_region_expect(&crowd->region, name, (uint32_t)strlen(name), letters + 1, length, version);
}

static void assert_refused_of(struct crowd *crowd, const void *key, uint32_t key_length,
                              uint32_t length)
{
    uint64_t overwrites = crowd->region.work.overwrites;
    uint64_t version = 77;

    memcpy(crowd->before, crowd->region.base, crowd->region.length);
    assert_false(overwrite(crowd, key, key_length, length, &version));
    assert_memory_equal(crowd->before, crowd->region.base, crowd->region.length);
    assert_int_equal(version, 77);
    assert_int_equal(crowd->region.work.overwrites, overwrites);
    assert_unlocked(crowd, crowd->keys[0]);
}

static void assert_refused(struct crowd *crowd, unsigned key, uint32_t length)
{
    assert_refused_of(crowd, crowd->keys[key], (uint32_t)strlen(crowd->keys[key]), length);
}

/* ---- */

static void small_items_are_overwritten(void **state)
{
    struct crowd *crowd = *state;

    assert_refused(crowd, 0, LENGTH);
    put(crowd, 0, LENGTH, 0);
    put(crowd, 1, 0, 0);
    for (unsigned i = 0; i < 100; i++) {
        assert_taken(crowd, 0, LENGTH);
        assert_taken(crowd, 1, 0);
    }
    assert_refused(crowd, 0, LENGTH - 1);
    assert_refused(crowd, 1, 1);
    assert_refused(crowd, 2, LENGTH);
    assert_refused_of(crowd, letters, 0, LENGTH);
    assert_refused_of(crowd, letters, 256, LENGTH);
    assert_refused_of(crowd, letters, OKV_KEY_MAX + 1, LENGTH);
}

static void other_kinds_are_passed_and_not_overwritten(void **state)
{
    struct crowd *crowd = *state;

    put(crowd, 0, LENGTH, 0);
    put(crowd, 1, sizeof letters - 1, 0);
    assert_taken(crowd, 0, LENGTH);
    assert_refused(crowd, 1, sizeof letters - 1);
    put(crowd, 2, 300, 0); /* its length takes two bytes */
    assert_refused(crowd, 2, 300);
    assert_taken(crowd, 0, LENGTH);
}

static void what_expires_is_let_be_until_it_has(void **state)
{
    struct crowd *crowd = *state;
    struct okv_store *store = &crowd->region.store;
    uint64_t clock_ms = atomic_load(&store->clock_ms);

    put(crowd, 0, LENGTH, 0);
    put(crowd, 1, LENGTH, 50);
    assert_refused(crowd, 1, LENGTH);
    okv_store_set_clock(store, clock_ms + 50, false);
    assert_taken(crowd, 0, LENGTH);
    okv_store_set_clock(store, clock_ms + 51, false);
    assert_refused(crowd, 0, LENGTH);
    put(crowd, 0, LENGTH, 0);
    assert_int_equal(atomic_load(&store->totals.expired), 1);
    assert_taken(crowd, 0, LENGTH);
}

static void an_age_that_grows_takes_another_way(void **state)
{
    struct crowd *crowd = *state;

    put(crowd, 0, LENGTH, 0);
    put(crowd, 1, LENGTH, 0);
    put(crowd, 0, LENGTH, 0); /* the other one's age is 1 */
    for (unsigned age = 2; age <= UINT8_MAX; age++)
        assert_taken(crowd, 0, LENGTH);
    assert_refused(crowd, 0, LENGTH);
    put(crowd, 0, LENGTH, 0);
    assert_taken(crowd, 0, LENGTH);
    assert_refused(crowd, 1, LENGTH); /* its own would get shorter */
}

static void buckets_of_several_parts_take_another_way(void **state)
{
    struct crowd *crowd = *state;

    for (unsigned i = 0; i < KEYS; i++)
        put(crowd, i, 4, 0); /* so short that they stay in the bucket's parts */
    assert_int_not_equal(okv_bucket_chain(image_of(crowd, crowd->keys[0])), 0);
    assert_int_equal(atomic_load(&crowd->region.store.totals.references), 0);
    for (unsigned i = 0; i < KEYS; i++)
        assert_refused(crowd, i, 4);
}

/* Whatever a put is refused for, the short way does not let pass. */
static void no_value_is_longer_than_it_may_be(void **state)
{
    const struct okv_store_params narrow = {
        .length = 4u << 20, .bucket_size = BUCKET, .max_value = 4};
    struct okv_store_write write = {
        .key = "n", .key_length = 1, .value = "9999", .value_length = 4};
    struct store_region region;
    struct okv_store_outcome outcome;

    (void)state;
    store_region_open(&region, &narrow);
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
    write.delta = 1;
    assert_int_equal(okv_store_incr(&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
    store_region_expect(&region, "n", 1, "9999", 4, 1);
    write.delta = -1;
    assert_int_equal(okv_store_incr(&region.store, &region.work, &write, &outcome), 0);
    assert_int_equal(outcome.number, 9998);
    write.value_length = 5;
    assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), OKV_EVALUESIZE);
    store_region_close(&region);
}

int main(void)
{
#define CROWD_TEST(name) cmocka_unit_test_setup_teardown(name, crowd_open, crowd_close)
    const struct CMUnitTest tests[] = {
        CROWD_TEST(small_items_are_overwritten),
        CROWD_TEST(other_kinds_are_passed_and_not_overwritten),
        CROWD_TEST(what_expires_is_let_be_until_it_has),
        CROWD_TEST(an_age_that_grows_takes_another_way),
        CROWD_TEST(buckets_of_several_parts_take_another_way),
        cmocka_unit_test(no_value_is_longer_than_it_may_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
