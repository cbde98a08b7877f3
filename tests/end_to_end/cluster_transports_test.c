/*
 * A cluster whose servers and clients reach each other over TCP, with TLS and without, or over
 * RDMA: hand-overs beside clients, and a copy that is killed and loads a snapshot. Left out without
 * etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_items.h"
#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"

#define LEASE_MS 400
enum { HAND_OVERS = 4, ITEMS = 500, LONGEST = 20000 };

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

static void start(const char *scheme, const char *memory)
{
    memset(&load, 0, sizeof load);
    load.options = &cluster.client;
    cluster.options.scheme = scheme;
    cluster_process_prepare(&cluster, 2, memory, LEASE_MS);
}

static void create(void)
{
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
}

static void hand_over(void)
{
    unsigned leader = cluster_process_leader(&cluster);

    for (unsigned i = 0; i < HAND_OVERS; i++) {
        leader = 1 - leader;
        cluster_process_await(&cluster, leader, true);
        cluster_process_hand_over(&cluster, leader);
        cluster_load_await(&load);
    }
}

static void kill_copy(unsigned copy)
{
    cluster_process_signal(&cluster, copy, SIGKILL);
    cluster_process_await(&cluster, copy, false);
    cluster_process_restart(&cluster, copy);
    cluster_process_await(&cluster, copy, true);
}

/* The copy has what the primary has. */
static void compare_with(unsigned copy)
{
    cluster_process_hand_over(&cluster, 1 - copy); /* on a slow machine it may have taken over */
    cluster_process_await(&cluster, copy, true);
    struct cluster_items before = cluster_items_walk(handle, "");
    cluster_process_hand_over(&cluster, copy);
    struct cluster_items after = cluster_items_walk(handle, "");
    assert_true(before.count > ITEMS / 2);
    cluster_items_compare(&before, &after);
    cluster_items_free(&before);
    cluster_items_free(&after);
}

static void run(const char *transport, bool has_large)
{
    struct okv_info info;

    create();
    okv_info(handle, &info);
    assert_string_equal(info.transport, transport);
    cluster_items_put(handle, ITEMS, LONGEST);
    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
    hand_over();
    unsigned copy = 1 - cluster_process_leader(&cluster);
    if (has_large)
        cluster_items_put_large(handle); /* more than the log of the copy reaches back */
    kill_copy(copy);
    cluster_load_await(&load);
    cluster_load_stop(&load);
    cluster_load_check(&load, handle);
    compare_with(copy);
}

CLUSTER_TEST(over_tcp)
{
    start("tcp", "256M");
    run("tcp", true);
}

/* Emulated: a guest has less memory, and items of any size take it long. */
CLUSTER_TEST(over_rdma)
{
    const char *listen = getenv("OKV_TEST_LISTEN");

    if (!listen || strncmp(listen, "rdma://", 7) != 0) {
        print_message("left out: OKV_TEST_LISTEN names no RDMA device\n");
        skip();
    }
    cluster.options.host = listen + 7;
    start("rdma", "64M");
    cluster.options.host = NULL;
    run("rdma", false);
}

#ifdef CLUSTER_HAS_TLS
/* Servers believe the certificates that OpenSSL believes by default. */
CLUSTER_TEST(over_tcps)
{
    const char *folder = getenv("OKV_TEST_TLS");
    char ca[256], cert[256], key[256];
    const char *const arguments[] = {"--tls-cert", cert, "--tls-key", key, NULL};

    assert_non_null(folder);
    snprintf(ca, sizeof ca, "%s/ca.pem", folder);
    snprintf(cert, sizeof cert, "%s/member.pem", folder);
    snprintf(key, sizeof key, "%s/member.key", folder);
    setenv("SSL_CERT_FILE", ca, 1);
    start("tcps", "256M");
    cluster.client.tls_ca = ca;
    for (unsigned i = 0; i < cluster.count; i++)
        cluster.arguments[i] = arguments;
    run("tcp", true);
}
#endif
