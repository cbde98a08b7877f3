/*
 * A table grows from a thousand items to many and shrinks again, while readers look items up
 * that are there and some that are not: none may be missed, seen wrongly or take more READs
 * than the index promises, and gets must go on while the server stands still.
 *
 * 204,800 items; over RDMA and with a sanitizer 32,000; with OKV_LONG=1 5,120,000. $OKV_TEST_SEED
 * repeats which items are read, though not the timing.
 */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/bulk.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"

#define WRITERS 2 /* writer w has the items n with n % WRITERS == w */
#define READERS 2
#define MANY 8
#define ITEMS_FIRST 1000
#define GETS_BETWEEN_NAPS 256 /* so that readers leave the writers some of the processor */
#define NEVER_THERE (UINT64_C(1) << 40) /* added to a number: an item that nobody puts */
#define READS_PER_GET_MAX 1.05
/* Fewer gets than these in the last doubling say little about READs per get. */
#define GETS_MIN 10000
#define GETS_WHILE_STOPPED 100
#define STOPPED_MS 500 /* at first */

struct growth {
    struct server_process server;
    uint64_t seed, items;
    atomic_uint_fast64_t there_end[WRITERS];
    atomic_bool stop;
    atomic_uint_fast64_t wrong;
    bool is_one_sided; /* gets need no server */
};

struct reader {
    struct growth *growth;
    pthread_t thread;
    bool many; /* reads several at once, and items that are not there as well */
    uint64_t random;
    okv *handle;
    uint64_t longest_ns;
    int status; /* the first that was wrong, and of which item */
    uint64_t item;
    /* Counts of its handle, for others to see; `others`: READs of the directory, of the clock, and
     * of extents that had moved. */
    atomic_uint_fast64_t gets, reads, wrong_depths, torn, others, fallbacks, timeouts;
};

struct writer {
    struct growth *growth;
    pthread_t thread;
    okv *handle;
    struct bulk bulk;
    int status;
    uint64_t item;
};

/* ---- readers ---- */

static bool is_there(struct growth *growth, uint64_t n)
{
    return n < atomic_load(&growth->there_end[n % WRITERS]);
}

/* One that is there, all of them alike. */
static uint64_t choose_item(struct reader *reader)
{
    uint64_t end = 0, n;

    for (unsigned w = 0; w < WRITERS; w++)
        if (atomic_load(&reader->growth->there_end[w]) > end)
            end = atomic_load(&reader->growth->there_end[w]);
    do
        n = random_below(&reader->random, end);
    while (!is_there(reader->growth, n));
    return n;
}

static void check(struct reader *reader, uint64_t n, const struct okv_result *result,
                  const uint8_t *value)
{
    bool right;

    if (n >= NEVER_THERE)
        right = result->status == OKV_ENOTFOUND;
    else if (result->status == OKV_ENOTFOUND)
        right = !is_there(reader->growth, n); /* it may have been deleted meanwhile */
    else
        right = result->status == OKV_OK && bulk_value_is(value, result->length, n);
    if (!right && atomic_fetch_add(&reader->growth->wrong, 1) == 0) {
        reader->status = result->status;
        reader->item = n;
    }
}

static void show_counts(struct reader *reader)
{
    struct okv_counters counters;

    okv_counters(reader->handle, &counters);
    atomic_store(&reader->reads, counters.reads);
    atomic_store(&reader->wrong_depths, counters.wrong_depths);
    atomic_store(&reader->torn, counters.torn_buckets + counters.torn_extents);
    atomic_store(&reader->others,
                 counters.directory_reads + counters.status_reads + counters.hints_wrong);
    atomic_store(&reader->fallbacks, counters.fallbacks);
    atomic_store(&reader->timeouts, counters.timeouts);
    atomic_store(&reader->gets, counters.gets);
}

static void *read_items(void *user)
{
    struct reader *reader = user;
    unsigned count = reader->many ? MANY : 1;
    struct okv_command commands[MANY];
    struct okv_result results[MANY];
    uint8_t values[MANY][BULK_VALUE_BYTES];
    char keys[MANY][BULK_KEY_BYTES];
    uint64_t items[MANY];

    while (!atomic_load(&reader->growth->stop)) {
        for (unsigned i = 0; i < count; i++) {
            items[i] = choose_item(reader) + (reader->many && i == 0 ? NEVER_THERE : 0);
            bulk_key(keys[i], items[i]);
            commands[i] = (struct okv_command){
                .kind = OKV_GET,
                .key = keys[i],
                .key_length = BULK_KEY_BYTES,
                .buffer = values[i],
                .buffer_size = BULK_VALUE_BYTES,
            };
        }
        uint64_t begin = okv_clock_ns();
        int rc = okv_call_many(reader->handle, commands, results, count);
        uint64_t took = okv_clock_ns() - begin;
        if (rc && atomic_fetch_add(&reader->growth->wrong, 1) == 0)
            reader->status = rc;
        if (rc)
            break;
        reader->longest_ns = took > reader->longest_ns ? took : reader->longest_ns;
        for (unsigned i = 0; i < count; i++)
            check(reader, items[i], &results[i], values[i]);
        show_counts(reader);
        if (atomic_load(&reader->gets) / count % (GETS_BETWEEN_NAPS / count) == 0)
            nanosleep(&(struct timespec){0, 100000}, NULL);
    }
    return NULL;
}

static void readers_start(struct growth *growth, struct reader readers[READERS])
{
    for (unsigned i = 0; i < READERS; i++) {
        struct reader *reader = &readers[i];
        reader->growth = growth;
        reader->many = i > 0;
        reader->random = growth->seed + i;
        reader->handle = server_connect(&growth->server, NULL);
        assert_int_equal(pthread_create(&reader->thread, NULL, read_items, reader), 0);
    }
}

/* Never mind how long: what is asked is whether any wait for the server. */
static void readers_stop(struct growth *growth, struct reader readers[READERS])
{
    atomic_store(&growth->stop, true);
    for (unsigned i = 0; i < READERS; i++) {
        pthread_join(readers[i].thread, NULL);
        okv_close(&readers[i].handle);
        print_message("reader %u: %" PRIu64 " gets, longest %" PRIu64 " us, %" PRIu64
                      " asked of the server\n",
                      i, (uint64_t)atomic_load(&readers[i].gets), readers[i].longest_ns / 1000,
                      (uint64_t)atomic_load(&readers[i].fallbacks));
        if (readers[i].status || readers[i].item)
            print_message("reader %u: item %" PRIu64 ": %s\n", i, readers[i].item,
                          okv_errname(readers[i].status));
        assert_int_equal(atomic_load(&readers[i].timeouts), 0);
    }
    assert_int_equal(atomic_load(&growth->wrong), 0);
}

/* ---- writers ---- */

static void *write_items(void *user)
{
    struct writer *writer = user;

    writer->status = bulk_run(writer->handle, &writer->bulk, &writer->item);
    return NULL;
}

static void writers_start(struct writer writers[WRITERS], int kind, uint64_t begin, uint64_t end)
{
    for (unsigned w = 0; w < WRITERS; w++) {
        struct writer *writer = &writers[w];
        writer->bulk = (struct bulk){
            .kind = kind,
            .begin = begin + w,
            .end = end + w,
            .step = WRITERS,
            .there_end = &writer->growth->there_end[w],
        };
        assert_int_equal(pthread_create(&writer->thread, NULL, write_items, writer), 0);
    }
}

static void writers_join(struct writer writers[WRITERS])
{
    for (unsigned w = 0; w < WRITERS; w++) {
        pthread_join(writers[w].thread, NULL);
        if (writers[w].status)
            fail_msg("item %" PRIu64 ": %s", writers[w].item, okv_errname(writers[w].status));
    }
}

/* ---- the test ---- */

/* Gets of a reader while the server stands still for a while. */
static uint64_t gets_while_stopped(struct growth *growth, struct reader *reader,
                                   uint32_t stopped_ms)
{
    uint64_t deadline = okv_clock_ns() + stopped_ms * UINT64_C(1000000);

    server_signal(&growth->server, SIGSTOP);
    uint64_t gets = atomic_load(&reader->gets);
    while (atomic_load(&reader->gets) < gets + GETS_WHILE_STOPPED && okv_clock_ns() < deadline)
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    gets = atomic_load(&reader->gets) - gets;
    server_signal(&growth->server, SIGCONT);
    return gets;
}

/* In the middle of growth: gets need no server. Where it was stopped while it wrote a bucket, those
 * of that one wait for it: another time that is not so. Each stop is longer than the one before: a
 * slow machine has time for the gets in the end. */
static void stop_server_a_while(struct growth *growth, struct reader *reader)
{
    uint64_t end = pace_guard_end();
    uint32_t stopped_ms = pace_ms(STOPPED_MS);

    for (; gets_while_stopped(growth, reader, stopped_ms) < GETS_WHILE_STOPPED; stopped_ms *= 2)
        assert_true(okv_clock_ns() < end);
}

static void double_items(struct growth *growth, struct writer writers[WRITERS],
                         struct reader *reader, uint64_t from, uint64_t to)
{
    uint64_t reads = atomic_load(&reader->reads), wrong_depths = atomic_load(&reader->wrong_depths);
    uint64_t others = atomic_load(&reader->others);
    uint64_t torn = atomic_load(&reader->torn), gets = atomic_load(&reader->gets);

    writers_start(writers, OKV_PUT, from, to);
    if (to == growth->items && growth->is_one_sided) {
        while (atomic_load(&growth->there_end[0]) < (from + to) / 2)
            nanosleep(&(struct timespec){0, 100000}, NULL);
        stop_server_a_while(growth, reader);
    }
    writers_join(writers);
    gets = atomic_load(&reader->gets) - gets;
    reads = atomic_load(&reader->reads) - reads;
    others = atomic_load(&reader->others) - others;
    double per_get = gets ? (double)reads / (double)gets : 0;
    print_message("%8" PRIu64 " to %8" PRIu64 " items: %7" PRIu64 " gets, %.4f READs per get, of "
                  "these %" PRIu64 " for a bucket that had split, %" PRIu64 " torn, %" PRIu64
                  " of no bucket\n",
                  from, to, gets, per_get,
                  (uint64_t)atomic_load(&reader->wrong_depths) - wrong_depths,
                  (uint64_t)atomic_load(&reader->torn) - torn, others);
    /* What goes out together with the READ of the bucket, or once for a segment, is not counted. */
    if (to == growth->items && gets >= GETS_MIN)
        assert_true((double)(reads - others) / (double)gets <= READS_PER_GET_MAX);
}

/* Every byte of the region is accounted for, once. To be called while nobody writes. */
static void assert_all_accounted(okv *handle, uint64_t items)
{
    static const char *const parts[] = {"superblock_bytes",  "index_bytes",
                                        "overflow_bytes",    "extent_bytes",
                                        "heap_unused_bytes", "never_used_bytes"};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += server_stat(handle, parts[i]);
    assert_int_equal(sum, server_stat(handle, "region_bytes"));
    assert_int_equal(server_stat(handle, "items"), items);
    assert_int_equal(server_stat(handle, "user_bytes"),
                     items * (BULK_KEY_BYTES + BULK_VALUE_BYTES));
}

static void print_table(okv *handle)
{
    print_message("%" PRIu64 " items: %" PRIu64 " buckets, index %" PRIu64
                  " bytes, extents %" PRIu64 ", splits %" PRIu64 ", merges %" PRIu64 "\n",
                  server_stat(handle, "items"), server_stat(handle, "buckets"),
                  server_stat(handle, "index_bytes"), server_stat(handle, "extent_bytes"),
                  server_stat(handle, "splits"), server_stat(handle, "merges"));
}

static int setup(void **state)
{
    const char *all = getenv("OKV_LONG");
    bool is_long = all && strcmp(all, "1") == 0;
    const char *memory = is_long ? "2G" : server_is_slow() ? "64M" : "256M";
    const char *const arguments[] = {"--memory", memory, NULL};
    struct growth *growth = calloc(1, sizeof *growth);

    server_start(&growth->server, arguments);
    growth->seed = random_seed();
    /* Halves of it are whole numbers, down to the first thousands. */
    growth->items = is_long ? 5120000 : server_is_slow() || OKV_SANITIZED ? 32000 : 204800;
    *state = growth;
    return 0;
}

static int teardown(void **state)
{
    struct growth *growth = *state;
    int status = server_stop(&growth->server);

    free(growth);
    return status;
}

TEST_WITH(grows_and_shrinks_under_readers, setup, teardown)
{
    struct growth *growth = *state;
    struct writer writers[WRITERS] = {0};
    struct reader readers[READERS] = {0};
    okv *handle = server_connect(&growth->server, NULL);

    growth->is_one_sided = server_is_one_sided(handle);
    for (unsigned w = 0; w < WRITERS; w++) {
        writers[w].growth = growth;
        writers[w].handle = server_connect(&growth->server, NULL);
    }
    writers_start(writers, OKV_PUT, 0, ITEMS_FIRST);
    writers_join(writers);
    uint64_t buckets = server_stat(handle, "buckets");
    readers_start(growth, readers);
    uint64_t from = growth->items;
    while (from / 2 >= ITEMS_FIRST)
        from /= 2;
    if (from > ITEMS_FIRST)
        double_items(growth, writers, &readers[0], ITEMS_FIRST, from);
    for (; from < growth->items; from *= 2)
        double_items(growth, writers, &readers[0], from, 2 * from);
    print_table(handle);
    assert_all_accounted(handle, growth->items);
    assert_true(server_stat(handle, "buckets") > buckets);

    writers_start(writers, OKV_DELETE, ITEMS_FIRST, growth->items);
    writers_join(writers);
    readers_stop(growth, readers);
    print_table(handle);
    assert_all_accounted(handle, ITEMS_FIRST);
    assert_true(server_stat(handle, "merges") > 0);
    for (unsigned w = 0; w < WRITERS; w++)
        okv_close(&writers[w].handle);
    okv_close(&handle);
}
