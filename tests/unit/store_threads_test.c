/*
 * Several threads on one store: extents that are freed and reused while others read, writers while
 * the index grows and shrinks, a flush between splits.
 */
#include "tests/support/test.h"

#include "server/store/expire.h"
#include "server/store/flush.h"
#include "shared/base/error.h"
#include "tests/support/store_watch.h"

#define REUSED_KEYS 16u
#define REUSED_VALUE (100u << 10)
#define WRITERS 3u
#define KEYS_PER_WRITER (4000u / STORE_TEST_SLOWNESS)
#define SMALL_VALUE 700u

static unsigned times(unsigned n)
{
    return n * (store_test_is_long() ? 20 : 1) / STORE_TEST_SLOWNESS;
}

/* From the smallest to `max`; every power of two is equally likely. */
static uint32_t any_length(struct store_random *random, uint32_t max)
{
    uint32_t length = WATCH_VALUE_MIN << store_random_below(random, 15);

    length += store_random_below(random, length);
    return length < max ? length : max;
}

static void empty(struct store_watch *watch)
{
    for (unsigned i = 0; i < watch->count; i++)
        store_watch_delete(watch, &watch->region->work, i);
    if (atomic_load(&watch->failed))
        fail_msg("%s", watch->failure);
    store_region_expect_empty(watch->region, true);
}

/* Few keys, so that freed memory is reused at once; the region is never full. */
static void churn_resurrects_nothing(const struct okv_store_params *params)
{
    struct store_region region;
    struct store_watch watch;
    struct store_watcher watchers[2];
    struct store_random random;
    struct store_audit audit;

    store_random_init(&random);
    store_region_open(&region, params);
    store_watch_open(&watch, &region, REUSED_KEYS, 20, REUSED_VALUE);
    uint8_t *value = malloc(REUSED_VALUE);
    assert_non_null(value);
    store_watch_start(&watch, watchers, 2);
    for (unsigned i = 0; i < times(40000) && !atomic_load(&watch.failed); i++) {
        unsigned index = store_random_below(&random, REUSED_KEYS);
        if (store_random_below(&random, 3) == 0)
            store_watch_delete(&watch, &region.work, index);
        else
            store_watch_put(&watch, &region.work, value, index, any_length(&random, REUSED_VALUE));
    }
    store_watch_join(&watch, watchers, 2);
    store_region_audit(&region, NULL, NULL, &audit);
    empty(&watch);
    free(value);
    store_watch_close(&watch);
    store_region_close(&region);
}

TEST(churn_resurrects_nothing_inline_or_not)
{
    churn_resurrects_nothing(&(struct okv_store_params){
        .length = 8u << 20, .bucket_size = 512, .max_value = REUSED_VALUE});
}

TEST(churn_resurrects_nothing_in_extents)
{
    churn_resurrects_nothing(&(struct okv_store_params){
        .length = 8u << 20, .bucket_size = 256, .inline_max = 1, .max_value = REUSED_VALUE});
}

/* An index that cannot grow: every change writes all pages of its bucket, and deletes move items
 * between pages. */
TEST(a_miss_needs_all_pages_of_one_version)
{
    const unsigned keys = 1500;
    struct store_region region;
    struct store_watch watch;
    struct store_watcher watchers[2];
    struct store_random random;
    struct store_audit audit;
    uint8_t value[60];

    store_random_init(&random);
    store_region_open(&region, &(struct okv_store_params){
                                   .length = 1u << 20, .bucket_size = 256, .index_percent = 1});
    store_watch_open(&watch, &region, keys, 20, sizeof value);
    for (unsigned i = 0; i < keys; i += 2)
        assert_int_equal(store_watch_put(&watch, &region.work, value, i, 30), 0);
    store_watch_start(&watch, watchers, 2);
    for (unsigned i = 0; i < times(200000) && !atomic_load(&watch.failed); i++) {
        unsigned index = store_random_below(&random, keys / 2) * 2 + 1;
        if (store_random_below(&random, 2))
            store_watch_delete(&watch, &region.work, index);
        else
            store_watch_put(&watch, &region.work, value, index, 30);
    }
    store_watch_join(&watch, watchers, 2);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_true(audit.longest_chain > 2);
    empty(&watch);
    store_watch_close(&watch);
    store_region_close(&region);
}

/* A region that is always full: extents move to make room while others read them. */
TEST(compaction_moves_extents_under_readers)
{
    const unsigned keys = 3000, max = 3000;
    struct store_region region;
    struct store_watch watch;
    struct store_watcher watchers[2];
    struct store_random random;
    struct store_audit audit;
    unsigned full = 0;
    uint8_t value[3000];

    store_random_init(&random);
    store_region_open(&region, &(struct okv_store_params){.length = 1u << 20, .bucket_size = 512});
    store_watch_open(&watch, &region, keys, 20, max);
    store_watch_start(&watch, watchers, 2);
    for (unsigned i = 0; i < times(16000) && !atomic_load(&watch.failed); i++) {
        unsigned index = store_random_below(&random, keys);
        uint32_t length = any_length(&random, i / (times(16000) / 8) % 2 ? max : 100);
        if (store_random_below(&random, 3) == 0)
            store_watch_delete(&watch, &region.work, index);
        else if (store_watch_put(&watch, &region.work, value, index, length) == OKV_EFULL)
            full++;
    }
    store_watch_join(&watch, watchers, 2);
    assert_true(full > 0);
    store_region_audit(&region, NULL, NULL, &audit);
    for (unsigned i = 0; i < keys; i++)
        store_watch_check(&watch, &region.reader, i);
    empty(&watch);
    store_watch_close(&watch);
    store_region_close(&region);
}

struct writer {
    pthread_t thread;
    struct store_watch *watch;
    unsigned number;
};

/* Puts all its keys, deletes most of them, and repeats: the index grows and shrinks. */
static void *write_own_keys(void *argument)
{
    struct writer *writer = argument;
    struct store_watch *watch = writer->watch;
    struct store_random random = {.state = writer->number};
    struct okv_store_work work;
    uint8_t value[SMALL_VALUE];
    unsigned steps = times(100000);

    if (okv_store_work_init(&work, watch->region->store.table.bucket_size))
        return NULL;
    for (unsigned i = 0; i < steps && !atomic_load(&watch->failed); i++) {
        unsigned index = store_random_below(&random, KEYS_PER_WRITER) * WRITERS + writer->number;
        bool filling = i / (steps / 5 + 1) % 2 == 0;
        if (store_random_below(&random, 10) < (filling ? 9u : 1u))
            store_watch_put(watch, &work, value, index, any_length(&random, i % 10 ? 60 : 700));
        else
            store_watch_delete(watch, &work, index);
        if (i % 64 == 0)
            okv_store_sweep(&watch->region->store, &work, 4);
    }
    okv_store_work_fini(&work);
    return argument;
}

static void run_writers(struct writer *writers, struct store_watch *watch)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.watch = watch, .number = i};
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_own_keys, &writers[i]), 0);
    }
}

static void join_writers(struct writer *writers)
{
    for (unsigned i = 0; i < WRITERS; i++) {
        void *done = NULL;
        pthread_join(writers[i].thread, &done);
        assert_non_null(done);
    }
}

TEST(writers_agree_while_the_index_grows_and_shrinks)
{
    struct store_region region;
    struct store_watch watch;
    struct store_watcher watcher;
    struct writer writers[WRITERS];
    struct store_audit audit;

    store_region_open(&region, &(struct okv_store_params){.length = 32u << 20, .bucket_size = 256});
    store_watch_open(&watch, &region, WRITERS * KEYS_PER_WRITER, 12, SMALL_VALUE);
    store_watch_start(&watch, &watcher, 1);
    run_writers(writers, &watch);
    join_writers(writers);
    store_watch_join(&watch, &watcher, 1);
    store_region_audit(&region, NULL, NULL, &audit);
    for (unsigned i = 0; i < watch.count; i++)
        store_watch_check(&watch, &region.reader, i);
    assert_true(atomic_load(&region.store.totals.splits) > 200);
    assert_true(atomic_load(&region.store.totals.merges) > 0);
    print_message("splits %llu, merges %llu\n",
                  (unsigned long long)atomic_load(&region.store.totals.splits),
                  (unsigned long long)atomic_load(&region.store.totals.merges));
    empty(&watch);
    store_watch_close(&watch);
    store_region_close(&region);
}

/* ---- keys that several threads write ---- */

#define SHARED_KEYS 60u

struct rival {
    pthread_t thread;
    struct store_region *region;
    uint64_t seed;
    unsigned puts, counted, wrong;
};

/* Any operation, on a key that others write as well. Each value is one byte,
 * repeated. */
static void rival_step(struct rival *rival, struct okv_store_work *work,
                       struct store_random *random)
{
    struct okv_store *store = &rival->region->store;
    uint8_t value[600], read[600];
    char key[24];
    uint32_t length;
    uint64_t version;
    struct okv_store_outcome outcome;
    struct okv_store_write write = {.key = key, .value = value};

    write.key_length =
        (uint32_t)snprintf(key, sizeof key, "k%u", store_random_below(random, SHARED_KEYS));
    write.value_length = 1 + store_random_below(random, store_random_below(random, 3) ? 40 : 600);
    memset(value, (int)write.value_length, write.value_length);
    int rc;
    switch (store_random_below(random, 4)) {
    case 0:
        rc = okv_store_delete(store, work, &write, &outcome);
        rival->wrong += rc != 0 && rc != OKV_ENOTFOUND;
        return;
    case 1:
        rc =
            okv_store_get(store, NULL, key, write.key_length, read, sizeof read, &length, &version);
        rival->wrong += rc != 0 && rc != OKV_ENOTFOUND;
        for (uint32_t at = 1; rc == 0 && at < length; at++)
            rival->wrong += read[at] != read[0];
        return;
    case 2: /* a counter that must not lose an increment */
        write.key_length = (uint32_t)snprintf(key, sizeof key, "counter");
        write.delta = 1;
        rc = okv_store_incr(store, work, &write, &outcome);
        rival->counted += rc == 0;
        rival->wrong += rc != 0 && rc != OKV_EFULL;
        return;
    default:
        rc = okv_store_put(store, work, &write, &outcome);
        rival->puts += rc == 0;
        rival->wrong += rc != 0 && rc != OKV_EFULL;
    }
}

static void *compete(void *argument)
{
    struct rival *rival = argument;
    struct store_random random = {.state = rival->seed};
    struct okv_store_work work;

    if (okv_store_work_init(&work, rival->region->store.table.bucket_size))
        return NULL;
    for (unsigned i = 0; i < times(40000); i++)
        rival_step(rival, &work, &random);
    okv_store_work_fini(&work);
    return argument;
}

TEST(rivals_lose_no_increment)
{
    struct store_region region;
    struct rival rivals[WRITERS];
    struct store_audit audit;
    char text[24];
    uint32_t length;
    uint64_t version;
    unsigned counted = 0;

    store_region_open(&region, &(struct okv_store_params){
                                   .length = 96u << 10, .bucket_size = 256, .index_percent = 1});
    for (unsigned i = 0; i < WRITERS; i++) {
        rivals[i] = (struct rival){.region = &region, .seed = i + 1};
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, compete, &rivals[i]), 0);
    }
    for (unsigned i = 0; i < WRITERS; i++) {
        void *done = NULL;
        pthread_join(rivals[i].thread, &done);
        assert_non_null(done);
        assert_int_equal(rivals[i].wrong, 0);
        assert_true(rivals[i].puts > 100);
        counted += rivals[i].counted;
    }
    assert_int_equal(
        okv_store_get(&region.store, NULL, "counter", 7, text, sizeof text - 1, &length, &version),
        0);
    text[length] = '\0';
    assert_int_equal(strtoul(text, NULL, 10), counted);
    store_region_audit(&region, NULL, NULL, &audit);
    store_region_close(&region);
}

/* ---- flush while another thread makes the index grow ---- */

struct grower {
    pthread_t thread;
    struct store_watch *watch;
    unsigned from;
    atomic_bool stop;
};

static void *grow_index(void *argument)
{
    struct grower *grower = argument;
    struct store_watch *watch = grower->watch;
    struct okv_store_work work;
    uint8_t value[64];

    if (okv_store_work_init(&work, watch->region->store.table.bucket_size))
        return NULL;
    for (unsigned i = 0; !atomic_load(&grower->stop); i++) {
        unsigned index = grower->from + i % (watch->count - grower->from);
        store_watch_put(watch, &work, value, index, 60);
    }
    okv_store_work_fini(&work);
    return argument;
}

/* A flush removes every item that existed when it began, also those that splits moved. */
TEST(a_flush_misses_nothing_between_splits)
{
    const unsigned old = 3000;
    struct store_region region;
    struct store_watch watch;
    uint8_t value[64];
    uint64_t flush_steps = 0, begun_again = 0;

    store_region_open(&region, &(struct okv_store_params){.length = 64u << 20, .bucket_size = 256});
    store_watch_open(&watch, &region, 40000, 12, 64);
    for (unsigned round = 0; round < times(60); round++) {
        struct grower grower = {.watch = &watch, .from = old};
        for (unsigned i = 0; i < old; i++)
            assert_int_equal(store_watch_put(&watch, &region.work, value, i, 20), 0);
        assert_int_equal(pthread_create(&grower.thread, NULL, grow_index, &grower), 0);
        uint64_t next = 0, splits = 0, last = UINT64_MAX;
        do {
            assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
            begun_again += next > last;
            last = next;
            flush_steps++;
        } while (next && flush_steps < 1000000);
        atomic_store(&grower.stop, true);
        pthread_join(grower.thread, NULL);
        for (unsigned i = 0; i < old; i++) {
            struct store_found found;
            uint8_t key[12] = "............";
            okv_put_u64(key, i);
            assert_int_equal(store_reader_find(&region.reader, key, sizeof key, &found),
                             OKV_ENOTFOUND);
        }
        next = splits = 0;
        do
            assert_int_equal(okv_store_flush(&region.store, &region.work, &next, &splits), 0);
        while (next);
        store_region_expect_empty(&region, false);
    }
    print_message("%llu steps, begun again %llu times\n", (unsigned long long)flush_steps,
                  (unsigned long long)begun_again);
    store_watch_close(&watch);
    store_region_close(&region);
}
