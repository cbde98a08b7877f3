/*
 * Sixteen clients on 64 keys, while the table grows and shrinks under them, then in buckets that
 * have overflowed, and then in a cache with too little memory for them: everything that they did
 * and saw must be explained by one order of the operations on each key
 * (tests/support/linearizability.h), and no value may be one that nobody wrote.
 *
 * $OKV_OPERATIONS: how many (300,000; with a sanitizer fewer; with OKV_LONG=1 ten million; over
 * RDMA as many as fit in 30 s). $OKV_TEST_CUTS: the network is cut meanwhile, so handles may fail
 * for good, and others take their place. $OKV_TEST_SEED repeats the choices, though not the timing.
 *
 * Built a second time against a client that skips its checksum (LINEARIZABILITY_UNCHECKED): that
 * build goes on until it sees a broken value, and passes only if it saw one or a violation.
 */
#include <inttypes.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/bulk.h"
#include "tests/support/growth_cycles.h"
#include "tests/support/linearizability.h"
#include "tests/support/random.h"
#include "tests/support/recorded_client.h"
#include "tests/support/sanitized.h"
#include "tests/support/server_process.h"

#define CLIENTS 16
#define RDMA_SECONDS 15
#define RECONNECTS 4            /* of each client, about */
#define RECONNECT_EVERY_MIN 500 /* operations; the server takes a while to let a session go */

#define OPERATIONS (OKV_SANITIZED ? 60000 : 300000)
#define OPERATIONS_LONG 10000000

/* How long the unchecked build tries: most often it sees a broken value within OPERATIONS. */
#define UNCHECKED_FACTOR 20
#define UNCHECKED_SECONDS 100

/* What the keys live in. */
struct ground {
    const char *const *arguments; /* of the server */
    uint64_t items;               /* that stay */
    uint64_t least, most;         /* that come and go */
    bool evicts;
};

struct trial {
    struct server_process server;
    struct recorded_load load;
    struct recorded_client clients[CLIENTS];
    struct growth_cycles cycles;
    struct history history;
    uint64_t splits, merges, overflow_buckets, evicted;
    unsigned vanished; /* keys whose history only evictions explain */
    unsigned violations, undecided;
};

static uint64_t operations_wanted(void)
{
    const char *operations = getenv("OKV_OPERATIONS");
    const char *all = getenv("OKV_LONG");

    if (operations)
        return strtoull(operations, NULL, 10);
    if (all && strcmp(all, "1") == 0)
        return OPERATIONS_LONG;
    return server_is_slow() ? UINT64_MAX : OPERATIONS;
}

static void run_clients(struct trial *trial)
{
    struct history_log logs[CLIENTS];
    okv *handle = server_connect(&trial->server, NULL);

    assert_true(growth_cycles_start(&trial->cycles));
    for (unsigned i = 0; i < CLIENTS; i++)
        assert_true(recorded_client_start(&trial->clients[i], &trial->load, i));
    for (unsigned i = 0; i < CLIENTS; i++) {
        recorded_client_join(&trial->clients[i]);
        logs[i] = trial->clients[i].log;
    }
    growth_cycles_stop(&trial->cycles);
    assert_true(history_merge(&trial->history, logs, CLIENTS));
    trial->splits = server_stat(handle, "splits");
    trial->merges = server_stat(handle, "merges");
    trial->overflow_buckets = server_stat(handle, "overflow_buckets");
    trial->evicted = server_stat(handle, "evicted_new") + server_stat(handle, "evicted_main");
    okv_close(&handle);
}

static void check_keys(struct trial *trial)
{
    struct history *history = &trial->history;
    const struct linearizability_options options = {.may_vanish = trial->cycles.may_vanish};
    struct linearizability_report report;
    char text[200];
    size_t heads = recorded_heads_resolve(history, text, sizeof text);

    if (heads)
        print_message("%zu heads are wrong: %s\n", heads, text);
    trial->violations = (unsigned)heads;
    for (size_t first = 0, end; first < history->length; first = end) {
        end = history_key_end(history, first);
        enum linearizability_verdict verdict =
            linearizability_check_key(history->records + first, end - first, &options, &report);
        if (verdict == LINEARIZABILITY_HOLDS) {
            trial->vanished += options.may_vanish &&
                               linearizability_check_key(history->records + first, end - first,
                                                         NULL, &report) == LINEARIZABILITY_VIOLATED;
            continue;
        }
        trial->violations +=
            verdict == LINEARIZABILITY_VIOLATED || verdict == LINEARIZABILITY_MALFORMED;
        trial->undecided +=
            verdict == LINEARIZABILITY_UNDECIDED || verdict == LINEARIZABILITY_NO_MEMORY;
        print_message("key %u: %s: %s\n", history->records[first].key,
                      linearizability_verdict_text(verdict), report.text);
    }
}

static void print_trial(const struct trial *trial, double seconds, double check_seconds)
{
    struct okv_counters sum = {0};
    uint64_t kinds[RECORDED_KINDS] = {0}, unknown = 0, failed = 0;
    int last_failure = 0;
    char text[200] = "";

    for (unsigned i = 0; i < CLIENTS; i++) {
        const struct recorded_client *client = &trial->clients[i];
#define ADD(name, about) sum.name += client->counters.name;
        OKV_COUNTER_LIST(ADD)
#undef ADD
        for (unsigned kind = 0; kind < RECORDED_KINDS; kind++)
            kinds[kind] += client->kinds[kind];
        unknown += client->unknown;
        failed += client->failed;
        last_failure = client->last_failure ? client->last_failure : last_failure;
        if (client->broken_text[0])
            print_message("%s\n", client->broken_text);
    }
    for (unsigned kind = 0, at = 0; kind < RECORDED_KINDS && at < sizeof text; kind++)
        at += (unsigned)snprintf(text + at, sizeof text - at, " %s %" PRIu64,
                                 recorded_kind_name(kind), kinds[kind]);
    print_message(
        "%zu operations in %.1f s:%s; unknown %" PRIu64 ", failed %" PRIu64 " (%s); READs per get "
        "%.3f; torn %" PRIu64 "+%" PRIu64 ", wrong depths %" PRIu64 ", fallbacks %" PRIu64
        ", hints %" PRIu64 "/%" PRIu64 ", READ by rendezvous %" PRIu64 "; splits %" PRIu64
        " merges %" PRIu64 " overflow buckets %" PRIu64 " growth cycles %" PRIu64
        "; broken %" PRIu64 ", violations %u, undecided %u (checked in %.1f s)\n",
        trial->history.length, seconds, text, unknown, failed, okv_errname(last_failure),
        sum.gets ? (double)sum.reads / (double)sum.gets : 0, sum.torn_buckets, sum.torn_extents,
        sum.wrong_depths, sum.fallbacks, sum.hints_right, sum.hints_wrong, sum.rendezvous,
        trial->splits, trial->merges, trial->overflow_buckets, trial->cycles.whole,
        atomic_load(&trial->load.broken), trial->violations, trial->undecided, check_seconds);
}

static void one_order_explains_all(struct trial *trial)
{
    uint64_t begin = okv_clock_ns();

    run_clients(trial);
    uint64_t end = okv_clock_ns();
    check_keys(trial);
    print_trial(trial, (double)(end - begin) / 1e9, (double)(okv_clock_ns() - end) / 1e9);

#ifdef LINEARIZABILITY_UNCHECKED
    assert_true(atomic_load(&trial->load.broken) + trial->violations > 0);
#else
    if (trial->cycles.failure)
        fail_msg("item %" PRIu64 " of the growth cycles: %s", trial->cycles.culprit,
                 okv_errname(trial->cycles.failure));
    if (atomic_load(&trial->load.failure))
        fail_msg("a client failed: %s", okv_errname(atomic_load(&trial->load.failure)));
    assert_int_equal(atomic_load(&trial->load.broken), 0);
    assert_int_equal(trial->violations, 0);
    assert_int_equal(trial->undecided, 0);
#endif
}

static void load_init(struct trial *trial, uint64_t seed)
{
    trial->load = (struct recorded_load){
        .reopen = getenv("OKV_TEST_CUTS") != NULL,
        .uri = trial->server.uri,
        .seed = seed,
        .operations = operations_wanted(),
        .and_until = &trial->cycles.one_is_over,
    };
    trial->load.reconnect_every = trial->load.operations / CLIENTS / RECONNECTS;
    if (trial->load.reconnect_every < RECONNECT_EVERY_MIN)
        trial->load.reconnect_every = RECONNECT_EVERY_MIN;
    if (trial->load.operations == UINT64_MAX) {
        trial->load.until_ns = okv_clock_ns() + RDMA_SECONDS * UINT64_C(1000000000);
        trial->load.reconnect_every = RECONNECT_EVERY_MIN;
    }
#ifdef LINEARIZABILITY_UNCHECKED
    trial->load.until_broken = true;
    if (!trial->load.until_ns) {
        trial->load.operations *= UNCHECKED_FACTOR;
        trial->load.until_ns = okv_clock_ns() + UNCHECKED_SECONDS * UINT64_C(1000000000);
    }
#endif
    recorded_load_init(&trial->load);
}

static void setup_on(void **state, const struct ground *ground)
{
    struct trial *trial = calloc(1, sizeof *trial);
    uint64_t seed = random_seed();

    server_start(&trial->server, ground->arguments);
    okv *handle = server_connect(&trial->server, NULL);
    const struct bulk bulk = {.kind = OKV_PUT, .end = ground->items};
    assert_int_equal(bulk_run(handle, &bulk, NULL), OKV_OK);
    okv_close(&handle);
    load_init(trial, seed);
    trial->cycles = (struct growth_cycles){
        .uri = trial->server.uri,
        .seed = random_mix(seed),
        .begin = ground->items,
        .least = ground->least,
        .most = ground->most,
        .may_vanish = ground->evicts,
    };
    *state = trial;
}

/* So little memory that extents and segments are used again soon. */
static int setup_index(void **state)
{
    static const char *const arguments[] = {"--memory", "32M", "--max-clients", "256", NULL};
    const struct ground ground = {
        .arguments = arguments,
        .least = 700,
        .most = server_is_slow() ? 1000 : 6000,
    };

    setup_on(state, &ground);
    return 0;
}

/* Few and small buckets of several pages, and items that come and go in all of them: what is
 * in a bucket shifts from one page to another all the time. */
static int setup_pages(void **state)
{
    static const char *const arguments[] = {
        "--memory", "4M", "--max-clients", "256", "--bucket-size", "256", "--extra-reads",
        "1000",     NULL};
    const struct ground ground = {
        .arguments = arguments,
        .items = 800,
        .least = 200,
        .most = 1000,
    };

    setup_on(state, &ground);
    return 0;
}

/* Half of the memory would hold the longest values of all keys: those that are not used for a while
 * are evicted, in their bucket, by a hand, or with a range. */
static int setup_cache(void **state)
{
    static const char *const arguments[] = {"--memory", "1M", "--max-clients", "256", "--full",
                                            "evict",    NULL};
    const struct ground ground = {
        .arguments = arguments,
        .least = 8000,
        .most = 16000,
        .evicts = true,
    };

    setup_on(state, &ground);
    return 0;
}

static int teardown(void **state)
{
    struct trial *trial = *state;
    int status = server_stop(&trial->server);

    history_fini(&trial->history);
    free(trial);
    return status;
}

TEST_WITH(in_buckets_that_split_and_merge, setup_index, teardown)
{
    struct trial *trial = *state;

    one_order_explains_all(trial);
#ifndef LINEARIZABILITY_UNCHECKED
    assert_true(trial->splits > 0);
    assert_true(trial->merges > 0);
#endif
}

TEST_WITH(in_buckets_of_several_pages, setup_pages, teardown)
{
    struct trial *trial = *state;

    one_order_explains_all(trial);
    assert_true(trial->overflow_buckets > 0);
}

/* Every change of an item is an eviction, a write or a split; a value that is gone stays gone. */
TEST_WITH(in_a_cache, setup_cache, teardown)
{
    struct trial *trial = *state;

    one_order_explains_all(trial);
    print_message("%" PRIu64 " evictions; %u of the keys vanished\n", trial->evicted,
                  trial->vanished);
#ifndef LINEARIZABILITY_UNCHECKED
    assert_true(trial->vanished > 0);
#endif
}
