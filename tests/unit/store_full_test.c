/*
 * A full region: it keeps working, nothing leaks, and freed memory can be used by items of any
 * other size.
 */
#include "tests/support/test.h"

#include "server/store/fullness.h"
#include "server/store/recover.h"
#include "shared/base/error.h"
#include "tests/support/store_filler.h"

#define REGION (1u << 20)
#define VALUE_MAX (100u << 10)
#define TOUCHES (2000u / STORE_TEST_SLOWNESS)

static const struct okv_store_params params = {
    .length = REGION, .bucket_size = 512, .max_value = VALUE_MAX};

static void open_both(struct store_region *region, struct store_filler *filler,
                      const struct okv_store_params *wanted)
{
    store_region_open(region, wanted);
    store_random_init(&filler->random);
    store_filler_open(filler, region, filler->random.state);
}

/* Empties the table. Everything except the first segment returns to the heap. */
static void close_both(struct store_region *region, struct store_filler *filler)
{
    store_filler_delete(filler, 100);
    assert_int_equal(filler->user_bytes, 0);
    store_region_expect_empty(region, true);
    store_filler_close(filler);
    store_region_close(region);
}

TEST(a_full_region_keeps_working)
{
    struct okv_store_params large = params;

    large.length = 2 * REGION;
    for (unsigned m = 0; m < STORE_MIXES; m++) {
        struct store_region region;
        struct store_filler filler;
        struct store_audit audit;
        unsigned overwritten = 0;
        open_both(&region, &filler, &large);
        uint64_t bytes = store_filler_fill(&filler, &store_mixes[m]);
        store_region_audit(&region, NULL, NULL, &audit);
        print_message("%8s: %7u items, %4.1f %% of the region are keys and values, "
                      "index %4.1f %%, %.3f READs a get\n",
                      store_mixes[m].name, filler.count, 100.0 * (double)bytes / large.length,
                      100.0 * (double)okv_store_index_length(&region.store) / large.length,
                      1 + store_audit_extra(&audit));
        for (unsigned i = 0; i < TOUCHES; i++) {
            store_filler_read(&filler);
            overwritten += store_filler_overwrite(&filler);
        }
        print_message("          %.1f %% of overwriting found room\n",
                      100.0 * overwritten / TOUCHES);
        uint64_t freed = store_filler_delete(&filler, 20);
        uint64_t again = store_filler_fill(&filler, &store_mixes[m]);
        print_message("          %.0f %% of a freed fifth was filled again\n",
                      100.0 * (double)again / (double)(freed ? freed : 1));
        /* In a mix of sizes the largest item may find no room: it is a quarter of a fifth. */
        uint64_t one = store_mixes[m].value_length ? 0 : VALUE_MAX;
        assert_true(again + one >= freed / 10 * 8);
        for (unsigned i = 0; i < TOUCHES; i++)
            store_filler_read(&filler);
        store_region_audit(&region, NULL, NULL, &audit);
        close_both(&region, &filler);
    }
}

/* Merges and compaction free the sparse half of the index and the holes in slabs. How much fits
 * depends on the overhead of each mix (66 to 97 % above), and some space is lost. Items many times
 * as long as the freed ones may find no room, because pages and buckets more than half full do not
 * move; that is only printed. */
static void expect_reuse(const struct store_mix *first, const struct store_mix *other,
                         uint64_t freed, uint64_t filled)
{
    if (first->value_length && other->value_length > 8 * first->value_length)
        return;
    if (filled < freed / 3)
        fail_msg("%s after %s: %llu bytes in the place of %llu", other->name, first->name,
                 (unsigned long long)filled, (unsigned long long)freed);
}

struct reports {
    unsigned full, room;
};

static void note_fullness(void *user, bool is_full)
{
    struct reports *reports = user;

    reports->full += is_full;
    reports->room += !is_full;
}

/* A full store that takes what is deleted at a time stays full. */
TEST(fullness_is_reported_when_it_begins_and_ends)
{
    struct store_region region;
    struct store_filler filler;
    struct reports reports = {0};

    open_both(&region, &filler, &params);
    okv_store_report_fullness(&region.store, note_fullness, &reports);
    for (unsigned i = 0; i < 4; i++) {
        store_filler_delete(&filler, i == 2 ? 50 : 1);
        store_filler_fill(&filler, &store_mixes[2]);
        assert_int_equal(reports.full, i < 2 ? 1 : 2);
        assert_int_equal(reports.room, i < 2 ? 0 : 1);
    }
    close_both(&region, &filler);
}

/* Filling with a mix ends when the kinds of twenty puts in a row are too long: the shorter ones, of
 * which these were none by chance, still have room. So what the first kind finds counts, too. */
static uint64_t fill(struct store_filler *filler, const struct store_mix *first,
                     const struct store_mix *other)
{
    uint64_t filled = store_filler_fill(filler, other);

    return filled + (other->value_length ? 0 : store_filler_fill(filler, first));
}

TEST(freed_memory_serves_other_sizes)
{
    const unsigned slow = STORE_TEST_SLOWNESS > 1; /* then half of the kinds are enough */

    for (unsigned first = slow; first < STORE_MIXES; first += 1 + slow) {
        struct store_region region;
        struct store_filler filler;
        open_both(&region, &filler, &params);
        char line[256];
        int at = snprintf(line, sizeof line, "%8s:", store_mixes[first].name);
        for (unsigned other = 0; other < STORE_MIXES; other++) {
            if (other == first)
                continue;
            store_filler_fill(&filler, &store_mixes[first]);
            uint64_t freed = store_filler_delete(&filler, 50);
            uint64_t filled = fill(&filler, &store_mixes[first], &store_mixes[other]);
            at += snprintf(line + at, sizeof line - (size_t)at, " %s %.0f %%",
                           store_mixes[other].name, 100.0 * (double)filled / (double)freed);
            expect_reuse(&store_mixes[first], &store_mixes[other], freed, filled);
            store_filler_read(&filler);
            store_filler_delete(&filler, 100);
            store_region_expect_empty(&region, true);
        }
        print_message("%s\n", line);
        close_both(&region, &filler);
    }
}

/* As a start does after a crash. A heap that is full has no room for second images. */
TEST(raising_versions_needs_no_room)
{
    const uint64_t by = UINT64_C(1) << 40;

    for (unsigned m = 0; m < STORE_MIXES; m++) {
        struct store_region region;
        struct store_filler filler;
        struct store_audit before, after;
        open_both(&region, &filler, &params);
        store_filler_fill(&filler, &store_mixes[m]);
        store_region_audit(&region, NULL, NULL, &before);
        assert_int_equal(okv_store_raise_versions(&region.store, &region.work, by), 0);
        store_region_audit(&region, NULL, NULL, &after);
        assert_memory_equal(&before, &after, sizeof before);
        for (unsigned i = 0; i < filler.count; i++)
            filler.items[i].version += by;
        for (unsigned i = 0; i < TOUCHES; i++) {
            store_filler_read(&filler);
            store_filler_overwrite(&filler);
        }
        assert_int_equal(
            okv_store_raise_versions(&region.store, &region.work, (UINT64_C(1) << 48) - by),
            OKV_ENUMBER);
        close_both(&region, &filler);
    }
}

/* Fills and empties again and again, by pages. */
TEST(fill_and_empty_cycles_leak_nothing)
{
    struct store_region region;
    struct store_filler filler;
    struct store_audit audit;
    uint64_t operations =
        (store_test_is_long() ? 10000000u : 200000u) / STORE_TEST_SLOWNESS / STORE_TEST_SLOWNESS;
    unsigned cycles = 0;

    open_both(&region, &filler, &params);
    for (; filler.operations < operations; cycles++) {
        store_filler_fill(&filler, &store_mixes[store_random_below(&filler.random, STORE_MIXES)]);
        for (unsigned i = 0; i < 100; i++) {
            store_filler_overwrite(&filler);
            store_filler_read(&filler);
        }
        store_filler_delete(&filler, 1 + store_random_below(&filler.random, 100));
        if (filler.count == 0)
            store_region_expect_empty(&region, true);
        if (cycles % 8 == 0)
            store_region_audit(&region, NULL, NULL, &audit);
    }
    print_message("%u cycles\n", cycles);
    close_both(&region, &filler);
}
