/*
 * Clients of a cluster on few keys, while its primary hands over, is killed or stands still, and
 * while copies and the leader of etcd are killed: everything that they did and saw, over all
 * epochs, is explained by one order of the operations on each key, in which its versions rise
 * (tests/support/linearizability.h).
 *
 * OKV_LONG=1: each of these happens ten times, else once. $OKV_TEST_SEED repeats their order. Left
 * out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_process.h"
#include "tests/support/pace.h"
#include "tests/support/random.h"
#include "tests/support/recorded_crowd.h"

#define LEASE_MS 1000
#define AHEAD_MS 10
#define AHEAD_LOOKS 10 /* one in each term of the lease; a take-over takes little more than one */
enum { SERVERS = 3, ROUNDS = 1, ROUNDS_LONG = 10 };

static struct cluster_process cluster;
static struct recorded_crowd crowd;
static uint64_t seed;

static int end(void **state)
{
    (void)state;
    recorded_crowd_fini(&crowd);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

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
    recorded_crowd_await(&crowd);
    cluster_process_restart(&cluster, primary);
}

/* Alone, or with the primary. */
static void kill_etcd(void)
{
    unsigned leader = etcd_process_leader(&cluster.etcd);

    etcd_process_kill(&cluster.etcd, leader);
    if (random_below(&seed, 2))
        kill_primary();
    recorded_crowd_await(&crowd);
    etcd_process_restart(&cluster.etcd, leader);
}

/* Its memory is READ on by clients from before, while another one writes elsewhere. */
static void stop_primary(void)
{
    unsigned primary = cluster_process_leader(&cluster);

    cluster_process_signal(&cluster, primary, SIGSTOP);
    cluster_process_leader(&cluster);
    recorded_crowd_add(&crowd);
    recorded_crowd_await(&crowd);
    cluster_process_signal(&cluster, primary, SIGCONT);
}

/* A server that stands still for little more than a lease may be given up, or not: it goes on as
 * one that leads no more, or as if nothing had been. */
static void pause_some(void)
{
    unsigned server = (unsigned)random_below(&seed, SERVERS);

    cluster_process_signal(&cluster, server, SIGSTOP);
    pace_sleep_ms(cluster.lease_ms + cluster.lease_ms / 5);
    cluster_process_signal(&cluster, server, SIGCONT);
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

static void (*const events[])(void) = {hand_over,  kill_copy,          kill_primary, stop_primary,
                                       pause_some, kill_primary_ahead, kill_all,     kill_etcd};
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
        recorded_crowd_await(&crowd);
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
    cluster.options.etcd_has_three = true;
    cluster_process_start(&cluster, SERVERS, "32M", LEASE_MS);
    uint64_t epoch = epoch_now();
    recorded_crowd_start(&crowd, cluster.uri, random_next(&seed));
    for (unsigned i = 0; i < rounds; i++)
        run_events();
    recorded_crowd_await(&crowd);
    recorded_crowd_stop(&crowd);
    assert_true(epoch_now() >=
                epoch + rounds * (uint64_t)3); /* by a hand-over and two take-overs */
    recorded_crowd_check(&crowd);
}

CLUSTER_TEST(one_order_explains_all_in_memory)
{
    run(false);
}

CLUSTER_TEST(one_order_explains_all_with_files)
{
    run(true);
}
