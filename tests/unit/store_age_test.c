/* The ages at which a cache evicts, as `okv stat` shows them, are those that its items have. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/store/ages.h"
#include "server/store/bucket_image.h"
#include "server/store/change_set.h"
#include "server/store/evict.h"
#include "server/store/expire.h"
#include "server/store/heat.h"
#include "server/store/locking.h"
#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define KEYS 100000u
#define KEY_LENGTH 8u
#define VALUE_MAX 1000u
/* A server that was started long ago. */
#define CLOCK_MS (UINT64_C(30) * 86400 * 1000)

struct load {
    const char *name;
    unsigned keys;     /* that are asked for with a chance of 1/n */
    unsigned value;    /* bytes */
    unsigned drift;    /* requests after which the keys are others by one; 0: they stay */
    unsigned requests; /* with a ms between them */
    unsigned survey;   /* evictions after which the test looks for what is gone */
};

/* What the test knows of a key. */
static struct known {
    uint64_t used_ms; /* or put */
    unsigned survey;  /* the last one that found it */
    uint8_t heat;
    bool is_in;
} known[KEYS];

/* Of new items, and of others. */
struct ages {
    double measured, shown;
    unsigned count;
};

struct run {
    struct store_region region;
    uint64_t now_ms;
    unsigned survey;
    struct ages ages[2];
};

static void note_items(struct run *run, uint64_t number)
{
    struct okv_store *store = &run->region.store;
    struct okv_store_bucket *bucket = &run->region.work.bucket;

    okv_store_lock(store, number);
    assert_int_equal(okv_store_bucket_load(bucket, &store->table, number), 0);
    for (unsigned i = 0; i < bucket->item_count; i++) {
        char key[KEY_LENGTH + 1] = "";
        memcpy(key, bucket->items[i].entry.key, KEY_LENGTH);
        struct known *item = &known[strtoul(key, NULL, 10)];
        item->survey = run->survey;
        item->heat = bucket->items[i].heat;
    }
    okv_store_unlock(store, number);
}

static void note_eviction(struct run *run, struct known *item)
{
    bool is_new = okv_heat_is_new(item->heat);
    struct ages *ages = &run->ages[is_new];

    item->is_in = false;
    ages->measured += (double)(run->now_ms - item->used_ms);
    ages->shown += (double)okv_ages_mean_ms(run->region.store.table.ages, is_new);
    ages->count++;
}

static void survey(struct run *run)
{
    run->survey++;
    for (uint64_t i = 0; i < run->region.store.bucket_count; i++)
        note_items(run, i);
    for (unsigned i = 0; i < KEYS; i++)
        if (known[i].is_in && known[i].survey != run->survey)
            note_eviction(run, &known[i]);
}

/* With a chance of about 1 / n for number n. */
static unsigned draw(struct store_random *random, unsigned keys)
{
    double share = store_random_below(random, UINT32_MAX) / (double)UINT32_MAX;

    return (unsigned)pow(keys, share) % keys;
}

static void get_or_put(struct run *run, unsigned number, uint32_t length)
{
    static const uint8_t value[VALUE_MAX];
    struct store_region *region = &run->region;
    struct known *item = &known[number];
    char key[KEY_LENGTH + 1];
    uint64_t version;
    uint32_t found;

    snprintf(key, sizeof key, "%08u", number);
    int rc = okv_store_get(&region->store, NULL, key, KEY_LENGTH, region->buffer,
                           region->store.max_value, &found, &version);
    item->used_ms = run->now_ms;
    if (rc == 0)
        return;
    assert_int_equal(rc, OKV_ENOTFOUND);
    assert_int_equal(store_region_put(region, key, KEY_LENGTH, value, length, NULL), 0);
    item->is_in = true;
    okv_store_evict(&region->store, &region->work);
}

static void expect_ages(const struct load *load)
{
    static const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = OKV_STORE_EVICT};
    struct run run = {.now_ms = CLOCK_MS};
    struct okv_store_eviction *eviction = &run.region.store.eviction;
    struct store_random random;
    uint64_t evicted = 0;

    memset(known, 0, sizeof known);
    store_random_init(&random);
    store_region_open(&run.region, &params);
    okv_store_set_clock(&run.region.store, CLOCK_MS, false);
    for (unsigned i = 0; i < load->requests; i++) {
        unsigned number = draw(&random, load->keys) + (load->drift ? i / load->drift : 0);
        okv_store_set_clock(&run.region.store, ++run.now_ms, false);
        get_or_put(&run, number * 7919 % KEYS, load->value);
        if (eviction->evicted_new + eviction->evicted_main < evicted + load->survey)
            continue;
        survey(&run);
        evicted = eviction->evicted_new + eviction->evicted_main;
        if (i < load->requests / 2) /* the state is not steady yet */
            memset(run.ages, 0, sizeof run.ages);
    }
    for (unsigned is_new = 0; is_new < 2; is_new++) {
        const struct ages *ages = &run.ages[is_new];
        print_message("%10s, %4s: %u evicted at %.0f ms, shown as %.0f ms\n", load->name,
                      is_new ? "new" : "main", ages->count, ages->measured / ages->count,
                      ages->shown / ages->count);
        assert_true(ages->count > 1000);
        assert_true(fabs(ages->shown - ages->measured) < 0.2 * ages->measured);
    }
    store_region_close(&run.region);
}

TEST(ages_are_those_of_the_items)
{
    expect_ages(&(struct load){"steady", 40000, 1000, 0, 80000, 25});
    expect_ages(&(struct load){"drift", 20000, 1000, 20, 80000, 25});
    /* All of these are evicted in their buckets, and no hand moves. */
    expect_ages(&(struct load){"in buckets", 90000, 32, 0, 1200000, 200});
}

#define PASS 1600u

/* Of an item that is evicted PASS after what happened to it. */
static uint64_t age_after(struct store_region *region, uint64_t hash)
{
    struct okv_store *store = &region->store;

    okv_store_set_clock(store, store->clock_ms + PASS, false);
    okv_ages_note_eviction(store->table.ages, hash, true);
    uint64_t age_ms = okv_ages_mean_ms(store->table.ages, true);
    atomic_store(&store->table.ages->of_new.count, 0);
    atomic_store(&store->table.ages->of_new.fine_ms, 0);
    return age_ms;
}

static void put_for(struct store_region *region, const char *key, uint64_t ttl_ms)
{
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = key, .key_length = 1, .value = "value", .value_length = 5, .ttl_ms = ttl_ms};

    assert_int_equal(okv_store_put(&region->store, &region->work, &write, &outcome), 0);
    okv_store_set_clock(&region->store, region->store.clock_ms + PASS, false);
}

TEST(writes_gets_and_reports_are_uses)
{
    struct store_region region;
    struct okv_store *store = &region.store;
    uint8_t reported[8], value[8];
    uint64_t version;
    uint32_t length;

    store_region_open(&region, &(struct okv_store_params){
                                   .length = REGION, .bucket_size = 512, .full = OKV_STORE_EVICT});
    const uint64_t hash = okv_hash_key("k", 1, store->table.hash_seed);
    put_for(&region, "k", 0);
    assert_int_equal(age_after(&region, hash), 2 * PASS);
    assert_int_equal(store_region_delete(&region, "k", 1), 0);
    put_for(&region, "k", 0);
    assert_int_equal(store_region_put(&region, "k", 1, "VALUE", 5, NULL), 0);
    assert_int_equal(age_after(&region, hash), PASS);
    assert_int_equal(store_region_delete(&region, "k", 1), 0);
    put_for(&region, "k", 0);
    assert_int_equal(okv_store_get(store, NULL, "k", 1, value, sizeof value, &length, &version), 0);
    assert_int_equal(age_after(&region, hash), PASS);
    assert_int_equal(store_region_delete(&region, "k", 1), 0);
    put_for(&region, "k", 0);
    okv_put_u64(reported, hash);
    okv_store_mark(store, reported, 1);
    assert_int_equal(age_after(&region, hash), PASS);
    store_region_close(&region);
}

TEST(deletes_and_expiry_leave_no_age)
{
    struct store_region region;

    store_region_open(&region, &(struct okv_store_params){
                                   .length = REGION, .bucket_size = 512, .full = OKV_STORE_EVICT});
    const uint64_t hash = okv_hash_key("k", 1, region.store.table.hash_seed);
    put_for(&region, "k", 0);
    assert_int_equal(store_region_delete(&region, "k", 1), 0);
    assert_int_equal(age_after(&region, hash), 0);
    put_for(&region, "k", 0);
    struct okv_store_set_change change = {
        .kind = OKV_STORE_SET_REMOVE, .key = "k", .key_length = 1};
    const struct okv_store_set set = {.changes = &change, .count = 1};
    assert_int_equal(okv_store_change_set(&region.store, &region.work, &set), 0);
    assert_int_equal(age_after(&region, hash), 0);
    put_for(&region, "k", PASS / 2);
    okv_store_sweep(&region.store, &region.work, UINT32_MAX);
    assert_int_equal(region.store.totals.items, 0);
    assert_int_equal(age_after(&region, hash), 0);
    store_region_close(&region);
}

/* ---- the sample ---- */

static atomic_uint_fast64_t clock_ms, items;

TEST(what_was_not_evicted_has_no_age)
{
    const uint64_t hash = UINT64_C(0x123456789abcdef);
    struct okv_ages *ages = okv_ages_create(&clock_ms, &items);

    assert_non_null(ages);
    assert_int_equal(okv_ages_mean_ms(ages, true), 0);
    okv_ages_note_put(ages, hash);
    okv_ages_note_gone(ages, hash);
    clock_ms += 1600;
    okv_ages_note_eviction(ages, hash, true);
    okv_ages_note_use(ages, hash);
    okv_ages_note_eviction(ages, hash, true);
    assert_int_equal(okv_ages_mean_ms(ages, true), 0);
    okv_ages_note_put(ages, hash);
    clock_ms += 3200;
    okv_ages_note_eviction(ages, hash, true);
    assert_int_equal(okv_ages_mean_ms(ages, true), 3200);
    assert_int_equal(okv_ages_mean_ms(ages, false), 0);
    free(ages);
}

/* As a store that evicts nothing has none. */
TEST(without_a_sample_nothing_has_an_age)
{
    okv_ages_note_put(NULL, 0);
    okv_ages_note_use(NULL, 0);
    okv_ages_note_gone(NULL, 0);
    okv_ages_note_eviction(NULL, 0, true);
    assert_int_equal(okv_ages_mean_ms(NULL, true), 0);
    assert_int_equal(okv_ages_mean_ms(NULL, false), 0);
}

/* A thousand items or two are in it, whatever their number; others are not when that grows. */
TEST(the_sample_is_a_thousand_items_or_two)
{
    struct okv_ages *ages = okv_ages_create(&clock_ms, &items);
    struct store_random random;

    assert_non_null(ages);
    store_random_init(&random);
    for (items = 0; items < 1000000; items++)
        okv_ages_note_put(ages, store_random_next(&random));
    unsigned sampled = 0;
    for (unsigned i = 0; i < OKV_AGES_ROWS * OKV_AGES_ROW; i++) {
        uint64_t place = ages->place[i / OKV_AGES_ROW][i % OKV_AGES_ROW];
        sampled += place != 0;
        assert_true(okv_ages_has(ages, place));
    }
    assert_in_range(sampled, OKV_AGES_ROWS, OKV_AGES_ROWS * OKV_AGES_ROW * 5 / 8);
    items = 4000;
    for (unsigned i = 0; i < 10000000 && ages->thinning > 2; i++)
        okv_ages_note_put(ages, store_random_next(&random));
    assert_in_range(ages->thinning, 1, 3);
    free(ages);
}
