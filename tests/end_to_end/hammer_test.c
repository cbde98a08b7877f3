/*
 * One writer flat out and several readers on few keys: no value that a reader
 * gets may be torn, mixed or older than one it has seen before, and rejected
 * images must show that tears did happen.
 *
 * Built a second time against a client without its checksum test
 * (HAMMER_UNCHECKED): that build passes only when wrong values are seen, which
 * shows that the hammer can hit and that it is the checksum that protects.
 */
#include <pthread.h>
#include <stdatomic.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/certified_value.h"
#include "tests/support/pace.h"
#include "tests/support/server_process.h"

#define KEYS 4
#define READERS 2
#define WRITES_UNDER_WAY 16     /* keeps the server writing */
#define MESSAGE_VALUE_MAX 15000 /* goes in a message, whatever the key */

static const char *const key_names[KEYS] = {"key0", "key1", "key2", "key3"};

struct hammer {
    struct server_process *server;
    size_t smallest, largest; /* of values */
    bool by_rendezvous;       /* by the server: too long for messages */
    atomic_bool stop;
    atomic_ulong written;
    atomic_ulong read;
    atomic_ulong rejected; /* torn images and extents */
    atomic_ulong fallbacks;
    atomic_ulong given_up; /* gets that ended with OKV_ECORRUPT */
    atomic_ulong wrong;
    atomic_int failure;
};

/* Value number `n` of a key has a size that follows from the two. */
static size_t value_size(const struct hammer *hammer, unsigned key, uint64_t n)
{
    return hammer->smallest + certified_mix(n ^ key) % (hammer->largest - hammer->smallest + 1);
}

static bool value_is_whole(const struct hammer *hammer, const uint8_t *value, size_t size,
                           unsigned key, uint64_t *n)
{
    return certified_check(value, size, key, n) && value_size(hammer, key, *n) == size;
}

/* Takes results until at most `most` puts are under way. */
static int collect(struct hammer *hammer, okv *handle, uint32_t most)
{
    struct okv_result result;
    int rc = 0;

    while (rc == 0 && okv_pending(handle) > most) {
        int done = okv_poll(handle, &result, 1);
        rc = done < 0 ? done : done == 0 ? okv_wait(handle, PACE_GUARD_MS) : result.status;
        atomic_fetch_add(&hammer->written, done == 1);
    }
    return rc;
}

/* Messages of one connection are applied in their order, so each key's values rise. Puts by
 * rendezvous are applied in any order: a round of them, one of each key, ends before the next. */
static void *write_all(void *user)
{
    struct hammer *hammer = user;
    okv *handle = server_connect(hammer->server, NULL);
    const uint32_t under_way = hammer->by_rendezvous ? KEYS : WRITES_UNDER_WAY;
    uint8_t *values = malloc(under_way * hammer->largest);
    int rc = 0;

    for (uint64_t n = 1; rc == 0 && !atomic_load(&hammer->stop); n++) {
        unsigned key = (unsigned)(n % KEYS);
        uint8_t *value = values + n % under_way * hammer->largest;
        size_t size = value_size(hammer, key, n);
        bool round_ends = hammer->by_rendezvous && key == KEYS - 1;
        certified_fill(value, size, key, n);
        rc = okv_submit_put(handle, key_names[key], 4, value, size, n);
        if (rc == 0)
            rc = collect(hammer, handle, round_ends ? 0 : under_way - 1);
    }
    if (rc)
        atomic_store(&hammer->failure, rc);
    okv_close(&handle);
    free(values);
    return NULL;
}

static void read_one(struct hammer *hammer, okv *handle, uint8_t *value, uint64_t *latest)
{
    unsigned key = (unsigned)(certified_mix(atomic_fetch_add(&hammer->read, 1)) % KEYS);
    size_t size = 0;
    uint64_t n = 0;
    int rc = okv_get(handle, key_names[key], 4, value, hammer->largest, &size, NULL);

    if (rc == OKV_ENOTFOUND && latest[key] == 0)
        return; /* not written yet */
    if (rc == OKV_EDISCONNECTED || rc == OKV_ESHUTDOWN || rc == OKV_ETIMEDOUT)
        atomic_store(&hammer->failure, rc);
    else if (rc == OKV_ECORRUPT && hammer->by_rendezvous)
        atomic_fetch_add(&hammer->given_up, 1); /* the server could not answer with it either */
    else if (rc || !value_is_whole(hammer, value, size, key, &n) || n < latest[key])
        atomic_fetch_add(&hammer->wrong, 1);
    else
        latest[key] = n;
}

static void *read_all(void *user)
{
    struct hammer *hammer = user;
    okv *handle = server_connect(hammer->server, NULL);
    uint8_t *value = malloc(hammer->largest);
    uint64_t latest[KEYS] = {0}, seen = 0;

    while (!atomic_load(&hammer->stop) && !atomic_load(&hammer->failure)) {
        struct okv_counters counters;
        read_one(hammer, handle, value, latest);
        okv_counters(handle, &counters);
        atomic_fetch_add(&hammer->rejected, counters.torn_buckets + counters.torn_extents - seen);
        seen = counters.torn_buckets + counters.torn_extents;
    }
    struct okv_counters counters;
    okv_counters(handle, &counters);
    atomic_fetch_add(&hammer->fallbacks, counters.fallbacks);
    free(value);
    okv_close(&handle);
    return NULL;
}

#ifndef HAMMER_UNCHECKED
/* Where the server serves a READ, it writes nothing meanwhile. */
static bool values_tear(void)
{
    return server_is_local() || server_is_rdma();
}
#endif

static bool seen_enough(const struct hammer *hammer)
{
#ifdef HAMMER_UNCHECKED
    return atomic_load(&hammer->wrong) > 0;
#else
    /* The writer's connection may take longer than all that the readers do. */
    return atomic_load(&hammer->written) > 0 &&
           (atomic_load(&hammer->rejected) > 0 || !values_tear());
#endif
}

/* Runs for at least $OKV_HAMMER_SECONDS (2), and until enough was seen. */
static void hammer_run(struct hammer *hammer)
{
    const char *seconds = getenv("OKV_HAMMER_SECONDS");
    uint64_t start = okv_clock_ns();
    uint64_t least = start + (seconds ? strtoull(seconds, NULL, 10) : 2) * 1000000000u;
    uint64_t most = least + UINT64_C(60) * 1000000000u;
    pthread_t writer, readers[READERS];

    pthread_create(&writer, NULL, write_all, hammer);
    for (int i = 0; i < READERS; i++)
        pthread_create(&readers[i], NULL, read_all, hammer);
    while (!atomic_load(&hammer->failure) && okv_clock_ns() < most &&
           (okv_clock_ns() < least || !seen_enough(hammer)))
        nanosleep(&(struct timespec){0, 10000000}, NULL);
    atomic_store(&hammer->stop, true);
    pthread_join(writer, NULL);
    for (int i = 0; i < READERS; i++)
        pthread_join(readers[i], NULL);
    print_message("values of %zu to %zu bytes: %lu written, %lu read, %lu torn and rejected, "
                  "%lu asked of the server, %lu given up, %lu wrong\n",
                  hammer->smallest, hammer->largest, atomic_load(&hammer->written),
                  atomic_load(&hammer->read), atomic_load(&hammer->rejected),
                  atomic_load(&hammer->fallbacks), atomic_load(&hammer->given_up),
                  atomic_load(&hammer->wrong));
}

static void hammer_values(struct hammer *hammer)
{
    hammer_run(hammer);
    assert_int_equal(atomic_load(&hammer->failure), 0);
    assert_true(atomic_load(&hammer->written) > 0);
#ifdef HAMMER_UNCHECKED
    assert_true(atomic_load(&hammer->wrong) > 0);
#else
    assert_int_equal(atomic_load(&hammer->wrong), 0);
    /* Whether a READ meets a write is chance; the unchecked program shows that they meet. */
    if (values_tear() && atomic_load(&hammer->rejected) == 0)
        print_message("no value was torn: this machine had too little time for it\n");
    /* How many of them are given up is a matter of speed. */
    assert_true(atomic_load(&hammer->read) > 0);
#endif
}

static int setup_with(void **state, const char *memory)
{
    const char *const arguments[] = {"--memory", memory, NULL};
    struct server_process *server = calloc(1, sizeof *server);

    server_start(server, arguments);
    *state = server;
    return 0;
}

/* Small regions: extents are soon used again. */
static int setup(void **state)
{
    return setup_with(state, "1M");
}

static int setup_for_rendezvous(void **state)
{
    return setup_with(state, "16M");
}

static int teardown(void **state)
{
    struct server_process *server = *state;
    int status = server_stop(server);

    free(server);
    return status;
}

TEST_WITH(inline_values, setup, teardown)
{
    hammer_values(&(struct hammer){.server = *state, .smallest = 8, .largest = 100});
}

TEST_WITH(extents, setup, teardown)
{
    hammer_values(
        &(struct hammer){.server = *state, .smallest = 4096, .largest = MESSAGE_VALUE_MAX});
}

TEST_WITH(values_of_every_size, setup, teardown)
{
    hammer_values(&(struct hammer){.server = *state, .smallest = 8, .largest = MESSAGE_VALUE_MAX});
}

TEST_WITH(values_by_rendezvous, setup_for_rendezvous, teardown)
{
    hammer_values(&(struct hammer){
        .server = *state, .smallest = 100000, .largest = 1 << 20, .by_rendezvous = true});
}
