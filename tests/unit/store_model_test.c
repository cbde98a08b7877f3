/* The store against a model, with tables of every shape (tests/support/store_model.h). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "tests/support/store_model.h"

static void run(const char *name, const struct store_model_params *params,
                struct store_model_seen *seen)
{
    store_model_run(params, seen);
    print_message("%s: full %u, longest chain %u, most buckets %llu, splits %llu, merges %llu, "
                  "expired %llu\n",
                  name, seen->full, seen->longest, (unsigned long long)seen->most_buckets,
                  (unsigned long long)seen->splits, (unsigned long long)seen->merges,
                  (unsigned long long)seen->expired);
}

/* An index that cannot grow: buckets overflow, and the region is full again and again. */
static void few_small_buckets(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 512u << 10, .bucket_size = 256, .index_percent = 1, .max_value = 9000},
        .keys = 1200,
        .steps = 60000,
        .usual_value = 60,
    };
    struct store_model_seen seen;

    (void)state;
    run("few small buckets", &params, &seen);
    assert_true(seen.full > 0 && seen.references > 0 && seen.longest > 1 && seen.expired > 0);
    assert_int_equal(seen.splits, 0);
}

static void growth_in_a_roomy_region(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 256u << 20, .bucket_size = 512},
        .keys = 4000,
        .steps = 60000,
        .usual_value = 100,
        .roomy = true,
    };
    struct store_model_seen seen;

    (void)state;
    run("growth in a roomy region", &params, &seen);
    assert_true(seen.splits > 100 && seen.references > 0 && seen.expired > 0);
}

static void growth_until_full(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 1u << 20, .bucket_size = 512, .max_value = 8000},
        .keys = 6000,
        .steps = 40000,
        .usual_value = 150,
    };
    struct store_model_seen seen;

    (void)state;
    run("growth until full", &params, &seen);
    assert_true(seen.full > 0 && seen.splits > 100);
}

static void all_items_inline(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 4u << 20, .bucket_size = 1024, .inline_max = UINT32_MAX},
        .keys = 2000,
        .steps = 30000,
        .usual_value = 600,
    };
    struct store_model_seen seen;

    (void)state;
    run("all that fits inline", &params, &seen);
    assert_true(seen.splits > 0 && seen.references > 0);
}

static void all_items_in_extents(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 8u << 20, .bucket_size = 4096, .inline_max = 1},
        .keys = 2000,
        .steps = 30000,
        .usual_value = 300,
    };
    struct store_model_seen seen;

    (void)state;
    run("all in extents", &params, &seen);
    assert_true(seen.references > 0);
}

static void large_buckets(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 4u << 20, .bucket_size = 2048, .extra_reads = 5},
        .keys = 3000,
        .steps = 30000,
        .usual_value = 200,
    };
    struct store_model_seen seen;

    (void)state;
    run("large buckets", &params, &seen);
    assert_true(seen.splits > 0);
}

/* Keys that no split separates, as a hostile client might choose. */
static void keys_of_one_bucket(void **state)
{
    const struct store_model_params params = {
        .store = {.length = 2u << 20, .bucket_size = 256},
        .keys = 700,
        .common_bits = 12,
        .steps = 20000,
        .usual_value = 50,
    };
    struct store_model_seen seen;

    (void)state;
    run("keys of one bucket", &params, &seen);
    assert_true(seen.longest > 10 && seen.bucket_full > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(few_small_buckets),    cmocka_unit_test(growth_in_a_roomy_region),
        cmocka_unit_test(growth_until_full),    cmocka_unit_test(all_items_inline),
        cmocka_unit_test(all_items_in_extents), cmocka_unit_test(large_buckets),
        cmocka_unit_test(keys_of_one_bucket),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
