/* Dispatch of requests: order and share of a pass, flushing, and writes that are applied once. */
#include "server/database/reply_cache.h"
#include "shared/format/wire.h"
#include "tests/support/test.h"

#include "server/command/exclusive.h"
#include "server/session/long_work.h"
#include "server/session/timed_writes.h"
#include "shared/base/error.h"
#include "tests/support/session_fixture.h"

#define FIXTURE_TEST(name) TEST_WITH(name, fixture_setup, fixture_teardown)

FIXTURE_TEST(a_connection_has_its_share_of_a_pass)
{
    struct fixture *fixture = *state;
    struct client *many = &fixture->clients[0], *one = &fixture->clients[1];

    for (uint16_t request_slot = 0; request_slot < 20; request_slot++)
        fixture_arrive(fixture, many, OKV_OP_PING, request_slot, request_slot + 1u);
    fixture_arrive(fixture, one, OKV_OP_PING, 0, 1);
    assert_int_equal(many->posted, OKV_SESSION_SHARE);
    assert_int_equal(okv_sessions_run_ready(fixture->worker.sessions), 1);
    assert_int_equal(many->posted, OKV_SESSION_SHARE);
    assert_int_equal(one->posted, 1);
    assert_int_equal(stat_of(&fixture->core.server->stats.requests_waiting), 12);
    assert_int_equal(fixture_next_pass(fixture), OKV_SESSION_SHARE);
    assert_int_equal(many->posted, 2 * OKV_SESSION_SHARE);
    /* Later requests wait behind earlier ones. */
    fixture_arrive(fixture, many, OKV_OP_PING, 0, 21);
    assert_int_equal(many->posted, 2 * OKV_SESSION_SHARE);
    assert_int_equal(fixture_next_pass(fixture), 5);
    assert_int_equal(many->posted, 21);
    for (uint16_t i = 0; i < 21; i++)
        assert_int_equal(many->replies[i].slot, i % 20);
    assert_int_equal(many->released, 21);
    assert_int_equal(fixture_next_pass(fixture), 0);
    assert_true(TAILQ_EMPTY(&fixture->worker.sessions->ready[0]));
}

/* Of 4 KiB each. */
FIXTURE_TEST(long_messages_use_up_the_share)
{
    static uint8_t value[2 * OKV_SESSION_SHARE_BYTES], messages[6][sizeof value + 100];
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    for (uint16_t i = 0; i < 6; i++) {
        const struct okv_request_message put = {.opcode = OKV_OP_PUT,
                                                .slot = i,
                                                .sequence = 1,
                                                .key = (const uint8_t *)"k",
                                                .key_length = 1,
                                                .value = value,
                                                .value_length = sizeof value};
        const struct okv_event event = {.type = OKV_EVENT_RECV,
                                        .conn = &client->conn,
                                        .immediate = okv_immediate(OKV_OP_PUT, i),
                                        .has_immediate = true,
                                        .data = messages[i],
                                        .length = okv_request_encode(&put, messages[i])};
        okv_session_receive(fixture->worker.sessions, client->session, &event);
    }
    assert_int_equal(client->posted, 3); /* each counts as three */
    fixture_next_pass(fixture);
    assert_int_equal(client->posted, 6);
}

FIXTURE_TEST(the_replies_of_a_pass_leave_together)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    for (uint16_t request_slot = 0; request_slot < 20; request_slot++)
        fixture_arrive(fixture, client, OKV_OP_PING, request_slot, request_slot + 1u);
    assert_int_equal(client->flushes, 0);
    fixture_next_pass(fixture);
    assert_int_equal(client->flushes, 1);
    fixture_next_pass(fixture);
    assert_int_equal(client->flushes, 2);
    fixture_next_pass(fixture);
    assert_int_equal(client->flushes, 3);
    assert_int_equal(client->flushed, 20);
    fixture_next_pass(fixture);
    assert_int_equal(client->flushes, 3);
    assert_int_equal(fixture->clients[1].flushes, 0);
}

FIXTURE_TEST(without_a_send_buffer_requests_wait)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    client->no_buffers = true;
    for (uint16_t request_slot = 0; request_slot < 5; request_slot++)
        fixture_arrive(fixture, client, OKV_OP_INCR, request_slot, request_slot + 1u);
    assert_int_equal(fixture_next_pass(fixture), 0);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 0);
    fixture_arrive(fixture, &fixture->clients[1], OKV_OP_PING, 0, 1);
    assert_int_equal(okv_sessions_run_ready(fixture->worker.sessions), 1);
    assert_int_equal(fixture->clients[1].posted, 1);
    client->no_buffers = false;
    assert_int_equal(fixture_next_pass(fixture), 5);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 5);
    assert_int_equal(client->posted, 5);
}

/* Of a client of Redis, on another worker. */
FIXTURE_TEST(a_write_waits_for_a_command_that_runs_alone)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    struct okv_server *server = fixture->core.server;
    struct okv_exclusive exclusive;

    okv_exclusive_init(&exclusive);
    server->exclusive = &exclusive;
    pthread_rwlock_wrlock(&exclusive.lock);
    fixture_arrive(fixture, client, OKV_OP_INCR, 0, 1);
    fixture_arrive(fixture, &fixture->clients[1], OKV_OP_PING, 0, 1);
    assert_int_equal(fixture_next_pass(fixture), 1);
    assert_int_equal(client->posted, 0);
    assert_true(fixture->worker.sessions->is_held_up);
    assert_int_equal(fixture->clients[1].posted, 1);
    pthread_rwlock_unlock(&exclusive.lock);
    assert_int_equal(fixture_next_pass(fixture), 1);
    assert_int_equal(client->posted, 1);
    server->exclusive = NULL;
    okv_exclusive_fini(&exclusive);
}

FIXTURE_TEST(an_answered_request_frees_its_slot)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    for (uint64_t i = 1; i <= 5; i++)
        fixture_arrive(fixture, client, OKV_OP_PING, 3, i);
    assert_int_equal(client->posted, 5);
    client->no_buffers = true;
    fixture_arrive(fixture, client, OKV_OP_PING, 3, 6);
    assert_false(client->closed);
    fixture_arrive(fixture, client, OKV_OP_PING, 4, 7);
    assert_false(client->closed);
    fixture_arrive(fixture, client, OKV_OP_PING, 3, 8);
    assert_true(client->closed);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_credit), 1);
    /* Earlier replies still leave. */
    assert_int_equal(client->flushed, 5);
    fixture_arrive(fixture, client, OKV_OP_PING, 9, 9);
    assert_int_equal(stat_of(&fixture->core.database->counts.pings), 5);
}

/* Another client can bring that about, so neither is the client told nor the session ended. */
FIXTURE_TEST(a_request_that_came_before_is_dropped)
{
    static const unsigned opcodes[] = {OKV_OP_PING, OKV_OP_GET, OKV_OP_INCR, OKV_OP_DELETE};
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    const struct okv_stats *stats = &fixture->core.server->stats;
    uint16_t i = 0;

    for (; i < sizeof opcodes / sizeof *opcodes; i++) {
        client->no_buffers = true;
        fixture_arrive(fixture, client, opcodes[i], i, 7);
        fixture_arrive(fixture, client, opcodes[i], i, 7); /* before the answer */
        assert_int_equal(stat_of(&stats->requests_waiting), 1);
        client->no_buffers = false;
        fixture_next_pass(fixture);
        fixture_arrive(fixture, client, opcodes[i], i, 7);
        fixture_arrive(fixture, client, opcodes[i], i, 6); /* of an earlier one */
        assert_int_equal(client->posted, 2 * i + 1);
        assert_int_equal(stat_of(&stats->repeated), 3 * (i + 1));
        fixture_arrive(fixture, client, opcodes[i], i, 8);
        assert_int_equal(client->posted, 2 * i + 2);
        assert_int_equal(client->released, client->count);
    }
    assert_int_equal(stat_of(&client->session->common.requests), 2 * i);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 2);
    assert_int_equal(stat_of(&stats->duplicates), 0);
    assert_false(client->closed);
    /* Slots and connections are apart. */
    fixture_arrive(fixture, client, OKV_OP_PING, i, 7);
    fixture_arrive(fixture, &fixture->clients[1], OKV_OP_PING, 0, 7);
    assert_int_equal(client->posted, 2 * i + 1);
    assert_int_equal(fixture->clients[1].posted, 1);
}

/* Client 0 is back on another connection, which takes the place of client 1. */
static struct client *come_back(struct fixture *fixture)
{
    okv_session_closed(fixture->worker.sessions, fixture->clients[1].session, OKV_EDISCONNECTED);
    fixture_open(fixture, 1, 1, 1);
    return &fixture->clients[1];
}

/* The sequence is below the last one, so no reply is due. */
FIXTURE_TEST(a_dropped_write_frees_its_slot)
{
    struct fixture *fixture = *state;

    fixture_arrive(fixture, &fixture->clients[0], OKV_OP_INCR, 3, 10);
    struct client *client = come_back(fixture);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 9);
    assert_int_equal(client->posted, 0);
    assert_int_equal(stat_of(&fixture->core.server->stats.stale), 1);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 11);
    assert_false(client->closed);
    assert_int_equal(client->posted, 1);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 2);
}

static void arrive_put_to_rendezvous(struct fixture *fixture, struct client *client,
                                     uint16_t request_slot, uint64_t sequence)
{
    const struct okv_request_message put = {
        .opcode = OKV_OP_PUT,
        .slot = request_slot,
        .sequence = sequence,
        .flags = OKV_REQUEST_RENDEZVOUS,
        .key = (const uint8_t *)"p",
        .key_length = 1,
        .value_length = 100,
    };

    fixture_arrive_as(fixture, client, &put);
}

/* Rendezvous read `number` of the session succeeded, and its write is made. */
static void end_rendezvous(struct fixture *fixture, struct client *client, unsigned number)
{
    fixture_rendezvous_done(fixture, client, number, 0);
    okv_long_work_run(fixture->worker.sessions);
}

/* The client resends the PUT on another connection, before or after the value arrived. Nothing is
 * posted to the old connection. */
FIXTURE_TEST(a_rendezvous_of_a_replaced_session_does_nothing)
{
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    arrive_put_to_rendezvous(fixture, first, 0, 1);
    arrive_put_to_rendezvous(fixture, first, 1, 2);
    assert_int_equal(first->rendezvous_reads, 2);
    end_rendezvous(fixture, first, 0);
    come_back(fixture);
    end_rendezvous(fixture, first, 1);
    fixture_next_pass(fixture);
    assert_int_equal(first->posted, 0);
    assert_true(first->closed);
    assert_int_equal(stat_of(&stats->closed_replaced), 1);
    assert_int_equal(stat_of(&fixture->core.database->counts.puts), 1);
    arrive_put_to_rendezvous(fixture, second, 0, 1);
    assert_int_equal(second->posted, 1);
    assert_int_equal(stat_of(&stats->duplicates), 1);
    arrive_put_to_rendezvous(fixture, second, 1, 2);
    assert_int_equal(second->rendezvous_reads, 1);
    end_rendezvous(fixture, second, 0);
    fixture_next_pass(fixture);
    assert_int_equal(second->posted, 2);
    assert_int_equal(second->replies[1].status, OKV_OK);
    assert_int_equal(stat_of(&fixture->core.database->counts.puts), 2);
}

/* It succeeded and was waiting for its reply. */
FIXTURE_TEST(a_rendezvous_that_ended_is_not_answered_to_a_replaced_session)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0];

    arrive_put_to_rendezvous(fixture, first, 0, 1);
    end_rendezvous(fixture, first, 0);
    come_back(fixture);
    fixture_next_pass(fixture);
    assert_int_equal(first->posted, 0);
    assert_true(first->closed);
}

/* The client resends a write on another connection while this one applies it. */
FIXTURE_TEST(a_write_that_is_being_applied_elsewhere_is_waited_for)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    come_back(fixture);
    assert_ptr_equal(second->session->reply_cache, first->session->reply_cache);
    assert_int_equal(okv_reply_cache_begin(first->session->reply_cache, 2, 5, &reply, value),
                     OKV_REPLY_CACHE_APPLY);
    fixture_arrive(fixture, second, OKV_OP_INCR, 2, 5);
    assert_int_equal(second->posted, 0);
    assert_true(fixture->worker.sessions->is_held_up);
    assert_int_equal(fixture_next_pass(fixture), 0);
    reply = (struct okv_reply_message){
        .opcode = OKV_OP_INCR, .slot = 2, .sequence = 5, .version = 77, .status = OKV_OK};
    reply.value = (const uint8_t *)"8 bytes!";
    reply.value_length = 8;
    okv_reply_cache_done(first->session->reply_cache, &reply);
    assert_int_equal(fixture_next_pass(fixture), 1);
    assert_int_equal(second->posted, 1);
    assert_int_equal(second->replies[0].version, 77);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 0);
    assert_int_equal(stat_of(&fixture->core.server->stats.duplicates), 1);
}

static void arrive_on_key(struct fixture *fixture, struct client *client, unsigned opcode,
                          uint16_t slot, uint64_t sequence)
{
    const struct okv_request_message request = {
        .opcode = opcode,
        .slot = slot,
        .sequence = sequence,
        .ttl_ms = opcode == OKV_OP_GET_TOUCH ? 1000 : 0,
        .key = (const uint8_t *)"k",
        .key_length = 1,
    };

    fixture_arrive_as(fixture, client, &request);
}

/* The reply cache has no room for the value: it is read again while the item is the same. */
FIXTURE_TEST(a_resent_get_that_touches_is_applied_once)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    fixture_arrive_append(fixture, client, "k", "value", 0, 1);
    arrive_on_key(fixture, client, OKV_OP_GET_TOUCH, 1, 2);
    uint64_t version = client->replies[1].version;
    client = come_back(fixture);
    arrive_on_key(fixture, client, OKV_OP_GET_TOUCH, 1, 2);
    assert_int_equal(client->replies[0].status, OKV_OK);
    assert_int_equal(client->replies[0].value_length, 5);
    assert_memory_equal(client->values[0], "value", 5);
    assert_int_equal(client->replies[0].version, version);
    fixture_arrive_append(fixture, client, "k", "s", 2, 3);
    client = come_back(fixture);
    arrive_on_key(fixture, client, OKV_OP_GET_TOUCH, 1, 2);
    assert_int_equal(client->replies[0].status, OKV_EUNKNOWN);
    assert_int_equal(client->replies[0].value_length, 0);
    assert_int_equal(client->replies[0].version, 0);
    assert_int_equal(stat_of(&fixture->core.database->counts.touches), 1);
    /* A refusal stays one. */
    arrive_on_key(fixture, client, OKV_OP_DELETE, 3, 4);
    arrive_on_key(fixture, client, OKV_OP_GET_TOUCH, 4, 5);
    assert_int_equal(client->replies[2].status, OKV_ENOTFOUND);
    client = come_back(fixture);
    arrive_on_key(fixture, client, OKV_OP_GET_TOUCH, 4, 5);
    assert_int_equal(client->replies[0].status, OKV_ENOTFOUND);
}

FIXTURE_TEST(a_replaced_session_applies_nothing)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    first->no_buffers = true;
    fixture_arrive(fixture, first, OKV_OP_INCR, 0, 1); /* waits */
    first->no_buffers = false;
    come_back(fixture);
    fixture_next_pass(fixture);
    assert_true(first->closed);
    fixture_arrive(fixture, first, OKV_OP_INCR, 1, 2);
    assert_int_equal(first->posted, 0);
    assert_int_equal(stat_of(&fixture->core.database->counts.incrs), 0);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_replaced), 1);
    okv_session_closed(fixture->worker.sessions, first->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_replaced), 1);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_lost),
                     1); /* the second session of setup */
    fixture_arrive(fixture, second, OKV_OP_INCR, 0, 1);
    assert_int_equal(second->posted, 1);
}

static uint64_t writes_timed(const struct fixture *fixture)
{
    const struct okv_times *times = &fixture->core.database->write_times;
    uint64_t count = 0;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        count += stat_of(&times->cells[i]);
    return count;
}

static void ping(struct fixture *fixture, struct client *client)
{
    fixture_arrive(fixture, client, OKV_OP_PING, 0, FIXTURE_MESSAGES + client->count);
    fixture_next_pass(fixture);
}

/* Pings until `left` requests come before the one whose time is taken, if it is a write. */
static void ping_until_timed(struct fixture *fixture, struct client *client, unsigned left)
{
    const struct okv_session *session = client->session;

    while ((session->common.id + stat_of(&session->common.requests) + left) %
           OKV_TIMED_WRITES_ONE_IN)
        ping(fixture, client);
}

FIXTURE_TEST(one_write_of_61_is_timed)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    for (unsigned i = 0; i < 2 * OKV_TIMED_WRITES_ONE_IN; i++) {
        fixture_arrive(fixture, client, OKV_OP_INCR, 0, i + 1);
        fixture_next_pass(fixture);
    }
    assert_int_equal(client->posted, 2 * OKV_TIMED_WRITES_ONE_IN);
    assert_int_equal(writes_timed(fixture), 2);
    ping_until_timed(fixture, client, 0);
    ping(fixture, client);
    assert_int_equal(writes_timed(fixture), 2);
}

/* It waits behind a pass of pings, whose replies have no part in it. */
FIXTURE_TEST(the_time_of_a_write_ends_with_its_reply)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];
    const struct okv_times *times = &fixture->core.database->write_times;

    ping_until_timed(fixture, client, OKV_SESSION_SHARE);
    client->no_buffers = true;
    for (uint16_t i = 0; i < OKV_SESSION_SHARE; i++)
        fixture_arrive(fixture, client, OKV_OP_PING, 8 + i, 1);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 1);
    client->session->timed.begun_ns -= 1000000000u;
    client->no_buffers = false;
    fixture_next_pass(fixture);
    assert_int_equal(writes_timed(fixture), 0);
    fixture_next_pass(fixture);
    assert_int_equal(writes_timed(fixture), 1);
    assert_in_range(stat_of(&times->ns), 1000000000u, UINT64_MAX);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 2);
    assert_int_equal(writes_timed(fixture), 1);
}

FIXTURE_TEST(a_refused_write_has_no_time)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    ping_until_timed(fixture, client, 1);
    fixture_arrive_append(fixture, client, "k", "no number", 3, 1);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 2);
    assert_int_equal(client->replies[client->posted - 1].status, OKV_ENUMBER);
    assert_int_equal(writes_timed(fixture), 0);
}

FIXTURE_TEST(a_write_without_a_reply_has_no_time)
{
    struct fixture *fixture = *state;

    fixture_arrive(fixture, &fixture->clients[0], OKV_OP_INCR, 3, 10);
    struct client *client = come_back(fixture);
    ping_until_timed(fixture, client, 0);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 9);
    assert_int_equal(stat_of(&fixture->core.server->stats.stale), 1);
    fixture_arrive(fixture, client, OKV_OP_INCR, 3, 11);
    assert_int_equal(writes_timed(fixture), 0);
}
