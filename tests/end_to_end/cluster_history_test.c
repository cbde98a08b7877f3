/*
 * Clients of a cluster on few keys, while its primary hands over, is killed or stands still, and
 * while copies are killed: everything that they did and saw, over all epochs, is explained by one
 * order of the operations on each key, in which its versions rise
 * (tests/support/linearizability.h).
 *
 * OKV_LONG=1: each of these happens ten times, else once. $OKV_TEST_SEED repeats their order. Left
 * out without etcd.
 */
#include <inttypes.h>
#include <signal.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/cluster_process.h"
#include "tests/support/linearizability.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/recorded_client.h"

#define LEASE_MS 1000
#define CLIENTS 8u
#define READERS 3 /* one that writes soon waits for that, and READs no more */
#define PAUSE_MS 4
#define RECONNECT_EVERY 5000 /* operations of a client, of which some are unknown then */
#define AHEAD_MS 10
#define AHEAD_LOOKS 10 /* one in each term of the lease; a take-over takes little more than one */
/* Operations between two events. */
#define PROGRESS 1000
enum { SERVERS = 3, ROUNDS = 1, ROUNDS_LONG = 10, CLIENTS_MAX = CLIENTS + ROUNDS_LONG };

static struct cluster_process cluster;
static struct recorded_load load;
static struct recorded_client clients[CLIENTS_MAX];
static unsigned started; /* clients */
static atomic_bool is_over;
static uint64_t seed;

static void join_clients(void)
{
    atomic_store(&is_over, true);
    for (unsigned i = 0; i < started; i++)
        recorded_client_join(&clients[i]);
}

static int end(void **state)
{
    (void)state;
    if (!atomic_load(&is_over))
        join_clients();
    for (; started > 0; started--)
        history_log_fini(&clients[started - 1].log);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

/* ---- clients ---- */

static void await_progress(void)
{
    uint64_t wanted = atomic_load(&load.begun) + PROGRESS, end_ns = pace_guard_end();

    while (atomic_load(&load.begun) < wanted) {
        if (atomic_load(&load.failure))
            fail_msg("a client failed: %s", okv_errname(atomic_load(&load.failure)));
        if (okv_clock_ns() > end_ns)
            fail_msg("clients are not answered");
        pace_sleep_ms(1);
    }
}

static void start_client(void)
{
    assert_true(recorded_client_start(&clients[started], &load, started));
    started++;
}

static void start_clients(void)
{
    load = (struct recorded_load){
        .uri = cluster.uri,
        .seed = random_next(&seed),
        .reconnect_every = RECONNECT_EVERY,
        .and_until = &is_over,
        .pause_ms = PAUSE_MS,
        .readers = READERS,
    };
    recorded_load_init(&load);
    atomic_store(&is_over, false);
    while (started < CLIENTS)
        start_client();
    await_progress();
}

static void merge(struct history *history)
{
    struct history_log logs[CLIENTS_MAX];
    uint64_t unknown = 0, failed = 0;

    for (unsigned i = 0; i < started; i++) {
        if (clients[i].broken_text[0])
            print_message("%s\n", clients[i].broken_text);
        unknown += clients[i].unknown;
        failed += clients[i].failed;
        logs[i] = clients[i].log;
    }
    assert_true(history_merge(history, logs, started));
    for (unsigned i = 0; i < started; i++)
        clients[i].log = logs[i];
    print_message("%zu operations, %" PRIu64 " unknown, %" PRIu64 " failed\n", history->length,
                  unknown, failed);
}

static void expect_one_order(void)
{
    struct linearizability_report report;
    struct history history;
    char text[200];

    merge(&history);
    size_t heads = recorded_heads_resolve(&history, text, sizeof text);
    enum linearizability_verdict verdict = linearizability_check(&history, NULL, &report);
    history_fini(&history);
    if (heads)
        fail_msg("a head is wrong: %s", text);
    if (verdict != LINEARIZABILITY_HOLDS)
        fail_msg("key %u: %s: %s", report.key, linearizability_verdict_text(verdict), report.text);
    if (atomic_load(&load.failure))
        fail_msg("a client failed: %s", okv_errname(atomic_load(&load.failure)));
    assert_int_equal(atomic_load(&load.broken), 0);
}

/* ---- what happens to servers ---- */

static void await_all(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_await(&cluster, i, true);
}

/* Some other than this one. */
static unsigned choose_other(unsigned server)
{
    return (server + 1 + (unsigned)random_below(&seed, SERVERS - 1)) % SERVERS;
}

static void hand_over(void)
{
    cluster_process_hand_over(&cluster, choose_other(cluster_process_leader(&cluster)));
}

/* It comes back before the primary misses it, or after. */
static void kill_copy(void)
{
    unsigned copy = choose_other(cluster_process_leader(&cluster));

    cluster_process_signal(&cluster, copy, SIGKILL);
    if (random_below(&seed, 2))
        cluster_process_await(&cluster, copy, false);
    cluster_process_restart(&cluster, copy);
}

static void kill_primary(void)
{
    unsigned primary = cluster_process_leader(&cluster);

    cluster_process_signal(&cluster, primary, SIGKILL);
    cluster_process_leader(&cluster);
    await_progress();
    cluster_process_restart(&cluster, primary);
}

/* Its memory is READ on by clients from before, while another one writes elsewhere. */
static void stop_primary(void)
{
    unsigned primary = cluster_process_leader(&cluster);

    cluster_process_signal(&cluster, primary, SIGSTOP);
    cluster_process_leader(&cluster);
    start_client();
    await_progress();
    cluster_process_signal(&cluster, primary, SIGCONT);
}

static void signal_others(unsigned primary, int signal)
{
    for (unsigned i = 0; i < SERVERS; i++)
        if (i != primary)
            cluster_process_signal(&cluster, i, signal);
}

/* What its copies do not have yet is not answered. Where the primary has left them out meanwhile,
 * it alone can lead: with its files, when it is back. */
static void kill_primary_ahead(void)
{
    unsigned primary = cluster_process_leader(&cluster);

    if (!cluster.options.has_files)
        return;
    signal_others(primary, SIGSTOP);
    pace_sleep_ms(AHEAD_MS);
    cluster_process_signal(&cluster, primary, SIGKILL);
    signal_others(primary, SIGCONT);
    for (unsigned i = 0; i < AHEAD_LOOKS && !cluster_process_is_led(&cluster); i++)
        pace_sleep_ms(cluster.lease_ms);
    cluster_process_restart(&cluster, primary);
}

static void kill_all(void)
{
    if (!cluster.options.has_files)
        return;
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_signal(&cluster, i, SIGKILL);
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_restart(&cluster, i);
}

static void (*const events[])(void) = {hand_over,    kill_copy,          kill_primary,
                                       stop_primary, kill_primary_ahead, kill_all};
#define EVENTS (sizeof events / sizeof *events)

/* Each once, in some order. */
static void run_events(void)
{
    bool has_been[EVENTS] = {false};

    for (size_t left = EVENTS; left > 0; left--) {
        size_t next = random_below(&seed, EVENTS);
        while (has_been[next])
            next = (next + 1) % EVENTS;
        has_been[next] = true;
        events[next]();
        await_progress();
        await_all();
    }
}

static uint64_t epoch_now(void)
{
    okv *handle = cluster_process_connect(&cluster);
    struct okv_info info;

    okv_info(handle, &info);
    okv_close(&handle);
    return info.epoch;
}

static void run(bool has_files)
{
    const char *is_long = getenv("OKV_LONG");
    unsigned rounds = is_long && strcmp(is_long, "1") == 0 ? ROUNDS_LONG : ROUNDS;

    seed = random_seed();
    cluster.options.has_files = has_files;
    cluster_process_start(&cluster, SERVERS, "32M", LEASE_MS);
    uint64_t epoch = epoch_now();
    start_clients();
    for (unsigned i = 0; i < rounds; i++)
        run_events();
    await_progress();
    join_clients();
    assert_true(epoch_now() >=
                epoch + rounds * (uint64_t)3); /* by a hand-over and two take-overs */
    expect_one_order();
}

CLUSTER_TEST(one_order_explains_all_in_memory)
{
    run(false);
}

CLUSTER_TEST(one_order_explains_all_with_files)
{
    run(true);
}
