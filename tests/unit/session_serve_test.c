/* A worker's sessions: whose requests are served when, what leaves together, and why a
 * session ends. The transport does nothing and notes everything. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/session_life.h"
#include "server/session_serve.h"
#include "server/worker.h"
#include "shared/error.h"
#include "tests/support/server_core.h"

enum { LANES = 32, MESSAGES = 64, POSTED_MAX = 256, SLOT = OKV_SLOT_SIZE_DEFAULT };

/* A client, and what the transport was told to do with its connection. */
struct client {
    struct okv_conn conn;
    struct okv_session *session;
    uint8_t out[SLOT];
    uint8_t messages[MESSAGES][256];
    struct okv_event events[MESSAGES];
    unsigned count;
    bool no_buffers;
    bool closed, destroyed;
    unsigned flushes, released, probes;
    unsigned posted, flushed; /* messages; those that had been posted at the last flush */
    struct okv_reply_message replies[POSTED_MAX];
};

struct house {
    struct server_core core;
    struct okv_worker worker;
    struct client clients[2];
};

static struct client *client_of(struct okv_conn *conn)
{
    return (struct client *)((char *)conn - offsetof(struct client, conn));
}

static uint8_t *fake_send_buffer(struct okv_conn *conn)
{
    return client_of(conn)->no_buffers ? NULL : client_of(conn)->out;
}

static int fake_post_send(struct okv_conn *conn, uint32_t length, uint32_t immediate)
{
    struct client *client = client_of(conn);

    assert_false(client->closed);
    assert_in_range(client->posted, 0, POSTED_MAX - 1);
    assert_int_equal(
        okv_reply_decode(immediate, client->out, length, &client->replies[client->posted++]), 0);
    return 0;
}

static void fake_flush(struct okv_conn *conn)
{
    client_of(conn)->flushes++;
    client_of(conn)->flushed = client_of(conn)->posted;
}

static void fake_close(struct okv_conn *conn)
{
    client_of(conn)->closed = true;
}

static void fake_conn_destroy(struct okv_conn *conn)
{
    client_of(conn)->destroyed = true;
}

static void fake_recv_release(struct okv_endpoint *endpoint, const struct okv_event *event)
{
    (void)endpoint;
    client_of(event->conn)->released++;
}

static int fake_probe(struct okv_conn *conn)
{
    client_of(conn)->probes++;
    conn->unacknowledged++;
    return 0;
}

static const struct okv_transport_ops OPS = {
    .name = "fake",
    .send_buffer = fake_send_buffer,
    .post_send = fake_post_send,
    .flush = fake_flush,
    .close = fake_close,
    .conn_destroy = fake_conn_destroy,
    .recv_release = fake_recv_release,
    .probe = fake_probe,
};

/* Client `number` has the id `id`. */
static void open_session(struct house *house, unsigned number, uint8_t id, uint64_t resume)
{
    struct client *client = &house->clients[number];
    uint32_t place;

    *client = (struct client){.conn = {.ops = &OPS}};
    client->session = server_core_session(&house->core, number + 1, id, resume, LANES);
    client->conn.user = client->session;
    assert_int_equal(okv_admission_take(&house->core.server->admission, "", &place), 0);
    client->session->place = place;
    atomic_fetch_add(&house->worker.clients[0], 1);
    okv_session_opened(&house->worker, &client->conn);
}

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(1) << 20, .max_value = 1000};
    struct house *house = calloc(1, sizeof *house);

    assert_non_null(house);
    server_core_open(&house->core, &params);
    struct okv_server *server = house->core.server;
    server->limits = (struct okv_message_limits){.slot_size = SLOT, .credits = LANES};
    server->config.workers = 1;
    assert_int_equal(okv_admission_init(&server->admission, 10, 0), 0);
    assert_int_equal(okv_worker_init(&house->worker, server, NULL), 0);
    house->worker.pass = 1;
    for (unsigned i = 0; i < 2; i++)
        open_session(house, i, (uint8_t)(i + 1), 0);
    *state = house;
    return 0;
}

static int teardown(void **state)
{
    struct house *house = *state;

    for (unsigned i = 0; i < 2; i++)
        if (!house->clients[i].destroyed)
            okv_session_closed(&house->worker, house->clients[i].session, OKV_EDISCONNECTED);
    assert_int_equal(atomic_load(&house->core.server->stats.sessions), 0);
    assert_int_equal(atomic_load(&house->core.server->stats.credits_granted), 0);
    assert_int_equal(atomic_load(&house->core.server->stats.requests_waiting), 0);
    okv_worker_fini(&house->worker);
    okv_admission_fini(&house->core.server->admission);
    server_core_close(&house->core);
    free(house);
    return 0;
}

/* A message of the client arrives. */
static void arrive(struct house *house, struct client *client, unsigned opcode, uint16_t lane,
                   uint64_t sequence)
{
    bool has_key = opcode != OKV_OP_PING && opcode != OKV_OP_GOODBYE;
    const struct okv_request_message request = {
        .opcode = opcode,
        .slot = lane,
        .sequence = sequence,
        .argument = opcode == OKV_OP_INCR,
        .key = (const uint8_t *)"k",
        .key_length = has_key,
    };
    struct okv_event *event = &client->events[client->count];

    *event = (struct okv_event){
        .type = OKV_EVENT_RECV,
        .conn = &client->conn,
        .immediate = okv_immediate(opcode, lane),
        .has_immediate = true,
        .data = client->messages[client->count],
        .length = okv_request_encode(&request, client->messages[client->count]),
    };
    client->count++;
    if (!okv_session_receive(&house->worker, client->session, event))
        client->released++;
}

/* The end of a pass and the begin of the next, with a turn for each session that waits. */
static unsigned next_pass(struct house *house)
{
    struct okv_session *session, *first = NULL;
    unsigned done = 0;

    while ((session = TAILQ_FIRST(&house->worker.unflushed)))
        okv_worker_flush_session(&house->worker, session);
    house->worker.pass++;
    while ((session = TAILQ_FIRST(&house->worker.turns)) && session != first) {
        TAILQ_REMOVE(&house->worker.turns, session, in_turn);
        session->has_turn = false;
        done += okv_session_take_turn(&house->worker, session);
        first = first ? first : session;
    }
    return done;
}

static uint64_t stat_of(const atomic_uint_fast64_t *figure)
{
    return atomic_load(figure);
}

static void a_connection_has_its_share_of_a_pass(void **state)
{
    struct house *house = *state;
    struct client *many = &house->clients[0], *one = &house->clients[1];

    for (uint16_t lane = 0; lane < 20; lane++)
        arrive(house, many, OKV_OP_PING, lane, lane + 1u);
    arrive(house, one, OKV_OP_PING, 0, 1);
    assert_int_equal(many->posted, OKV_SESSION_SHARE);
    assert_int_equal(one->posted, 1);
    assert_int_equal(stat_of(&house->core.server->stats.requests_waiting), 12);
    assert_int_equal(next_pass(house), OKV_SESSION_SHARE);
    assert_int_equal(many->posted, 2 * OKV_SESSION_SHARE);
    /* What comes later waits behind what came before. */
    arrive(house, many, OKV_OP_PING, 0, 21);
    assert_int_equal(many->posted, 2 * OKV_SESSION_SHARE);
    assert_int_equal(next_pass(house), 5);
    assert_int_equal(many->posted, 21);
    for (uint16_t i = 0; i < 21; i++)
        assert_int_equal(many->replies[i].slot, i % 20);
    assert_int_equal(many->released, 21);
    assert_int_equal(next_pass(house), 0);
    assert_true(TAILQ_EMPTY(&house->worker.turns));
}

static void the_replies_of_a_pass_leave_together(void **state)
{
    struct house *house = *state;
    struct client *client = &house->clients[0];

    for (uint16_t lane = 0; lane < 20; lane++)
        arrive(house, client, OKV_OP_PING, lane, lane + 1u);
    assert_int_equal(client->flushes, 0);
    next_pass(house);
    assert_int_equal(client->flushes, 1);
    next_pass(house);
    assert_int_equal(client->flushes, 2);
    next_pass(house);
    assert_int_equal(client->flushes, 3);
    assert_int_equal(client->flushed, 20);
    next_pass(house);
    assert_int_equal(client->flushes, 3);
    assert_int_equal(house->clients[1].flushes, 0);
}

static void without_a_send_buffer_requests_wait(void **state)
{
    struct house *house = *state;
    struct client *client = &house->clients[0];

    client->no_buffers = true;
    for (uint16_t lane = 0; lane < 5; lane++)
        arrive(house, client, OKV_OP_INCR, lane, lane + 1u);
    assert_int_equal(next_pass(house), 0);
    assert_int_equal(stat_of(&house->core.server->stats.incrs), 0);
    arrive(house, &house->clients[1], OKV_OP_PING, 0, 1);
    assert_int_equal(house->clients[1].posted, 1);
    client->no_buffers = false;
    assert_int_equal(next_pass(house), 5);
    assert_int_equal(stat_of(&house->core.server->stats.incrs), 5);
    assert_int_equal(client->posted, 5);
}

static void a_lane_is_free_when_it_is_answered(void **state)
{
    struct house *house = *state;
    struct client *client = &house->clients[0];

    for (uint64_t i = 1; i <= 5; i++)
        arrive(house, client, OKV_OP_PING, 3, i);
    assert_int_equal(client->posted, 5);
    client->no_buffers = true;
    arrive(house, client, OKV_OP_PING, 3, 6);
    assert_false(client->closed);
    arrive(house, client, OKV_OP_PING, 4, 7);
    assert_false(client->closed);
    arrive(house, client, OKV_OP_PING, 3, 8);
    assert_true(client->closed);
    assert_int_equal(stat_of(&house->core.server->stats.closed_credit), 1);
    /* What was answered before still leaves. */
    assert_int_equal(client->flushed, 5);
    arrive(house, client, OKV_OP_PING, 9, 9);
    assert_int_equal(stat_of(&house->core.server->stats.pings), 5);
}

/* The client is back on another connection while its write is being applied on this one. */
static void a_write_that_is_being_applied_elsewhere_is_waited_for(void **state)
{
    struct house *house = *state;
    struct client *first = &house->clients[0], *second = &house->clients[1];
    struct okv_reply_message reply;
    uint8_t value[OKV_LEDGER_VALUE_MAX];

    okv_session_closed(&house->worker, second->session, OKV_EDISCONNECTED);
    open_session(house, 1, 1, 1);
    assert_ptr_equal(second->session->ledger, first->session->ledger);
    assert_int_equal(okv_ledger_begin(first->session->ledger, 2, 5, &reply, value),
                     OKV_LEDGER_APPLY);
    arrive(house, second, OKV_OP_INCR, 2, 5);
    assert_int_equal(second->posted, 0);
    assert_true(house->worker.is_held_up);
    assert_int_equal(next_pass(house), 0);
    reply = (struct okv_reply_message){
        .opcode = OKV_OP_INCR, .slot = 2, .sequence = 5, .version = 77, .status = OKV_OK};
    reply.value = (const uint8_t *)"8 bytes!";
    reply.value_length = 8;
    okv_ledger_done(first->session->ledger, &reply);
    assert_int_equal(next_pass(house), 1);
    assert_int_equal(second->posted, 1);
    assert_int_equal(second->replies[0].version, 77);
    assert_int_equal(stat_of(&house->core.server->stats.incrs), 0);
    assert_int_equal(stat_of(&house->core.server->stats.duplicates), 1);
}

static void a_replaced_session_applies_nothing(void **state)
{
    struct house *house = *state;
    struct client *first = &house->clients[0], *second = &house->clients[1];

    first->no_buffers = true;
    arrive(house, first, OKV_OP_INCR, 0, 1); /* waits */
    first->no_buffers = false;
    okv_session_closed(&house->worker, second->session, OKV_EDISCONNECTED);
    open_session(house, 1, 1, 1);
    next_pass(house);
    assert_true(first->closed);
    arrive(house, first, OKV_OP_INCR, 1, 2);
    assert_int_equal(first->posted, 0);
    assert_int_equal(stat_of(&house->core.server->stats.incrs), 0);
    assert_int_equal(stat_of(&house->core.server->stats.closed_replaced), 1);
    okv_session_closed(&house->worker, first->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&house->core.server->stats.closed_replaced), 1);
    assert_int_equal(stat_of(&house->core.server->stats.closed_lost), 1); /* setup's second one */
    arrive(house, second, OKV_OP_INCR, 0, 1);
    assert_int_equal(second->posted, 1);
}

static void a_replaced_session_answers_no_pull(void **state)
{
    struct house *house = *state;
    struct client *first = &house->clients[0], *second = &house->clients[1];

    assert_int_equal(okv_session_lane_take(first->session, 0), 0);
    first->session->pulls[0] = (struct okv_session_pull){
        .state = OKV_PULL_ENDED,
        .reply = {.opcode = OKV_OP_PUT, .sequence = 1, .status = OKV_EDISCONNECTED},
    };
    first->session->pull_count = 1;
    okv_worker_await_turn(&house->worker, first->session);
    okv_session_closed(&house->worker, second->session, OKV_EDISCONNECTED);
    open_session(house, 1, 1, 1);
    next_pass(house);
    assert_int_equal(first->posted, 0);
    assert_true(first->closed);
    assert_int_equal(stat_of(&house->core.server->stats.closed_replaced), 1);
}

/* Also one that had no turn before the connection ended. */
static void a_goodbye_counts(void **state)
{
    struct house *house = *state;
    struct okv_stats *stats = &house->core.server->stats;
    struct client *first = &house->clients[0], *second = &house->clients[1];

    first->no_buffers = second->no_buffers = true;
    arrive(house, first, OKV_OP_GOODBYE, 0, 1);
    assert_true(first->closed);
    okv_session_closed(&house->worker, first->session, OKV_EDISCONNECTED);
    arrive(house, second, OKV_OP_PING, 0, 1);
    arrive(house, second, OKV_OP_GOODBYE, 1, 2);
    assert_false(second->closed);
    okv_session_closed(&house->worker, second->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&stats->closed_by_client), 2);
    assert_int_equal(stat_of(&stats->closed_lost), 0);
    assert_int_equal(okv_ledgers_count(&house->core.server->ledgers), 0);
}

static void what_the_transport_says_is_counted(void **state)
{
    struct house *house = *state;
    struct okv_stats *stats = &house->core.server->stats;
    const struct {
        int status;
        const atomic_uint_fast64_t *figure;
    } ends[] = {
        {OKV_EDISCONNECTED, &stats->closed_lost},
        {OKV_ETIMEDOUT, &stats->closed_dead},
        {OKV_EPROTO, &stats->closed_malformed},
        {OKV_EIO, &stats->closed_failed},
    };

    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        okv_session_closed(&house->worker, house->clients[1].session, ends[i].status);
        assert_true(house->clients[1].destroyed);
        assert_int_equal(stat_of(ends[i].figure), 1);
        open_session(house, 1, 2, 0);
    }
    assert_int_equal(stat_of(&stats->sessions_total), 2 + sizeof ends / sizeof *ends);
}

/* ---- ticks ---- */

static void a_silent_client_is_probed_and_given_up(void **state)
{
    struct house *house = *state;
    struct okv_stats *stats = &house->core.server->stats;
    struct client *client = &house->clients[0];
    unsigned ticks = 0;

    okv_session_tick(&house->worker, client->session);
    assert_int_equal(client->probes, 1);
    client->conn.unacknowledged = 0;
    client->conn.acknowledged++;
    while (!client->closed && ticks < 100) {
        okv_session_tick(&house->worker, client->session);
        ticks++;
    }
    assert_int_equal(client->probes, 2);
    assert_in_range(ticks, 4, OKV_KEEPALIVE_TICKS);
    assert_int_equal(stat_of(&stats->closed_unresponsive), 1);
    assert_int_equal(stat_of(&stats->probes), 2);
    okv_session_closed(&house->worker, client->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&stats->closed_lost), 0);
}

static void an_idle_client_is_sent_away_if_so_asked(void **state)
{
    struct house *house = *state;
    struct okv_stats *stats = &house->core.server->stats;
    struct client *idle = &house->clients[0], *waiting = &house->clients[1];

    house->worker.now_ns += UINT64_C(3600) * 1000000000u;
    okv_session_tick(&house->worker, idle->session);
    assert_false(idle->closed);
    house->core.server->config.idle_s = 10;
    waiting->no_buffers = true;
    arrive(house, waiting, OKV_OP_PING, 0, 1);
    arrive(house, idle, OKV_OP_PING, 0, 1);
    house->worker.now_ns += UINT64_C(9999) * 1000000u;
    okv_session_tick(&house->worker, idle->session);
    assert_false(idle->closed);
    house->worker.now_ns += 2000000u;
    okv_session_tick(&house->worker, idle->session);
    assert_true(idle->closed);
    okv_session_tick(&house->worker, waiting->session);
    assert_false(waiting->closed);
    assert_int_equal(stat_of(&stats->closed_idle), 1);
}

static void a_replaced_client_is_sent_away(void **state)
{
    struct house *house = *state;
    struct client *first = &house->clients[0], *second = &house->clients[1];

    okv_session_closed(&house->worker, second->session, OKV_EDISCONNECTED);
    open_session(house, 1, 1, 1);
    okv_session_tick(&house->worker, second->session);
    assert_false(second->closed);
    okv_session_tick(&house->worker, first->session);
    assert_true(first->closed);
    assert_int_equal(stat_of(&house->core.server->stats.closed_replaced), 1);
}

static void a_client_is_told_goodbye_once(void **state)
{
    struct house *house = *state;
    struct client *client = &house->clients[0];

    client->no_buffers = true;
    okv_session_say_goodbye(&house->worker, client->session);
    assert_int_equal(client->posted, 0);
    client->no_buffers = false;
    for (int i = 0; i < 3; i++)
        okv_session_say_goodbye(&house->worker, client->session);
    assert_int_equal(client->posted, 1);
    assert_int_equal(client->replies[0].opcode, OKV_OP_GOODBYE);
    assert_int_equal(client->replies[0].status, OKV_ESHUTDOWN);
    next_pass(house);
    assert_int_equal(client->flushed, 1);
    okv_session_closed(&house->worker, client->session, OKV_EDISCONNECTED);
    assert_int_equal(stat_of(&house->core.server->stats.closed_stopping), 1);
}

#define SERVE_TEST(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        SERVE_TEST(a_connection_has_its_share_of_a_pass),
        SERVE_TEST(the_replies_of_a_pass_leave_together),
        SERVE_TEST(without_a_send_buffer_requests_wait),
        SERVE_TEST(a_lane_is_free_when_it_is_answered),
        SERVE_TEST(a_write_that_is_being_applied_elsewhere_is_waited_for),
        SERVE_TEST(a_replaced_session_applies_nothing),
        SERVE_TEST(a_replaced_session_answers_no_pull),
        SERVE_TEST(a_goodbye_counts),
        SERVE_TEST(what_the_transport_says_is_counted),
        SERVE_TEST(a_silent_client_is_probed_and_given_up),
        SERVE_TEST(an_idle_client_is_sent_away_if_so_asked),
        SERVE_TEST(a_replaced_client_is_sent_away),
        SERVE_TEST(a_client_is_told_goodbye_once),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
