/*
 * A connection of the local transport between messages: what is acknowledged, who sleeps, who is
 * woken and who has gone. The test drives the server step by step; the client is bare.
 */
#include <poll.h>
#include <sys/socket.h>

#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/pace.h"
#include "tests/support/transport_steps.h"

/* A server with one client, which has sent `sent` messages. */
static void meet(struct steps *steps, const struct fixture *fixture, uint32_t slot_size,
                 uint32_t credits, unsigned sent, struct bare_client *client,
                 struct okv_conn **conn)
{
    const struct okv_message_limits limits = {slot_size, credits};

    steps_start(steps, fixture, &limits);
    steps_let_in(steps, sent, client, conn);
}

/* The keepalive judges by this whether the peer receives. */
TEST(a_message_that_a_peer_leaves_is_unacknowledged)
{
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;
    unsigned sent = 0;

    meet(&steps, *state, FIXTURE_SLOT_SIZE, FIXTURE_CREDITS, 0, &client, &conn);
    assert_int_equal(conn->unacknowledged, 0);
    for (; steps.ops->send_buffer(conn); sent++) {
        assert_int_equal(steps.ops->post_send(conn, FIXTURE_SLOT_SIZE, sent), 0);
        assert_true(conn->unacknowledged > 0);
        steps.ops->flush(conn);
        assert_int_equal(conn->acknowledged + conn->unacknowledged, sent + 1);
    }
    uint32_t waiting = conn->unacknowledged;
    assert_in_range(waiting, 1, sent - 1);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
    assert_int_equal(conn->unacknowledged, waiting);
    assert_int_equal(conn->acknowledged, sent - waiting);

    /* each that is taken makes room for the next; the first also for the bell that asks for it */
    for (unsigned i = 0; i < sent; i++) {
        static uint8_t bytes[FIXTURE_SLOT_SIZE];
        uint32_t immediate;
        assert_int_equal(bare_receive(&client, bytes, sizeof bytes, &immediate), sizeof bytes);
        assert_int_equal(immediate, i);
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
    }
    assert_int_equal(conn->unacknowledged, 0);
    assert_int_equal(conn->acknowledged, sent);

    /* what it had said before it went is taken, also after a heartbeat found it gone */
    bare_send(&client, "", 0, 9);
    bare_close(&client);
    assert_int_equal(steps.ops->heartbeat(conn), 0);
    assert_int_equal(conn->acknowledged, sent);
    assert_int_equal(steps.ops->heartbeat(conn), OKV_EDISCONNECTED);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_RECV);
    assert_int_equal(event.immediate, 9);
    steps.ops->recv_release(steps.endpoint, &event);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(event.status, OKV_EDISCONNECTED);
    steps.ops->conn_destroy(conn);
    steps_stop(&steps);
}

/* Shut for reading and not closed: no bell reaches it, and it could go on sending. */
TEST(a_peer_that_receives_no_more_is_ended)
{
    enum { BEFORE = 3 };
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;

    meet(&steps, *state, FIXTURE_SLOT_SIZE, FIXTURE_CREDITS, BEFORE, &client, &conn);
    assert_true(okv_local_ring_wait(&client.ring));
    assert_int_equal(shutdown(client.sock, SHUT_RD), 0);
    assert_int_equal(steps.ops->heartbeat(conn), 0);
    assert_non_null(steps.ops->send_buffer(conn));
    assert_int_equal(steps.ops->post_send(conn, 1, 1), 0);
    steps.ops->flush(conn);
    assert_int_equal(steps.ops->heartbeat(conn), OKV_EDISCONNECTED);
    assert_int_equal(conn->unacknowledged, 0);
    assert_int_equal(send(client.sock, "", 1, MSG_NOSIGNAL), -1);

    /* what it had published before that is taken, and nothing else is waited for */
    assert_int_equal(okv_local_ring_put(&client.ring, (const uint8_t *)"", 0, 77), 0);
    okv_local_ring_publish(&client.ring);
    for (unsigned i = 0; i < BEFORE; i++) {
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
        assert_int_equal(event.type, OKV_EVENT_RECV);
        assert_int_equal(event.immediate, i);
        steps.ops->recv_release(steps.endpoint, &event);
    }
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    assert_int_equal(event.status, OKV_EDISCONNECTED);
    steps.ops->conn_destroy(conn);
    bare_close(&client);
    steps_stop(&steps);
}

static bool wants_bell(const struct bare_client *client)
{
    return atomic_load(&client->ring.peer->wants) & OKV_LOCAL_RING_MESSAGES;
}

static void expect_message(const struct steps *steps, uint32_t immediate)
{
    struct okv_event event;

    assert_true(fixture_wait(steps->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_RECV);
    assert_int_equal(event.immediate, immediate);
    steps->ops->recv_release(steps->endpoint, &event);
}

/* The client goes, and the server sees it. */
static void leave(struct steps *steps, struct bare_client *client, struct okv_conn *conn)
{
    struct okv_event event;

    bare_close(client);
    assert_true(fixture_wait(steps->endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    steps->ops->conn_destroy(conn);
    steps_stop(steps);
}

/* After many idle polls a client goes to rest; its next message wakes it. */
TEST(a_silent_client_goes_to_rest)
{
    enum { POLLS = 100000, SOON = 40 };
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;
    unsigned polls = 0;

    meet(&steps, *state, 64, 1, 0, &client, &conn);
    for (uint32_t round = 0; round < 3; round++) {
        for (polls = 0; polls < POLLS && !wants_bell(&client); polls++)
            assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
        assert_in_range(polls, 100, POLLS - 1);
        bare_send(&client, "", 0, round);
        assert_false(wants_bell(&client));
        for (polls = 0; steps.ops->poll(steps.endpoint, &event, 1) == 0; polls++)
            assert_true(polls < SOON);
        assert_int_equal(event.immediate, round);
        steps.ops->recv_release(steps.endpoint, &event);
        bare_send(&client, "", 0, 99); /* which needs no bell */
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
        steps.ops->recv_release(steps.endpoint, &event);
    }
    leave(&steps, &client, conn);
}

/* Any event between the arm and the sleep ends the sleep. */
TEST(an_armed_server_is_woken)
{
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;

    meet(&steps, *state, 64, 1, 0, &client, &conn);
    struct pollfd watched = {.fd = steps.endpoint->fd, .events = POLLIN};
    for (uint32_t round = 0; round < 20; round++) {
        assert_int_equal(steps.ops->arm(steps.endpoint), 0);
        assert_true(wants_bell(&client));
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
        assert_int_equal(poll(&watched, 1, 0), 0);
        if (round % 3 == 1) { /* a bell for nothing, and then one that is owed */
            bare_bell(&client);
            assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
            assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
        }
        bare_send(&client, "", 0, round);
        assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
        expect_message(&steps, round);
    }
    leave(&steps, &client, conn);
}

/* After a poll with events the owner may sleep without another arm. */
TEST(a_message_does_not_disarm)
{
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;

    meet(&steps, *state, 64, 2, 0, &client, &conn);
    struct pollfd watched = {.fd = steps.endpoint->fd, .events = POLLIN};
    for (uint32_t round = 0; round < 20; round++) {
        assert_int_equal(steps.ops->arm(steps.endpoint), 0);
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
        bare_send(&client, "", 0, round);
        assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
        assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 1);
        steps.ops->recv_release(steps.endpoint, &event);
        bare_send(&client, "", 0, round);
        assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
        expect_message(&steps, round);
    }
    leave(&steps, &client, conn);
}

/* Found out by what was sent after the last poll before the sleep. */
TEST(a_peer_that_went_wakes)
{
    struct bare_client client;
    struct steps steps;
    struct okv_conn *conn;
    struct okv_event event;

    meet(&steps, *state, 64, 1, 0, &client, &conn);
    struct pollfd watched = {.fd = steps.endpoint->fd, .events = POLLIN};
    assert_true(okv_local_ring_wait(&client.ring)); /* it is to be woken by a bell */
    assert_int_equal(steps.ops->arm(steps.endpoint), 0);
    assert_int_equal(steps.ops->poll(steps.endpoint, &event, 1), 0);
    bare_close(&client);
    assert_non_null(steps.ops->send_buffer(conn));
    assert_int_equal(steps.ops->post_send(conn, 1, 1), 0);
    steps.ops->flush(conn);
    assert_int_equal(poll(&watched, 1, PACE_GUARD_MS), 1);
    assert_true(fixture_wait(steps.endpoint, &event));
    assert_int_equal(event.type, OKV_EVENT_CLOSED);
    steps.ops->conn_destroy(conn);
    steps_stop(&steps);
}

TEST_PROGRAM(fixture_setup_local, fixture_teardown)
