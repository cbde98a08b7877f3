/*
 * Servers of a cluster, beside an etcd: what clients were told stays so over hand-overs, and while
 * etcd is away. OKV_LONG=1: 100 hand-overs. Left out without etcd.
 */
#include "tests/support/test.h"

#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"

#define LEASE_MS 400
enum { HAND_OVERS = 10, HAND_OVERS_LONG = 100, SERVERS = 3 };

static struct cluster_process cluster;
static struct cluster_load load;

static int end(void **state)
{
    (void)state;
    cluster_load_stop(&load);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static void start(unsigned count)
{
    memset(&load, 0, sizeof load);
    cluster_process_start(&cluster, count, "16M", LEASE_MS);
    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
}

static void end_load(void)
{
    okv *handle = cluster_process_connect(&cluster);

    cluster_load_await(&load);
    cluster_load_stop(&load);
    cluster_load_check(&load, handle);
    okv_close(&handle);
}

/* To each of the others in turn. */
CLUSTER_TEST(clients_go_on_over_hand_overs)
{
    const char *is_long = getenv("OKV_LONG");
    unsigned count = is_long && strcmp(is_long, "1") == 0 ? HAND_OVERS_LONG : HAND_OVERS;

    start(SERVERS);
    unsigned leader = cluster_process_leader(&cluster);
    for (unsigned i = 0; i < count; i++) {
        leader = (leader + 1 + i / SERVERS % 2) % SERVERS;
        cluster_process_await(&cluster, leader, true);
        cluster_process_hand_over(&cluster, leader);
        cluster_load_await(&load);
    }
    end_load();
}

CLUSTER_TEST(clients_go_on_while_etcd_is_away)
{
    start(2);
    unsigned leader = cluster_process_leader(&cluster);
    etcd_process_kill(&cluster.etcd, 0);
    for (unsigned i = 0; i < 10; i++)
        cluster_load_await(&load);
    assert_int_equal(cluster_process_leader(&cluster), leader);
    etcd_process_restart(&cluster.etcd, 0);
    cluster_process_hand_over(&cluster, 1 - leader);
    cluster_load_await(&load);
    cluster_process_hand_over(&cluster, leader);
    end_load();
}
