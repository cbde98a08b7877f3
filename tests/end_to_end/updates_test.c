/*
 * What changes an item other than a plain put, and what ends it: conditions, versions,
 * numbers, appends, times to live, flushes, deadlines. Against a real server process.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/certified_value.h"
#include "tests/support/pace.h"
#include "tests/support/server_fixture.h"

#define MAX_VALUE (1u << 20)

static int setup(void **state)
{
    static const char *const arguments[] = {"--memory", "64M", "--max-value", "1M", NULL};

    return server_fixture_start(state, arguments);
}

static int put_if(okv *handle, const char *key, const char *value, struct okv_put_options options,
                  uint64_t *version)
{
    return okv_put_with(handle, key, strlen(key), value, strlen(value), &options, version);
}

static int put_text(okv *handle, const char *key, const char *value, uint64_t *version)
{
    return okv_put(handle, key, strlen(key), value, strlen(value), version);
}

static void assert_text(okv *handle, const char *key, const char *value, uint64_t version)
{
    char buffer[256];
    uint64_t seen = 0;
    size_t length;

    assert_int_equal(okv_get(handle, key, strlen(key), buffer, sizeof buffer - 1, &length, &seen),
                     OKV_OK);
    buffer[length] = '\0';
    assert_string_equal(buffer, value);
    assert_int_equal(seen, version);
}

static int head(okv *handle, const char *key, struct okv_item_info *info)
{
    return okv_head(handle, key, strlen(key), info);
}

/* Takes results until at most `most` operations are under way: OKV_OK, or a status. */
static int collect(okv *handle, uint32_t most)
{
    struct okv_result result;
    int rc = OKV_OK;

    while (rc == OKV_OK && okv_pending(handle) > most) {
        int done = okv_poll(handle, &result, 1);
        rc = done < 0 ? done : done == 0 ? okv_wait(handle, 10000) : result.status;
    }
    return rc;
}

/* Puts or deletes PREFIX-0 to PREFIX-(count - 1), many at a time. */
static int change_many(okv *handle, enum okv_kind kind, const char *prefix, unsigned count)
{
    static _Thread_local char keys[32][32]; /* of those under way: fewer than okv_options.depth */
    int rc = OKV_OK;

    for (unsigned i = 0; rc == OKV_OK && i < count; i++) {
        char *key = keys[i % 32];
        if (i % 32 == 0)
            rc = collect(handle, 0);
        size_t length = (size_t)snprintf(key, 32, "%s-%u", prefix, i);
        if (rc == OKV_OK && kind == OKV_PUT)
            rc = okv_submit_put(handle, key, length, key, length, i);
        else if (rc == OKV_OK)
            rc = okv_submit_delete(handle, key, length, i);
    }
    return rc == OKV_OK ? collect(handle, 0) : rc;
}

/* ---- conditions --------------------------------------------------------- */

TEST(put_if_absent)
{
    const struct okv_put_options absent = {.flags = OKV_IF_ABSENT};
    okv *handle = handle_of(state);
    uint64_t first = 0, there = 0, second = 0;

    assert_int_equal(put_if(handle, "absent", "one", absent, &first), OKV_OK);
    assert_int_equal(put_if(handle, "absent", "two", absent, &there), OKV_EEXISTS);
    assert_int_equal(there, first);
    assert_text(handle, "absent", "one", first);
    assert_int_equal(okv_delete(handle, "absent", 6), OKV_OK);
    assert_int_equal(put_if(handle, "absent", "three", absent, &second), OKV_OK);
    assert_true(second > first);
    assert_text(handle, "absent", "three", second);
}

TEST(put_if_version)
{
    okv *handle = handle_of(state);
    struct okv_put_options required = {.flags = OKV_IF_VERSION, .version = 1};
    uint64_t first = 0, second = 0, there = 0;

    assert_int_equal(put_if(handle, "version", "x", required, NULL), OKV_ENOTFOUND);
    assert_int_equal(head(handle, "version", NULL), OKV_ENOTFOUND);
    assert_int_equal(put_text(handle, "version", "one", &first), OKV_OK);
    required.version = first;
    assert_int_equal(put_if(handle, "version", "two", required, &second), OKV_OK);
    assert_true(second > first);
    assert_int_equal(put_if(handle, "version", "three", required, &there), OKV_ECONFLICT);
    assert_int_equal(there, second);
    required.version = second + 1;
    assert_int_equal(put_if(handle, "version", "three", required, &there), OKV_ECONFLICT);
    assert_int_equal(there, second);
    assert_text(handle, "version", "two", second);
    required.version = 0;
    assert_int_equal(put_if(handle, "version", "x", required, NULL), OKV_EINVAL);
    required = (struct okv_put_options){.flags = OKV_IF_VERSION | OKV_IF_ABSENT, .version = second};
    assert_int_equal(put_if(handle, "version", "x", required, NULL), OKV_EINVAL);
    assert_text(handle, "version", "two", second);
}

TEST(delete_if)
{
    okv *handle = handle_of(state);
    uint64_t version = 0, again = 0;

    assert_int_equal(okv_delete_if(handle, "doomed", 6, 7), OKV_ENOTFOUND);
    assert_int_equal(put_text(handle, "doomed", "x", &version), OKV_OK);
    assert_int_equal(okv_delete_if(handle, "doomed", 6, version + 1), OKV_ECONFLICT);
    assert_int_equal(okv_delete_if(handle, "doomed", 6, 0), OKV_EINVAL);
    assert_text(handle, "doomed", "x", version);
    assert_int_equal(okv_delete_if(handle, "doomed", 6, version), OKV_OK);
    assert_int_equal(head(handle, "doomed", NULL), OKV_ENOTFOUND);
    assert_int_equal(put_text(handle, "doomed", "x", &again), OKV_OK);
    assert_int_equal(okv_delete_if(handle, "doomed", 6, version), OKV_ECONFLICT);
    assert_int_equal(okv_delete(handle, "doomed", 6), OKV_OK);
}

enum { ROUNDS = 300 };

/* Two that do the same at the same time; which round each won, and with what version. */
struct racer {
    struct server_fixture *fixture;
    pthread_barrier_t *barrier;
    const char *name;
    int results[2 * ROUNDS];
    uint64_t versions[2 * ROUNDS];
    int failure; /* of the incrs */
};

static void *race(void *user)
{
    struct racer *racer = user;
    okv *handle = server_connect(&racer->fixture->server, NULL);
    uint64_t version = 0;
    char key[32];

    for (int round = 0; round < ROUNDS; round++) {
        struct okv_put_options options = {.flags = OKV_IF_ABSENT};
        snprintf(key, sizeof key, "race-%d", round);
        for (int step = 2 * round; step <= 2 * round + 1; step++) {
            pthread_barrier_wait(racer->barrier);
            racer->results[step] = put_if(handle, key, racer->name, options, &version);
            racer->versions[step] = version; /* of the winner, whoever that is */
            options = (struct okv_put_options){.flags = OKV_IF_VERSION, .version = version};
        }
        if (racer->failure == OKV_OK)
            racer->failure = okv_incr(handle, "race", 4, round % 2 ? -1 : 3, NULL, NULL);
    }
    okv_close(&handle);
    return NULL;
}

/* Of two that put if absent, or in place of the same version, one wins and both know it. */
TEST(one_of_two_wins)
{
    static struct racer racers[2];
    pthread_barrier_t barrier;
    pthread_t threads[2];
    int64_t sum = 0;
    int wins = 0;

    pthread_barrier_init(&barrier, NULL, 2);
    for (int i = 0; i < 2; i++) {
        racers[i] =
            (struct racer){.fixture = *state, .barrier = &barrier, .name = i ? "second" : "first"};
        pthread_create(&threads[i], NULL, race, &racers[i]);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&barrier);
    for (int step = 0; step < 2 * ROUNDS; step++) {
        int winner = racers[1].results[step] == OKV_OK;
        wins += winner;
        assert_int_equal(racers[winner].results[step], OKV_OK);
        assert_int_equal(racers[!winner].results[step], step % 2 ? OKV_ECONFLICT : OKV_EEXISTS);
        assert_int_equal(racers[0].versions[step], racers[1].versions[step]);
        if (step % 2) {
            char key[32];
            snprintf(key, sizeof key, "race-%d", step / 2);
            assert_text(handle_of(state), key, racers[winner].name, racers[0].versions[step]);
        }
    }
    print_message("the second won %d of %d\n", wins, 2 * ROUNDS);
    assert_int_equal(racers[0].failure | racers[1].failure, OKV_OK);
    assert_int_equal(okv_incr(handle_of(state), "race", 4, 0, &sum, NULL), OKV_OK);
    assert_int_equal(sum, 2 * ROUNDS); /* none was lost */
}

/* ---- versions ----------------------------------------------------------- */

enum { VERSIONED = 200, CROWD = 20000 };

static void put_versioned(okv *handle, uint64_t *versions)
{
    char key[32];

    for (unsigned i = 0; i < VERSIONED; i++) {
        uint64_t version = 0;
        snprintf(key, sizeof key, "versioned-%u", i);
        assert_int_equal(put_text(handle, key, "v", &version), OKV_OK);
        assert_true(version > versions[i]);
        versions[i] = version;
    }
}

/* Deleted and put again, with buckets split and merged in between: never an old version. */
TEST(versions_only_rise)
{
    okv *handle = handle_of(state);
    uint64_t versions[VERSIONED] = {0}, merges = server_stat(handle, "merges");

    put_versioned(handle, versions);
    assert_int_equal(change_many(handle, OKV_DELETE, "versioned", VERSIONED), OKV_OK);
    put_versioned(handle, versions);
    assert_int_equal(change_many(handle, OKV_PUT, "crowd", CROWD), OKV_OK);
    put_versioned(handle, versions);
    assert_int_equal(change_many(handle, OKV_DELETE, "versioned", VERSIONED), OKV_OK);
    assert_int_equal(change_many(handle, OKV_DELETE, "crowd", CROWD), OKV_OK);
    assert_true(server_stat(handle, "merges") > merges);
    put_versioned(handle, versions);
    assert_int_equal(change_many(handle, OKV_DELETE, "versioned", VERSIONED), OKV_OK);
}

TEST(every_change_has_a_version)
{
    okv *handle = handle_of(state);
    uint64_t put = 0, added = 0, touched = 0, appended = 0;
    struct okv_item_info info;

    assert_int_equal(put_text(handle, "changed", "5", &put), OKV_OK);
    assert_int_equal(okv_incr(handle, "changed", 7, 2, NULL, &added), OKV_OK);
    assert_int_equal(okv_touch(handle, "changed", 7, OKV_TTL_NONE, &touched), OKV_OK);
    assert_int_equal(okv_append(handle, "changed", 7, "0", 1, NULL, &appended), OKV_OK);
    assert_true(put < added && added < touched && touched < appended);
    assert_text(handle, "changed", "70", appended);
    assert_int_equal(head(handle, "changed", &info), OKV_OK);
    assert_int_equal(info.version, appended);
    assert_int_equal(info.length, 2);
    assert_true(info.ttl_ms == OKV_TTL_NONE);
}

/* ---- numbers ------------------------------------------------------------ */

static void assert_incr(okv *handle, int64_t delta, int64_t sum)
{
    char text[32];
    int64_t result = 0;
    uint64_t version = 0;

    assert_int_equal(okv_incr(handle, "number", 6, delta, &result, &version), OKV_OK);
    assert_true(result == sum);
    snprintf(text, sizeof text, "%lld", (long long)sum);
    assert_text(handle, "number", text, version);
}

static void assert_incr_fails(okv *handle, const char *value, int64_t delta, int code)
{
    uint64_t version = 0;

    assert_int_equal(put_text(handle, "number", value, &version), OKV_OK);
    assert_int_equal(okv_incr(handle, "number", 6, delta, NULL, NULL), code);
    assert_text(handle, "number", value, version);
}

TEST(numbers)
{
    static const char *const none[] = {"", "-", "x", "1x", " 1", "1 ", "+1", "0x10", "1.0", "--1"};
    okv *handle = handle_of(state);

    assert_incr(handle, 0, 0); /* from absent */
    assert_incr(handle, 42, 42);
    assert_incr(handle, -50, -8);
    assert_incr(handle, 8, 0);
    assert_incr(handle, INT64_MAX, INT64_MAX);
    assert_int_equal(okv_incr(handle, "number", 6, 1, NULL, NULL), OKV_EOVERFLOW);
    assert_incr(handle, 0, INT64_MAX);
    assert_incr(handle, INT64_MIN, -1);
    assert_incr(handle, -INT64_MAX, INT64_MIN);
    assert_int_equal(okv_incr(handle, "number", 6, -1, NULL, NULL), OKV_EOVERFLOW);
    assert_incr(handle, 0, INT64_MIN);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        assert_incr_fails(handle, none[i], 1, OKV_ENUMBER);
    assert_incr_fails(handle, "9223372036854775808", 0, OKV_ENUMBER); /* does not fit 64 bits */
    assert_incr_fails(handle, "-9223372036854775809", 0, OKV_ENUMBER);
    assert_incr_fails(handle, "00000000000000000001", 0, OKV_ENUMBER); /* 20 digits */
    assert_incr_fails(handle, "9223372036854775800", 8, OKV_EOVERFLOW);
    assert_int_equal(okv_delete(handle, "number", 6), OKV_OK);
    assert_incr(handle, -7, -7);
}

/* ---- appends ------------------------------------------------------------ */

/* From absent over the limits of a bucket and of a message to the largest value; each time
 * the whole is what a single value of that length would be. */
TEST(appends)
{
    okv *handle = handle_of(state);
    char *expected = malloc(MAX_VALUE), *value = malloc(MAX_VALUE + 1);
    uint64_t version = 0, seen = 0;
    size_t length = 0, piece = 1, at = 0;

    certified_fill(expected, MAX_VALUE, 1, 1);
    for (; at < MAX_VALUE; at += piece) {
        if (at > 0)
            piece = at < 15000 ? at : 15000;
        piece = piece < MAX_VALUE - at ? piece : MAX_VALUE - at;
        assert_int_equal(okv_append(handle, "log", 3, expected + at, piece, &length, &version),
                         OKV_OK);
        assert_int_equal(length, at + piece);
        assert_int_equal(okv_get(handle, "log", 3, value, MAX_VALUE + 1, &length, &seen), OKV_OK);
        assert_int_equal(length, at + piece);
        assert_int_equal(seen, version);
        assert_memory_equal(value, expected, length);
    }
    assert_int_equal(okv_append(handle, "log", 3, "x", 1, &length, NULL), OKV_EVALUESIZE);
    assert_int_equal(okv_append(handle, "log", 3, "", 0, &length, &version), OKV_OK);
    assert_int_equal(length, MAX_VALUE);
    assert_int_equal(okv_get(handle, "log", 3, value, MAX_VALUE + 1, &length, &seen), OKV_OK);
    assert_int_equal(length, MAX_VALUE);
    assert_memory_equal(value, expected, length);
    assert_int_equal(okv_delete(handle, "log", 3), OKV_OK);
    /* What is too long for a message cannot be appended, not even to nothing. */
    assert_int_equal(okv_append(handle, "log", 3, expected, 17000, NULL, NULL), OKV_EVALUESIZE);
    assert_int_equal(head(handle, "log", NULL), OKV_ENOTFOUND);
    free(value);
    free(expected);
}

/* ---- flush -------------------------------------------------------------- */

enum { FLUSHED = 50000 };

struct putter {
    struct server_fixture *fixture;
    atomic_bool stop;
    atomic_ulong rounds;
    atomic_int failure;
};

static void *put_all_the_while(void *user)
{
    struct putter *putter = user;
    okv *handle = server_connect(&putter->fixture->server, NULL);

    while (!atomic_load(&putter->stop) && !atomic_load(&putter->failure)) {
        char prefix[24]; /* others each time: the table would grow and grow */
        snprintf(prefix, sizeof prefix, "new-%lu", atomic_fetch_add(&putter->rounds, 1) % 100);
        atomic_store(&putter->failure, change_many(handle, OKV_PUT, prefix, 500));
    }
    okv_close(&handle);
    return NULL;
}

static int visit_flushed(void *user, const struct okv_item *item)
{
    unsigned *counts = user;

    counts[0]++;
    counts[1] += item->key_length > 4 && memcmp(item->key, "old-", 4) == 0;
    return 0;
}

TEST(flush)
{
    struct putter putter = {.fixture = *state};
    okv *handle = handle_of(state);
    unsigned counts[2] = {0}, all[2] = {0}, old[2] = {0};
    pthread_t thread;

    assert_int_equal(change_many(handle, OKV_PUT, "old", FLUSHED), OKV_OK);
    assert_int_equal(okv_scan(handle, visit_flushed, counts), OKV_OK);
    assert_int_equal(counts[1], FLUSHED);
    assert_int_equal(okv_flush(handle), OKV_OK);
    assert_int_equal(okv_scan(handle, visit_flushed, all), OKV_OK);
    assert_int_equal(all[0], 0);
    assert_int_equal(server_stat(handle, "items"), 0);
    assert_int_equal(server_stat(handle, "user_bytes"), 0);
    assert_int_equal(server_stat(handle, "extent_bytes"), 0);

    assert_int_equal(change_many(handle, OKV_PUT, "old", FLUSHED), OKV_OK);
    pthread_create(&thread, NULL, put_all_the_while, &putter);
    while (atomic_load(&putter.rounds) < 2 && !atomic_load(&putter.failure))
        nanosleep(&(struct timespec){0, 1000000}, NULL);
    int rc = okv_flush(handle);
    atomic_store(&putter.stop, true);
    pthread_join(thread, NULL);
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(atomic_load(&putter.failure), OKV_OK);
    assert_int_equal(okv_scan(handle, visit_flushed, old), OKV_OK);
    assert_int_equal(old[1], 0);
    assert_int_equal(okv_flush(handle), OKV_OK);
}

/* ---- many gets ---------------------------------------------------------- */

enum { MANY = 1000, MANY_SIZE = 20000 };

/* Small ones, every twelfth too long for a message; above 400 there is nothing. */
static void put_many_items(okv *handle)
{
    char key[32], *value = malloc(MANY_SIZE);

    for (unsigned i = 0; i < 400; i++) {
        snprintf(key, sizeof key, "many-%u", i);
        size_t size = i % 12 == 0 ? MANY_SIZE - i : 8 + i % 100;
        certified_fill(value, size, i, i + 1000);
        assert_int_equal(okv_put(handle, key, strlen(key), value, size, NULL), OKV_OK);
    }
    free(value);
}

static void assert_as_single(okv *handle, const struct okv_command *command,
                             const struct okv_result *result)
{
    struct okv_result single;
    struct okv_command alone = *command;
    static char buffer[MANY_SIZE];
    uint64_t n;

    alone.buffer = command->buffer ? buffer : NULL;
    assert_int_equal(okv_call(handle, &alone, &single), result->status);
    assert_int_equal(single.length, result->length);
    assert_int_equal(single.version, result->version);
    assert_true(single.ttl_ms == result->ttl_ms);
    if (result->status != OKV_OK || command->kind == OKV_HEAD)
        return;
    assert_memory_equal(buffer, command->buffer, result->length);
    unsigned item = (unsigned)strtoul((const char *)command->key + 5, NULL, 10);
    assert_true(certified_check(buffer, result->length, item, &n));
}

TEST(many_gets)
{
    static struct okv_command commands[MANY];
    static struct okv_result results[MANY];
    static char keys[MANY][32];
    okv *handle = handle_of(state);
    unsigned found = 0, missed = 0, heads = 0, short_of = 0;

    put_many_items(handle);
    for (unsigned i = 0; i < MANY; i++) {
        unsigned item = (unsigned)(certified_mix(i) % 600); /* many more than once */
        snprintf(keys[i], sizeof keys[i], "many-%u", item);
        commands[i] = (struct okv_command){.kind = i % 10 == 9 ? OKV_HEAD : OKV_GET,
                                           .key = keys[i],
                                           .key_length = strlen(keys[i])};
        if (i % 10 != 9) {
            commands[i].buffer_size = i % 50 == 3 ? 10 : MANY_SIZE; /* some are too small */
            commands[i].buffer = calloc(1, commands[i].buffer_size);
        }
    }
    assert_int_equal(okv_call_many(handle, commands, results, MANY), OKV_OK);
    for (unsigned i = 0; i < MANY; i++) {
        found += results[i].status == OKV_OK;
        missed += results[i].status == OKV_ENOTFOUND;
        short_of += results[i].status == OKV_ETOOSMALL;
        heads += results[i].status == OKV_OK && commands[i].kind == OKV_HEAD;
        assert_as_single(handle, &commands[i], &results[i]);
        free(commands[i].buffer);
    }
    assert_int_equal(found + missed + short_of, MANY);
    assert_true(found > 500 && missed > 200 && heads > 10 && short_of > 5);
    assert_int_equal(okv_call_many(handle, commands, results, 0), OKV_OK);
}

/* ---- deadlines ---------------------------------------------------------- */

/* The command's own deadline ends a write that a stopped server does not answer; gets need
 * no answer. */
TEST(deadlines)
{
    struct server_fixture *fixture = *state;
    okv *handle = fixture->handle;
    struct okv_command put = {.kind = OKV_PUT,
                              .key = "deadline",
                              .key_length = 8,
                              .value = "late",
                              .value_length = 4,
                              .timeout_ms = pace_ms(50)};
    struct okv_command ping = {.kind = OKV_PING, .timeout_ms = pace_ms(50)};
    struct okv_counters before, after;
    struct okv_result result;
    uint64_t version = 0;

    assert_int_equal(put_text(handle, "deadline", "early", &version), OKV_OK);
    okv_counters(handle, &before);
    server_signal(&fixture->server, SIGSTOP);
    assert_int_equal(okv_call(handle, &put, &result), OKV_EUNKNOWN);
    assert_int_equal(okv_call(handle, &ping, &result), OKV_ETIMEDOUT);
    if (server_is_one_sided(handle))
        assert_text(handle, "deadline", "early", version);
    server_signal(&fixture->server, SIGCONT);
    okv_counters(handle, &after);
    assert_int_equal(after.timeouts - before.timeouts, 2);
    /* Writes are answered in their order: after this one the late put was stored. */
    assert_int_equal(put_text(handle, "later", "", NULL), OKV_OK);
    struct okv_item_info info;
    assert_int_equal(head(handle, "deadline", &info), OKV_OK);
    assert_text(handle, "deadline", "late", info.version);
}

TEST_PROGRAM(setup, server_fixture_stop)
