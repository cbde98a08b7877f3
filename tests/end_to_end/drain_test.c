/* A server that is told to end: what it has received is answered, and everybody is told. */
#include <signal.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/hostile_client.h"

#define PATIENT "--drain-ms", "600000"

static const char *const patient[] = {"--memory", "16M", PATIENT, NULL};
static const char *const patient_workers[] = {"--memory", "16M", PATIENT, "--workers", "3", NULL};

/* The next event is the goodbye. */
static void expect_goodbye(struct hostile *hostile)
{
    struct okv_event event = hostile_event(hostile);
    struct okv_reply_message reply;

    assert_int_equal(event.type, OKV_EVENT_RECV);
    assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
    assert_int_equal(reply.opcode, OKV_OP_GOODBYE);
    assert_int_equal(reply.status, OKV_ESHUTDOWN);
    hostile->ops->recv_release(hostile->conn->endpoint, &event);
}

/* As many replies that went well as were asked for, and one goodbye, in any order. */
static void expect_replies_and_goodbye(struct hostile *hostile, unsigned replies)
{
    unsigned answered = 0, goodbyes = 0;

    while (answered + goodbyes < replies + 1) {
        struct okv_event event = hostile_event(hostile);
        struct okv_reply_message reply;
        if (event.type != OKV_EVENT_RECV)
            fail_msg("the connection ended after %u of %u replies", answered, replies);
        assert_int_equal(okv_reply_decode(event.immediate, event.data, event.length, &reply), 0);
        if (reply.opcode == OKV_OP_GOODBYE) {
            goodbyes++;
        } else {
            assert_int_equal(reply.status, OKV_OK);
            answered++;
        }
        hostile->ops->recv_release(hostile->conn->endpoint, &event);
    }
    assert_int_equal(goodbyes, 1);
}

/* A PUT whose value the server fetches. */
static void put_by_rendezvous(struct hostile *hostile, const struct okv_advert *advert,
                              uint32_t length)
{
    const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                            .slot = hostile_request_slot(hostile),
                                            .flags = OKV_REQUEST_RENDEZVOUS,
                                            .key = (const uint8_t *)"remote",
                                            .key_length = 6,
                                            .value_length = length,
                                            .rendezvous_address = advert->address,
                                            .rendezvous_key = advert->key};

    hostile_request(hostile, &put);
}

/* More than a connection's share of a pass, and some that wait for their values. */
TEST(requests_under_way_are_answered)
{
    enum { RENDEZVOUS = 6, PINGS = 10, LENGTH = 300000 };
    static uint8_t value[LENGTH];
    struct okv_advert *adverts[RENDEZVOUS];
    struct server_process server;
    struct okv_wire_hello hello;
    struct hostile client;

    server_start(&server, patient);
    hostile_hello(&hello);
    hello.credits = okv_le16_of(RENDEZVOUS + PINGS - 1);
    hostile_join_as(&client, &server, &hello);
    for (int i = 0; i < RENDEZVOUS; i++)
        assert_int_equal(client.ops->advertise(client.conn, value, LENGTH, &adverts[i]), 0);
    server_signal(&server, SIGSTOP);
    for (int i = 0; i < RENDEZVOUS; i++)
        put_by_rendezvous(&client, adverts[i], LENGTH);
    for (int i = 0; i < PINGS; i++) {
        const struct okv_request_message ping = {.opcode = OKV_OP_PING,
                                                 .slot = hostile_request_slot(&client)};
        hostile_request(&client, &ping);
    }
    server_signal(&server, SIGTERM); /* taken when it goes on */
    server_signal(&server, SIGCONT);
    expect_replies_and_goodbye(&client, RENDEZVOUS + PINGS);
    for (int i = 0; i < RENDEZVOUS; i++)
        client.ops->withdraw(adverts[i], false);
    hostile_leave(&client);
    assert_int_equal(server_wait(&server), 0);
}

/* A server with one client, which was told of the end. */
static void start_and_end(struct server_process *server, const char *const *arguments,
                          struct hostile *client)
{
    server_start(server, arguments);
    hostile_join(client, server);
    server_signal(server, SIGTERM);
    expect_goodbye(client);
}

/* What a client sent before it knew of the end. */
TEST(requests_after_the_goodbye_are_answered)
{
    struct server_process server;
    struct hostile client;

    start_and_end(&server, patient, &client);
    for (int i = 0; i < 20; i++) {
        const struct okv_request_message ping = {.opcode = OKV_OP_PING,
                                                 .slot = hostile_request_slot(&client)};
        hostile_request(&client, &ping);
        hostile_expect_reply(&client, ping.slot, OKV_OK);
    }
    hostile_leave(&client);
    assert_int_equal(server_wait(&server), 0);
}

TEST(everybody_is_told_and_waited_for)
{
    enum { CLIENTS = 7 };
    struct hostile clients[CLIENTS], late;
    struct server_process server;
    struct okv_wire_hello hello;
    struct okv_reject reject;

    server_start(&server, patient_workers);
    for (int i = 0; i < CLIENTS; i++)
        hostile_join(&clients[i], &server);
    server_signal(&server, SIGTERM);
    for (int i = 0; i < CLIENTS; i++) {
        expect_goodbye(&clients[i]);
        hostile_hello(&hello);
        assert_int_equal(hostile_connect(&late, &server, &hello, sizeof hello), OKV_EREFUSED);
        assert_true(late.answer.rejected);
        assert_int_equal(okv_reject_decode(late.answer.bytes, late.answer.length, &reject), 0);
        assert_int_equal(reject.reason, OKV_REJECT_STOPPING);
        hostile_leave(&clients[i]);
    }
    assert_int_equal(server_wait(&server), 0);
}

/* A server that waits for its client, and began to before another that is not to wait so long. */
struct witness {
    struct server_process server;
    struct hostile client;
};

static void witness_begin(struct witness *witness)
{
    server_start_local(&witness->server, patient);
    hostile_join(&witness->client, &witness->server);
    server_signal(&witness->server, SIGTERM);
    expect_goodbye(&witness->client);
}

static void witness_still_waits(struct witness *witness)
{
    assert_true(server_is_running(&witness->server));
    hostile_leave(&witness->client);
    assert_int_equal(server_wait(&witness->server), 0);
}

TEST(who_does_not_leave_is_waited_for_no_longer_than_allowed)
{
    static const char *const hasty[] = {"--memory", "16M", "--drain-ms", "300", NULL};
    struct server_process server;
    struct witness witness;
    struct hostile client;

    witness_begin(&witness);
    server_start(&server, hasty);
    hostile_join(&client, &server);
    uint64_t begin = okv_clock_ns();
    server_signal(&server, SIGTERM);
    expect_goodbye(&client);
    hostile_expect_closed(&client, "the end of the time to leave");
    assert_true(okv_clock_ns() - begin >= 290000000u);
    hostile_leave(&client);
    assert_int_equal(server_wait(&server), 0);
    witness_still_waits(&witness);
}

/* Not even what it is told: the connection is there and nobody reads from it. */
TEST(clients_that_read_nothing_do_not_delay_the_end)
{
    static const char *const hasty[] = {"--memory",  "16M", "--drain-ms", "300",
                                        "--workers", "3",   NULL};
    enum { CLIENTS = 6 };
    struct hostile clients[CLIENTS];
    struct server_process server;
    struct witness witness;

    witness_begin(&witness);
    server_start(&server, hasty);
    for (int i = 0; i < CLIENTS; i++)
        hostile_join(&clients[i], &server);
    server_signal(&server, SIGTERM);
    assert_int_equal(server_wait(&server), 0);
    witness_still_waits(&witness);
    for (int i = 0; i < CLIENTS; i++)
        hostile_leave(&clients[i]);
}

TEST(without_time_to_drain_clients_are_told_too)
{
    static const char *const abrupt[] = {"--memory", "16M", "--drain-ms", "0", NULL};
    struct server_process server;
    struct hostile client;

    start_and_end(&server, abrupt, &client);
    hostile_expect_closed(&client, "the end of the server");
    hostile_leave(&client);
    assert_int_equal(server_wait(&server), 0);
}

TEST(second_signal_ends_at_once)
{
    struct server_process server;
    struct hostile client;

    start_and_end(&server, patient, &client);
    server_signal(&server, SIGTERM);
    assert_int_equal(server_wait(&server), 128 + SIGTERM);
    hostile_leave(&client);
}
