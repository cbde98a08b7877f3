/*
 * The clock that goes on in the middle of a change: what had expired when the change began is what
 * it goes by, whichever way it takes. Each commit of a patch (server/store/update_in_place.c) comes
 * by here, and the clock is moved before it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/store/update_in_place.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define BUCKET 512u
#define BEGIN 1000u
#define TTL 100u
#define SMALL 140u /* bytes of a value that is put out of a full bucket */
#define OTHER 100u

typedef int commit(struct okv_store *store, struct okv_store_work *work,
                   const struct okv_entry *entry, uint64_t *version);
commit __real_okv_store_update_commit, __wrap_okv_store_update_commit;

/* What the linker puts in the place of okv_store_update_commit() takes no more arguments. */
static struct moment {
    uint64_t clock_ms; /* what it will be then; 0: it stands still */
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

/* An index that cannot grow, with a full bucket: `key` is small and was put out of it. */
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
    /* The largest goes first. */
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

/* Extents that are taken now do not overwrite the item's, and the heap has what the table says. */
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

/* Its extent would be given back as that of an expired item, and published in the touched one. */
static void a_touch_in_the_last_moment_keeps_the_extent(void **state)
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

/* As long as before: the touch is a patch. */
static void a_touch_of_an_inline_item_keeps_it(void **state)
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

/* What is appended to has not expired half way. */
static void an_append_in_the_last_moment_is_to_the_whole_value(void **state)
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
    /* It had not expired, and goes on to expire at its time, which has come. */
    store_region_expect(&full->region, full->key, write.key_length, NULL, 0, 0);
}

/* And a change that begins later finds it gone. */
static void a_touch_after_the_last_moment_finds_nothing(void **state)
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_touch_in_the_last_moment_keeps_the_extent, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_touch_of_an_inline_item_keeps_it, set_up, tear_down),
        cmocka_unit_test_setup_teardown(an_append_in_the_last_moment_is_to_the_whole_value, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_touch_after_the_last_moment_finds_nothing, set_up,
                                        tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
