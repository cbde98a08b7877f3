/*
 * Values too long for a message: the server READs them out of the client's memory, and a
 * reader fetches them in pieces. Whole in every way, whatever happens to either side.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/certified_value.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_fixture.h"

#define MIB (1u << 20)
#define GUARD 64 /* bytes behind a buffer that must stay as they are */

static int setup_with(void **state, const char *memory)
{
    const char *const arguments[] = {"--memory", memory, NULL};

    return server_fixture_start(state, arguments);
}

/* A value may take a quarter of the region. The guest has 2 GiB in all. */
static int setup_large(void **state)
{
    return setup_with(state, server_is_slow() ? "128M" : "512M");
}

static int setup_small(void **state)
{
    return setup_with(state, "32M");
}

/* Extents are soon used again. */
static int setup_smallest(void **state)
{
    return setup_with(state, "16M");
}

static void put_certified(okv *handle, const char *key, size_t size, uint64_t n)
{
    uint8_t *value = malloc(size);

    certified_fill(value, size, 0, n);
    assert_int_equal(okv_put(handle, key, strlen(key), value, size, NULL), OKV_OK);
    free(value);
}

/* Reads into a buffer that may be larger; no byte behind the value's place changes. */
static void assert_certified_in(okv *handle, const char *key, size_t size, uint64_t n,
                                uint8_t *buffer, size_t buffer_size)
{
    uint64_t seen;
    size_t length;

    memset(buffer, 0xa5, buffer_size + GUARD);
    assert_int_equal(okv_get(handle, key, strlen(key), buffer, buffer_size, &length, NULL), OKV_OK);
    assert_int_equal(length, size);
    assert_true(certified_check(buffer, size, 0, &seen));
    assert_int_equal(seen, n);
    for (size_t i = 0; i < GUARD; i++)
        assert_int_equal(buffer[buffer_size + i], 0xa5);
}

static void assert_certified(okv *handle, const char *key, size_t size, uint64_t n)
{
    uint8_t *buffer = malloc(size + GUARD);

    assert_certified_in(handle, key, size, n, buffer, size);
    free(buffer);
}

/* The figures say where every byte of the region is. */
static void assert_region_adds_up(okv *handle)
{
    static const char *const parts[] = {"superblock_bytes",  "index_bytes",
                                        "overflow_bytes",    "extent_bytes",
                                        "heap_unused_bytes", "never_used_bytes"};
    uint64_t sum = 0;

    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        sum += server_stat(handle, parts[i]);
    assert_int_equal(sum, server_stat(handle, "region_bytes"));
}

/* ---- sizes -------------------------------------------------------------- */

/* Plain memory, registered memory, and memory that begins in a registration and ends behind. */
static void assert_in_all_memories(okv *handle, const char *key, size_t size, uint64_t n)
{
    uint8_t *memory = malloc(2 * size + 2 * GUARD);
    okv_registration *registration = NULL;

    assert_certified_in(handle, key, size, n, memory, size);
    assert_int_equal(okv_register(handle, memory, size + size / 2, &registration), OKV_OK);
    for (int round = 0; round < 2; round++) { /* the second one by a hint */
        assert_certified_in(handle, key, size, n, memory, size);
        assert_certified_in(handle, key, size, n, memory + 1, size);
        assert_certified_in(handle, key, size, n, memory, size + size / 2);
        assert_certified_in(handle, key, size, n, memory + size, size);
        assert_certified_in(handle, key, size, n, memory + size / 2 + 1, size);
    }
    okv_unregister(handle, &registration);
    assert_null(registration);
    assert_certified_in(handle, key, size, n, memory, size);
    free(memory);
}

TEST_WITH(sizes, setup_large, server_fixture_stop)
{
    /* The longest in a message is 16384 bytes less 40 and the key's; the longest for any key is
     * 15328. Pieces are READ by 256 KiB and READ by rendezvous by 1 MiB. */
    static const size_t all[] = {15327,   15328,   15329,       16384 - 36, 16384 - 35,
                                 16384,   262143,  262145,      MIB - 1,    MIB,
                                 MIB + 1, 3000000, 8 * MIB + 3, 16 * MIB,   64 * MIB};
    okv *handle = handle_of(state);
    struct okv_info info;
    char byte;
    size_t length;

    okv_info(handle, &info);
    for (size_t i = 0; i < sizeof all / sizeof *all && all[i] <= info.max_value; i++) {
        struct okv_counters before, after;
        okv_counters(handle, &before);
        put_certified(handle, "size", all[i], i + 1);
        okv_counters(handle, &after);
        if (all[i] > 16384)
            assert_int_equal(after.rendezvous - before.rendezvous, 1);
        if (all[i] <= 15328)
            assert_int_equal(after.rendezvous, before.rendezvous);
        assert_in_all_memories(handle, "size", all[i], i + 1);
        length = 0;
        assert_int_equal(okv_get(handle, "size", 4, &byte, 1, &length, NULL), OKV_ETOOSMALL);
        assert_int_equal(length, all[i]);
    }
    uint8_t *value = calloc(1, (size_t)info.max_value + 1);
    assert_int_equal(okv_put(handle, "size", 4, value, (size_t)info.max_value + 1, NULL),
                     OKV_EVALUESIZE);
    free(value);
    assert_int_equal(okv_delete(handle, "size", 4), OKV_OK);
    assert_region_adds_up(handle);
}

/* ---- while it is overwritten -------------------------------------------- */

enum { OVERWRITTEN_MIN = 100000, OVERWRITTEN_MAX = 3 * MIB };

/* What is wanted before it ends, and how long it is waited for. */
#define AGAIN_WANTED 3
#define CHANGES_WANTED 20
#define OVERWRITE_MAX_NS UINT64_C(60000000000)

struct overwriter {
    struct server_fixture *fixture;
    atomic_bool stop;
    uint64_t last; /* number of the last value that was put */
    int failure;
};

static size_t overwritten_size(uint64_t n)
{
    return OVERWRITTEN_MIN + certified_mix(n) % (OVERWRITTEN_MAX - OVERWRITTEN_MIN + 1);
}

static void *overwrite(void *user)
{
    struct overwriter *overwriter = user;
    okv *handle = server_connect(&overwriter->fixture->server, NULL);
    uint8_t *value = malloc(OVERWRITTEN_MAX);

    for (uint64_t n = 2; !atomic_load(&overwriter->stop) && overwriter->failure == 0; n++) {
        certified_fill(value, overwritten_size(n), 0, n);
        overwriter->failure = okv_put(handle, "overwritten", 11, value, overwritten_size(n), NULL);
        overwriter->last = n;
    }
    free(value);
    okv_close(&handle);
    return NULL;
}

/* One get of a value that must be whole and not older than `latest`: its number, or 0 when
 * none of the images held still. */
static uint64_t get_overwritten(okv *handle, uint8_t *buffer, uint64_t latest)
{
    size_t length;
    uint64_t n;
    int rc = okv_get(handle, "overwritten", 11, buffer, OVERWRITTEN_MAX, &length, NULL);

    if (rc == OKV_ECORRUPT)
        return 0;
    assert_int_equal(rc, OKV_OK);
    assert_true(certified_check(buffer, length, 0, &n));
    assert_int_equal(length, overwritten_size(n));
    assert_true(n >= latest);
    return n;
}

/* The same with some part of it. */
static uint64_t get_part_of_overwritten(okv *handle, uint8_t *buffer, uint64_t latest)
{
    static uint64_t parts;
    uint64_t random = certified_mix(parts++), n = latest;
    size_t offset = 8 + random % OVERWRITTEN_MAX / 8 * 8, size = random % 50000, length;
    int rc = okv_get_range(handle, "overwritten", 11, offset, buffer, size, &length, NULL);

    if (rc == OKV_ECORRUPT)
        return 0;
    assert_int_equal(rc, OKV_OK);
    while (overwritten_size(n) != length && n < latest + OVERWRITTEN_MAX)
        n++;
    size_t there = offset < length ? length - offset : 0;
    assert_int_equal(overwritten_size(n), length);
    assert_true(certified_check_part(buffer, size < there ? size : there, offset, length, 0, n));
    return n;
}

/* Never a mixed value and never one older than the one before, in plain or registered memory. */
static void race(void **state, uint64_t (*get)(okv *handle, uint8_t *buffer, uint64_t latest),
                 unsigned usual_bucket_reads)
{
    static struct overwriter overwriter; /* outlives a test that fails */

    overwriter = (struct overwriter){.fixture = *state};
    okv *handle = handle_of(state);
    uint8_t *memory = malloc(2 * OVERWRITTEN_MAX);
    okv_registration *registration = NULL;
    struct okv_counters counters = {0};
    unsigned long gets = 0, changes = 0, again = 0, given_up = 0;
    uint64_t latest = 1, begun = okv_clock_ns();
    pthread_t thread;

    assert_int_equal(okv_register(handle, memory, OVERWRITTEN_MAX, &registration), OKV_OK);
    put_certified(handle, "overwritten", overwritten_size(1), 1);
    pthread_create(&thread, NULL, overwrite, &overwriter);
    for (; (again < AGAIN_WANTED || changes < CHANGES_WANTED) &&
           okv_clock_ns() - begun < OVERWRITE_MAX_NS;
         gets++) {
        uint64_t bucket_reads = counters.bucket_reads;
        uint64_t n = get(handle, memory + gets % 2 * OVERWRITTEN_MAX, latest);
        changes += n > latest;
        given_up += n == 0;
        latest = n ? n : latest;
        okv_counters(handle, &counters);
        again += counters.bucket_reads - bucket_reads > usual_bucket_reads;
    }
    atomic_store(&overwriter.stop, true);
    pthread_join(thread, NULL);
    print_message("%lu gets saw %lu values, began again %lu and gave up %lu times\n", gets, changes,
                  again, given_up);
    assert_int_equal(overwriter.failure, OKV_OK);
    assert_true(changes > 1);
    for (int i = 0; i < 2; i++)
        assert_int_equal(get(handle, memory + i * OVERWRITTEN_MAX, latest), overwriter.last);
    okv_unregister(handle, &registration);
    free(memory);
}

TEST_WITH(overwritten_while_read, setup_smallest, server_fixture_stop)
{
    race(state, get_overwritten, 1);
}

TEST_WITH(parts_of_overwritten, setup_smallest, server_fixture_stop)
{
    race(state, get_part_of_overwritten, 2);
}

/* ---- hints -------------------------------------------------------------- */

enum { HINTED_MAX = 40000 };

struct cost {
    uint64_t reads, extents, right, wrong;
};

static void assert_get_costs(okv *handle, size_t size, uint64_t n, struct cost cost)
{
    static uint8_t buffer[HINTED_MAX + GUARD]; /* what does not fit is not READ by a hint */
    struct okv_counters before, after;

    okv_counters(handle, &before);
    assert_certified_in(handle, "hinted", size, n, buffer, HINTED_MAX);
    okv_counters(handle, &after);
    assert_int_equal(after.hints_right - before.hints_right, cost.right);
    assert_int_equal(after.hints_wrong - before.hints_wrong, cost.wrong);
    assert_int_equal(after.extent_reads - before.extent_reads, cost.extents);
    assert_int_equal(after.reads - before.reads, cost.reads);
    assert_int_equal(after.torn_buckets + after.torn_extents,
                     before.torn_buckets + before.torn_extents);
    assert_int_equal(after.requests, before.requests);
}

/* A handle that has read an item READs bucket and extent together; when the item has moved
 * since, what it read for nothing is never taken for the value. */
TEST_WITH(hints, setup_small, server_fixture_stop)
{
    struct server_fixture *fixture = *state;
    okv *writer = fixture->handle;
    const struct okv_options without = {.hints = OKV_HINTS_NONE};
    okv *reader = server_connect(&fixture->server, NULL);
    okv *plain = server_connect(&fixture->server, &without);
    const struct cost first = {.reads = 2, .extents = 1};
    const struct cost again = {.reads = 2, .extents = 1, .right = 1};
    const struct cost moved = {.reads = 3, .extents = 2, .wrong = 1};

    put_certified(writer, "hinted", 20000, 1);
    assert_get_costs(reader, 20000, 1, first);
    assert_get_costs(reader, 20000, 1, again);
    assert_get_costs(reader, 20000, 1, again);
    put_certified(writer, "hinted", 20000, 2);
    assert_get_costs(reader, 20000, 2, moved);
    assert_get_costs(reader, 20000, 2, again);
    put_certified(writer, "hinted", 30000, 3);
    assert_get_costs(reader, 30000, 3, moved);
    assert_get_costs(reader, 30000, 3, again);
    put_certified(writer, "hinted", 50, 4); /* no extent at all */
    assert_get_costs(reader, 50, 4, (struct cost){.reads = 2, .extents = 1, .wrong = 1});
    put_certified(writer, "hinted", 20000, 5);
    for (int i = 0; i < 3; i++)
        assert_get_costs(plain, 20000, 5, first);
    okv_close(&plain);
    okv_close(&reader);
}

/* ---- several at once ---------------------------------------------------- */

enum { AT_ONCE = 8 };

TEST_WITH(several_at_once, setup_small, server_fixture_stop)
{
    struct server_fixture *fixture = *state;
    const struct okv_options options = {.depth = AT_ONCE};
    okv *handle = server_connect(&fixture->server, &options);
    uint8_t *values[AT_ONCE];
    struct okv_counters counters;
    struct okv_result result;
    char keys[AT_ONCE][16];

    for (uint64_t round = 0; round < 3; round++) {
        for (unsigned i = 0; i < AT_ONCE; i++) {
            size_t size = MIB / 2 + i * 70001;
            values[i] = malloc(size);
            certified_fill(values[i], size, 0, round * AT_ONCE + i);
            snprintf(keys[i], sizeof keys[i], "at-once-%u", i);
            assert_int_equal(okv_submit_put(handle, keys[i], strlen(keys[i]), values[i], size, i),
                             OKV_OK);
        }
        assert_int_equal(okv_submit_ping(handle, 0), OKV_EAGAIN);
        for (unsigned done = 0; done < AT_ONCE;) {
            int n = okv_poll(handle, &result, 1);
            if (n == 0)
                assert_int_equal(okv_wait(handle, 60000), OKV_OK);
            else
                assert_int_equal(n, 1);
            if (n == 1)
                assert_int_equal(result.status, OKV_OK);
            done += n == 1;
        }
        for (unsigned i = 0; i < AT_ONCE; i++) {
            assert_certified(handle, keys[i], MIB / 2 + i * 70001, round * AT_ONCE + i);
            free(values[i]);
        }
    }
    okv_counters(handle, &counters);
    assert_int_equal(counters.rendezvous, 3 * AT_ONCE);
    okv_close(&handle);
}

/* ---- clients that die --------------------------------------------------- */

/* Overwrites one large value after the other until it is killed. */
static int put_for_ever(const char *uri)
{
    size_t size = 6 * MIB;
    uint8_t *value = malloc(size);
    okv *handle;

    if (!value || patient_open(uri, NULL, &handle, NULL, 0))
        return 1;
    for (uint64_t n = 1;; n++) {
        certified_fill(value, size, 0, n);
        if (okv_put(handle, "victim", 6, value, size, NULL))
            return 1;
    }
}

/* A program of its own: a forked child must not use its parent's RDMA device. */
static pid_t start_victim(const struct server_process *server)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "large_values_test", "put-for-ever", server->uri, (char *)NULL);
        _exit(127);
    }
    return pid;
}

/* Absent, or one that was put whole. */
static void assert_victim_is_whole(okv *handle)
{
    uint8_t *value = malloc(6 * MIB);
    size_t length;
    uint64_t n;
    int rc = okv_get(handle, "victim", 6, value, 6 * MIB, &length, NULL);

    if (rc != OKV_ENOTFOUND) {
        assert_int_equal(rc, OKV_OK);
        assert_int_equal(length, 6 * MIB);
        assert_true(certified_check(value, length, 0, &n));
    }
    free(value);
}

/* Killed at any moment of a rendezvous read, and for certain before one: the server stands still
 * from before the request until the client is dead. Nothing of it stays in the heap. */
TEST_WITH(killed_clients_leave_nothing, setup_small, server_fixture_stop)
{
    struct server_fixture *fixture = *state;
    okv *handle = fixture->handle;
    uint64_t before = server_stat(handle, "extent_bytes");

    for (int round = 0; round < 10; round++) {
        uint64_t rendezvous_reads = server_stat(handle, "rendezvous_reads");
        pid_t pid = start_victim(&fixture->server);
        server_await_stat_from(handle, "rendezvous_reads", rendezvous_reads + 2);
        pace_sleep_ms((unsigned)round * 3);
        if (round % 2) {
            server_signal(&fixture->server, SIGSTOP);
            pace_sleep_ms(100); /* the victim's next request is sent by then, most probably */
        }
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        if (round % 2)
            server_signal(&fixture->server, SIGCONT);
        server_await_stat(handle, "sessions", 1);
        assert_victim_is_whole(handle);
        int rc = okv_delete(handle, "victim", 6);
        assert_true(rc == OKV_OK || rc == OKV_ENOTFOUND);
        server_await_stat(handle, "extent_bytes", before);
        assert_region_adds_up(handle);
    }
    print_message("%lu rendezvous reads, %lu failed\n",
                  (unsigned long)server_stat(handle, "rendezvous_reads"),
                  (unsigned long)server_stat(handle, "rendezvous_failed"));
}

/* ---- no room ------------------------------------------------------------ */

/* A put that is refused changes nothing; room that comes back can be used. */
TEST_WITH(full_region, setup_small, server_fixture_stop)
{
    okv *handle = handle_of(state);
    size_t size = 3 * MIB;
    uint8_t *value = malloc(7 * MIB);
    char key[32];
    unsigned count = 0;
    int rc = OKV_OK;

    for (; rc == OKV_OK && count < 100; count++) {
        snprintf(key, sizeof key, "full-%u", count);
        certified_fill(value, size, 0, count);
        rc = okv_put(handle, key, strlen(key), value, size, NULL);
    }
    assert_int_equal(rc, OKV_EFULL);
    count--; /* the refused one */
    assert_true(count >= 7);
    assert_int_equal(okv_head(handle, key, strlen(key), NULL), OKV_ENOTFOUND);
    uint64_t extent_bytes = server_stat(handle, "extent_bytes");
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof key, "full-%u", i);
        certified_fill(value, 7 * MIB, 0, 1000 + i);
        assert_int_equal(okv_put(handle, key, strlen(key), value, 7 * MIB, NULL), OKV_EFULL);
        assert_certified(handle, key, size, i);
    }
    assert_int_equal(server_stat(handle, "extent_bytes"), extent_bytes);
    assert_region_adds_up(handle);
    for (unsigned i = 0; i < count; i++) {
        snprintf(key, sizeof key, "full-%u", i);
        assert_int_equal(okv_delete(handle, key, strlen(key)), OKV_OK);
    }
    for (unsigned i = 0; i < 2; i++) {
        snprintf(key, sizeof key, "again-%u", i);
        put_certified(handle, key, 7 * MIB, i);
    }
    assert_certified(handle, "again-0", 7 * MIB, 0);
    assert_certified(handle, "again-1", 7 * MIB, 1);
    free(value);
}

/* A value that was READ by rendezvous and is not stored leaves nothing in the heap. */
TEST_WITH(refused_by_condition, setup_small, server_fixture_stop)
{
    const struct okv_put_options absent = {.flags = OKV_IF_ABSENT};
    struct okv_put_options version = {.flags = OKV_IF_VERSION, .version = 1};
    okv *handle = handle_of(state);
    uint8_t *value = malloc(2 * MIB);
    struct okv_item_info info;

    put_certified(handle, "there", 2 * MIB, 1);
    uint64_t extent_bytes = server_stat(handle, "extent_bytes");
    assert_int_equal(okv_head(handle, "there", 5, &info), OKV_OK);
    certified_fill(value, 2 * MIB, 0, 2);
    for (int i = 0; i < 20; i++) { /* more than the region holds */
        assert_int_equal(okv_put_with(handle, "there", 5, value, 2 * MIB, &absent, NULL),
                         OKV_EEXISTS);
        version.version = info.version + 1;
        assert_int_equal(okv_put_with(handle, "there", 5, value, 2 * MIB, &version, NULL),
                         OKV_ECONFLICT);
        assert_int_equal(okv_put_with(handle, "other", 5, value, 2 * MIB, &version, NULL),
                         OKV_ENOTFOUND);
    }
    assert_int_equal(server_stat(handle, "extent_bytes"), extent_bytes);
    assert_region_adds_up(handle);
    assert_certified(handle, "there", 2 * MIB, 1);
    version.version = info.version;
    assert_int_equal(okv_put_with(handle, "there", 5, value, 2 * MIB, &version, NULL), OKV_OK);
    assert_certified(handle, "there", 2 * MIB, 2);
    free(value);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "put-for-ever") == 0)
        return put_for_ever(argv[2]);
    return test_run();
}
