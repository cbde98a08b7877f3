/* How sessions end: reasons, keepalive, idle and replaced ones, goodbye. */
#include "server/database/reply_cache.h"
#include "tests/support/test.h"

#include "shared/base/error.h"
#include "tests/support/session_fixture.h"

#define FIXTURE_TEST(name) TEST_WITH(name, fixture_setup, fixture_teardown)

/* Also one that was still waiting when the connection ended. */
FIXTURE_TEST(a_goodbye_counts)
{
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    first->no_buffers = second->no_buffers = true;
    fixture_arrive(fixture, first, OKV_OP_GOODBYE, 0, 1);
    assert_true(first->closed);
    okv_session_closed(fixture->worker.sessions, first->session, OKV_EDISCONNECTED);
    fixture_arrive(fixture, second, OKV_OP_PING, 0, 1);
    fixture_arrive(fixture, second, OKV_OP_GOODBYE, 1, 2);
    assert_false(second->closed);
    okv_session_closed(fixture->worker.sessions, second->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&stats->closed_by_client), 2);
    assert_int_equal(stat_of(&stats->closed_lost), 0);
    assert_int_equal(okv_reply_caches_count(fixture->core.database->reply_caches), 0);
}

FIXTURE_TEST(the_transports_reason_is_counted)
{
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    const struct {
        int status;
        const atomic_uint_fast64_t *counter;
    } ends[] = {
        {OKV_EDISCONNECTED, &stats->closed_lost},
        {OKV_ETIMEDOUT, &stats->closed_dead},
        {OKV_EPROTO, &stats->closed_malformed},
        {OKV_EIO, &stats->closed_failed},
    };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        okv_session_closed(fixture->worker.sessions, fixture->clients[1].session, ends[i].status);
        assert_true(fixture->clients[1].destroyed);
        assert_int_equal(stat_of(ends[i].counter), 1);
        fixture_open(fixture, 1, 2, 0);
    }
    assert_int_equal(stat_of(&stats->sessions_total), 2 + sizeof ends / sizeof *ends);
}

/* ---- ticks ---- */

FIXTURE_TEST(a_silent_client_gets_a_heartbeat_and_is_ended)
{
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    struct client *client = &fixture->clients[0];
    unsigned ticks = 0;

    for (unsigned i = 0; i < OKV_KEEPALIVE_GRACE; i++)
        okv_session_tick(fixture->worker.sessions, client->session);
    assert_int_equal(client->heartbeats, 0);
    okv_session_tick(fixture->worker.sessions, client->session);
    assert_int_equal(client->heartbeats, 1);
    client->conn.unacknowledged = 0;
    client->conn.acknowledged++;
    while (!client->closed && ticks < 100) {
        okv_session_tick(fixture->worker.sessions, client->session);
        ticks++;
    }
    assert_int_equal(client->heartbeats, 2);
    assert_in_range(ticks, 4, OKV_KEEPALIVE_TICKS);
    assert_int_equal(stat_of(&stats->closed_unresponsive), 1);
    assert_int_equal(stat_of(&stats->heartbeats), 2);
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&stats->closed_lost), 0);
}

/* A tick comes after a poll, so a client whose request was seen is ready for a heartbeat. */
FIXTURE_TEST(a_client_that_sent_a_request_may_get_a_heartbeat)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    fixture_arrive(fixture, client, OKV_OP_PING, 0, 1);
    okv_session_tick(fixture->worker.sessions, client->session);
    assert_int_equal(client->heartbeats, 1);
}

static void scan(struct fixture *fixture, struct client *client, unsigned times)
{
    while (times-- > 0)
        okv_session_count_idle(fixture->worker.sessions, client->session, true);
}

FIXTURE_TEST(an_idle_client_is_ended_if_configured)
{
    enum { SCANS_IN_10_S = 20 };
    struct fixture *fixture = *state;
    struct okv_stats *stats = &fixture->core.server->stats;
    struct client *idle = &fixture->clients[0], *waiting = &fixture->clients[1];

    assert_int_equal(okv_sessions_scan_ns(fixture->worker.server),
                     UINT64_C(10000000000) / SCANS_IN_10_S);
    scan(fixture, idle, 3600);
    assert_false(idle->closed);
    fixture->core.server->config.idle_s = 10;
    waiting->no_buffers = true;
    fixture_arrive(fixture, waiting, OKV_OP_PING, 0, 1);
    scan(fixture, idle, SCANS_IN_10_S - 1);
    fixture_arrive(fixture, idle, OKV_OP_PING, 0, 1);
    okv_sessions_run_ready(fixture->worker.sessions);
    scan(fixture, idle, SCANS_IN_10_S);
    /* Its request may be in the endpoint. */
    okv_session_count_idle(fixture->worker.sessions, idle->session, false);
    assert_false(idle->closed);
    scan(fixture, idle, 1);
    assert_true(idle->closed);
    scan(fixture, waiting, 2 * SCANS_IN_10_S);
    assert_false(waiting->closed);
    assert_int_equal(stat_of(&stats->closed_idle), 1);
}

static void scan_half_open(struct fixture *fixture, struct client *client, unsigned scans)
{
    for (unsigned i = 0; i < scans; i++)
        okv_session_count_half_open(fixture->worker.sessions, client->session);
}

FIXTURE_TEST(a_half_open_client_is_ended_in_5_s)
{
    enum { SCANS_IN_5_S = 10 };
    struct fixture *fixture = *state;
    struct client *half_open = &fixture->clients[0], *ready = &fixture->clients[1];

    assert_int_equal(okv_sessions_scan_ns(fixture->worker.server),
                     UINT64_C(5000000000) / SCANS_IN_5_S);
    atomic_store(&half_open->session->is_half_open, true);
    atomic_store(&ready->session->is_half_open, true);
    scan_half_open(fixture, half_open, SCANS_IN_5_S);
    scan_half_open(fixture, ready, SCANS_IN_5_S);
    assert_false(half_open->closed);
    atomic_store(&ready->session->is_half_open, false);
    scan_half_open(fixture, half_open, 2 * SCANS_IN_5_S);
    scan_half_open(fixture, ready, 2 * SCANS_IN_5_S);
    assert_true(half_open->closed);
    assert_false(ready->closed);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_half_open), 1);
}

FIXTURE_TEST(an_option_says_how_long_it_may_be_half_open)
{
    enum { SCANS_IN_20_S = 40 };
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    fixture->core.server->config.hello_ms = 20000;
    atomic_store(&client->session->is_half_open, true);
    scan_half_open(fixture, client, SCANS_IN_20_S);
    assert_false(client->closed);
    scan_half_open(fixture, client, 1);
    assert_true(client->closed);
}

FIXTURE_TEST(a_superfluous_session_is_ended)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    assert_false(okv_session_end_unwanted(fixture->worker.sessions, client->session));
    atomic_store(&client->session->unwanted, OKV_SESSION_END_CROWDED_OUT);
    assert_true(okv_session_end_unwanted(fixture->worker.sessions, client->session));
    assert_true(client->closed);
    assert_false(client->session->forget); /* it may come back for its replies */
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_crowded_out), 1);
}

FIXTURE_TEST(sessions_are_scanned_at_least_twice_a_second)
{
    struct fixture *fixture = *state;

    fixture->core.server->config.keepalive_ms = 600000;
    assert_int_equal(okv_sessions_scan_ns(fixture->worker.server), 500000000);
    fixture->core.server->config.keepalive_ms = 600;
    assert_int_equal(okv_sessions_scan_ns(fixture->worker.server), 100000000);
}

FIXTURE_TEST(a_replaced_session_is_ended)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    okv_session_closed(fixture->worker.sessions, second->session, OKV_EDISCONNECTED);
    fixture_open(fixture, 1, 1, 1);
    assert_false(okv_session_end_unwanted(fixture->worker.sessions, second->session));
    assert_false(second->closed);
    assert_true(okv_session_end_unwanted(fixture->worker.sessions, first->session));
    assert_true(first->closed);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_replaced), 1);
}

static bool end_unwanted(struct fixture *fixture, const struct client *client)
{
    return okv_session_end_unwanted(fixture->worker.sessions, client->session);
}

/* By a goodbye, as soon as there is a buffer; the connection ends when it has arrived, and no
 * request is served meanwhile. */
FIXTURE_TEST(a_client_without_rights_is_told_before_the_end)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    assert_false(end_unwanted(fixture, client));
    client->no_buffers = true;
    atomic_store(&client->session->rights, 0);
    assert_true(end_unwanted(fixture, client));
    assert_int_equal(client->posted, 0);
    assert_true(okv_session_is_leaving(client->session));
    client->no_buffers = false;
    client->conn.unacknowledged = 1;
    assert_true(end_unwanted(fixture, client));
    assert_int_equal(client->posted, 1);
    assert_int_equal(client->flushed, 1);
    assert_int_equal(client->replies[0].opcode, OKV_OP_GOODBYE);
    assert_int_equal(client->replies[0].status, OKV_EDENIED);
    fixture_arrive(fixture, client, OKV_OP_PUT, 0, 1);
    atomic_store(&client->session->rights, OKV_RIGHTS_ALL); /* too late */
    fixture_arrive(fixture, client, OKV_OP_PUT, 1, 2);
    assert_int_equal(client->posted, 1);
    assert_int_equal(stat_of(&fixture->core.database->counts.puts), 0);
    assert_false(client->closed);
    client->conn.unacknowledged = 0;
    assert_true(end_unwanted(fixture, client));
    assert_true(client->closed);
    assert_false(okv_session_is_leaving(client->session));
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_revoked), 1);
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    assert_int_equal(okv_reply_caches_count(fixture->core.database->reply_caches), 1);
}

/* One that goes at once, and one that acknowledges nothing. */
FIXTURE_TEST(a_client_without_rights_is_not_waited_for)
{
    struct fixture *fixture = *state;
    struct client *first = &fixture->clients[0], *second = &fixture->clients[1];

    for (unsigned i = 0; i < 2; i++) {
        atomic_store(&fixture->clients[i].session->rights, 0);
        fixture->clients[i].conn.unacknowledged = 1;
        assert_true(end_unwanted(fixture, &fixture->clients[i]));
        assert_false(fixture->clients[i].closed);
    }
    okv_session_closed(fixture->worker.sessions, first->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_revoked), 1);
    second->session->revoked_ns -= 1000000000;
    assert_true(end_unwanted(fixture, second));
    assert_true(second->closed);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_revoked), 2);
}

FIXTURE_TEST(a_session_has_settled_when_everything_is_acknowledged)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    assert_true(okv_session_has_settled(client->session));
    okv_session_say_goodbye(fixture->worker.sessions, client->session, OKV_ESHUTDOWN);
    assert_false(okv_session_has_settled(client->session));
    fixture_next_pass(fixture);
    client->conn.unacknowledged = 1;
    assert_false(okv_session_has_settled(client->session));
    client->conn.unacknowledged = 0;
    assert_true(okv_session_has_settled(client->session));
}

FIXTURE_TEST(a_client_is_told_goodbye_once)
{
    struct fixture *fixture = *state;
    struct client *client = &fixture->clients[0];

    client->no_buffers = true;
    okv_session_say_goodbye(fixture->worker.sessions, client->session, OKV_ESHUTDOWN);
    assert_int_equal(client->posted, 0);
    client->no_buffers = false;
    for (int i = 0; i < 3; i++)
        okv_session_say_goodbye(fixture->worker.sessions, client->session, OKV_ESHUTDOWN);
    assert_int_equal(client->posted, 1);
    assert_int_equal(client->replies[0].opcode, OKV_OP_GOODBYE);
    assert_int_equal(client->replies[0].status, OKV_ESHUTDOWN);
    fixture_next_pass(fixture);
    assert_int_equal(client->flushed, 1);
    okv_session_closed(fixture->worker.sessions, client->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&fixture->core.server->stats.closed_stopping), 1);
}
