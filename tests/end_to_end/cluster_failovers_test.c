/*
 * Servers that fail again and again, beside clients: what was acknowledged is there, once; a get
 * never has less than what was acknowledged when it began, also from the memory of a server that
 * stands. How long no put was answered is printed; no test depends on it.
 *
 * OKV_LONG=1: 100 take-overs and 100 hand-overs over local and as many over TCP, 20 over RDMA and
 * with the leader of etcd, 60 pauses, 10^7 READs of servers that stand; else 5 of each, and 10^5.
 * Left out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"
#include "tests/support/cluster_watch.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/random.h"
#include "tests/support/sanitized.h"

#define LEASE_MS 1000
#define LATE_MS 2500
#define RHO_PPM 500
#define READS 100000
#define READS_LONG 10000000
enum { SERVERS = 3, EVENTS = 5, EVENTS_MAX = 100, EVENTS_FEW = 20, PAUSES = 60, BATCH = 512 };

static struct cluster_process cluster;
static struct cluster_load load;
static struct cluster_watch watch;
static okv *stale; /* of a server that stands */
static uint64_t seed;

/* Without an answered put, of the events of one kind. */
struct times {
    unsigned count;
    double put_ms[EVENTS_MAX];
};

static int end(void **state)
{
    (void)state;
    okv_close(&stale);
    cluster_watch_stop(&watch);
    cluster_load_stop(&load);
    cluster_process_stop(&cluster);
    memset(&cluster.options, 0, sizeof cluster.options);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static bool is_long(void)
{
    const char *text = getenv("OKV_LONG");

    return text && strcmp(text, "1") == 0;
}

static unsigned count_of(unsigned in_long)
{
    return is_long() ? in_long : EVENTS;
}

static void start(void)
{
    memset(&load, 0, sizeof load);
    memset(&watch, 0, sizeof watch);
    seed = random_seed();
    cluster_process_prepare(&cluster, SERVERS, "32M", LEASE_MS);
    if (is_long())
        cluster.lease_ms = LEASE_MS; /* also on a slow machine: what is printed is for this one */
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    cluster_load_start(&load, cluster.uri);
    cluster_watch_start(&watch, cluster.uri, NULL);
}

static void await_all(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_await(&cluster, i, true);
}

/* Whatever the copies knew of a client, its next primary knows: no answer is lost. */
static void finish(void)
{
    cluster_watch_stop(&watch);
    cluster_load_stop(&load);
    okv *handle = cluster_process_connect(&cluster);
    cluster_watch_check(&watch);
    assert_int_equal(cluster_load_check(&load, handle), 0);
    assert_int_equal(watch.unknown, 0);
    okv_close(&handle);
}

/* ---- events, each of which ends with another server that leads ---- */

static void kill_primary(unsigned primary)
{
    cluster_process_signal(&cluster, primary, SIGKILL);
}

static void stop_primary(unsigned primary)
{
    cluster_process_signal(&cluster, primary, SIGSTOP);
}

static void kill_with_etcd(unsigned primary)
{
    unsigned leader = etcd_process_leader(&cluster.etcd);

    etcd_process_kill(&cluster.etcd, leader);
    kill_primary(primary);
}

static void hand_over(unsigned primary)
{
    unsigned to = (primary + 1 + (unsigned)random_below(&seed, SERVERS - 1)) % SERVERS;

    cluster_process_hand_over(&cluster, to);
}

/* What failed comes back, and all is as before. */
static void repair(unsigned primary)
{
    if (!cluster.servers[primary].pid)
        cluster_process_restart(&cluster, primary);
    else if (cluster.stands[primary])
        cluster_process_signal(&cluster, primary, SIGCONT);
    for (unsigned i = 0; i < cluster.etcd.count; i++)
        if (!cluster.etcd.members[i].pid)
            etcd_process_restart(&cluster.etcd, i);
    await_all();
}

static void measure(void (*event)(unsigned primary), struct times *times)
{
    uint64_t epoch;
    unsigned primary = cluster_process_leader_in(&cluster, &epoch);

    cluster_watch_await_epoch(&watch, epoch - 1);
    atomic_store(&watch.put_ns, 0);
    event(primary);
    cluster_watch_await_epoch(&watch, epoch);
    times->put_ms[times->count++] = (double)atomic_load(&watch.put_ns) / 1e6;
    cluster_load_await(&load);
    repair(primary);
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;

    return (left > right) - (left < right);
}

static void print(const char *what, struct times *times)
{
    unsigned late = 0;

    qsort(times->put_ms, times->count, sizeof *times->put_ms, compare);
    for (unsigned i = 0; i < times->count; i++)
        late += times->put_ms[i] > LATE_MS;
    print_message("%s, %u times: ms without an answered put: p50 %.1f, p90 %.1f, at most %.1f; "
                  "%u above %u; lease %u ms\n",
                  what, times->count, times->put_ms[times->count / 2],
                  times->put_ms[times->count * 9 / 10], times->put_ms[times->count - 1], late,
                  LATE_MS, cluster.lease_ms);
}

static void take_over(unsigned count)
{
    struct times killed = {0}, stopped = {0};

    start();
    for (unsigned i = 0; i < count; i++)
        measure(i % 2 ? stop_primary : kill_primary, i % 2 ? &stopped : &killed);
    finish();
    print("killed", &killed);
    print("stopped", &stopped);
}

static void hand_on(unsigned count)
{
    struct times times = {0};

    start();
    atomic_store(&watch.get_ns, 0);
    for (unsigned i = 0; i < count; i++)
        measure(hand_over, &times);
    finish();
    print("handed over", &times);
    print_message("longest get %.1f ms\n", (double)atomic_load(&watch.get_ns) / 1e6);
}

CLUSTER_TEST(copies_take_over)
{
    take_over(count_of(EVENTS_MAX));
}

CLUSTER_TEST(copies_take_over_tcp)
{
    cluster.options.scheme = "tcp";
    take_over(count_of(EVENTS_MAX));
}

CLUSTER_TEST(copies_take_over_rdma)
{
    const char *listen = getenv("OKV_TEST_LISTEN");

    if (!listen || strncmp(listen, "rdma://", 7) != 0) {
        print_message("left out: OKV_TEST_LISTEN names no RDMA device\n");
        skip();
    }
    cluster.options.scheme = "rdma";
    cluster.options.host = listen + 7;
    take_over(count_of(EVENTS_FEW));
}

CLUSTER_TEST(primaries_hand_over)
{
    hand_on(count_of(EVENTS_MAX));
}

CLUSTER_TEST(primaries_hand_over_tcp)
{
    cluster.options.scheme = "tcp";
    hand_on(count_of(EVENTS_MAX));
}

/* As far apart as they may be: a lease that ends must have ended for all. Samples of the server's
 * clock are up to 20 s old, in which it is wrong by 10 ms. */
CLUSTER_TEST(primaries_hand_over_with_clocks_apart)
{
    if (OKV_SANITIZED) {
        print_message("left out: a sanitizer is loaded before what sets the clocks\n");
        skip();
    }
    cluster.options.clock_ppm = RHO_PPM;
    hand_on(count_of(EVENTS_MAX));
}

CLUSTER_TEST(copies_take_over_while_etcd_elects)
{
    struct times times = {0};

    cluster.options.etcd_has_three = true;
    start();
    for (unsigned i = 0; i < count_of(EVENTS_FEW); i++)
        measure(kill_with_etcd, &times);
    finish();
    print("killed, with the leader of etcd", &times);
}

/* A server stands for longer than its lease: its copies may give it up. Every other time it is the
 * primary. */
CLUSTER_TEST(servers_that_pause_lose_nothing)
{
    uint64_t first, last;

    start();
    cluster_process_leader_in(&cluster, &first);
    for (unsigned i = 0; i < count_of(PAUSES); i++) {
        unsigned server =
            i % 2 ? (unsigned)random_below(&seed, SERVERS) : cluster_process_leader(&cluster);
        cluster_process_signal(&cluster, server, SIGSTOP);
        pace_sleep_ms(cluster.lease_ms * 6 / 5);
        cluster_process_signal(&cluster, server, SIGCONT);
        pace_sleep_ms(cluster.lease_ms * 19 / 5);
    }
    cluster_load_await(&load);
    cluster_process_leader_in(&cluster, &last);
    finish();
    print_message("%u pauses, %llu take-overs\n", count_of(PAUSES),
                  (unsigned long long)(last - first));
}

/* ---- READs of a server that stands ---- */

/* A handle that knows no other server. */
static okv *connect_to(unsigned server)
{
    const struct okv_options options = {.timeout_ms = PACE_GUARD_MS,
                                        .depth = BATCH,
                                        .hints = OKV_HINTS_NONE,
                                        .keepalive_ms = OKV_KEEPALIVE_NONE};
    char why[320];
    okv *handle;

    if (patient_open(cluster.servers[server].uri, &options, &handle, why, sizeof why))
        fail_msg("%s: %s", cluster.servers[server].uri, why);
    return handle;
}

static uint64_t bucket_reads(const okv *handle)
{
    struct okv_counters counters;

    okv_counters(handle, &counters);
    return counters.bucket_reads;
}

static void get_in_vain(okv *handle)
{
    static uint64_t numbers[BATCH];
    struct okv_command commands[BATCH];
    struct okv_result results[BATCH];

    for (unsigned i = 0; i < BATCH; i++)
        commands[i] = (struct okv_command){.kind = OKV_GET,
                                           .key = CLUSTER_WATCHED,
                                           .key_length = sizeof CLUSTER_WATCHED - 1,
                                           .buffer = &numbers[i],
                                           .buffer_size = sizeof numbers[i],
                                           .timeout_ms = 1};
    assert_int_equal(okv_call_many(handle, commands, results, BATCH), OKV_OK);
    for (unsigned i = 0; i < BATCH; i++)
        assert_int_equal(results[i].status, OKV_ETIMEDOUT);
}

/* Its memory answers as before, and no answer counts: another server has later values. */
CLUSTER_TEST(what_a_server_that_stands_has_does_not_count)
{
    uint64_t epoch, wanted = is_long() ? READS_LONG : READS;

    start();
    unsigned primary = cluster_process_leader_in(&cluster, &epoch);
    stale = connect_to(primary);
    cluster_process_signal(&cluster, primary, SIGSTOP);
    cluster_watch_await_epoch(&watch, epoch);
    uint64_t told = atomic_load(&watch.told), reads = bucket_reads(stale);
    while (bucket_reads(stale) - reads < wanted)
        get_in_vain(stale);
    assert_true(atomic_load(&watch.told) > told);
    okv_close(&stale);
    repair(primary);
    finish();
}
