/*
 * Many connections over TCP that are ready at once: each has its turn, and each region. Needs
 * OKV_TEST_LISTEN, as tests/support/loopback.sh sets it. Server and clients share one thread, so
 * that no machine is too slow.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/transport/tcp/conn.h"
#include "tests/support/transport_client.h"

#define PEERS 128u /* twice what one look at the sockets reports */
#define LENGTH (1u << 20)
#define READS 16u /* of each, more than its share of the polls */

struct server {
    const struct okv_transport_ops *ops;
    struct okv_listener *listener;
    struct okv_endpoint *endpoint;
    struct okv_conn *conns[PEERS];
    int socks[PEERS];
    unsigned opened;
};

static void send_frame(int sock, const struct okv_tcp_frame *frame, const void *body, size_t length)
{
    uint8_t bytes[OKV_TCP_HEADER + FIXTURE_HELLO];

    okv_tcp_frame_put(bytes, frame);
    if (length > 0)
        memcpy(bytes + OKV_TCP_HEADER, body, length);
    assert_int_equal(send(sock, bytes, OKV_TCP_HEADER + length, MSG_NOSIGNAL),
                     OKV_TCP_HEADER + length);
}

static void accept_one(struct server *server, unsigned region)
{
    uint8_t bytes[OKV_WELCOME_MAX];
    struct okv_request *request;
    struct okv_event event;
    uint64_t end = fixture_soon();

    while (server->ops->next_request(server->listener, &request) <= 0)
        assert_true(okv_clock_ns() < end);
    fixture_make_welcome(server->listener, FIXTURE_ACCEPT, bytes);
    const struct okv_accept accept = {.endpoint = server->endpoint,
                                      .region = region,
                                      .welcome = bytes,
                                      .length = FIXTURE_WELCOME};
    assert_int_equal(server->ops->accept(request, &accept), 0);
    while (server->ops->poll(server->endpoint, &event, 1) == 0)
        assert_true(okv_clock_ns() < end);
    assert_int_equal(event.type, OKV_EVENT_OPENED);
    server->conns[server->opened++] = event.conn;
}

/* The last one reads the second region, all others the first. */
static void server_open(struct server *server, const struct fixture *fixture)
{
    static const struct okv_message_limits limits = {FIXTURE_SLOT_SIZE, 1};
    const struct okv_region region = {fixture->region, FIXTURE_REGION, fixture->region_fd};
    const struct okv_region regions[] = {region, region};
    struct fixture *other = test_calloc(1, sizeof *other);
    struct okv_uri uri = fixture->listen_uri;
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT};
    struct okv_diag diag = {""};

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    strcpy(uri.port, "7475");
    other->connect_uri = uri;
    server->ops = fixture->ops;
    if (server->ops->listen(&uri, regions, 2, &server->listener, &diag) ||
        server->ops->endpoint_create(server->listener, &limits, PEERS, &server->endpoint, &diag))
        fail_msg("%s", diag.text);
    for (unsigned i = 0; i < PEERS; i++) {
        server->socks[i] = client_connect_raw(other, NULL);
        send_frame(server->socks[i],
                   &(struct okv_tcp_frame){OKV_TCP_HELLO, 0, sizeof hello, OKV_TCP_GREETING}, hello,
                   sizeof hello);
        accept_one(server, i == PEERS - 1);
    }
    test_free(other);
}

static void server_close(struct server *server)
{
    struct okv_event event;
    uint64_t end = fixture_soon();

    for (unsigned i = 0; i < PEERS; i++)
        close(server->socks[i]);
    while (server->opened > 0 && okv_clock_ns() < end)
        if (server->ops->poll(server->endpoint, &event, 1) == 1 && event.type == OKV_EVENT_CLOSED) {
            server->ops->conn_destroy(event.conn);
            server->opened--;
        }
    assert_int_equal(server->opened, 0);
    server->ops->endpoint_destroy(server->endpoint);
    server->ops->unlisten(server->listener);
}

static bool is_served(const struct server *server, unsigned peer)
{
    const struct okv_tcp_conn *conn = okv_tcp_conn(server->conns[peer]);

    return conn->output.done > 0 || (conn->answers > 0 && conn->answers < READS);
}

/* The peers read what has come, so that all stay ready. */
static void drain(const struct server *server)
{
    static uint8_t bytes[LENGTH];

    for (unsigned i = 0; i < PEERS; i++)
        while (recv(server->socks[i], bytes, sizeof bytes, MSG_DONTWAIT | MSG_TRUNC) > 0)
            continue;
}

/* Polls until all from `first` to before `end` are served; returns the number of polls. */
static unsigned polls_until_served(struct server *server, unsigned first, unsigned end,
                                   unsigned most)
{
    struct okv_event event;
    unsigned polls = 0, peer = first;

    while (peer < end && polls < most) {
        assert_int_equal(server->ops->poll(server->endpoint, &event, 1), 0);
        polls++;
        drain(server);
        while (peer < end && is_served(server, peer))
            peer++;
    }
    assert_int_equal(peer, end);
    return polls;
}

TEST(each_ready_connection_and_each_region_has_its_turn)
{
    const struct okv_tcp_frame read = {OKV_TCP_READ, 0, LENGTH, 0};
    struct server *server = test_calloc(1, sizeof *server);

    server_open(server, *state);
    for (unsigned i = 0; i < PEERS * READS; i++)
        send_frame(server->socks[i % PEERS], &read, NULL, 0);
    /* A poll serves at least one. The one of the second region waits until it is reported, and then
     * has every other turn; no other waits for the second turn of one. */
    assert_in_range(polls_until_served(server, PEERS - 1, PEERS, PEERS), 1, 6);
    polls_until_served(server, 0, PEERS - 1, 2 * PEERS);
    server_close(server);
    test_free(server);
}

/* Many may have come to wait while others moved many bytes. */
TEST(a_poll_serves_few_connections)
{
    struct server *server = test_calloc(1, sizeof *server);
    struct okv_event event;

    server_open(server, *state);
    const struct okv_tcp_endpoint *endpoint = okv_tcp_endpoint(server->endpoint);
    for (unsigned i = 0; i < PEERS; i++)
        okv_tcp_conn_list_ready(okv_tcp_conn(server->conns[i]), true);
    assert_int_equal(endpoint->ready_count, PEERS);
    assert_int_equal(server->ops->poll(server->endpoint, &event, 1), 0);
    assert_int_equal(endpoint->ready_count, PEERS - 64);
    assert_int_equal(server->ops->poll(server->endpoint, &event, 1), 0);
    assert_int_equal(endpoint->ready_count, 0);
    server_close(server);
    test_free(server);
}

TEST_PROGRAM(fixture_setup_from_environment, fixture_teardown)
