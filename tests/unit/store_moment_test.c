/*
 * A clock that moves in the middle of a change. What has expired at the begin of the change
 * decides, on both paths of a change. The linker wraps okv_store_update_commit(), so that the test
 * moves the clock before each commit in place.
 */
#include "tests/support/test.h"

#include "server/store/update_in_place.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define BUCKET 512u
#define BEGIN 1000u
#define TTL 100u
#define SMALL 140u /* bytes of a value that a full bucket moves to an extent */
#define OTHER 100u

typedef int commit(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_entry *entry, uint64_t *version);
commit __real_okv_store_update_commit, __wrap_okv_store_update_commit;

/* Global, because the wrapper gets only the arguments of okv_store_update_commit(). */
static struct moment {
    uint64_t clock_ms; /* the clock to set before the commit; 0: none */
    int status;        /* of the last commit */
    unsigned commits;
} moment;

int __wrap_okv_store_update_commit(struct okv_store *store, struct okv_store_work *work,
                                   const struct okv_entry *entry, uint64_t *version)
{
    if (moment.clock_ms)
        okv_store_set_clock(store, moment.clock_ms, false);
    moment.status = __real_okv_store_update_commit(store, work, entry, version);
    moment.commits++;
    return moment.status;
}

/* An index that cannot grow, with a full bucket that moved `key`, a small item, to an extent. */
struct full_bucket {
    struct store_region region;
    unsigned number;
    char key[24];
    uint8_t value[SMALL];
};

static int write_item(struct full_bucket *full, const char *key, uint32_t length, uint64_t ttl_ms)
{
    const struct okv_store_write write = {
        .key = key,
        .key_length = (uint32_t)strlen(key),
        .value = full->value,
        .value_length = length,
        .ttl_ms = ttl_ms,
    };
    struct okv_store_outcome outcome;

    return okv_store_put(&full->region.store, &full->region.work, &write, &outcome);
}

static void next_key(struct full_bucket *full, char key[24])
{
    store_region_key(&full->region, 6, &full->number, key);
    full->number++;
}

static uint64_t references(const struct full_bucket *full)
{
    return atomic_load(&full->region.store.totals.references);
}

static int set_up(void **state)
{
    static const struct okv_store_params fixed = {
        .length = 16u << 20, .bucket_size = BUCKET, .extra_reads = 1000};
    static struct full_bucket full;
    char other[24];

    moment = (struct moment){.clock_ms = 0};
    full = (struct full_bucket){.number = 0};
    memset(full.value, 'v', sizeof full.value);
    store_region_open(&full.region, &fixed);
    okv_store_set_clock(&full.region.store, BEGIN, false);
    next_key(&full, full.key);
    /* The largest moves first. */
    assert_int_equal(write_item(&full, full.key, SMALL, TTL), 0);
    while (references(&full) == 0) {
        next_key(&full, other);
        assert_int_equal(write_item(&full, other, OTHER, 0), 0);
    }
    assert_int_equal(references(&full), 1);
    *state = &full;
    return 0;
}

static int tear_down(void **state)
{
    struct full_bucket *full = *state;

    store_region_close(&full->region);
    return 0;
}

static struct okv_store_write write_of(const struct full_bucket *full)
{
    return (struct okv_store_write){.key = full->key, .key_length = (uint32_t)strlen(full->key)};
}

/* New extents do not overwrite the item's, and heap and table agree. */
static void expect_sound(struct full_bucket *full, uint64_t version)
{
    struct okv_store_outcome outcome;
    struct okv_store_write write = write_of(full);
    struct store_audit audit;
    char other[24];

    store_region_audit(&full->region, NULL, NULL, &audit);
    memset(full->value, 'w', sizeof full->value);
    for (int i = 0; i < 8; i++) {
        next_key(full, other);
        assert_int_equal(write_item(full, other, SMALL, 0), 0);
    }
    memset(full->value, 'v', sizeof full->value);
    store_region_expect(&full->region, full->key, write.key_length, full->value, SMALL, version);
    store_region_audit(&full->region, NULL, NULL, &audit);
    assert_int_equal(okv_store_delete(&full->region.store, &full->region.work, &write, &outcome),
                     0);
    store_region_audit(&full->region, NULL, NULL, &audit);
}

/* Otherwise the extent would be freed with the expired item, and published with the touched one. */
TEST_WITH(a_touch_while_the_item_expires_keeps_the_extent, set_up, tear_down)
{
    struct full_bucket *full = *state;
    struct okv_store_outcome outcome;
    struct okv_store_write write = write_of(full);

    write.ttl_ms = 1000 * TTL;
    moment.clock_ms = BEGIN + TTL + 1;
    assert_int_equal(okv_store_touch(&full->region.store, &full->region.work, &write, &outcome), 0);
    assert_int_equal(moment.status, OKV_STORE_WHOLE_BUCKET);
    moment.clock_ms = 0;
    assert_int_equal(atomic_load(&full->region.store.totals.expired), 0);
    expect_sound(full, outcome.version);
}

/* The entry keeps its length, so the touch is an update in place. */
TEST_WITH(a_touch_of_an_inline_item_keeps_it, set_up, tear_down)
{
    struct full_bucket *full = *state;
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.key = "inline", .key_length = 6, .ttl_ms = 1000 * TTL};

    assert_int_equal(write_item(full, "inline", 4, TTL), 0);
    moment.clock_ms = BEGIN + TTL + 1;
    moment.commits = 0;
    assert_int_equal(okv_store_touch(&full->region.store, &full->region.work, &write, &outcome), 0);
    assert_int_equal(moment.commits, 1);
    assert_int_equal(moment.status, 0);
    store_region_expect(&full->region, "inline", 6, full->value, 4, outcome.version);
}

TEST_WITH(an_append_while_the_item_expires_keeps_the_value, set_up, tear_down)
{
    struct full_bucket *full = *state;
    struct okv_store_outcome outcome;
    struct okv_store_write write = write_of(full);
    struct store_audit audit;

    write.value = "tail";
    write.value_length = 4;
    moment.clock_ms = BEGIN + TTL + 1;
    assert_int_equal(okv_store_append(&full->region.store, &full->region.work, &write, &outcome),
                     0);
    assert_int_equal(outcome.length, SMALL + 4);
    assert_int_equal(atomic_load(&full->region.store.totals.expired), 0);
    store_region_audit(&full->region, NULL, NULL, &audit);
    /* The item keeps its expiry, which has come. */
    store_region_expect(&full->region, full->key, write.key_length, NULL, 0, 0);
}

TEST_WITH(a_touch_after_the_expiry_finds_nothing, set_up, tear_down)
{
    struct full_bucket *full = *state;
    struct okv_store_outcome outcome;
    struct okv_store_write write = write_of(full);
    struct store_audit audit;

    okv_store_set_clock(&full->region.store, BEGIN + TTL + 1, false);
    assert_int_equal(okv_store_touch(&full->region.store, &full->region.work, &write, &outcome),
                     OKV_ENOTFOUND);
    store_region_audit(&full->region, NULL, NULL, &audit);
}
