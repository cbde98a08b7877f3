/*
 * A primary of a cluster that dies, stands still or is told to end, beside clients: another server
 * leads, with all that clients were told and all items. Left out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/cluster_items.h"
#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"
#include "tests/support/pace.h"

#define LEASE_MS 400
/* No copy leaves the set while the primary is killed. */
#define LONG_LEASE_MS 2000
/* Enough for an answer that waits for nobody. */
#define ANSWER_MS 50
enum { SERVERS = 3, ITEMS = 500, LONGEST = 20000 };

static struct cluster_process cluster;
static struct cluster_load load;
static struct cluster_items before;
static okv *handle;

static int end(void **state)
{
    (void)state;
    cluster_load_stop(&load);
    cluster_items_free(&before);
    okv_close(&handle);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static void start_servers(uint32_t lease_ms)
{
    memset(&load, 0, sizeof load);
    cluster_process_start(&cluster, SERVERS, "32M", lease_ms);
    handle = cluster_process_connect(&cluster);
}

/* Returns the number of the primary. */
static unsigned start(void)
{
    start_servers(LEASE_MS);
    cluster_items_put(handle, ITEMS, LONGEST);
    before = cluster_items_walk(handle, "item ");
    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
    return cluster_process_leader(&cluster);
}

static void compare(void)
{
    struct cluster_items after = cluster_items_walk(handle, "item ");

    cluster_items_compare(&before, &after);
    cluster_items_free(&after);
}

/* Clients go on without that server, and with it again when it leads. */
static void go_on(unsigned server)
{
    cluster_load_await(&load);
    compare();
    if (!cluster.servers[server].pid)
        cluster_process_restart(&cluster, server);
    else if (cluster.stands[server])
        cluster_process_signal(&cluster, server, SIGCONT);
    cluster_process_await(&cluster, server, true);
    cluster_process_hand_over(&cluster, server);
    cluster_load_await(&load);
    cluster_load_stop(&load);
    assert_int_equal(cluster_load_check(&load, handle), 0);
    compare();
}

CLUSTER_TEST(a_copy_takes_over_from_one_that_was_killed)
{
    unsigned primary = start();

    cluster_process_signal(&cluster, primary, SIGKILL);
    go_on(primary);
}

CLUSTER_TEST(a_copy_takes_over_from_one_that_stands_still)
{
    unsigned primary = start();

    cluster_process_signal(&cluster, primary, SIGSTOP);
    go_on(primary);
}

CLUSTER_TEST(a_primary_that_ends_hands_over)
{
    unsigned primary = start();

    assert_int_equal(server_stop(&cluster.servers[primary]), 0);
    go_on(primary);
}

/* Session ids are one server's, whatever the epochs of its databases are. */
CLUSTER_TEST(databases_are_led_by_different_servers)
{
    char uri[400];

    cluster.options.has_two = true;
    start_servers(LEASE_MS);
    cluster.options.has_two = false;
    unsigned leader = cluster_process_leader(&cluster);
    for (unsigned i = 0; i < 6; i++) {
        leader = (leader + 1) % SERVERS;
        cluster_process_await(&cluster, leader, true);
        cluster_process_hand_over(&cluster, leader);
    }
    cluster.database = "other";
    okv_close(&handle);
    handle = cluster_process_connect(&cluster);
    snprintf(uri, sizeof uri, "%s?database=other", cluster.uri);
    cluster_load_start(&load, uri);
    cluster_load_await(&load);
    for (unsigned i = 1; i <= SERVERS; i++) {
        cluster_process_await(&cluster, i % SERVERS, true);
        cluster_process_hand_over(&cluster, i % SERVERS);
        cluster_load_await(&load);
    }
    cluster.database = NULL;
    cluster_load_stop(&load);
    assert_int_equal(cluster_load_check(&load, handle), 0);
}

static void signal_others(unsigned primary, int signal)
{
    for (unsigned i = 0; i < SERVERS; i++)
        if (i != primary)
            cluster_process_signal(&cluster, i, signal);
}

/* What only the primary has is not answered. The next one does not have it, and is sent it again.
 */
CLUSTER_TEST(a_put_is_answered_when_all_copies_have_it)
{
    struct okv_result result;
    char value[8] = "";
    size_t length;

    start_servers(LONG_LEASE_MS);
    assert_int_equal(okv_put(handle, "key", 3, "old", 3, NULL), OKV_OK);
    unsigned primary = cluster_process_leader(&cluster);
    uint64_t begun_ns = okv_clock_ns();
    signal_others(primary, SIGSTOP);
    assert_int_equal(okv_submit_put(handle, "key", 3, "new", 3, 1), OKV_OK);
    assert_int_equal(okv_poll(handle, &result, 1), 0);
    pace_sleep_ms(ANSWER_MS);
    int answers = okv_poll(handle, &result, 1);
    if (okv_clock_ns() - begun_ns < LONG_LEASE_MS / 2 * UINT64_C(1000000))
        assert_int_equal(answers, 0);
    cluster_process_signal(&cluster, primary, SIGKILL);
    signal_others(primary, SIGCONT);
    while (answers == 0) {
        okv_wait(handle, PACE_GUARD_MS);
        answers = okv_poll(handle, &result, 1);
    }
    assert_int_equal(answers, 1);
    assert_true(result.status == OKV_OK || result.status == OKV_EUNKNOWN);
    assert_int_equal(okv_get(handle, "key", 3, value, sizeof value, &length, NULL), OKV_OK);
    if (result.status == OKV_OK)
        assert_string_equal(value, "new");
}
