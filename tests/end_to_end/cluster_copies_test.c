/*
 * A copy of a cluster that is killed and comes back empty, or stands still: when it is in sync
 * again, and leads, it has all items, with their versions and times to live. Left out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_items.h"
#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"

#define LEASE_MS 400
enum {
    ITEMS = 2000,
    LONGEST = 20000,
    CHANGES = 50,
    HUGE_BYTES = 24 << 20,
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

/* Returns the number of the copy. */
static unsigned start(const char *memory)
{
    memset(&load, 0, sizeof load);
    cluster_process_start(&cluster, 2, memory, LEASE_MS);
    handle = cluster_process_connect(&cluster);
    cluster_items_put(handle, ITEMS, LONGEST);
    return 1 - cluster_process_leader(&cluster);
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

/* The copy has what the primary has. It leads in the end. */
static void compare_all(unsigned copy, size_t least)
{
    struct okv_info info;

    /* On a slow machine it may have taken over. */
    cluster_process_hand_over(&cluster, 1 - copy);
    cluster_process_await(&cluster, copy, true);
    struct cluster_items before = cluster_items_walk(handle, "");
    cluster_process_hand_over(&cluster, copy);
    struct cluster_items after = cluster_items_walk(handle, "");
    okv_info(handle, &info);
    assert_string_equal(info.uri, cluster.servers[copy].uri);
    assert_true(before.count > least);
    cluster_items_compare(&before, &after);
    cluster_items_free(&before);
    cluster_items_free(&after);
}

static void compare_with(unsigned copy)
{
    compare_all(copy, ITEMS / 2);
}

CLUSTER_TEST(a_copy_that_was_killed_catches_up)
{
    unsigned copy = start("64M");

    start_load();
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_load_await(&load);
    cluster_process_await(&cluster, copy, false);
    cluster_process_restart(&cluster, copy);
    cluster_process_await(&cluster, copy, true);
    end_load();
    compare_with(copy);
}

CLUSTER_TEST(a_copy_loads_a_snapshot_beside_changes)
{
    unsigned copy = start("256M");
    uint64_t number = 0;

    cluster_items_put_large(handle);
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_process_await(&cluster, copy, false);
    start_load();
    cluster_process_restart(&cluster, copy);
    while (!cluster_process_is_in_sync(&cluster, copy))
        for (unsigned i = 0; i < CHANGES; i++)
            cluster_items_change(handle, ITEMS, LONGEST, number++);
    for (unsigned i = 0; i < CHANGES; i++)
        cluster_items_change(handle, ITEMS, LONGEST, number++);
    end_load();
    compare_with(copy);
}

CLUSTER_TEST(a_copy_that_stands_still_is_left_and_comes_back)
{
    unsigned copy = start("64M");

    start_load();
    cluster_process_signal(&cluster, copy, SIGSTOP);
    cluster_load_await(&load);
    cluster_process_await(&cluster, copy, false);
    cluster_load_await(&load);
    cluster_process_signal(&cluster, copy, SIGCONT);
    cluster_process_await(&cluster, copy, true);
    end_load();
    compare_with(copy);
}

static void put_huge(const char *key)
{
    char *value = malloc(HUGE_BYTES);

    assert_non_null(value);
    memset(value, key[0], HUGE_BYTES);
    assert_int_equal(okv_put(handle, key, strlen(key), value, HUGE_BYTES, NULL), OKV_OK);
    free(value);
}

/* Both in the log and in a snapshot each takes more requests than a server takes at a time. */
CLUSTER_TEST(values_of_many_requests_are_copied)
{
    static const char *const few[] = {"--credits", "2", NULL};

    memset(&load, 0, sizeof load);
    cluster_process_prepare(&cluster, 2, "256M", LEASE_MS);
    for (unsigned i = 0; i < cluster.count; i++)
        cluster.arguments[i] = few;
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
    unsigned copy = 1 - cluster_process_leader(&cluster);
    put_huge("a");
    put_huge("b");
    compare_all(copy, 1);
    copy = 1 - copy;
    cluster_process_await(&cluster, copy, true);
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_process_await(&cluster, copy, false);
    put_huge("c");
    cluster_process_restart(&cluster, copy);
    compare_all(copy, 2);
}
