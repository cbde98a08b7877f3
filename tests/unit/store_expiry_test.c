/* Items that expire, the sweep that removes them, and flush. */
#include "tests/support/test.h"

#include "server/store/expire.h"
#include "server/store/flush.h"
#include "server/store/resize.h"
#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define TTL_MAX ((UINT64_C(1) << 47) - 1)
#define ITEMS 3000u

static const struct okv_store_params params = {.length = 4u << 20, .bucket_size = 512};
static uint8_t bytes[2000];

typedef int store_call(struct okv_store *store, struct okv_store_work *work,
                       const struct okv_store_write *write, struct okv_store_outcome *outcome);

static int call(struct store_region *region, store_call *operation, struct okv_store_write write,
                struct okv_store_outcome *outcome)
{
    write.key = "key";
    write.key_length = 3;
    return operation(&region->store, &region->work, &write, outcome);
}

static uint64_t put(struct store_region *region, const char *value, uint64_t ttl)
{
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .value = value, .value_length = (uint32_t)strlen(value), .ttl_ms = ttl};

    assert_int_equal(call(region, okv_store_put, write, &outcome), 0);
    return outcome.version;
}

static void expect(struct store_region *region, const char *value, uint64_t version)
{
    store_region_expect(region, "key", 3, value, value ? (uint32_t)strlen(value) : 0, version);
}

/* The item's expiry in the images. */
static uint64_t expiry(struct store_region *region)
{
    struct store_found found;

    assert_int_equal(store_reader_find(&region->reader, "key", 3, &found), 0);
    return found.expiry_ms;
}

static void set_clock(struct store_region *region, uint64_t clock)
{
    okv_store_set_clock(&region->store, clock, true);
}

/* The current millisecond may be nearly over at the put, and the last one has only begun when the
 * clock reaches it. So one more is added to be sure that `ttl` ms pass. */
static uint64_t time_after(uint64_t clock, uint64_t ttl)
{
    return clock + ttl + 1;
}

/* Of the longest time to live and the latest clock, and of a clock beyond that. */
TEST(an_expiry_is_never_cut)
{
    const uint64_t latest = (UINT64_C(1) << 48) - 1;
    struct store_region region;

    store_region_open(&region, &params);
    for (uint64_t over = 0; over < 3; over++) {
        set_clock(&region, TTL_MAX + over);
        uint64_t version = put(&region, "v", TTL_MAX);
        assert_int_equal(expiry(&region), latest);
        expect(&region, "v", version);
    }
    store_region_close(&region);
}

/* In place and not, inline and in an extent. */
TEST(a_put_can_keep_the_expiry)
{
    static const uint32_t lengths[] = {3, 3, 40, 5000, 0, 6000};
    static const char value[6000];
    struct store_region region;
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.value = value, .keep_ttl = true};

    store_region_open(&region, &params);
    set_clock(&region, 1000);
    put(&region, "old", 500);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        set_clock(&region, 1001 + i);
        write.value_length = lengths[i];
        assert_int_equal(call(&region, okv_store_put, write, &outcome), 0);
        assert_int_equal(expiry(&region), 1501);
    }
    write.if_version = true;
    write.version = outcome.version;
    assert_int_equal(call(&region, okv_store_put, write, &outcome), 0);
    assert_int_equal(expiry(&region), 1501);
    write.if_version = false;
    set_clock(&region, 1501); /* it is gone: the next one is new */
    assert_int_equal(call(&region, okv_store_put, write, &outcome), 0);
    assert_int_equal(expiry(&region), 0);
    assert_int_equal(call(&region, okv_store_put, write, &outcome), 0);
    assert_int_equal(expiry(&region), 0);
    store_region_close(&region);
}

TEST(an_item_exists_until_it_expires)
{
    struct store_region region;

    store_region_open(&region, &params);
    set_clock(&region, 1000);
    uint64_t version = put(&region, "v", 1);
    assert_int_equal(expiry(&region), 1002);
    expect(&region, "v", version);
    set_clock(&region, 1001);
    expect(&region, "v", version);
    set_clock(&region, 1002);
    expect(&region, NULL, 0);
    version = put(&region, "w", TTL_MAX);
    assert_int_equal(expiry(&region), time_after(1002, TTL_MAX));
    set_clock(&region, 1002 + TTL_MAX);
    expect(&region, "w", version);
    set_clock(&region, 1003 + TTL_MAX);
    expect(&region, NULL, 0);
    assert_int_equal(atomic_load(&region.store.totals.expired),
                     1); /* the other item still exists */
    assert_int_equal(atomic_load(&region.store.totals.expiring), 1);
    store_region_close(&region);
}

TEST(an_expired_item_is_absent_for_every_operation)
{
    struct store_region region;
    struct okv_store_outcome outcome;
    uint64_t clock = 1, version;

    store_region_open(&region, &params);
#define EXPIRED (version = put(&region, "41", 5), set_clock(&region, clock = time_after(clock, 5)))
    EXPIRED;
    assert_int_equal(call(&region, okv_store_delete, (struct okv_store_write){0}, &outcome),
                     OKV_ENOTFOUND);
    EXPIRED;
    assert_int_equal(
        call(&region, okv_store_touch, (struct okv_store_write){.ttl_ms = 9}, &outcome),
        OKV_ENOTFOUND);
    EXPIRED;
    const struct okv_store_write exactly = {.if_version = true, .version = version};
    assert_int_equal(call(&region, okv_store_put, exactly, &outcome), OKV_ENOTFOUND);
    assert_int_equal(outcome.version, 0);
    assert_int_equal(call(&region, okv_store_delete, exactly, &outcome), OKV_ENOTFOUND);
    assert_int_equal(outcome.version, 0);
    expect(&region, NULL, 0);
    EXPIRED;
    const struct okv_store_write first = {.value = "n", .value_length = 1, .if_absent = true};
    assert_int_equal(call(&region, okv_store_put, first, &outcome), 0);
    assert_true(outcome.version > version);
    assert_int_equal(expiry(&region), 0);
    EXPIRED;
    const struct okv_store_write more = {.value = "n", .value_length = 1};
    assert_int_equal(call(&region, okv_store_append, more, &outcome), 0);
    assert_int_equal(outcome.length, 1);
    assert_true(outcome.version > version);
    assert_int_equal(expiry(&region), 0);
    expect(&region, "n", outcome.version);
    EXPIRED;
    assert_int_equal(call(&region, okv_store_incr, (struct okv_store_write){.delta = 3}, &outcome),
                     0);
    assert_int_equal(outcome.number, 3);
    assert_true(outcome.version > version);
    assert_int_equal(expiry(&region), 0);
    expect(&region, "3", outcome.version);
#undef EXPIRED
    assert_int_equal(atomic_load(&region.store.totals.expired), 6);
    assert_int_equal(atomic_load(&region.store.totals.expiring), 0);
    store_region_close(&region);
}

TEST(changes_keep_an_expiry_and_put_does_not)
{
    struct store_region region;
    struct okv_store_outcome outcome;

    store_region_open(&region, &params);
    put(&region, "1", 100);
    assert_int_equal(call(&region, okv_store_incr, (struct okv_store_write){.delta = 1}, &outcome),
                     0);
    assert_int_equal(expiry(&region), time_after(1, 100));
    const struct okv_store_write more = {.value = "0", .value_length = 1};
    assert_int_equal(call(&region, okv_store_append, more, &outcome), 0);
    assert_int_equal(expiry(&region), time_after(1, 100));
    expect(&region, "20", outcome.version);
    uint64_t version = outcome.version;
    assert_int_equal(
        call(&region, okv_store_touch, (struct okv_store_write){.ttl_ms = 500}, &outcome), 0);
    assert_int_equal(expiry(&region), time_after(1, 500));
    assert_true(outcome.version > version);
    assert_int_equal(call(&region, okv_store_touch, (struct okv_store_write){0}, &outcome), 0);
    assert_int_equal(expiry(&region), 0);
    put(&region, "1", 100);
    put(&region, "2", 0);
    assert_int_equal(expiry(&region), 0);
    store_region_close(&region);
}

/* ---- the sweep ---- */

static void key_of(unsigned i, char key[24])
{
    snprintf(key, 24, "item%u", i);
}

/* Every third item expires, each at another time; some are in extents. */
static uint64_t time_of(unsigned i)
{
    return i % 3 == 0 ? 1 + i : 0;
}

static void put_items(struct store_region *region, uint64_t versions[ITEMS])
{
    for (unsigned i = 0; i < ITEMS; i++) {
        struct okv_store_outcome outcome;
        char key[24];
        key_of(i, key);
        const struct okv_store_write write = {
            .key = key,
            .key_length = (uint32_t)strlen(key),
            .value = bytes,
            .value_length = i % 10 ? 30 : 1000,
            .ttl_ms = time_of(i),
        };
        assert_int_equal(okv_store_put(&region->store, &region->work, &write, &outcome), 0);
        versions[i] = outcome.version;
    }
}

/* Returns the number of items. */
static unsigned expect_items(struct store_region *region, const uint64_t versions[ITEMS],
                             uint64_t clock)
{
    unsigned count = 0;

    for (unsigned i = 0; i < ITEMS; i++) {
        bool there = time_of(i) == 0 || time_after(1, time_of(i)) > clock;
        char key[24];
        key_of(i, key);
        store_region_expect(region, key, (uint32_t)strlen(key), bytes, i % 10 ? 30 : 1000,
                            there ? versions[i] : 0);
        count += there;
    }
    return count;
}

TEST(a_sweep_removes_what_has_expired_and_only_that)
{
    struct store_region region;
    struct store_audit audit;
    uint64_t versions[ITEMS];

    store_region_open(&region, &params);
    put_items(&region, versions);
    for (uint64_t clock = 1; clock < ITEMS + 300; clock += 300) {
        set_clock(&region, clock);
        unsigned there = expect_items(&region, versions, clock);
        /* In steps that continue where the last one ended. Merges make the last steps unnecessary.
         */
        for (uint64_t left = atomic_load(&region.store.bucket_count); left > 0;
             left = left > 7 ? left - 7 : 0)
            okv_store_sweep(&region.store, &region.work, 7);
        store_region_audit(&region, NULL, NULL, &audit);
        assert_int_equal(audit.items, there);
        assert_int_equal(expect_items(&region, versions, clock), there);
        assert_int_equal(atomic_load(&region.store.totals.expired), ITEMS - there);
    }
    assert_int_equal(audit.expiring, 0);
    assert_int_equal(audit.items, ITEMS / 3 * 2);
    store_region_close(&region);
}

TEST(a_sweep_makes_room_in_a_full_region)
{
    struct store_region region;
    struct store_audit audit;
    unsigned n = 0;

    store_region_open(&region, &params);
    for (;; n++) {
        struct okv_store_outcome outcome;
        const struct okv_store_write write = {
            .key = &n,
            .key_length = sizeof n,
            .value = bytes,
            .value_length = n % 2 ? 20 : 2000,
            .ttl_ms = 10,
        };
        if (okv_store_put(&region.store, &region.work, &write, &outcome))
            break;
    }
    set_clock(&region, time_after(1, 10));
    okv_store_sweep(&region.store, &region.work, 1u << 20);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_int_equal(audit.items, 0);
    assert_int_equal(audit.overflow_pages, 0);
    assert_int_equal(atomic_load(&region.store.totals.expired), n);
    assert_int_equal(store_region_put(&region, "k", 1, bytes, sizeof bytes, NULL), 0);
    store_region_close(&region);
}

/* ---- flush ---- */

/* A table of ITEMS in many small buckets. */
static void open_many(struct store_region *region, uint64_t length, uint64_t versions[ITEMS])
{
    struct okv_store_params many = params;

    many.length = length;
    many.bucket_size = 256;
    many.extra_reads = 1;
    store_region_open(region, &many);
    put_items(region, versions);
}

TEST(a_flush_removes_everything_in_steps)
{
    struct store_region region;
    uint64_t versions[ITEMS], next = 0, splits = 0, last = UINT64_MAX;
    unsigned steps = 0;

    open_many(&region, 16u << 20, versions);
    assert_true(atomic_load(&region.store.bucket_count) > 1000);
    set_clock(&region, 100);
    do {
        assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
        assert_true(next < last);
        last = next;
        steps++;
    } while (next);
    assert_true(steps > 1);
    store_region_expect_empty(&region, false);
    put_items(&region, versions);
    expect_items(&region, versions, 0); /* no item is missing */
    store_region_close(&region);
}

/* More splits than a step can follow, at once. */
TEST(a_flush_follows_many_splits)
{
    struct store_region region;
    uint64_t versions[ITEMS], next = 0, splits = 0;
    unsigned steps = 0;

    open_many(&region, 16u << 20, versions);
    do {
        assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
        uint64_t count = atomic_load(&region.store.bucket_count);
        if (steps % 8 == 2 && steps < 40)
            assert_int_equal(okv_store_grow(&region.store, &region.work, count + 300), 0);
        assert_true(++steps < 1000);
    } while (next);
    store_region_expect_empty(&region, false);
    store_region_close(&region);
}

/* With splits between every two steps. */
TEST(a_flush_goes_on_after_splits)
{
    struct store_region region;
    uint64_t versions[ITEMS], next = 0, splits = 0;
    unsigned steps = 0, added = 0;

    open_many(&region, 64u << 20, versions);
    do {
        assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
        uint64_t before = atomic_load(&region.store.totals.splits);
        for (unsigned i = 0; steps < 5 && i < 5000; i++, added++) {
            assert_int_equal(store_region_put(&region, &added, sizeof added, bytes, 40, NULL), 0);
            if (atomic_load(&region.store.totals.splits) >= before + 20)
                break;
        }
        steps++;
    } while (next);
    assert_true(steps > 5);
    for (unsigned i = 0; i < ITEMS; i++) {
        char key[24];
        key_of(i, key);
        store_region_expect(&region, key, (uint32_t)strlen(key), NULL, 0, 0);
    }
    store_region_close(&region);
}

int main(void)
{
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 13 + 1);
    return test_run();
}
