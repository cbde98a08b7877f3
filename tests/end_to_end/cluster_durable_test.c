/*
 * A cluster with files: servers that are killed, one or all at a time, come back with what they
 * acknowledged and go on as the copies that they were. Left out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_items.h"
#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"

#define LEASE_MS 400
enum {
    SERVERS = 2,
    ITEMS = 1000,
    LONGEST = 20000,
    KILLS = 3,
    MARK_SIZE = 80,
    MARK_WHOLE = 12,
    MARK_INCARNATION = 16,
};

static struct cluster_process cluster;
static struct cluster_load load;
static okv *handle;

static int end(void **state)
{
    (void)state;
    cluster_load_stop(&load);
    okv_close(&handle);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static void start(const char *memory)
{
    memset(&load, 0, sizeof load);
    cluster.options.has_files = true;
    cluster_process_start(&cluster, SERVERS, memory, LEASE_MS);
    handle = cluster_process_connect(&cluster);
    cluster_items_put(handle, ITEMS, LONGEST);
}

static void start_load(void)
{
    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
}

static void end_load(void)
{
    cluster_load_await(&load);
    cluster_load_stop(&load);
    cluster_load_check(&load, handle);
}

static void read_mark(unsigned server, uint8_t mark[MARK_SIZE])
{
    char path[128];

    snprintf(path, sizeof path, "%s/d%u/default/copy", cluster.directory, server);
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    assert_int_equal(fread(mark, 1, MARK_SIZE, file), MARK_SIZE);
    fclose(file);
}

static void restart_all(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_restart(&cluster, i);
}

static void await_all(void)
{
    for (unsigned i = 0; i < SERVERS; i++)
        cluster_process_await(&cluster, i, true);
}

/* Each copy has what the other one has. */
static void compare(void)
{
    cluster_process_hand_over(&cluster, 0);
    cluster_process_await(&cluster, 1, true);
    struct cluster_items before = cluster_items_walk(handle, "");
    cluster_process_hand_over(&cluster, 1);
    struct cluster_items after = cluster_items_walk(handle, "");
    assert_true(before.count > ITEMS / 2);
    cluster_items_compare(&before, &after);
    cluster_items_free(&before);
    cluster_items_free(&after);
}

CLUSTER_TEST(all_servers_are_killed_and_nothing_is_lost)
{
    start("64M");
    struct cluster_items before = cluster_items_walk(handle, "item ");
    start_load();
    for (unsigned kill = 0; kill < KILLS; kill++) {
        for (unsigned i = 0; i < SERVERS; i++)
            cluster_process_signal(&cluster, (i + kill) % SERVERS, SIGKILL);
        restart_all();
        await_all();
        cluster_load_await(&load);
    }
    end_load();
    struct cluster_items after = cluster_items_walk(handle, "item ");
    cluster_items_compare(&before, &after);
    cluster_items_free(&before);
    cluster_items_free(&after);
    compare();
}

CLUSTER_TEST(a_copy_that_was_killed_goes_on_with_its_log)
{
    uint8_t before[MARK_SIZE], after[MARK_SIZE];

    start("64M");
    unsigned copy = 1 - cluster_process_leader(&cluster);
    read_mark(copy, before);
    start_load();
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_load_await(&load);
    cluster_process_await(&cluster, copy, false);
    cluster_process_restart(&cluster, copy);
    cluster_process_await(&cluster, copy, true);
    end_load();
    read_mark(copy, after);
    assert_memory_equal(before + MARK_INCARNATION, after + MARK_INCARNATION, 8);
    compare();
}

static void move_away(unsigned server)
{
    char from[128], to[128];

    snprintf(from, sizeof from, "%s/d%u", cluster.directory, server);
    snprintf(to, sizeof to, "%s/away", cluster.directory);
    assert_int_equal(rename(from, to), 0);
}

/* The log goes on with a later epoch. */
CLUSTER_TEST(etcd_is_lost)
{
    struct okv_info info;

    start("64M");
    cluster_process_hand_over(&cluster, 1);
    cluster_process_hand_over(&cluster, 0);
    okv_info(handle, &info);
    okv_close(&handle);
    uint64_t epoch = info.epoch;
    for (unsigned i = SERVERS; i-- > 0;)
        assert_int_equal(server_stop(&cluster.servers[i]), 0);
    move_away(1);
    etcd_process_kill(&cluster.etcd, 0);
    etcd_process_wipe(&cluster.etcd);
    etcd_process_restart(&cluster.etcd, 0);
    restart_all();
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
    okv_info(handle, &info);
    assert_true(info.epoch > epoch);
    compare();
}

/* Runs okv-server with these arguments, which it is to refuse in these words. */
static void expect_refusal(const char *arguments, const char *words)
{
    char command[1024], out[2048];

    snprintf(command, sizeof command, "%s %s --listen local://%s/x --open --memory 16M 2>&1",
             server_program(), arguments, cluster.directory);
    FILE *pipe = popen(command, "r");
    assert_non_null(pipe);
    size_t used = fread(out, 1, sizeof out - 1, pipe);
    out[used] = '\0';
    assert_int_not_equal(pclose(pipe), 0);
    if (!strstr(out, words))
        fail_msg("%s: %s", command, out);
}

CLUSTER_TEST(a_directory_is_one_clusters)
{
    char arguments[512];

    start("64M");
    assert_int_equal(server_stop(&cluster.servers[1]), 0);
    snprintf(arguments, sizeof arguments, "--data %s/d1", cluster.directory);
    expect_refusal(arguments, "it has a copy of cluster test");
    snprintf(arguments, sizeof arguments,
             "--data %s/d1 --cluster other --etcd %s --advertise local://%s/x", cluster.directory,
             cluster.etcd.urls, cluster.directory);
    expect_refusal(arguments, "it has a copy of cluster test");
    cluster_process_restart(&cluster, 1);
    cluster_process_await(&cluster, 1, true);
}

CLUSTER_TEST(a_snapshot_is_in_the_files_when_a_copy_is_in_sync)
{
    uint8_t before[MARK_SIZE], after[MARK_SIZE];

    start("256M");
    unsigned copy = 1 - cluster_process_leader(&cluster);
    read_mark(copy, before);
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_process_await(&cluster, copy, false);
    cluster_items_put_large(handle);
    cluster_process_restart(&cluster, copy);
    cluster_process_await(&cluster, copy, true);
    read_mark(copy, after);
    assert_memory_not_equal(before + MARK_INCARNATION, after + MARK_INCARNATION, 8);
    assert_int_equal(after[MARK_WHOLE], 1);
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_process_restart(&cluster, copy);
    cluster_process_await(&cluster, copy, true);
    read_mark(copy, before);
    assert_memory_equal(before + MARK_INCARNATION, after + MARK_INCARNATION, 8);
    compare();
}
