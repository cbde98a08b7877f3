/* Long values: written in slices, appended to without a lock, while others change the item. */
#include <pthread.h>
#include <sched.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/store_region.h"

#define SLICE 20000u
#define VALUE_MAX (UINT32_C(1) << 20)

static const struct okv_store_params params = {
    .length = 8u << 20, .bucket_size = 512, .max_value = VALUE_MAX};
static uint8_t bytes[VALUE_MAX];

/* An append of `length` bytes to "key", which is under way. */
struct appending {
    struct store_region *region;
    struct okv_store_write write;
    struct okv_store_long_value value;
    struct okv_store_outcome outcome;
};

static void open_region(struct store_region *region, const struct okv_store_params *wanted)
{
    for (uint32_t i = 0; i < VALUE_MAX; i++)
        bytes[i] = (uint8_t)(i * 2654435761u >> 13);
    store_region_open(region, wanted);
}

static uint64_t put(struct store_region *region, uint32_t length)
{
    uint64_t version;

    assert_int_equal(store_region_put(region, "key", 3, bytes, length, &version), 0);
    return version;
}

/* Appends the bytes behind the first `at`. Returns what the store says. */
static int appending_open(struct appending *appending, struct store_region *region, uint32_t at,
                          uint32_t length)
{
    *appending = (struct appending){.region = region,
                                    .write = {.key = "key",
                                              .key_length = 3,
                                              .value = bytes + at,
                                              .value_length = length,
                                              .long_value = &appending->value}};
    return okv_store_append(&region->store, &region->work, &appending->write, &appending->outcome);
}

static void appending_copy(struct appending *appending)
{
    struct okv_store *store = &appending->region->store;
    struct okv_store_long_value *value = &appending->value;

    assert_int_equal(
        okv_store_long_reserve(store, &appending->region->work, value, appending->write.key_length,
                               value->before_length + appending->write.value_length, false),
        0);
    okv_store_long_begin(store, value, &appending->write);
    while (!okv_store_long_is_complete(value))
        assert_in_range(okv_store_long_step(store, value, SLICE), 1, SLICE);
}

static int appending_commit(struct appending *appending)
{
    return okv_store_append(&appending->region->store, &appending->region->work, &appending->write,
                            &appending->outcome);
}

static void appending_close(struct appending *appending)
{
    okv_store_long_release(&appending->region->store, &appending->value);
}

static void begin(struct appending *appending, struct store_region *region, uint32_t at)
{
    assert_int_equal(appending_open(appending, region, at, 100), OKV_STORE_LONG);
    appending_copy(appending);
}

static void expect(struct store_region *region, uint32_t length, uint64_t version)
{
    store_region_expect(region, "key", 3, bytes, length, version);
}

/* ---- the tests ---- */

/* With the key in the entry and in the extent. The reader checks the checksum as one. */
TEST(slices_make_the_value_and_its_checksum)
{
    static const uint32_t sizes[] = {OKV_STORE_LONG_MIN, SLICE - 1,     SLICE, SLICE + 1,
                                     3 * SLICE - 1,      3 * SLICE + 1, 65000, 65536 - 2};
    uint8_t key[OKV_KEY_MAX];

    memset(key, 'k', sizeof key);
    for (uint32_t key_length = 1; key_length <= OKV_KEY_MAX; key_length += OKV_KEY_MAX - 1)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            struct store_region region;
            struct okv_store_outcome outcome;
            struct okv_store_write write = {.key = key, .key_length = key_length, .value = bytes};
            open_region(&region, &params);
            write.value_length = sizes[i];
            assert_int_equal(okv_store_put(&region.store, &region.work, &write, &outcome), 0);
            write.value = bytes + sizes[i];
            write.value_length = SLICE / 2;
            assert_int_equal(store_region_append(&region, &write, SLICE, &outcome), 0);
            assert_int_equal(outcome.length, sizes[i] + SLICE / 2);
            store_region_expect(&region, key, key_length, bytes, sizes[i] + SLICE / 2,
                                outcome.version);
            assert_int_equal(store_region_delete(&region, key, key_length), 0);
            store_region_expect_empty(&region, true);
            store_region_close(&region);
        }
}

TEST(shorter_values_are_appended_to_at_once)
{
    struct store_region region;
    struct appending appending;

    open_region(&region, &params);
    put(&region, OKV_STORE_LONG_MIN - 1);
    assert_int_equal(appending_open(&appending, &region, OKV_STORE_LONG_MIN - 1, 1), 0);
    expect(&region, OKV_STORE_LONG_MIN, appending.outcome.version);
    assert_int_equal(appending_open(&appending, &region, OKV_STORE_LONG_MIN, 1), OKV_STORE_LONG);
    appending_close(&appending);
    appending.write.long_value = NULL; /* the caller only asks */
    assert_int_equal(appending_commit(&appending), OKV_STORE_LONG);
    assert_int_equal(atomic_load(&region.store.heap.pin_count), 0);
    store_region_close(&region);
}

TEST(a_value_beyond_the_limit_is_refused)
{
    struct store_region region;
    struct appending appending;

    open_region(&region, &params);
    put(&region, VALUE_MAX - 99);
    assert_int_equal(appending_open(&appending, &region, 0, 100), OKV_EVALUESIZE);
    assert_int_equal(atomic_load(&region.store.heap.pin_count), 0);
    store_region_close(&region);
}

/* Another value, also one of the same bytes, a shorter one, or none. */
TEST(a_change_of_the_value_makes_it_begin_again)
{
    struct store_region region;
    struct appending appending;

    open_region(&region, &params);
    for (unsigned round = 0; round < 3; round++) {
        put(&region, 50000);
        begin(&appending, &region, 50000);
        uint64_t version = 0;
        if (round == 0)
            version = put(&region, 50000);
        else
            assert_int_equal(store_region_delete(&region, "key", 3), 0);
        if (round == 2)
            version = put(&region, 3);
        assert_int_equal(appending_commit(&appending), OKV_STORE_LONG);
        expect(&region, round == 0 ? 50000 : round == 1 ? 0 : 3, version);
        appending_close(&appending);
    }
    assert_int_equal(store_region_delete(&region, "key", 3), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

TEST(a_touch_does_not)
{
    struct store_region region;
    struct appending appending;
    struct store_found found;
    const struct okv_store_write touch = {.key = "key", .key_length = 3, .ttl_ms = 5000};
    struct okv_store_outcome touched;

    open_region(&region, &params);
    put(&region, 50000);
    begin(&appending, &region, 50000);
    assert_int_equal(okv_store_touch(&region.store, &region.work, &touch, &touched), 0);
    assert_int_equal(appending_commit(&appending), 0);
    assert_true(appending.outcome.version > touched.version);
    assert_int_equal(appending.outcome.length, 50100);
    appending_close(&appending);
    expect(&region, 50100, appending.outcome.version);
    assert_int_equal(store_reader_find(&region.reader, "key", 3, &found), 0);
    assert_int_equal(found.expiry_ms, 1 + 5000 + 1);
    store_region_close(&region);
}

/* The item expires meanwhile. */
TEST(an_expired_value_is_not_appended_to)
{
    struct store_region region;
    struct appending appending;
    const struct okv_store_write touch = {.key = "key", .key_length = 3, .ttl_ms = 5000};
    struct okv_store_outcome touched;

    open_region(&region, &params);
    put(&region, 50000);
    assert_int_equal(okv_store_touch(&region.store, &region.work, &touch, &touched), 0);
    begin(&appending, &region, 0);
    okv_store_set_clock(&region.store, 6000, false);
    assert_int_equal(appending_commit(&appending), OKV_STORE_LONG);
    appending_close(&appending);
    assert_int_equal(appending_open(&appending, &region, 0, 100), 0);
    expect(&region, 100, appending.outcome.version);
    store_region_close(&region);
}

static void wipe_all(struct store_region *region)
{
    while (okv_heap_wipe(&region->store.heap, UINT64_MAX) > 0)
        ;
}

/* The source is freed meanwhile: no allocation takes its memory, and its bytes stay. */
TEST(a_pinned_extent_is_not_reused)
{
    struct okv_store_params wiped = params;
    struct store_region region;
    struct appending appending;
    char key[8];
    unsigned count = 0;

    wiped.wipe = true;
    open_region(&region, &wiped);
    put(&region, 100000);
    begin(&appending, &region, 0);
    assert_int_equal(store_region_delete(&region, "key", 3), 0);
    uint64_t used = okv_heap_used(&region.store.heap);
    int length;
    do
        length = snprintf(key, sizeof key, "%u", count++);
    while (store_region_put(&region, key, (uint32_t)length, bytes + 1, 100000, NULL) == 0);
    assert_memory_equal(appending.value.before, bytes, 100000);
    for (unsigned i = 0; i + 1 < count; i++) {
        length = snprintf(key, sizeof key, "%u", i);
        assert_int_equal(store_region_delete(&region, key, (uint32_t)length), 0);
    }
    wipe_all(&region);
    assert_in_range(okv_heap_used(&region.store.heap), used, UINT64_MAX);
    const uint8_t *before = appending.value.before;
    appending_close(&appending);
    wipe_all(&region);
    assert_int_equal(before[50000], 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

TEST(one_append_at_a_time_has_a_source)
{
    struct store_region region;
    struct appending first, second;

    open_region(&region, &params);
    put(&region, 50000);
    begin(&first, &region, 50000);
    assert_int_equal(appending_open(&second, &region, 50100, 100), OKV_EAGAIN);
    assert_int_equal(appending_commit(&first), 0);
    begin(&second, &region, 50100);
    appending_close(&first);
    assert_int_equal(appending_commit(&second), 0);
    appending_close(&second);
    expect(&region, 50200, second.outcome.version);
    assert_int_equal(store_region_delete(&region, "key", 3), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}

/* ---- several threads on one value ---- */

#define APPENDERS 3u
#define BASE 50000u /* bytes of the value that a put makes */

struct appender {
    pthread_t thread;
    pthread_barrier_t *start;
    struct store_region *region;
    unsigned number;
    unsigned again; /* appends that found another value at the end */
    int wrong;      /* what else the store said, or 0 */
};

/* Until it is done. */
static int append_byte(struct appender *appender, struct okv_store_work *work, uint8_t byte)
{
    struct okv_store *store = &appender->region->store;
    struct okv_store_long_value value = {.extent = 0};
    const struct okv_store_write write = {
        .key = "key", .key_length = 3, .value = &byte, .value_length = 1, .long_value = &value};
    struct okv_store_outcome outcome;
    int rc;

    while ((rc = okv_store_append(store, work, &write, &outcome)) == OKV_STORE_LONG ||
           rc == OKV_EAGAIN) {
        if (value.extent) {
            appender->again++;
            okv_store_long_release(store, &value);
        } else if (rc == OKV_EAGAIN) {
            sched_yield();
        } else {
            rc = okv_store_long_reserve(store, work, &value, 3, value.before_length + 1, false);
            if (rc)
                break;
            okv_store_long_begin(store, &value, &write);
            while (!okv_store_long_is_complete(&value)) {
                okv_store_long_step(store, &value, SLICE);
                sched_yield();
            }
        }
    }
    okv_store_long_release(store, &value);
    return rc;
}

static void *append_many(void *argument)
{
    struct appender *appender = argument;
    struct okv_store_work work;
    uint8_t base[BASE];
    const struct okv_store_write put_base = {
        .key = "key", .key_length = 3, .value = base, .value_length = BASE};
    struct okv_store_outcome outcome;

    memset(base, 'p', sizeof base);
    if (okv_store_work_init(&work, 512))
        return NULL;
    pthread_barrier_wait(appender->start);
    for (unsigned i = 0; i < 3000 / STORE_TEST_SLOWNESS && !appender->wrong; i++) {
        if (appender->number == 0 && i % 4 == 0)
            appender->wrong = okv_store_put(&appender->region->store, &work, &put_base, &outcome);
        else
            appender->wrong = append_byte(appender, &work, (uint8_t)('0' + appender->number));
    }
    okv_store_work_fini(&work);
    return argument;
}

TEST(appends_and_puts_of_several_threads_leave_whole_values)
{
    struct store_region region;
    struct appender appenders[APPENDERS];
    struct store_found found;
    struct store_audit audit;
    pthread_barrier_t start;
    unsigned again = 0;

    pthread_barrier_init(&start, NULL, APPENDERS);
    open_region(&region, &params);
    put(&region, BASE);
    for (unsigned i = 0; i < APPENDERS; i++) {
        appenders[i] = (struct appender){.start = &start, .region = &region, .number = i};
        assert_int_equal(pthread_create(&appenders[i].thread, NULL, append_many, &appenders[i]), 0);
    }
    for (unsigned i = 0; i < APPENDERS; i++) {
        void *done = NULL;
        pthread_join(appenders[i].thread, &done);
        assert_non_null(done);
        assert_int_equal(appenders[i].wrong, 0);
        again += appenders[i].again;
    }
    pthread_barrier_destroy(&start);
    print_message("%u appends began again\n", again);
    assert_int_equal(store_reader_find(&region.reader, "key", 3, &found), 0);
    for (uint32_t i = 0; i < found.value_length; i++)
        assert_true(i < BASE ? found.value[i] == 'p'
                             : found.value[i] >= '0' && found.value[i] < '0' + (int)APPENDERS);
    store_region_audit(&region, NULL, NULL, &audit);
    assert_int_equal(atomic_load(&region.store.heap.pin_count), 0);
    assert_int_equal(store_region_delete(&region, "key", 3), 0);
    store_region_expect_empty(&region, true);
    store_region_close(&region);
}
