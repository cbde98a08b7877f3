/*
 * A cluster whose servers, clients and etcd ask each other who they are: keys of users,
 * certificates and a password. Left out without etcd.
 */
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"
#include "tests/support/users_file.h"

#define LEASE_MS 1000
#define SERVERS 2

#define CLIENT "[client]\nkey = " KEY_B "\n* = read, write, admin\n"
#define PEER_WITH(rights) "[peer]\nkey = " KEY_A "\n* = " rights "\n"

static struct cluster_process cluster;
static struct cluster_load load;
static struct users_file users;
static char peer_key[96], client_key[96];

static int end(void **state)
{
    (void)state;
    cluster_load_stop(&load);
    cluster_process_stop(&cluster);
    users_file_close(&users);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static void prepare(bool etcd_has_tls)
{
    memset(&load, 0, sizeof load);
    load.options = &cluster.client;
    cluster.options.has_logs = true;
    cluster.options.etcd_has_tls = etcd_has_tls;
    users_file_open(&users);
    cluster_process_prepare(&cluster, SERVERS, "16M", LEASE_MS);
}

/* To the other one and back. */
static void hand_over_under_load(void)
{
    okv *handle = cluster_process_connect(&cluster);

    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
    for (unsigned i = 0; i < SERVERS; i++) {
        unsigned next = 1 - cluster_process_leader(&cluster);
        cluster_process_await(&cluster, next, true);
        cluster_process_hand_over(&cluster, next);
        cluster_load_await(&load);
    }
    cluster_load_stop(&load);
    cluster_load_check(&load, handle);
    okv_close(&handle);
}

/* ---- users of okv ---- */

static void start_with_users(const char *text)
{
    static const char *const arguments[] = {"--users",    users.users, "--peer-user", "peer",
                                            "--peer-key", peer_key,    NULL};

    prepare(false);
    users_file_write(&users, text);
    snprintf(peer_key, sizeof peer_key, "%s", users_file_key(&users, "peer", KEY_A));
    snprintf(client_key, sizeof client_key, "%s", users_file_key(&users, "client", KEY_B));
    cluster.client.user = "client";
    cluster.client.key_file = client_key;
    for (unsigned i = 0; i < SERVERS; i++)
        cluster.arguments[i] = arguments;
    cluster_process_run(&cluster);
}

CLUSTER_TEST(servers_prove_that_they_are_peers)
{
    start_with_users(PEER_WITH("replicate") CLIENT);
    cluster_process_create(&cluster);
    hand_over_under_load();
}

/* Until it is granted. */
CLUSTER_TEST(a_peer_needs_the_right)
{
    start_with_users(PEER_WITH("read") CLIENT);
    cluster_process_order_creation(&cluster);
    cluster_process_await_log(&cluster, 0, "the user lacks the right replicate there");
    cluster_process_await(&cluster, 1, false);
    users_file_write(&users, PEER_WITH("replicate") CLIENT);
    for (unsigned i = 0; i < SERVERS; i++) /* both are to have the same users */
        cluster_process_signal(&cluster, i, SIGHUP);
    cluster_process_await(&cluster, 1, true);
}

CLUSTER_TEST(a_peer_needs_the_key)
{
    start_with_users("[peer]\nkey = " KEY_C "\n* = replicate\n" CLIENT);
    cluster_process_order_creation(&cluster);
    cluster_process_await_log(&cluster, 0, "the server knows no such user with this key");
    cluster_process_await(&cluster, 1, false);
}

/* ---- etcd ---- */

static struct etcd_files {
    char ca[256], cert[256], key[256], passwords[SERVERS][128];
} files;

static void add_etcd_user(void)
{
    const struct etcd_process *etcd = &cluster.etcd;

    etcd_process_post(etcd, "auth/user/add", "{\"name\":\"root\",\"password\":\"r\"}", NULL);
    etcd_process_post(etcd, "auth/role/add", "{\"name\":\"root\"}", NULL);
    etcd_process_post(etcd, "auth/user/grant", "{\"user\":\"root\",\"role\":\"root\"}", NULL);
    etcd_process_post(etcd, "auth/user/add", "{\"name\":\"okv\",\"password\":\"secret\"}", NULL);
    etcd_process_post(etcd, "auth/role/add", "{\"name\":\"okv\"}", NULL);
    etcd_process_post(etcd, "auth/role/grant", /* /okv/ to /okv0 */
                      "{\"name\":\"okv\",\"perm\":{\"permType\":2,\"key\":\"L29rdi8=\","
                      "\"range_end\":\"L29rdjA=\"}}",
                      NULL);
    etcd_process_post(etcd, "auth/user/grant", "{\"user\":\"okv\",\"role\":\"okv\"}", NULL);
    etcd_process_post(etcd, "auth/enable", "{}", NULL);
}

static void prepare_with_tls(void)
{
    const char *folder = getenv("OKV_TEST_TLS");

    if (!folder)
        skip();
    snprintf(files.ca, sizeof files.ca, "%s/ca.pem", folder);
    snprintf(files.cert, sizeof files.cert, "%s/member.pem", folder);
    snprintf(files.key, sizeof files.key, "%s/member.key", folder);
    prepare(true);
}

static void write_password(unsigned server, const char *password)
{
    char name[16];

    snprintf(name, sizeof name, "password%u", server);
    snprintf(files.passwords[server], sizeof files.passwords[server], "%s",
             users_file_key(&users, name, password));
}

CLUSTER_TEST(etcd_asks_for_certificates)
{
    static const char *const arguments[] = {"--etcd-ca",  files.ca,  "--etcd-cert", files.cert,
                                            "--etcd-key", files.key, NULL};

    prepare_with_tls();
    for (unsigned i = 0; i < SERVERS; i++)
        cluster.arguments[i] = arguments;
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    hand_over_under_load();
}

/* A server with another one waits, and says why. */
CLUSTER_TEST(etcd_asks_for_a_password)
{
#define ARGUMENTS(i)                                                                              \
    {                                                                                             \
        "--etcd-ca", files.ca, "--etcd-cert", files.cert, "--etcd-key", files.key, "--etcd-user", \
            "okv", "--etcd-password-file", files.passwords[i], NULL                               \
    }
    static const char *const arguments[SERVERS][11] = {ARGUMENTS(0), ARGUMENTS(1)};

    prepare_with_tls();
    add_etcd_user();
    write_password(0, "secret");
    write_password(1, "wrong");
    for (unsigned i = 0; i < SERVERS; i++)
        cluster.arguments[i] = arguments[i];
    cluster_process_run(&cluster);
    cluster_process_await_log(&cluster, 1, "invalid user ID or password: this server waits for it");
    assert_int_equal(server_stop(&cluster.servers[1]), 0);
    write_password(1, "secret");
    cluster_process_restart(&cluster, 1);
    cluster_process_create(&cluster);
    hand_over_under_load();
}
