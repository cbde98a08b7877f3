/* The store against a model, with tables of every shape (tests/support/store_model.h). */
#include "tests/support/test.h"

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
TEST(few_small_buckets)
{
    const struct store_model_params params = {
        .store = {.length = 512u << 10, .bucket_size = 256, .index_percent = 1, .max_value = 9000},
        .keys = 1200,
        .steps = 60000,
        .usual_value = 60,
    };
    struct store_model_seen seen;

    run("few small buckets", &params, &seen);
    assert_true(seen.full > 0 && seen.references > 0 && seen.longest > 1 && seen.expired > 0);
    assert_int_equal(seen.splits, 0);
}

TEST(growth_in_a_roomy_region)
{
    const struct store_model_params params = {
        .store = {.length = 256u << 20, .bucket_size = 512},
        .keys = 4000,
        .steps = 60000,
        .usual_value = 100,
        .roomy = true,
    };
    struct store_model_seen seen;

    run("growth in a roomy region", &params, &seen);
    assert_true(seen.splits > 100 && seen.references > 0 && seen.expired > 0);
}

TEST(growth_until_full)
{
    const struct store_model_params params = {
        .store = {.length = 1u << 20, .bucket_size = 512, .max_value = 8000},
        .keys = 6000,
        .steps = 40000,
        .usual_value = 150,
    };
    struct store_model_seen seen;

    run("growth until full", &params, &seen);
    assert_true(seen.full > 0 && seen.splits > 100);
}

TEST(all_items_inline)
{
    const struct store_model_params params = {
        .store = {.length = 4u << 20, .bucket_size = 1024, .inline_max = UINT32_MAX},
        .keys = 2000,
        .steps = 30000,
        .usual_value = 600,
    };
    struct store_model_seen seen;

    run("all that fits inline", &params, &seen);
    assert_true(seen.splits > 0 && seen.references > 0);
}

TEST(all_items_in_extents)
{
    const struct store_model_params params = {
        .store = {.length = 8u << 20, .bucket_size = 4096, .inline_max = 1},
        .keys = 2000,
        .steps = 30000,
        .usual_value = 300,
    };
    struct store_model_seen seen;

    run("all in extents", &params, &seen);
    assert_true(seen.references > 0);
}

TEST(large_buckets)
{
    const struct store_model_params params = {
        .store = {.length = 4u << 20, .bucket_size = 2048, .extra_reads = 5},
        .keys = 3000,
        .steps = 30000,
        .usual_value = 200,
    };
    struct store_model_seen seen;

    run("large buckets", &params, &seen);
    assert_true(seen.splits > 0);
}

/* Keys that no split separates, as a hostile client might choose. */
TEST(keys_of_one_bucket)
{
    const struct store_model_params params = {
        .store = {.length = 2u << 20, .bucket_size = 256},
        .keys = 700,
        .common_bits = 12,
        .steps = 20000,
        .usual_value = 50,
    };
    struct store_model_seen seen;

    run("keys of one bucket", &params, &seen);
    assert_true(seen.longest > 10 && seen.bucket_full > 0);
}
