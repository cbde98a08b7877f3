/*
 * Room in a full heap that workers make step by step: as much as in one piece, and no step is long.
 */
#include "tests/support/test.h"

#include "server/core/turn.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define REGION (2u << 20)
#define VALUE_MAX (64u << 10)
#define VALUE 100u
#define WAITERS 16u
#define NOBODYS 1000000u /* number of a key that is not there */
#define HOUR_MS 3600000u /* items that expire are swept first */

static const struct okv_store_params params = {
    .length = REGION, .bucket_size = 512, .max_value = VALUE_MAX};

/* `effort`: of the request. NULL: in one piece. */
static int put(struct store_region *region, unsigned number, uint32_t length,
               struct okv_effort *effort, unsigned *steps)
{
    char key[32];
    struct okv_store_outcome outcome;

    snprintf(key, sizeof key, "%024u", number);
    const struct okv_store_write write = {.key = key,
                                          .key_length = (uint32_t)strlen(key),
                                          .value = region->buffer,
                                          .value_length = length,
                                          .ttl_ms = HOUR_MS,
                                          .is_part = steps != NULL,
                                          .steps = steps,
                                          .cannot_wait = steps != NULL};
    region->work.in_steps = effort != NULL;
    region->work.effort = effort;
    int rc = okv_store_put(&region->store, &region->work, &write, &outcome);
    assert_in_range(okv_store_work_take(&region->work), 0,
                    effort && !steps ? OKV_TURN_STEP_MAX : UINT64_MAX);
    return rc;
}

/* Puts items, several at a time as clients do, until one is refused. Returns how many fit. */
static unsigned fill(struct store_region *region, bool in_steps)
{
    struct okv_effort efforts[WAITERS] = {{0}};
    unsigned numbers[WAITERS], next = 0, count = 0;

    for (unsigned i = 0; i < WAITERS; i++)
        numbers[i] = next++;
    for (unsigned i = 0;; i = (i + 1) % WAITERS) {
        int rc = put(region, numbers[i], VALUE, in_steps ? &efforts[i] : NULL, NULL);
        if (rc == OKV_EFULL)
            return count;
        if (rc == OKV_EAGAIN)
            continue;
        assert_int_equal(rc, 0);
        efforts[i] = (struct okv_effort){0};
        numbers[i] = next++;
        count++;
    }
}

static void open_region(struct store_region *region)
{
    store_region_open(region, &params);
    memset(region->buffer, 'v', VALUE_MAX);
}

/* Most of the index is given up for it, a segment at a time. */
TEST(in_steps_as_many_items_fit)
{
    struct store_region region;
    unsigned counts[2];

    for (unsigned i = 0; i < 2; i++) {
        open_region(&region);
        counts[i] = fill(&region, i);
        store_region_audit(&region, NULL, NULL, &(struct store_audit){0});
        store_region_close(&region);
    }
    print_message("%u items at once, %u in steps\n", counts[0], counts[1]);
    assert_true(counts[1] >= counts[0] / 100 * 97);
}

/* Returns the steps that it took to refuse the longest value. */
static unsigned steps_of_refusal(struct store_region *region)
{
    struct okv_effort effort = {0};
    unsigned before = region->work.room_steps;
    int rc;

    while ((rc = put(region, NOBODYS, VALUE_MAX, &effort, NULL)) == OKV_EAGAIN)
        ;
    assert_int_equal(rc, OKV_EFULL);
    return region->work.room_steps - before;
}

static void delete_some(struct store_region *region, unsigned from, unsigned count)
{
    char key[32];

    for (unsigned i = from; i < from + count; i++) {
        snprintf(key, sizeof key, "%024u", i);
        assert_int_equal(store_region_delete(region, key, (uint32_t)strlen(key)), 0);
    }
}

/* When nothing is left to be done, nothing is tried again before the table has changed. */
TEST(what_cannot_fit_is_refused_at_once_until_the_table_changes)
{
    struct store_region region;

    open_region(&region);
    fill(&region, false);
    assert_true(steps_of_refusal(&region) > 1);
    assert_int_equal(steps_of_refusal(&region), 0);
    delete_some(&region, 0, 100);
    assert_true(steps_of_refusal(&region) > 0);
    assert_int_equal(steps_of_refusal(&region), 0);
    store_region_close(&region);
}

/* It takes what its command may spend, and then is refused. */
TEST(a_part_of_a_command_takes_its_steps_at_once)
{
    struct store_region region;
    struct okv_effort effort = {0};
    unsigned steps = 2;

    open_region(&region);
    fill(&region, false);
    assert_int_equal(put(&region, NOBODYS, VALUE_MAX, &effort, &steps), OKV_EFULL);
    assert_true(steps < 2);
    steps = 0;
    assert_int_equal(put(&region, NOBODYS, VALUE_MAX, &effort, &steps), OKV_EFULL);
    store_region_close(&region);
}

/* Of others that overwrite what is there. */
TEST(a_change_does_not_wait_for_ever_beside_changes_that_succeed)
{
    enum { MANY = 10000 };
    struct store_region region;
    struct okv_effort effort = {0}, other = {0};
    unsigned attempts = 1;

    open_region(&region);
    unsigned count = fill(&region, false);
    while (put(&region, NOBODYS, VALUE_MAX, &effort, NULL) == OKV_EAGAIN) {
        assert_true(++attempts < MANY);
        while (put(&region, attempts % count, VALUE, &other, NULL) == OKV_EAGAIN)
            ;
        other = (struct okv_effort){0};
    }
    assert_true(attempts > 1);
    store_region_close(&region);
}

/* What it began does not keep others waiting. */
TEST(a_series_of_merges_that_nobody_goes_on_with_holds_up_nobody)
{
    struct store_region region;
    struct okv_effort effort = {0}, other = {0};
    unsigned attempts = 1;

    open_region(&region);
    fill(&region, false);
    atomic_store(&region.store.room.is_merging, true);
    while (put(&region, 0, VALUE, &other, NULL) == OKV_EAGAIN)
        assert_true(++attempts < 2000);
    atomic_store(&region.store.room.is_merging, true);
    atomic_store(&region.store.room.not_before, UINT64_MAX);
    assert_int_equal(put(&region, 1, VALUE, &effort, NULL), 0);
    store_region_close(&region);
}
