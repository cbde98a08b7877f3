/* Part of the list in transport_list.c: when messages leave, and what was acknowledged. */
#include <poll.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/transport_client.h"
#include "tests/unit/transport_list.h"

#define ROUNDS 20u

static void queue_message(struct client *client, unsigned number, uint32_t length)
{
    uint8_t *buffer = client->ops->send_buffer(client->conn);

    assert_non_null(buffer);
    fixture_fill_message(buffer, number, length);
    assert_int_equal(client->ops->post_send(client->conn, length, number), 0);
}

TEST(a_flush_sends_several_messages)
{
    struct client *client = client_create(state);

    client->ops->flush(client->conn); /* of nothing */
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned count = 1 + round % FIXTURE_CREDITS;
        for (unsigned i = 0; i < count; i++)
            queue_message(client, round * 100 + i, 50 * i);
        client->ops->flush(client->conn);
        client->ops->flush(client->conn);
        for (unsigned i = 0; i < count; i++)
            client_expect_message(client, round * 100 + i, 50 * i, round * 100 + i);
        client_expect_nothing(client);
    }
    client_destroy(client);
}

/* They need not arrive, and the connection ends as it does without them. */
TEST(unflushed_messages_end_with_the_connection)
{
    for (unsigned round = 0; round < 4; round++) {
        struct client *client = client_create(state);
        struct okv_event event;

        client_echo(client, 1, 10, 1);
        for (unsigned i = 0; i < 3; i++)
            queue_message(client, i, FIXTURE_SLOT_SIZE);
        if (round & 1) {
            client->ops->close(client->conn);
            client->ops->flush(client->conn);
            do {
                event = client_next_event(client);
                if (event.type == OKV_EVENT_RECV)
                    client->ops->recv_release(client->conn->endpoint, &event);
            } while (event.type == OKV_EVENT_RECV);
            assert_int_equal(event.type, OKV_EVENT_CLOSED);
            assert_int_equal(event.status, OKV_EDISCONNECTED);
        }
        client_destroy(client);
    }
}

/* Polls until `count` more were acknowledged than `before`; no event may come meanwhile. */
static void await_acknowledged(struct client *client, uint64_t before, unsigned count)
{
    uint64_t end = fixture_soon();

    while (client->conn->acknowledged < before + count) {
        client_expect_nothing(client);
        assert_true(okv_clock_ns() < end);
        poll(NULL, 0, 1);
    }
}

TEST(a_heartbeat_is_acknowledged_without_the_peers_process)
{
    struct client *client = client_create(state);

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t before = client->conn->acknowledged;
        if (i == ROUNDS / 2)
            fixture_pause(client->fixture);
        assert_int_equal(client->ops->heartbeat(client->conn), 0);
        assert_int_equal(client->ops->heartbeat(client->conn), 0);
        await_acknowledged(client, before, 1);
    }
    fixture_resume(client->fixture);
    client_echo(client, 1, 100, 1);
    client_read(client, 0, 100, 0);
    client_expect_nothing(client);
    client_destroy(client);
}

TEST(a_heartbeat_finds_a_closed_connection)
{
    struct client *client = client_create(state);

    client_echo(client, 1, 10, 1);
    fixture_order(client->fixture, &client->fixture->close_all);
    assert_true(fixture_is_empty(client->fixture));
    int status = client->ops->heartbeat(client->conn);
    assert_true(status == 0 || status == OKV_EDISCONNECTED);
    client_expect_closed(client);
    assert_int_equal(client->ops->heartbeat(client->conn), OKV_EDISCONNECTED);
    client_destroy(client);
}

TEST(everything_is_acknowledged_in_the_end)
{
    enum { LENGTH = 100 };
    struct client *client = client_create(state);
    uint64_t end = fixture_soon();
    uint64_t before = client->conn->acknowledged;
    unsigned reads = 0, messages = 0;

    for (unsigned round = 0; round < ROUNDS; round++) {
        struct okv_read read = client_make_read(client, round, LENGTH, 0, round);
        for (unsigned i = 0; i < FIXTURE_CREDITS; i++)
            queue_message(client, i, LENGTH);
        client->ops->flush(client->conn);
        assert_int_equal(client->ops->post_read(client->conn, &read, 1), 0);
        assert_int_equal(client->ops->heartbeat(client->conn), 0);
        for (unsigned i = 0; i < FIXTURE_CREDITS + 1; i++) {
            struct okv_event event = client_next_event(client);
            assert_int_equal(event.status, 0);
            reads += event.type == OKV_EVENT_READ;
            messages += event.type == OKV_EVENT_RECV;
            if (event.type == OKV_EVENT_RECV)
                client->ops->recv_release(client->conn->endpoint, &event);
        }
    }
    assert_int_equal(reads, ROUNDS);
    assert_int_equal(messages, ROUNDS * FIXTURE_CREDITS);
    while (client->conn->unacknowledged > 0 && okv_clock_ns() < end) {
        client_expect_nothing(client);
        poll(NULL, 0, 1);
    }
    assert_int_equal(client->conn->unacknowledged, 0);
    assert_true(client->conn->acknowledged - before >= reads + messages);
    client_destroy(client);
}
