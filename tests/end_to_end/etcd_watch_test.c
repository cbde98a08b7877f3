/* Watches of the client of etcd beside Debian's etcd. Left out without etcd. */
#include <signal.h>

#include "tests/support/test.h"

#include "server/etcd/state.h"
#include "tests/support/etcd_client.h"
#include "tests/support/etcd_process.h"
#include "tests/support/pace.h"

#define NEVER_MS 3600000

static struct etcd_process cluster;

static int end(__attribute__((unused)) void **state)
{
    etcd_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

static struct okv_etcd *client(const char *urls, uint32_t check_ms)
{
    return etcd_client(
        &(struct okv_etcd_options){.urls = urls, .member_ms = PACE_GUARD_MS, .check_ms = check_ms});
}

/* A proposal that a member passed on to one that is stopped ends without an answer, and may still
 * be done when this one goes on. */
static void change(struct okv_etcd *writer, const char *value, struct etcd_result *result)
{
    int rc;

    do {
        assert_int_equal(etcd_get(writer, "/watched/", result), OKV_OK);
        rc = etcd_swap(writer, "/watched/key", result->count ? result->items[0].mod_revision : 0,
                       value, 0, result);
    } while (rc == OKV_EUNKNOWN || rc == OKV_ECONFLICT);
    assert_int_equal(rc, OKV_OK);
}

/* A change by `writer`, of which the watch is to tell. */
static void expect_change(struct okv_etcd *watcher, const struct etcd_result *watched,
                          struct okv_etcd *writer, const char *value)
{
    struct etcd_result result;

    change(writer, value, &result);
    while (watched->status != OKV_OK || watched->revision < result.revision)
        etcd_await(watcher, watched, watched->times);
}

/* Without a check, so that only the stream can tell. */
TEST_WITH(a_watch_sees_changes_at_another_member, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *watcher = client(cluster.members[0].url, NEVER_MS);
    struct okv_etcd *writer = client(cluster.members[1].url, 0);
    struct etcd_result watched = {0};
    char compaction[64];

    assert_int_equal(okv_etcd_watch(watcher, "/watched/", etcd_take, &watched), OKV_OK);
    etcd_await(watcher, &watched, 0);
    for (unsigned i = 0; i < 3; i++)
        expect_change(watcher, &watched, writer, "value");
    expect_change(watcher, &watched, writer, NULL);
    snprintf(compaction, sizeof compaction, "{\"revision\":\"%llu\",\"physical\":true}",
             (unsigned long long)watched.revision);
    etcd_process_post(&cluster, "kv/compaction", compaction, NULL);
    for (unsigned i = 0; i < 3; i++)
        expect_change(watcher, &watched, writer, "value");
    okv_etcd_destroy(&writer);
    okv_etcd_destroy(&watcher);
}

/* One of the three is the one that watches. */
TEST_WITH(a_watch_goes_on_at_another_member, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *watcher = client(cluster.urls, NEVER_MS);
    struct etcd_result watched = {0};

    assert_int_equal(okv_etcd_watch(watcher, "/watched/", etcd_take, &watched), OKV_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct okv_etcd *writer = client(cluster.members[(i + 1) % 3].url, 0);
        expect_change(watcher, &watched, writer, "before");
        etcd_process_kill(&cluster, i);
        expect_change(watcher, &watched, writer, "meanwhile");
        etcd_process_restart(&cluster, i);
        expect_change(watcher, &watched, writer, "after");
        okv_etcd_destroy(&writer);
    }
    okv_etcd_destroy(&watcher);
}

/* It is silent, and its connection stays. */
TEST_WITH(a_watch_goes_on_while_a_member_is_stopped, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *watcher = etcd_client(&(struct okv_etcd_options){
        .urls = cluster.urls, .member_ms = pace_ms(200), .check_ms = pace_ms(1000)});
    struct etcd_result watched = {0};

    assert_int_equal(okv_etcd_watch(watcher, "/watched/", etcd_take, &watched), OKV_OK);
    for (unsigned i = 0; i < 3; i++) {
        struct okv_etcd *writer = client(cluster.members[(i + 1) % 3].url, 0);
        kill(cluster.members[i].pid, SIGSTOP);
        for (unsigned j = 0; j < 3; j++)
            expect_change(watcher, &watched, writer, "value");
        kill(cluster.members[i].pid, SIGCONT);
        okv_etcd_destroy(&writer);
    }
    okv_etcd_destroy(&watcher);
}

TEST_WITH(a_watch_says_that_there_is_no_quorum, NULL, end)
{
    etcd_process_start(&cluster, 3, false);
    struct okv_etcd *watcher = client(cluster.urls, pace_ms(300));
    struct okv_etcd *writer = client(cluster.urls, 0);
    struct etcd_result watched = {0};

    assert_int_equal(okv_etcd_watch(watcher, "/watched/", etcd_take, &watched), OKV_OK);
    expect_change(watcher, &watched, writer, "before");
    etcd_process_kill(&cluster, 1);
    etcd_process_kill(&cluster, 2);
    while (watched.status != OKV_ETIMEDOUT)
        etcd_await(watcher, &watched, watched.times);
    assert_string_not_equal(watched.why, "");
    etcd_process_restart(&cluster, 1);
    expect_change(watcher, &watched, writer, "after");
    okv_etcd_destroy(&writer);
    okv_etcd_destroy(&watcher);
}
