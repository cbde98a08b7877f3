/* Messages of other servers: who may send them, in which order they reach the inbox, and how they
 * are answered. */
#include "tests/support/test.h"

#include <poll.h>

#include "server/peers/inbox.h"
#include "server/session/peer.h"
#include "shared/base/error.h"
#include "tests/support/session_fixture.h"

static struct okv_peer_inbox *inbox;

static int setup(void **state)
{
    int rc = fixture_setup(state);
    struct fixture *fixture = *state;

    assert_int_equal(okv_peer_inbox_create(fixture->core.server, &inbox), 0);
    fixture->core.server->peer_inbox = inbox;
    for (unsigned i = 0; i < 2; i++)
        fixture->clients[i].session->is_peer = true;
    return rc;
}

static int teardown(void **state)
{
    int rc = fixture_teardown(state);

    okv_peer_inbox_destroy(inbox);
    return rc;
}

#define PEER_TEST(name) TEST_WITH(name, setup, teardown)

static void arrive(struct fixture *fixture, unsigned number, unsigned opcode, uint16_t slot,
                   const char *body)
{
    const struct okv_request_message request = {.opcode = opcode,
                                                .slot = slot,
                                                .sequence = fixture->clients[number].count + 1,
                                                .key = (const uint8_t *)"header",
                                                .key_length = 6,
                                                .value = (const uint8_t *)body,
                                                .value_length = (uint32_t)strlen(body)};
    fixture_arrive_as(fixture, &fixture->clients[number], &request);
}

/* A message whose body has `length` bytes elsewhere. */
static void arrive_long(struct fixture *fixture, unsigned number, uint16_t slot, uint32_t length)
{
    const struct okv_request_message request = {.opcode = OKV_OP_SHIP,
                                                .slot = slot,
                                                .flags = OKV_REQUEST_RENDEZVOUS,
                                                .sequence = fixture->clients[number].count + 1,
                                                .key = (const uint8_t *)"header",
                                                .key_length = 6,
                                                .value_length = length,
                                                .rendezvous_address = 0x1000,
                                                .rendezvous_key = 7};
    fixture_arrive_as(fixture, &fixture->clients[number], &request);
}

static bool has_mail(void)
{
    struct pollfd fd = {.fd = inbox->fd, .events = POLLIN};

    return poll(&fd, 1, 0) == 1;
}

static struct okv_peer_mail *take(unsigned opcode, uint16_t slot, uint32_t length)
{
    assert_true(has_mail());
    struct okv_peer_mail *mail = okv_peer_inbox_take(inbox);
    assert_non_null(mail);
    assert_int_equal(mail->opcode, opcode);
    assert_int_equal(mail->slot, slot);
    assert_int_equal(mail->length, length);
    return mail;
}

static void take_nothing(void)
{
    assert_null(okv_peer_inbox_take(inbox));
    assert_false(has_mail());
}

static void answer(struct fixture *fixture, struct okv_peer_mail *mail, int status,
                   const char *bytes)
{
    okv_peer_inbox_answer(inbox, mail, status, bytes, (uint32_t)strlen(bytes));
    okv_sessions_answer_peers(fixture->worker.sessions, 0);
}

static void expect_answer(const struct client *client, unsigned i, uint16_t slot, int status,
                          const char *bytes)
{
    assert_true(client->posted > i);
    assert_int_equal(client->replies[i].slot, slot);
    assert_int_equal(client->replies[i].status, status);
    assert_int_equal(client->replies[i].value_length, strlen(bytes));
    assert_memory_equal(client->values[i], bytes, strlen(bytes));
}

PEER_TEST(messages_reach_the_inbox_and_are_answered)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    assert_false(has_mail());
    arrive(fixture, 0, OKV_OP_JOIN, 3, "");
    arrive(fixture, 0, OKV_OP_SHIP, 4, "frames");
    assert_int_equal(client->released, 2);
    assert_int_equal(client->posted, 0);
    struct okv_peer_mail *join = take(OKV_OP_JOIN, 3, 0), *ship = take(OKV_OP_SHIP, 4, 6);
    assert_int_equal(join->header_length, 6);
    assert_memory_equal(join->header, "header", 6);
    assert_memory_equal(ship->body, "frames", 6);
    assert_int_equal(ship->from->id, client->session->common.id);
    take_nothing();
    answer(fixture, ship, OKV_OK, "ack");
    answer(fixture, join, OKV_EDENIED, "");
    expect_answer(client, 0, 4, OKV_OK, "ack");
    expect_answer(client, 1, 3, OKV_EDENIED, "");
    assert_int_equal(inbox->bytes, 0);
    /* The slots are free again. */
    arrive(fixture, 0, OKV_OP_BEAT, 3, "");
    answer(fixture, take(OKV_OP_BEAT, 3, 0), OKV_OK, "");
    expect_answer(client, 2, 3, OKV_OK, "");
    assert_false(client->closed);
}

PEER_TEST(without_the_feature_they_are_malformed)
{
    struct fixture *fixture = *state;

    for (unsigned i = 0; i < 2; i++) {
        struct client *client = &fixture->clients[i];
        client->session->is_peer = false;
        arrive(fixture, i, i ? OKV_OP_RELEASED : OKV_OP_JOIN, 0, "");
        assert_true(client->closed);
        assert_int_equal(client->posted, 0);
    }
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_malformed), 2);
    take_nothing();
}

PEER_TEST(they_take_the_right_to_replicate)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    for (unsigned opcode = OKV_OP_JOIN; opcode <= OKV_OP_RELEASED; opcode++) {
        atomic_store(&client->session->rights, OKV_RIGHTS_ALL & ~OKV_RIGHT_REPLICATE);
        arrive(fixture, 0, opcode, 0, "body");
        expect_answer(client, client->posted - 1, 0, OKV_EDENIED, "");
        take_nothing();
        atomic_store(&client->session->rights, OKV_RIGHT_READ | OKV_RIGHT_REPLICATE);
        arrive(fixture, 0, opcode, 0, "body");
        answer(fixture, take(opcode, 0, 4), OKV_OK, "");
        fixture_next_pass(fixture);
    }
    /* It implies no other. */
    fixture_arrive(fixture, client, OKV_OP_PUT, 0, client->count + 1);
    expect_answer(client, client->posted - 1, 0, OKV_EDENIED, "");
}

PEER_TEST(a_body_elsewhere_is_read_beside_the_table_and_keeps_its_place)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    arrive_long(fixture, 0, 0, 100000);
    arrive(fixture, 0, OKV_OP_BEAT, 1, "");
    arrive_long(fixture, 0, 2, 1);
    assert_int_equal(client->rendezvous_reads, 1);
    assert_int_equal(client->rendezvous.length, 100000);
    assert_int_equal(client->rendezvous.address, 0x1000);
    assert_int_equal(client->rendezvous.key, 7);
    memset(client->rendezvous.destination, 'f', 100000);
    fixture_next_pass(fixture);
    take_nothing();
    arrive(fixture, 1, OKV_OP_BEAT, 1, ""); /* others do not wait */
    fixture_next_pass(fixture);
    answer(fixture, take(OKV_OP_BEAT, 1, 0), OKV_OK, "");
    fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, 0);
    struct okv_peer_mail *ship = take(OKV_OP_SHIP, 0, 100000);
    assert_int_equal(ship->body[0], 'f');
    assert_int_equal(ship->body[99999], 'f');
    take_nothing();
    fixture_next_pass(fixture);
    struct okv_peer_mail *beat = take(OKV_OP_BEAT, 1, 0);
    take_nothing();
    fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, 0);
    struct okv_peer_mail *next = take(OKV_OP_SHIP, 2, 1);
    answer(fixture, ship, OKV_OK, "1");
    answer(fixture, beat, OKV_OK, "2");
    answer(fixture, next, OKV_OK, "3");
    expect_answer(client, 0, 0, OKV_OK, "1");
    expect_answer(client, 2, 2, OKV_OK, "3");
    assert_int_equal(inbox->bytes, 0);
}

PEER_TEST(a_body_that_cannot_be_read_ends_the_connection)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    arrive_long(fixture, 0, 0, OKV_PEER_BODY_MAX + 1);
    expect_answer(client, 0, 0, OKV_EVALUESIZE, "");
    arrive_long(fixture, 0, 0, OKV_PEER_BODY_MAX);
    arrive(fixture, 0, OKV_OP_BEAT, 1, "");
    fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, OKV_ERENDEZVOUS);
    fixture_next_pass(fixture);
    assert_true(client->closed);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_malformed), 1);
    take_nothing(); /* nothing that follows it */
    assert_int_equal(inbox->bytes, 0);
}

PEER_TEST(nothing_overtakes_a_body_that_the_end_of_the_connection_cuts_off)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    client->rendezvous_result = OKV_EDISCONNECTED;
    arrive_long(fixture, 0, 0, 1000);
    arrive(fixture, 0, OKV_OP_BEAT, 1, "");
    fixture_next_pass(fixture);
    take_nothing();
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    answer(fixture, take(0, 0, 0), OKV_OK, "");
    take_nothing();
    assert_int_equal(client->posted, 0);
    assert_int_equal(inbox->bytes, 0);
}

PEER_TEST(a_full_inbox_makes_messages_wait)
{
    enum { COUNT = 4 };
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    struct okv_peer_mail *mail[COUNT];

    for (uint16_t i = 0; i < COUNT; i++) {
        arrive_long(fixture, 0, i, OKV_PEER_BODY_MAX);
        fixture_next_pass(fixture);
        if (i < 2)
            fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, 0);
    }
    assert_int_equal(client->rendezvous_reads, 2);
    assert_in_range(inbox->bytes, OKV_PEER_INBOX_BYTES, OKV_PEER_INBOX_BYTES + OKV_PEER_BODY_MAX);
    fixture_next_pass(fixture);
    assert_true(fixture->worker.sessions->is_held_up);
    for (uint16_t i = 0; i < COUNT; i++) {
        mail[i] = take(OKV_OP_SHIP, i, OKV_PEER_BODY_MAX);
        answer(fixture, mail[i], OKV_OK, "");
        fixture_next_pass(fixture);
        if (client->session->arriving)
            fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, 0);
    }
    assert_int_equal(client->posted, COUNT);
    assert_int_equal(inbox->bytes, 0);
}

PEER_TEST(the_inbox_learns_when_a_connection_is_lost)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    arrive(fixture, 0, OKV_OP_SHIP, 0, "one");
    arrive(fixture, 0, OKV_OP_SHIP, 1, "two");
    arrive_long(fixture, 0, 2, 1000);
    struct okv_peer_mail *one = take(OKV_OP_SHIP, 0, 3);
    uint64_t id = client->session->common.id;
    fixture_rendezvous_done(fixture, client, OKV_SESSION_PEER_COOKIE, OKV_EDISCONNECTED);
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    assert_true(client->destroyed);
    struct okv_peer_mail *two = take(OKV_OP_SHIP, 1, 3), *last = take(0, 0, 0);
    assert_int_equal(last->from->id, id);
    take_nothing();
    answer(fixture, last, OKV_OK, "");
    answer(fixture, two, OKV_OK, "late");
    answer(fixture, one, OKV_OK, "late");
    assert_int_equal(client->posted, 0);
    assert_int_equal(inbox->bytes, 0);
}

PEER_TEST(an_answer_waits_for_a_send_buffer_and_holds_up_no_other)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0], *other = &fixture->clients[1];

    arrive(fixture, 0, OKV_OP_BEAT, 0, "");
    arrive(fixture, 0, OKV_OP_BEAT, 1, "");
    arrive(fixture, 1, OKV_OP_BEAT, 0, "");
    client->no_buffers = true;
    answer(fixture, take(OKV_OP_BEAT, 0, 0), OKV_OK, "a");
    answer(fixture, take(OKV_OP_BEAT, 1, 0), OKV_OK, "b");
    answer(fixture, take(OKV_OP_BEAT, 0, 0), OKV_OK, "c");
    assert_int_equal(client->posted, 0);
    expect_answer(other, 0, 0, OKV_OK, "c");
    assert_true(fixture->worker.sessions->is_held_up);
    client->no_buffers = false;
    okv_sessions_answer_peers(fixture->worker.sessions, 0);
    expect_answer(client, 0, 0, OKV_OK, "a");
    expect_answer(client, 1, 1, OKV_OK, "b");
}

PEER_TEST(what_nobody_takes_ends_with_the_server)
{
    struct fixture *fixture = *state;

    arrive(fixture, 0, OKV_OP_SHIP, 0, "frames");
    arrive(fixture, 0, OKV_OP_SHIP, 1, "frames");
    fixture->clients[0].no_buffers = true;
    okv_peer_inbox_answer(inbox, take(OKV_OP_SHIP, 0, 6), OKV_OK, "", 0);
    okv_sessions_answer_peers(fixture->worker.sessions, 0); /* cannot leave */
    okv_peer_inbox_answer(inbox, take(OKV_OP_SHIP, 1, 6), OKV_OK, "", 0);
    arrive(fixture, 1, OKV_OP_SHIP, 0, "frames");
}
