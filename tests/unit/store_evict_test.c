/* A full region of a cache: what comes finds room, by eviction of what is used least. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "server/store/bucket_image.h"
#include "server/store/change_set.h"
#include "server/store/evict.h"
#include "server/store/locking.h"
#include "shared/base/error.h"
#include "shared/format/hash.h"
#include "tests/support/sanitized.h"
#include "tests/support/store_region.h"
#include "tests/support/test.h"

#define REGION (4u << 20)
#define TURNOVERS (10u / STORE_TEST_SLOWNESS)

/* Sizes of the items: key_length + value_length. */
struct mix {
    const char *name;
    uint32_t key_length;
    uint32_t least, most; /* bytes of values */
};

static const struct mix mixes[] = {
    {"16+32", 16, 32, 32},     {"24+100", 24, 100, 100},  {"32+1K", 32, 1024, 1024},
    {"32+4K", 32, 4096, 4096}, {"24+8..2K", 24, 8, 2048}, {"24+8..80K", 24, 8, 80000},
};
#define VALUE_MAX 80000u

/* The value of a key is chosen by its number. */
static uint32_t make_value(const struct mix *mix, uint64_t number, uint8_t *value)
{
    uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t length = mix->least + (uint32_t)((hash >> 32) % (mix->most - mix->least + 1));

    for (uint32_t i = 0; i < length; i++)
        value[i] = (uint8_t)(hash >> (i % 8 * 8)) ^ (uint8_t)i;
    return length;
}

static void make_key(const struct mix *mix, uint64_t number, char *key)
{
    snprintf(key, mix->key_length + 1, "%0*llu", (int)mix->key_length, (unsigned long long)number);
}

/* As a worker does: the hands move after the reply. */
static int put(struct store_region *region, const struct mix *mix, uint64_t number)
{
    static uint8_t value[VALUE_MAX];
    char key[64];

    make_key(mix, number, key);
    int rc =
        store_region_put(region, key, mix->key_length, value, make_value(mix, number, value), NULL);
    okv_store_evict(&region->store, &region->work);
    return rc;
}

/* Whether an item is there; it has its value then. */
static bool is_there(struct store_region *region, const struct mix *mix, uint64_t number)
{
    static uint8_t value[VALUE_MAX];
    char key[64];
    uint32_t length;
    uint64_t version;

    make_key(mix, number, key);
    int rc = okv_store_get(&region->store, NULL, key, mix->key_length, region->buffer,
                           region->store.max_value, &length, &version);
    if (rc == OKV_ENOTFOUND)
        return false;
    assert_int_equal(rc, 0);
    assert_int_equal(length, make_value(mix, number, value));
    assert_memory_equal(region->buffer, value, length);
    return true;
}

/* The totals are the sums over the buckets, as their records have the items. */
static void expect_heat(struct store_region *region)
{
    struct okv_store *store = &region->store;
    uint64_t all = 0, of_new = 0;

    for (uint64_t i = 0; i < store->bucket_count; i++) {
        okv_store_lock(store, i);
        assert_int_equal(okv_store_bucket_load(&region->work.bucket, &store->table, i), 0);
        all += region->work.bucket.published.heat_bytes;
        of_new += region->work.bucket.published.new_bytes;
        okv_store_unlock(store, i);
    }
    assert_int_equal(store->totals.heat_bytes, all);
    assert_int_equal(store->totals.new_bytes, of_new);
}

static void open_cache(struct store_region *region, enum okv_store_full full)
{
    const struct okv_store_params params = {
        .length = REGION, .bucket_size = 512, .max_value = REGION / 16, .full = full};

    store_region_open(region, &params);
}

TEST(what_comes_finds_room)
{
    for (unsigned m = 0; m < sizeof mixes / sizeof *mixes; m++) {
        const struct mix *mix = &mixes[m];
        struct store_region region;
        struct store_audit audit;
        uint64_t bytes = 0, count = 0, there = 0;
        open_cache(&region, OKV_STORE_EVICT);
        for (; bytes < (uint64_t)REGION * TURNOVERS; count++) {
            int rc = put(&region, mix, count);
            if (rc)
                fail_msg("%s: put %llu: %d", mix->name, (unsigned long long)count, rc);
            bytes += mix->key_length + (mix->least + mix->most) / 2;
        }
        store_region_audit(&region, NULL, NULL, &audit);
        expect_heat(&region);
        for (uint64_t i = 0; i < count; i++)
            there += is_there(&region, mix, i);
        const struct okv_store_eviction *eviction = &region.store.eviction;
        print_message("%9s: %llu puts, %llu items, %.1f %% of the region, %llu in bucket, "
                      "%.3f READs a get\n",
                      mix->name, (unsigned long long)count, (unsigned long long)there,
                      100.0 * (double)region.store.totals.user_bytes / REGION,
                      (unsigned long long)eviction->evicted_in_bucket,
                      1 + store_audit_extra(&audit));
        assert_int_equal(there, region.store.totals.items);
        assert_int_equal(count - there, eviction->evicted_new + eviction->evicted_main);
        assert_int_equal(eviction->refused, 0);
        store_region_close(&region);
    }
}

/* Fills the region with items that nobody uses, from `first` on; returns the next number. */
static uint64_t fill(struct store_region *region, const struct mix *mix, uint64_t first,
                     uint64_t turnovers)
{
    uint64_t number = first, end = first + turnovers * REGION / (mix->key_length + mix->most);

    for (; number < end; number++) {
        int rc = put(region, mix, number);
        if (rc)
            fail_msg("%s: put %llu of %llu: %d", mix->name, (unsigned long long)(number - first),
                     (unsigned long long)(end - first), rc);
    }
    return number;
}

/* The items of a set make room in their buckets as one does. */
TEST(sets_keep_gets_short)
{
    enum { SET = 32 };
    const struct mix *mix = &mixes[0];
    struct store_region region;
    struct store_audit audit;
    uint64_t count = 0;
    uint8_t values[SET][32];
    char keys[SET][64];

    open_cache(&region, OKV_STORE_EVICT);
    while (count < (uint64_t)REGION * 4 / (16 + 32)) {
        struct okv_store_set_change changes[SET] = {0};
        for (unsigned i = 0; i < SET; i++, count++) {
            make_key(mix, count, keys[i]);
            changes[i] = (struct okv_store_set_change){.kind = OKV_STORE_SET_PUT,
                                                       .key = keys[i],
                                                       .key_length = mix->key_length,
                                                       .value = values[i]};
            changes[i].value_length = make_value(mix, count, values[i]);
        }
        const struct okv_store_set set = {.changes = changes, .count = SET};
        assert_int_equal(okv_store_change_set(&region.store, &region.work, &set), 0);
        okv_store_evict(&region.store, &region.work);
    }
    store_region_audit(&region, NULL, NULL, &audit);
    const struct okv_store_eviction *eviction = &region.store.eviction;
    assert_int_equal(count - region.store.totals.items,
                     eviction->evicted_new + eviction->evicted_main);
    assert_true(store_audit_extra(&audit) < 0.04);
    assert_true(eviction->puts_of_evicted > 0);
    store_region_close(&region);
}

/* More than the reserve, in many pieces: others go until there is room for all, and no more. */
TEST(a_long_set_evicts_its_length)
{
    if (OKV_SANITIZED_THREADS) {
        print_message("skipped: ThreadSanitizer follows 64 locks that are held at once at most\n");
        skip();
    }
    enum { SET = 1500 };
    static const struct mix mix = {"24+300", 24, 300, 300};
    static uint8_t values[SET][300];
    static char keys[SET][64];
    static struct okv_store_set_change changes[SET];
    struct store_region region;

    open_cache(&region, OKV_STORE_EVICT);
    fill(&region, &mix, 0, 2);
    uint64_t before = region.store.eviction.evicted_bytes;
    for (unsigned i = 0; i < SET; i++) {
        make_key(&mix, 1000000 + i, keys[i]);
        changes[i] = (struct okv_store_set_change){.kind = OKV_STORE_SET_PUT,
                                                   .key = keys[i],
                                                   .key_length = mix.key_length,
                                                   .value = values[i]};
        changes[i].value_length = make_value(&mix, 1000000 + i, values[i]);
    }
    const struct okv_store_set set = {.changes = changes, .count = SET};
    unsigned pages = region.work.loaded_pages;
    assert_int_equal(okv_store_change_set(&region.store, &region.work, &set), 0);
    assert_true(region.work.loaded_pages - pages < 20 * SET);
    assert_true(region.store.eviction.evicted_bytes - before < 2 * SET * 324);
    for (unsigned i = 0; i < SET; i++)
        assert_true(is_there(&region, &mix, 1000000 + i));
    expect_heat(&region);
    store_region_close(&region);
}

/* A few items that are used, among many that are not. */
TEST(what_is_used_stays)
{
    enum { HOT = 300 };
    const struct mix *mix = &mixes[2];
    struct store_region region;
    unsigned there = 0;

    open_cache(&region, OKV_STORE_EVICT);
    for (uint64_t i = 0; i < HOT; i++)
        assert_int_equal(put(&region, mix, i), 0);
    for (uint64_t i = HOT; i < 30000; i++) {
        assert_int_equal(put(&region, mix, i), 0);
        is_there(&region, mix, i % HOT);
    }
    for (uint64_t i = 0; i < HOT; i++)
        there += is_there(&region, mix, i);
    assert_in_range(there, HOT * 95 / 100, HOT);
    assert_true(region.store.eviction.evicted_new > 100 * region.store.eviction.evicted_main);
    expect_heat(&region);
    store_region_close(&region);
}

TEST(what_comes_back_is_not_new)
{
    const struct mix *mix = &mixes[2];
    struct store_region region;

    open_cache(&region, OKV_STORE_EVICT);
    uint64_t count = fill(&region, mix, 0, 2), puts = 0;
    /* A print of 8 bits is that of another item, once in a while. */
    uint64_t by_chance = region.store.eviction.puts_of_evicted;
    assert_true(by_chance < count / 20);
    for (uint64_t number = count / 2; puts < 500; number--)
        if (!is_there(&region, mix, number)) {
            assert_int_equal(put(&region, mix, number), 0);
            puts++;
        }
    assert_true(region.store.eviction.puts_of_evicted - by_chance > puts / 2);
    expect_heat(&region);
    store_region_close(&region);
}

/* Without a use. */
static bool is_kept(struct store_region *region, const struct mix *mix, uint64_t number)
{
    char key[64];

    make_key(mix, number, key);
    uint64_t bucket = okv_store_lock_hash(
        &region->store, okv_hash_key(key, mix->key_length, region->store.table.hash_seed));
    assert_int_equal(okv_store_bucket_load(&region->work.bucket, &region->store.table, bucket), 0);
    bool is_found = okv_store_bucket_find(&region->work.bucket, key, mix->key_length);
    okv_store_unlock(&region->store, bucket);
    return is_found;
}

/* An item lives for a round of the hand at least. */
TEST(a_new_item_has_time)
{
    const struct mix *mix = &mixes[2];
    struct store_region region;
    uint64_t number, later, passed = 0;

    open_cache(&region, OKV_STORE_EVICT);
    number = fill(&region, mix, 0, 3);
    assert_int_equal(put(&region, mix, number), 0);
    for (later = number + 1; is_kept(&region, mix, number); later++) {
        uint64_t hand = region.store.eviction.new_hand.next, count = region.store.bucket_count;
        assert_int_equal(put(&region, mix, later), 0);
        passed += (region.store.eviction.new_hand.next + count - hand) % count;
    }
    assert_true(passed > region.store.bucket_count / 2);
    store_region_close(&region);
}

static int put_for(struct store_region *region, const struct mix *mix, uint64_t number,
                   uint64_t ttl_ms)
{
    static uint8_t value[VALUE_MAX];
    struct okv_store_outcome outcome;
    char key[64];

    make_key(mix, number, key);
    const struct okv_store_write write = {.key = key,
                                          .key_length = mix->key_length,
                                          .value = value,
                                          .value_length = make_value(mix, number, value),
                                          .ttl_ms = ttl_ms};
    return okv_store_put(&region->store, &region->work, &write, &outcome);
}

TEST(items_without_an_expiry_stay)
{
    const struct mix *mix = &mixes[2];
    struct store_region region;
    uint64_t kept = 0, number;

    open_cache(&region, OKV_STORE_EVICT_EXPIRING);
    while (put_for(&region, mix, kept, 0) == 0)
        kept++;
    assert_int_equal(region.store.eviction.evicted_new + region.store.eviction.evicted_main, 0);
    assert_int_equal(region.store.eviction.refused, 1);
    /* A third of them makes place for items that expire. */
    for (uint64_t i = 0; i < kept / 3; i++) {
        char key[64];
        make_key(mix, i, key);
        assert_int_equal(store_region_delete(&region, key, mix->key_length), 0);
    }
    for (number = kept; number < 10 * kept; number++) {
        assert_int_equal(put_for(&region, mix, number, 1000000), 0);
        okv_store_evict(&region.store, &region.work);
    }
    for (uint64_t i = kept / 3; i < kept; i++)
        assert_true(is_there(&region, mix, i));
    expect_heat(&region);
    store_region_close(&region);
}

TEST(without_items_that_expire_a_refusal_costs_little)
{
    const struct mix *mix = &mixes[2];
    struct store_region region;
    uint64_t number = 0;

    open_cache(&region, OKV_STORE_EVICT_EXPIRING);
    while (put_for(&region, mix, number, 0) == 0)
        number++;
    for (unsigned i = 0; i < 20; i++) /* passes that move extents come first */
        assert_int_equal(put_for(&region, mix, number, 0), OKV_EFULL);
    region.work.loaded_pages = 0;
    assert_int_equal(put_for(&region, mix, number, 0), OKV_EFULL);
    assert_in_range(region.work.loaded_pages, 0, 64);
    store_region_close(&region);
}

/* Items that stay are new for ever, and are none of the hands' business. */
TEST(expiring_items_that_were_used_are_evicted_beside_others)
{
    const struct mix *mix = &mixes[3];
    struct store_region region;
    uint64_t number = 0;

    open_cache(&region, OKV_STORE_EVICT_EXPIRING);
    for (; number < 400; number++)
        assert_int_equal(put_for(&region, mix, number, 0), 0);
    for (; number < 2000; number++) {
        assert_int_equal(put_for(&region, mix, number, 1000000), 0);
        is_there(&region, mix, number);
        is_there(&region, mix, number - 100);
        okv_store_evict(&region.store, &region.work);
    }
    /* The reserve comes back. */
    for (unsigned i = 0; i < 10 && okv_store_evict_is_due(&region.store); i++)
        okv_store_evict(&region.store, &region.work);
    assert_false(okv_store_evict_is_due(&region.store));
    expect_heat(&region);
    assert_int_equal(region.store.eviction.refused, 0);
    store_region_close(&region);
}

/* What was evicted is no reason to evict more, though it is not wiped yet. */
TEST(what_waits_to_be_wiped_is_free)
{
    enum { LONG = 200000 };
    const struct okv_store_params params = {.length = 16 * REGION,
                                            .bucket_size = 512,
                                            .max_value = REGION / 16,
                                            .full = OKV_STORE_EVICT,
                                            .wipe = true};
    static uint8_t value[LONG];
    struct store_region region;
    uint64_t fell = 0; /* items, at most, beside a put */

    store_region_open(&region, &params);
    for (unsigned i = 0; i < 1000; i++) {
        char key[16];
        int length = snprintf(key, sizeof key, "%u", i);
        uint64_t before = region.store.totals.items;
        int rc;
        while ((rc = store_region_put(&region, key, (uint32_t)length, value, sizeof value, NULL)) ==
               OKV_EAGAIN)
            okv_heap_wipe(&region.store.heap, LONG);
        assert_int_equal(rc, 0);
        for (unsigned step = 0; step < 3; step++)
            okv_store_evict(&region.store, &region.work);
        fell =
            before > region.store.totals.items + fell ? before - region.store.totals.items : fell;
        while (okv_heap_wipe(&region.store.heap, LONG) > 0)
            continue;
    }
    assert_in_range(fell, 0, 20);
    assert_in_range(region.store.eviction.evicted_bytes, 600 * LONG, 800 * LONG);
    assert_int_equal(region.store.heap.unwiped_size, 0);
    store_region_close(&region);
}

/* The index grows and shrinks, and sizes change tenfold, in both directions. */
TEST(sizes_change)
{
    struct store_region region;
    struct store_audit audit;
    uint64_t number = 0;

    open_cache(&region, OKV_STORE_EVICT);
    static const unsigned order[] = {2, 0, 3, 4, 1, 3, 2};
    for (unsigned i = 0; i < sizeof order / sizeof *order; i++) {
        number = fill(&region, &mixes[order[i]], number, 2);
        expect_heat(&region);
        store_region_audit(&region, NULL, NULL, &audit);
    }
    assert_int_equal(region.store.eviction.refused, 0);
    store_region_close(&region);
}

TEST(a_step_is_bounded)
{
    struct store_region region;

    open_cache(&region, OKV_STORE_EVICT);
    fill(&region, &mixes[4], 0, 2);
    for (uint64_t i = 0; i < 1000; i++) {
        uint64_t before = region.store.totals.items;
        okv_store_evict(&region.store, &region.work);
        assert_true(region.store.totals.items + OKV_EVICT_ITEMS + 32 > before);
        assert_int_equal(put_for(&region, &mixes[3], 1000000 + i, 0), 0);
    }
    store_region_close(&region);
}

#define THREADS 3

struct client {
    struct store_region *region;
    struct okv_store_work work;
    pthread_t thread;
    uint64_t first;
    const struct mix *mix;
    unsigned failed;
};

static void *put_and_get(void *user)
{
    struct client *client = user;
    struct okv_store *store = &client->region->store;
    const struct mix *mix = client->mix;
    static _Thread_local uint8_t value[VALUE_MAX], buffer[VALUE_MAX];
    struct okv_store_outcome outcome;

    const uint64_t count = mix->most > 4096 ? 4000 : 40000;
    for (uint64_t i = 0; i < count / STORE_TEST_SLOWNESS; i++) {
        uint64_t version, number = client->first + i % 20000;
        uint32_t length = make_value(mix, number, value), found;
        char key[64];
        make_key(mix, number, key);
        const struct okv_store_write write = {
            .key = key, .key_length = mix->key_length, .value = value, .value_length = length};
        client->failed += okv_store_put(store, &client->work, &write, &outcome) != 0;
        okv_store_evict(store, &client->work);
        make_key(mix, number / 2, key);
        int rc = okv_store_get(store, NULL, key, mix->key_length, buffer, sizeof buffer, &found,
                               &version);
        client->failed += rc != 0 && rc != OKV_ENOTFOUND;
        if (rc == 0)
            client->failed +=
                found != make_value(mix, number / 2, value) || memcmp(buffer, value, found) != 0;
    }
    return NULL;
}

static void expect_threads(const struct mix *mix)
{
    struct store_region region;
    struct store_audit audit;
    struct client clients[THREADS];

    open_cache(&region, OKV_STORE_EVICT);
    for (unsigned i = 0; i < THREADS; i++) {
        clients[i] = (struct client){.region = &region, .first = i * 10000, .mix = mix};
        assert_int_equal(okv_store_work_init(&clients[i].work, 512), 0);
        assert_int_equal(pthread_create(&clients[i].thread, NULL, put_and_get, &clients[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        pthread_join(clients[i].thread, NULL);
        okv_store_work_fini(&clients[i].work);
        assert_int_equal(clients[i].failed, 0);
    }
    expect_heat(&region);
    store_region_audit(&region, NULL, NULL, &audit);
    store_region_close(&region);
}

TEST(threads_evict_for_each_other)
{
    expect_threads(&mixes[4]);
    expect_threads(&mixes[5]);
}

#define USED 64u
/* Uses the first items that are there, as often as counts. */
static void use_some(struct store_region *region, const struct mix *mix, uint64_t *numbers)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < USED; i++) {
        while (!is_there(region, mix, number))
            number++;
        assert_true(is_there(region, mix, number) && is_there(region, mix, number));
        numbers[i] = number++;
    }
}

/* A run of pages for each, though all memory is in short slots. It costs its length, and that of
 * another one at its end at most, of cold items: those that were used are moved. */
TEST(a_long_value_finds_room_among_short_ones)
{
    enum { LONG = 200000, PUTS = 8 };
    static const struct mix of_short = {"24+300", 24, 300, 300};
    static uint8_t value[LONG];
    struct store_region region;
    struct store_audit audit;
    const struct okv_store_eviction *eviction = &region.store.eviction;
    uint64_t used[USED], version;

    open_cache(&region, OKV_STORE_EVICT);
    fill(&region, &of_short, 0, 2);
    for (unsigned i = 0; i < PUTS; i++) {
        char key[8];
        uint32_t length = (uint32_t)snprintf(key, sizeof key, "%u", i);
        while (okv_store_evict_is_due(&region.store))
            okv_store_evict(&region.store, &region.work);
        memset(value, 'a' + (int)i, LONG);
        use_some(&region, &of_short, used);
        uint64_t before = eviction->evicted_bytes;
        assert_int_equal(store_region_put(&region, key, length, value, LONG, &version), 0);
        assert_true(eviction->evicted_bytes - before <= 2 * LONG + OKV_EVICT_ITEMS * 324);
        unsigned there = 0;
        for (unsigned j = 0; j < USED; j++)
            there += is_kept(&region, &of_short, used[j]);
        assert_in_range(there, USED - USED / 8, USED); /* nearly all find a slot elsewhere */
        store_region_expect(&region, key, length, value, LONG, version);
        expect_heat(&region);
        store_region_audit(&region, NULL, NULL, &audit);
    }
    assert_true(eviction->copied_bytes > 0);
    store_region_close(&region);
}

/* Keys that all belong to one bucket: no put and no step looks at all of it again and again. */
TEST(colliding_keys_make_no_step_longer)
{
    struct store_region region;
    unsigned number = 0, longest = 0;

    open_cache(&region, OKV_STORE_EVICT);
    fill(&region, &mixes[2], 0, 2);
    for (unsigned i = 0; i < 600; i++) {
        char key[24];
        store_region_key(&region, 14, &number, key);
        number++;
        store_region_put(&region, key, (uint32_t)strlen(key), key, 24, NULL);
        put_for(&region, &mixes[3], 1000000 + i, 0); /* the reserve is used up */
        region.store.eviction.main_hand.next = region.store.eviction.new_hand.next = 0;
        okv_store_work_take(&region.work);
        okv_store_evict(&region.store, &region.work);
        if (region.work.loaded_pages > longest)
            longest = region.work.loaded_pages;
        assert_true(region.work.loaded_pages < OKV_EVICT_PAGES + OKV_BUCKET_PAGES_MAX);
    }
    assert_true(longest > OKV_EVICT_PAGES / 8); /* there was something to visit */
    expect_heat(&region);
    store_region_close(&region);
}
