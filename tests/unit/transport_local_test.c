/*
 * Hostile clients of the local transport, and what only its READs and messages do. transport_list.c
 * has the tests for every transport.
 */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/bytes.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/bare_client.h"
#include "tests/support/no_descriptors.h"
#include "tests/support/pace.h"
#include "tests/support/transport_fixture.h"

/* The bytes that local.h defines on the wire, repeated so that a change is noticed. */
#define MAGIC 0x4c766b6fu
#define SILENT_CLIENTS 200u
#define SILENT_MAX 128u /* that a server keeps */

/* ---- hostile clients ---- */

static void raw_connect(const struct fixture *fixture, struct bare_client *client)
{
    bare_connect(client, fixture->connect_uri.path);
}

static void raw_hello(struct bare_client *client)
{
    uint8_t hello[FIXTURE_HELLO] = {FIXTURE_ACCEPT};

    for (unsigned i = 1; i < FIXTURE_HELLO; i++)
        hello[i] = fixture_hello_byte(i);
    bare_hello(client, hello, sizeof hello);
}

/* A raw client past its handshake. */
static void raw_open(const struct fixture *fixture, struct bare_client *client)
{
    uint8_t welcome[256];

    raw_connect(fixture, client);
    raw_hello(client);
    assert_int_equal(bare_take_welcome(client, welcome, sizeof welcome), FIXTURE_WELCOME);
}

static void assert_still_serving(struct fixture *fixture)
{
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;

    fixture_fill_message(fixture->ops->send_buffer(conn), 1, 50);
    assert_int_equal(fixture->ops->post_send(conn, 50, 1), 0);
    fixture->ops->flush(conn);
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_true(fixture_is_message(&event, 1, 50));
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
    assert_int_equal(atomic_load(&fixture->wrong), 0);
}

/* The server ends the connection, says why, and serves the next. */
static void expect_close(struct fixture *fixture, struct bare_client *client, unsigned before,
                         int status)
{
    assert_true(fixture_reaches(&fixture->closed, before + 1));
    assert_int_equal(atomic_load(&fixture->last_close), status);
    bare_expect_end(client);
    bare_close(client);
    assert_still_serving(fixture);
}

TEST(packets_that_are_none_end_their_connection)
{
    struct fixture *fixture = *state;
    static const struct {
        char mark; /* the last byte of it */
        size_t length;
    } cases[] = {
        {'B', 1}, {'B', 3}, {'B', 5},  {'B', 16}, {'B', 300}, {'X', 1}, {'X', 3},
        {'X', 4}, {'X', 8}, {'X', 15}, {'X', 17}, {'X', 300}, {'Y', 4}, {'Y', 16},
    };
    struct bare_client client;

    for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const uint8_t bytes[300] = {'o', 'k', 'v', (uint8_t)cases[i].mark};
        unsigned before = atomic_load(&fixture->closed);
        raw_open(fixture, &client);
        bare_packet(&client, bytes, cases[i].length);
        expect_close(fixture, &client, before, OKV_EPROTO);
    }
}

TEST(an_empty_packet_ends_its_connection)
{
    struct fixture *fixture = *state;
    unsigned before = atomic_load(&fixture->closed);
    struct bare_client client;

    raw_open(fixture, &client);
    bare_packet(&client, "", 0);
    expect_close(fixture, &client, before, OKV_EDISCONNECTED);
}

/* More bells than any client needs hurt only the client that rings them. */
TEST(bells_without_end)
{
    struct fixture *fixture = *state;
    struct bare_client client;
    uint8_t byte = 7;
    uint32_t immediate;

    raw_open(fixture, &client);
    for (unsigned i = 0; i < 5000; i++)
        bare_bell(&client);
    bare_send(&client, &byte, 1, 5);
    assert_int_equal(bare_receive(&client, &byte, 1, &immediate), 1);
    assert_int_equal(immediate, 5);
    bare_close(&client);
    assert_still_serving(fixture);
}

/* It fills only its own share of the buffers and its own ring. */
TEST(a_client_that_reads_nothing_hurts_itself_alone)
{
    struct fixture *fixture = *state;
    static uint8_t message[FIXTURE_SLOT_SIZE];
    struct bare_client client;

    raw_open(fixture, &client);
    for (int idle = 0; idle < 20;) {
        if (bare_try_send(&client, message, sizeof message, 1)) {
            idle = 0;
        } else {
            idle++;
            usleep(1000);
        }
    }
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;
    for (unsigned i = 0; i < 100; i++) {
        fixture_fill_message(fixture->ops->send_buffer(conn), i, 500);
        assert_int_equal(fixture->ops->post_send(conn, 500, i), 0);
        fixture->ops->flush(conn);
        assert_true(fixture_wait(conn->endpoint, &event));
        assert_true(fixture_is_message(&event, i, 500));
        fixture->ops->recv_release(conn->endpoint, &event);
    }
    fixture->ops->conn_destroy(conn);
    bare_close(&client);
    assert_true(fixture_is_empty(fixture));
    assert_still_serving(fixture);
}

static unsigned open_descriptors(void)
{
    unsigned count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

TEST(silent_clients_block_nobody)
{
    struct fixture *fixture = *state;
    struct bare_client clients[SILENT_CLIENTS];
    unsigned before = open_descriptors();

    for (unsigned i = 0; i < SILENT_CLIENTS; i++)
        raw_connect(fixture, &clients[i]);
    assert_still_serving(fixture);
    assert_in_range(open_descriptors(), before, before + SILENT_CLIENTS + SILENT_MAX);
    /* the last one came late, and is served as well */
    raw_hello(&clients[SILENT_CLIENTS - 1]);
    uint8_t welcome[256];
    assert_int_equal(bare_take_welcome(&clients[SILENT_CLIENTS - 1], welcome, sizeof welcome),
                     FIXTURE_WELCOME);
    for (unsigned i = 0; i < SILENT_CLIENTS; i++)
        bare_close(&clients[i]);
    assert_still_serving(fixture);
}

TEST(a_silent_client_is_dropped)
{
    struct bare_client client;

    raw_connect(*state, &client);
    bare_expect_end(&client);
    bare_close(&client);
}

/* With no descriptor left the next client waits, and those that are connected notice nothing. */
TEST(a_client_too_many_waits)
{
    struct fixture *fixture = *state;
    struct bare_client client;
    uint8_t welcome[256];
    struct rlimit before = no_descriptors_begin(1); /* for our end, and not for the server's */

    raw_connect(fixture, &client);
    raw_hello(&client);
    pace_sleep_ms(pace_ms(20)); /* the server looks */
    no_descriptors_end(before);
    assert_int_equal(bare_take_welcome(&client, welcome, sizeof welcome), FIXTURE_WELCOME);
    bare_close(&client);
    assert_still_serving(fixture);
}

TEST(a_wrong_hello_is_dropped)
{
    static const uint8_t other_magic[8] = "GET / HT";
    uint8_t too_long[4 + OKV_HELLO_MAX + 1] = {0};
    const struct iovec hellos[] = {
        {(void *)other_magic, 8},
        {(void *)other_magic, 3},
        {(void *)other_magic, 0},
        {too_long, sizeof too_long},
    };
    struct fixture *fixture = *state;
    struct bare_client client;

    okv_put_u32(too_long, MAGIC);
    for (unsigned i = 0; i < sizeof hellos / sizeof hellos[0]; i++) {
        raw_connect(fixture, &client);
        bare_packet(&client, hellos[i].iov_base, hellos[i].iov_len);
        bare_expect_end(&client);
        bare_close(&client);
    }
    assert_still_serving(fixture);
}

/* More than the ring holds: messages wait in the connection, and keep their order. */
TEST(messages_wait_for_room_in_the_ring)
{
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_event event;
    unsigned sent = 0, received = 0;

    fixture_pause(fixture);
    for (; ops->send_buffer(conn); sent++) {
        fixture_fill_message(ops->send_buffer(conn), sent, FIXTURE_SLOT_SIZE);
        assert_int_equal(ops->post_send(conn, FIXTURE_SLOT_SIZE, sent), 0);
        ops->flush(conn);
    }
    assert_true(sent > FIXTURE_CREDITS);
    assert_int_equal(ops->post_send(conn, 0, 0), OKV_EAGAIN);
    assert_int_equal(ops->poll(conn->endpoint, &event, 1), 0);
    assert_null(ops->send_buffer(conn));
    fixture_resume(fixture);
    for (; received < sent; received++) {
        assert_true(fixture_wait(conn->endpoint, &event));
        assert_int_equal(event.immediate, received);
        assert_true(fixture_is_message(&event, received, FIXTURE_SLOT_SIZE));
        ops->recv_release(conn->endpoint, &event);
    }
    assert_non_null(ops->send_buffer(conn));
    ops->conn_destroy(conn);
    assert_still_serving(fixture);
}

/* The mapping is still there when the server is gone, but a READ must not succeed. */
TEST(a_read_after_the_server_has_gone_fails)
{
    struct fixture *fixture = *state;
    const struct okv_transport_ops *ops = fixture->ops;
    struct okv_conn *conn = fixture_connect(fixture);
    struct okv_memory *memory;
    struct okv_event event;
    uint8_t bytes[8];

    assert_int_equal(ops->memory_register(conn->endpoint, bytes, sizeof bytes, &memory), 0);
    struct okv_read read = {0, bytes, memory, sizeof bytes, 1};
    assert_int_equal(ops->post_read(conn, &read, 1), 0);
    assert_true(fixture_wait(conn->endpoint, &event));
    assert_int_equal(event.status, 0);

    /* an unread message of the server must not hide its end */
    fixture_fill_message(ops->send_buffer(conn), 1, 10);
    assert_int_equal(ops->post_send(conn, 10, 1), 0);
    ops->flush(conn);
    assert_true(fixture_reaches(&fixture->echoed, 1));
    fixture_order(fixture, &fixture->close_all);
    assert_true(fixture_is_empty(fixture));
    usleep(1000);

    assert_int_equal(ops->post_read(conn, &read, 1), 0);
    unsigned reads = 0;
    do {
        assert_true(fixture_wait(conn->endpoint, &event));
        if (event.type == OKV_EVENT_READ) {
            reads++;
            assert_int_equal(event.status, OKV_EDISCONNECTED);
        } else if (event.type == OKV_EVENT_RECV) {
            assert_true(fixture_is_message(&event, 1, 10));
            ops->recv_release(conn->endpoint, &event);
        }
    } while (event.type != OKV_EVENT_CLOSED);
    assert_int_equal(reads, 1);
    ops->memory_unregister(memory);
    ops->conn_destroy(conn);
}

TEST(a_read_lands_in_its_memory_or_nowhere)
{
    struct fixture *fixture = *state;
    struct okv_conn *conn = fixture_connect(fixture);
    uint8_t bytes[32] = {0};
    struct okv_memory *memory;

    assert_int_equal(fixture->ops->memory_register(conn->endpoint, bytes + 8, 16, &memory), 0);
    const struct okv_read refused[] = {
        {0, bytes + 7, memory, 8, 1},  {0, bytes + 17, memory, 8, 1}, {0, bytes + 8, memory, 17, 1},
        {0, bytes + 24, memory, 1, 1}, {0, bytes + 8, NULL, 8, 1},    {0, NULL, memory, 8, 1},
    };
    for (unsigned i = 0; i < sizeof refused / sizeof refused[0]; i++)
        assert_int_equal(fixture->ops->post_read(conn, &refused[i], 1), OKV_EINVAL);
    struct okv_read read = {0, bytes + 8, memory, 16, 1};
    assert_int_equal(fixture->ops->post_read(conn, &read, 1), 0);
    fixture->ops->memory_unregister(memory);
    fixture->ops->conn_destroy(conn);
    assert_true(fixture_is_empty(fixture));
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
