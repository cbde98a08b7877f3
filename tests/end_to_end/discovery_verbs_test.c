/*
 * rdma://discover/NAME when the network is hostile, or the server is gone before the client
 * connects. For the QEMU guest: the server is on OKV_GUEST_ADDR, the client on OKV_GUEST_ADDR2 when
 * there is one.
 */
#include <sys/types.h>

#include "tests/support/test.h"

#include <arpa/inet.h>
#include <okv.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

#include "shared/base/clock.h"
#include "shared/discovery/discovery.h"
#include "tests/support/discovery_socket.h"
#include "tests/support/pace.h"
#include "tests/support/server_process.h"
#include "tests/support/ud_sender.h"

static char group[OKV_GROUP_SIZE];

static const char *server_address(void)
{
    return getenv("OKV_GUEST_ADDR");
}

static const char *client_address(void)
{
    const char *other = getenv("OKV_GUEST_ADDR2");

    return other ? other : server_address();
}

static const char *uri_of(const char *name)
{
    static char uri[256];

    snprintf(uri, sizeof uri, "rdma://discover/%s?group=%s&source=%s", name, group,
             client_address());
    return uri;
}

/* Answers every query for "ghost" with one URI. */
struct ghost {
    struct okv_discovery_port *port;
    const char *uri;
    pthread_t thread;
    atomic_bool stop;
};

static void *haunt(void *user)
{
    struct ghost *ghost = user;
    struct pollfd fd = {.fd = ghost->port->fd, .events = POLLIN};
    const uint8_t *bytes;
    size_t length;

    while (!atomic_load(&ghost->stop)) {
        struct okv_discovery_query query;
        struct okv_discovery_answer answer = {
            .boot_id = 13, .name = "ghost", .release = "1", .uri_count = 1};
        struct okv_wire_discovery wire;
        poll(&fd, 1, 10);
        if (ghost->port->ops->receive(ghost->port, &bytes, &length) != 1 ||
            okv_discovery_query_decode(bytes, length, &query))
            continue;
        answer.nonce = query.nonce;
        snprintf(answer.uris[0], sizeof answer.uris[0], "%s", ghost->uri);
        okv_discovery_answer_encode(&answer, &wire);
        if (ghost->port->ops->answer(ghost->port, &wire))
            abort();
    }
    return NULL;
}

static void ghost_begin(struct ghost *ghost, const char *uri)
{
    struct okv_discovery_place place = {.listens = true};
    struct okv_diag diag = {.text = ""};

    inet_pton(AF_INET, group, &place.group);
    inet_pton(AF_INET, server_address(), &place.interface);
    *ghost = (struct ghost){.uri = uri};
    if (okv_discovery_ud_open(&place, &ghost->port, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(pthread_create(&ghost->thread, NULL, haunt, ghost), 0);
}

static void ghost_end(struct ghost *ghost)
{
    atomic_store(&ghost->stop, true);
    pthread_join(ghost->thread, NULL);
    ghost->port->ops->close(ghost->port);
}

/* Opens "ghost", in vain. Queries and answers get lost, so it may take several times until the
 * ghost is met. */
static int meet(char *why, size_t size)
{
    okv *db = NULL;
    int rc = 0;

    for (int i = 0; i < 10; i++) {
        rc = okv_open(uri_of("ghost"), NULL, &db, why, size);
        assert_null(db);
        if (!strstr(why, "no server called"))
            return rc;
    }
    fail_msg("%s", why);
    return rc;
}

/* What the devices keep, of this process or any. */
static unsigned device_objects(void)
{
    char line[512];
    unsigned count = 0;
    FILE *pipe = popen("for k in qp cq mr pd cm_id; do rdma resource show $k; done", "r");

    assert_non_null(pipe);
    while (fgets(line, sizeof line, pipe))
        count += strstr(line, " pid ") != NULL;
    pclose(pipe);
    return count;
}

static void open_and_close(bool listens)
{
    struct okv_discovery_place place = {.listens = listens};
    struct okv_diag diag = {.text = ""};
    struct okv_wire_discovery wire = {.kind = okv_le32_of(0)};
    struct okv_discovery_port *port;

    inet_pton(AF_INET, group, &place.group);
    inet_pton(AF_INET, server_address(), &place.interface);
    if (okv_discovery_ud_open(&place, &port, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(port->ops->ask(port, &wire), 0);
    port->ops->close(port);
}

TEST(a_closed_port_leaves_nothing)
{
    open_and_close(true); /* librdmacm keeps the device open */
    unsigned objects = device_objects(), descriptors = discovery_open_descriptors();
    for (int i = 0; i < 6; i++)
        open_and_close(i % 2);
    assert_int_equal(device_objects(), objects);
    assert_int_equal(discovery_open_descriptors(), descriptors);
}

TEST(a_server_that_died_after_its_answer_refuses)
{
    struct ghost ghost;
    char uri[64], why[512];

    snprintf(uri, sizeof uri, "rdma://%s:7999", server_address());
    ghost_begin(&ghost, uri);
    assert_int_equal(meet(why, sizeof why), OKV_EREFUSED); /* the library loads what it keeps */
    unsigned before = discovery_open_descriptors();
    for (int i = 0; i < 3; i++) {
        int rc = meet(why, sizeof why);
        if (rc != OKV_EREFUSED || !strstr(why, "no server listens") || !strstr(why, ":7999"))
            fail_msg("%s: %s", okv_strerror(rc), why);
    }
    assert_int_equal(discovery_open_descriptors(), before);
    ghost_end(&ghost);
}

TEST(a_host_that_died_after_its_answer_times_out)
{
    struct ghost ghost;
    char why[512];

    ghost_begin(&ghost, "rdma://10.9.9.77:7471");
    int rc = meet(why, sizeof why);
    if ((rc != OKV_ETIMEDOUT && rc != OKV_EADDRESS) || !strstr(why, "10.9.9.77"))
        fail_msg("%s: %s", okv_strerror(rc), why);
    ghost_end(&ghost);
}

/* No name is resolved for a stranger, no second search begins, and no other transport is used. */
TEST(only_a_plain_address_is_used)
{
    static const char *const uris[] = {
        "rdma://localhost:7471", "rdma://discover/ghost", "local:///tmp/ghost.sock",
        "rdma://*:7471",         "http://10.9.9.1",       "rdma://10.9.9.1?source=10.9.9.1",
    };
    struct ghost ghost;
    char why[512];

    ghost_begin(&ghost, "");
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        ghost.uri = uris[i];
        int rc = meet(why, sizeof why);
        if (rc != OKV_EADDRESS || !strstr(why, "announces no rdma address"))
            fail_msg("%s: %s: %s", uris[i], okv_strerror(rc), why);
    }
    ghost_end(&ghost);
}

static void start(struct server_process *server, const char *name)
{
    char announce[64];
    const char *arguments[] = {announce, "--name", name, NULL};

    snprintf(announce, sizeof announce, "--announce=%s", group);
    server_start(server, arguments);
}

/* On a slow machine a search may end before an answer comes. */
static okv *open_patiently(const char *name)
{
    char why[512] = "";
    okv *db = NULL;

    for (int i = 0; i < 20 && !db; i++)
        if (okv_open(uri_of(name), NULL, &db, why, sizeof why))
            db = NULL;
    if (!db)
        fail_msg("%s", why);
    return db;
}

TEST(datagrams_of_any_length_do_no_harm)
{
    static const uint32_t lengths[] = {0, 1, 895, 896, 897, 983, 984, 985, 1024, 4095, 4096};
    struct server_process server;
    struct ud_sender sender;
    okv *db;

    start(&server, "target");
    ud_sender_open(&sender, client_address(), group);
    memset(sender.bytes, 'x', sizeof sender.bytes);
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        for (int n = 0; n < 100; n++) { /* more than a port has receives */
            ud_sender_send(&sender, lengths[i]);
            if (n % 10 == 0)
                nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
        }
    ud_sender_close(&sender);
    db = open_patiently("target");
    assert_true(server_stat(db, "discovery_malformed") >= 100);
    assert_int_equal(server_stat(db, "discovery_limited"), 0);
    okv_close(&db);
    assert_int_equal(server_stop(&server), 0);
}

/* Puts until it works. */
static int put_patiently(okv *db, const char *key)
{
    uint64_t end = pace_guard_end();
    int rc;

    do
        rc = okv_put(db, key, strlen(key), "v", 1, NULL);
    while (rc != OKV_OK && okv_clock_ns() < end);
    return rc;
}

TEST(a_server_that_moved_is_found_again)
{
    struct server_process server;
    char listen[64], value[8];
    size_t length;
    okv *db;

    start(&server, "nomad");
    db = open_patiently("nomad");
    assert_int_equal(okv_put(db, "key", 3, "value", 5, NULL), OKV_OK);
    server_signal(&server, SIGKILL);
    snprintf(listen, sizeof listen, "rdma://%s:7555", server_address());
    setenv("OKV_TEST_LISTEN", listen, 1);
    start(&server, "nomad");
    assert_int_equal(put_patiently(db, "other"), OKV_OK);
    assert_int_equal(okv_get(db, "key", 3, value, sizeof value, &length, NULL), OKV_ENOTFOUND);
    okv_close(&db);
    assert_int_equal(server_stop(&server), 0);
}

int main(void)
{
    if (!server_address()) {
        fprintf(stderr, "it needs a guest with soft-RoCE: OKV_GUEST_ADDR is not set\n");
        return 77;
    }
    discovery_group(group);
    return test_run();
}
