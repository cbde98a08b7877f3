/* The announcer over UDP on the loopback interface, on a clock of the test: which datagrams it
 * answers, with what, and how many. */
#include <net/if.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/core/server.h"
#include "server/net/announcer.h"
#include "shared/base/error.h"
#include "tests/support/discovery_socket.h"
#include "tests/support/network_address.h"
#include "tests/support/server_core.h"

#define SECOND UINT64_C(1000000000)
#define BATCH 32 /* datagrams that the buffer of a socket holds */

struct fixture {
    struct server_core core;
    struct okv_listener listener;
    struct sockaddr_in group;
    int fd;
    uint64_t now_ns;
};

static struct fixture f;

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(1) << 20, .max_value = 1000};

    (void)state;
    f = (struct fixture){.now_ns = 100 * SECOND};
    server_core_open(&f.core, &params);
    struct okv_server *server = f.core.server;
    discovery_group(server->config.group);
    snprintf(server->config.name, sizeof server->config.name, "cache");
    snprintf(f.listener.where, sizeof f.listener.where, "local:///run/okv.sock");
    server->listeners[0] = &f.listener;
    server->listener_count = 1;
    f.group = discovery_address(server->config.group);
    f.fd = discovery_asker();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    close(f.fd);
    okv_announcer_close(f.core.server->announcer);
    server_core_close(&f.core);
    return 0;
}

static void open_it(void)
{
    struct okv_diag diag = {.text = ""};

    if (okv_announcer_open(f.core.server, &diag))
        fail_msg("%s", diag.text);
    assert_int_equal(f.core.server->announcer->count, 1);
}

static void send_bytes(const void *bytes, size_t length)
{
    assert_int_equal(
        sendto(f.fd, bytes, length, 0, (const struct sockaddr *)&f.group, sizeof f.group), length);
}

static void ask(const char *name, uint64_t nonce)
{
    struct okv_discovery_query query = {.nonce = nonce};
    struct okv_wire_discovery wire;

    snprintf(query.name, sizeof query.name, "%s", name);
    okv_discovery_query_encode(&query, &wire);
    send_bytes(&wire, sizeof wire);
}

static bool serve(void)
{
    return okv_announcer_serve(f.core.server, f.now_ns);
}

/* Takes the answers that have come; the last one is left in `out`. */
static unsigned answers(struct okv_discovery_answer *out)
{
    uint8_t bytes[2048];
    unsigned count = 0;
    ssize_t length;

    while ((length = recv(f.fd, bytes, sizeof bytes, 0)) >= 0) {
        assert_int_equal(okv_discovery_answer_decode(bytes, (size_t)length, out), 0);
        count++;
    }
    return count;
}

#define FIXTURE_TEST(name) TEST_WITH(name, setup, teardown)

FIXTURE_TEST(a_query_is_answered)
{
    struct okv_discovery_answer answer;

    for (unsigned i = 0; i < 123; i++) {
        char key[16];
        snprintf(key, sizeof key, "%u", i);
        server_core_put(&f.core, key, 'v', 10, 0);
    }
    open_it();
    ask("cache", 77);
    assert_false(serve());
    assert_int_equal(answers(&answer), 1);
    assert_true(answer.nonce == 77 && answer.boot_id == 5 && answer.items == 120);
    assert_true(answer.memory_used >= 4096 && answer.memory_used <= UINT64_C(1) << 20);
    assert_true(answer.memory_used == okv_discovery_coarse(answer.memory_used));
    assert_string_equal(answer.name, "cache");
    assert_string_equal(answer.release, OKV_VERSION);
    assert_int_equal(answer.uri_count, 1);
    assert_string_equal(answer.uris[0], "local:///run/okv.sock");
    ask("", 78);
    assert_false(serve());
    assert_int_equal(answers(&answer), 1);
    assert_true(answer.nonce == 78);
    assert_int_equal(atomic_load(&f.core.server->stats.discovery_answers), 2);
}

/* A listener over libfabric is announced where it is, one of the loopback interface beside the
 * sockets of this host. */
FIXTURE_TEST(a_listener_over_ofi_is_announced)
{
    struct okv_listener fabric = {.where = "ofi://127.0.0.1:7475"};
    struct okv_discovery_answer answer;

    f.core.server->listeners[1] = &fabric;
    f.core.server->listener_count = 2;
    open_it();
    ask("", 5);
    serve();
    assert_int_equal(answers(&answer), 1);
    assert_int_equal(answer.uri_count, 2);
    assert_string_equal(answer.uris[0], "local:///run/okv.sock");
    assert_string_equal(answer.uris[1], "ofi://127.0.0.1:7475");
}

FIXTURE_TEST(a_query_for_another_is_not)
{
    struct okv_discovery_answer answer;

    open_it();
    ask("cach", 1);
    ask("cache1", 2);
    ask("Cache", 3);
    serve();
    assert_int_equal(answers(&answer), 0);
}

FIXTURE_TEST(a_server_that_ends_is_silent)
{
    struct okv_discovery_answer answer;

    open_it();
    atomic_store(&f.core.server->stopping, true);
    ask("", 1);
    serve();
    assert_int_equal(answers(&answer), 0);
}

FIXTURE_TEST(its_thread_answers_until_the_server_ends)
{
    struct okv_discovery_answer answer;
    struct pollfd answered = {.fd = f.fd, .events = POLLIN};

    open_it();
    assert_int_equal(okv_announcer_start(f.core.server, NULL), 0);
    ask("", 1);
    assert_int_equal(poll(&answered, 1, -1), 1);
    assert_int_equal(answers(&answer), 1);
    atomic_store(&f.core.server->stopping, true);
    okv_announcer_stop(f.core.server->announcer);
    ask("", 2);
    assert_int_equal(answers(&answer), 0);
}

FIXTURE_TEST(hostile_datagrams_are_not_answered)
{
    const struct okv_discovery_query query = {.nonce = 1};
    struct okv_discovery_answer answer = {
        .nonce = 1, .boot_id = 1, .name = "cache", .uri_count = 1, .uris = {"local:///a"}};
    uint8_t bytes[4096] = {0};
    struct okv_wire_discovery wire;

    open_it();
    okv_discovery_answer_encode(&answer, &wire); /* answers are not answered: nothing loops */
    send_bytes(&wire, sizeof wire);
    okv_discovery_query_encode(&query, &wire);
    memcpy(bytes, &wire, sizeof wire);
    send_bytes(bytes, 0);
    send_bytes(bytes, sizeof wire - 1);
    send_bytes(bytes, sizeof wire + 1);
    send_bytes(bytes, sizeof bytes);
    bytes[sizeof wire - 1] = 1; /* padding that is none */
    send_bytes(bytes, sizeof wire);
    serve();
    assert_int_equal(answers(&answer), 0);
    assert_int_equal(atomic_load(&f.core.server->stats.discovery_malformed), 6);
    ask("", 2);
    serve();
    assert_int_equal(answers(&answer), 1);
}

/* Asks `count` times at one moment. Returns the number of answers. */
static unsigned flood(unsigned count)
{
    struct okv_discovery_answer answer;
    unsigned answered = 0;

    for (unsigned sent = 0; sent < count; sent += BATCH) {
        for (unsigned i = 0; i < BATCH; i++)
            ask("", i);
        serve();
        answered += answers(&answer);
    }
    return answered;
}

FIXTURE_TEST(answers_have_a_rate)
{
    open_it();
    assert_int_equal(flood(4 * OKV_ANNOUNCER_BURST), OKV_ANNOUNCER_BURST);
    assert_int_equal(flood(BATCH), 0);
    assert_true(atomic_load(&f.core.server->stats.discovery_limited) > 2 * OKV_ANNOUNCER_BURST);
    f.now_ns += SECOND / OKV_ANNOUNCER_RATE;
    assert_int_equal(flood(BATCH), 1);
    f.now_ns += 10 * SECOND / OKV_ANNOUNCER_RATE;
    assert_int_equal(flood(BATCH), 10);
    f.now_ns += 1000 * SECOND;
    assert_int_equal(flood(4 * OKV_ANNOUNCER_BURST), OKV_ANNOUNCER_BURST);
}

/* Other ports and the listeners get their turn during a flood. */
FIXTURE_TEST(a_pass_has_an_end)
{
    struct okv_discovery_answer answer;

    open_it();
    for (unsigned i = 0; i < 70; i++)
        ask("", i);
    assert_true(serve());
    assert_int_equal(answers(&answer), 64);
    assert_false(serve());
    assert_int_equal(answers(&answer), 6);
}

/* The path of a socket is for this host. Another socket receives the group on the interface, so
 * that the query comes to this host at all. */
FIXTURE_TEST(a_query_from_the_network_is_not_answered)
{
    struct ip_mreqn network = {.imr_multiaddr = f.group.sin_addr};
    struct okv_discovery_answer answer;
    uint8_t bytes[2048];

    if (!network_address(IFF_MULTICAST, &network.imr_address)) {
        print_message("no interface with multicast beside the loopback interface\n");
        skip();
    }
    int member = discovery_listener(f.core.server->config.group);
    assert_int_equal(setsockopt(member, IPPROTO_IP, IP_ADD_MEMBERSHIP, &network, sizeof network),
                     0);
    assert_int_equal(setsockopt(f.fd, IPPROTO_IP, IP_MULTICAST_IF, &network, sizeof network), 0);
    open_it();
    ask("", 1);
    assert_true(recv(member, bytes, sizeof bytes, 0) > 0);
    serve();
    assert_int_equal(answers(&answer), 0);
    close(member);
}

static int fail_to_receive(struct okv_discovery_port *port, const uint8_t **datagram,
                           size_t *length)
{
    (void)port, (void)datagram, (void)length;
    return OKV_EIO;
}

static unsigned closed;

static void count_close(struct okv_discovery_port *port)
{
    (void)port;
    closed++;
}

FIXTURE_TEST(a_port_that_fails_is_closed)
{
    static const struct okv_discovery_port_ops ops = {.receive = fail_to_receive,
                                                      .close = count_close};
    struct okv_discovery_port broken = {.ops = &ops, .fd = -1};
    struct okv_discovery_answer answer;
    struct okv_announcer *announcer = f.core.server->announcer;

    open_it();
    announcer->ports[1] = announcer->ports[0];
    announcer->ports[0].port = &broken;
    announcer->count = 2;
    ask("", 1);
    assert_false(serve());
    assert_int_equal(closed, 1);
    assert_int_equal(announcer->count, 1);
    assert_int_equal(answers(&answer), 1); /* the other one goes on */
}

FIXTURE_TEST(a_server_is_announced_only_when_told_to)
{
    struct okv_discovery_answer answer;

    char group[OKV_GROUP_SIZE];
    memcpy(group, f.core.server->config.group, sizeof group);
    f.core.server->config.group[0] = '\0';
    assert_int_equal(okv_announcer_open(f.core.server, NULL), 0);
    assert_int_equal(f.core.server->announcer->count, 0);
    ask("", 1);
    assert_false(serve());
    assert_int_equal(answers(&answer), 0);
}

FIXTURE_TEST(what_cannot_be_announced_is_explained)
{
    static const struct {
        const char *where;
        int code;
        const char *says;
    } cases[] = {
        {"local:///run/\xc3\xa4.sock", OKV_EINVAL, "ASCII"},
        {"rdma://[fd00::1]:7471", OKV_EADDRESS, "no IPv4 address"},
        {"rdma://node-7:7471", OKV_EADDRESS, "no IPv4 address"},
        {"rdma://203.0.113.77:7471", OKV_ENODEVICE, "203.0.113.77"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct okv_diag diag = {.text = ""};
        snprintf(f.listener.where, sizeof f.listener.where, "%s", cases[i].where);
        int rc = okv_announcer_open(f.core.server, &diag);
        if (rc != cases[i].code || !strstr(diag.text, cases[i].says))
            fail_msg("%s: %d, %s", cases[i].where, rc, diag.text);
        assert_int_equal(f.core.server->announcer->count, 0);
    }
}
