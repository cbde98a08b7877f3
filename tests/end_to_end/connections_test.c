/*
 * Clients that come back, and limits on those that come: what docs/connections.md
 * promises of reply caches, replaced and idle connections, places and workers.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/counting_client.h"
#include "tests/support/hostile_client.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"

#define SECOND_NS UINT64_C(1000000000)
#define SECONDS_MAX 64 /* that an attempt is given at most */

static struct bystander *bystander_of(void **state)
{
    return *state;
}

/* Makes attempts with ever longer times: one that took too long itself says nothing, and returns
 * false. */
static void attempt_in_time(bool (*attempt)(unsigned seconds), unsigned seconds)
{
    while (!attempt(seconds)) {
        print_message("%u s were not enough on this machine: once more\n", seconds);
        seconds *= 2;
        assert_in_range(seconds, 1, SECONDS_MAX);
    }
}

/* ---- reply caches ---- */

TEST(write_that_comes_again_is_answered_and_not_applied)
{
    struct bystander *bystander = bystander_of(state);
    struct okv_wire_hello hello;
    struct hostile first, second;
    uint64_t duplicates = bystander_stat(bystander, "duplicates");
    uint64_t replaced = bystander_stat(bystander, "closed_replaced");
    uint64_t resumed = bystander_stat(bystander, "resumed");

    counting_reset(bystander);
    hostile_hello(&hello);
    hostile_join_as(&first, &bystander->server, &hello);
    assert_int_equal(first.table.resumed, 0);
    assert_int_equal(counting_incr(&first, 2, 7, 5), 105);
    assert_int_equal(counting_incr(&first, 1, 8, 10), 115);
    hello = counting_hello_after(&hello, first.table.session_id);
    hostile_join_as(&second, &bystander->server, &hello);
    assert_int_equal(second.table.resumed, 1);
    assert_true(second.table.session_id > first.table.session_id);
    assert_int_equal(second.table.boot_id, first.table.boot_id);
    assert_int_equal(counting_incr(&second, 2, 7, 5), 105);
    assert_int_equal(counting_incr(&second, 1, 8, 10), 115);
    assert_int_equal(counting_incr(&second, 1, 9, 1), 116);
    assert_int_equal(counting_value(bystander), 116);
    hostile_expect_closed(&first, "a client that is back on another connection");
    hostile_leave(&first);
    hostile_leave(&second);
    assert_int_equal(bystander_stat(bystander, "duplicates"), duplicates + 2);
    assert_int_equal(bystander_stat(bystander, "resumed"), resumed + 1);
    bystander_expect_stat(bystander, "closed_replaced", replaced + 1);
    bystander_expect_stat(bystander, "sessions", 1);
}

/* Whether the server sees it before or after it ended the connection. */
TEST(late_copy_on_the_earlier_connection_does_nothing)
{
    enum { ROUNDS = 20 };
    struct bystander *bystander = bystander_of(state);

    for (int round = 0; round < ROUNDS; round++) {
        struct okv_wire_hello hello;
        struct hostile first, second;
        counting_reset(bystander);
        hostile_hello(&hello);
        hostile_join_as(&first, &bystander->server, &hello);
        hello = counting_hello_after(&hello, first.table.session_id);
        hostile_join_as(&second, &bystander->server, &hello);
        if (round % 2)
            assert_int_equal(counting_incr(&second, 1, 5, 1), 101);
        counting_send(&first, 1, 4, 50);
        hostile_expect_closed(&first, "a write on the earlier connection");
        assert_int_equal(counting_incr(&second, 1, 6, 1), round % 2 ? 102 : 101);
        hostile_leave(&first);
        hostile_leave(&second);
        assert_int_equal(counting_value(bystander), round % 2 ? 102 : 101);
    }
    bystander_expect_stat(bystander, "sessions", 1);
}

/* A request that comes again on its connection, or a client that counts backwards: no answer, and
 * the client is served on. */
TEST(request_that_comes_again_is_dropped)
{
    struct okv_request_message get = {.opcode = OKV_OP_GET,
                                      .sequence = 11,
                                      .key = (const uint8_t *)COUNTING_KEY,
                                      .key_length = sizeof COUNTING_KEY - 1};
    struct bystander *bystander = bystander_of(state);
    struct hostile client;
    uint64_t repeated = bystander_stat(bystander, "repeated");

    counting_reset(bystander);
    hostile_join(&client, &bystander->server);
    assert_int_equal(counting_incr(&client, 0, 10, 1), 101);
    counting_send(&client, 0, 10, 1);
    counting_send(&client, 0, 9, 50);
    assert_int_equal(counting_incr(&client, 1, 8, 1), 102); /* request slots are apart */
    hostile_request_again(&client, &get);
    hostile_expect_reply(&client, 0, OKV_OK);
    hostile_request_again(&client, &get);
    get.sequence++;
    hostile_request_again(&client, &get);
    hostile_expect_reply(&client, 0, OKV_OK);
    assert_int_equal(counting_value(bystander), 102);
    assert_int_equal(bystander_stat(bystander, "repeated"), repeated + 3);
    hostile_leave(&client);
}

/* A read that is resent on another connection returns the current value. */
TEST(reads_leave_no_trace)
{
    const struct okv_request_message get = {.opcode = OKV_OP_GET,
                                            .sequence = 3,
                                            .key = (const uint8_t *)COUNTING_KEY,
                                            .key_length = sizeof COUNTING_KEY - 1};
    struct bystander *bystander = bystander_of(state);
    struct okv_wire_hello hello;
    struct hostile first, second;

    counting_reset(bystander);
    hostile_hello(&hello);
    hostile_join_as(&first, &bystander->server, &hello);
    assert_int_equal(counting_incr(&first, 0, 2, 1), 101);
    hostile_request_again(&first, &get);
    hostile_expect_reply(&first, 0, OKV_OK);
    assert_int_equal(okv_delete(bystander->handle, COUNTING_KEY, sizeof COUNTING_KEY - 1), OKV_OK);
    hello = counting_hello_after(&hello, first.table.session_id);
    hostile_join_as(&second, &bystander->server, &hello);
    hostile_request_again(&second, &get);
    hostile_expect_reply(&second, 0, OKV_ENOTFOUND);
    assert_int_equal(counting_incr(&second, 0, 4, 1), 1);
    hostile_leave(&first);
    hostile_leave(&second);
}

TEST(goodbye_drops_the_reply_cache)
{
    const struct okv_request_message goodbye = {.opcode = OKV_OP_GOODBYE, .slot = 3};
    struct bystander *bystander = bystander_of(state);
    struct okv_wire_hello hello;
    struct hostile first, second;

    /* Those of earlier tests are counted as lost. */
    bystander_expect_stat(bystander, "sessions", 1);
    uint64_t closed = bystander_stat(bystander, "closed_by_client");
    uint64_t lost = bystander_stat(bystander, "closed_lost");

    counting_reset(bystander);
    hostile_hello(&hello);
    hostile_join_as(&first, &bystander->server, &hello);
    uint64_t reply_caches = bystander_stat(bystander, "reply_caches");
    assert_int_equal(counting_incr(&first, 0, 1, 5), 105);
    hostile_request(&first, &goodbye);
    hostile_expect_closed(&first, "a goodbye");
    hostile_leave(&first);
    bystander_expect_stat(bystander, "closed_by_client", closed + 1);
    bystander_expect_stat(bystander, "reply_caches", reply_caches - 1);
    hello = counting_hello_after(&hello, first.table.session_id);
    hostile_join_as(&second, &bystander->server, &hello);
    assert_int_equal(second.table.resumed, 0);
    assert_int_equal(counting_incr(&second, 0, 1, 5), 110);
    hostile_leave(&second);
    bystander_expect_stat(bystander, "closed_lost", lost + 1);
    bystander_expect_stat(bystander, "reply_caches", reply_caches);
}

/* Its slots bound the credits of later welcomes, and so does each hello. */
TEST(kept_reply_cache_keeps_its_request_slots)
{
    struct bystander *bystander = bystander_of(state);
    struct okv_wire_hello hello;
    struct hostile first, second;

    hostile_hello(&hello);
    hostile_join_as(&first, &bystander->server, &hello);
    hello = counting_hello_after(&hello, first.table.session_id);
    hello.credits = okv_le16_of(HOSTILE_CREDITS + 5 - 1);
    hostile_join_as(&second, &bystander->server, &hello);
    assert_int_equal(second.table.credits, HOSTILE_CREDITS);
    hostile_leave(&first);
    hello = counting_hello_after(&hello, second.table.session_id);
    hello.credits = okv_le16_of(HOSTILE_CREDITS - 1 - 1);
    hostile_join_as(&first, &bystander->server, &hello);
    assert_int_equal(first.table.credits, HOSTILE_CREDITS - 1);
    hostile_leave(&first);
    hostile_leave(&second);
}

/* Whoever is back in time is known, and whoever comes later is not. */
static bool is_remembered_for(unsigned seconds)
{
    char text[16];
    const char *const arguments[] = {"--memory", "16M", "--remember-s", text, NULL};
    struct okv_wire_hello hello;
    struct bystander bystander;
    struct hostile client;

    snprintf(text, sizeof text, "%u", seconds);
    bystander_start(&bystander, arguments);
    hostile_hello(&hello);
    hostile_join_as(&client, &bystander.server, &hello);
    assert_int_equal(client.table.remember_ms, seconds * 1000);
    uint64_t begun = okv_clock_ns();
    hostile_leave(&client);
    bystander_expect_stat(&bystander, "sessions", 1);
    hello = counting_hello_after(&hello, client.table.session_id);
    hostile_join_as(&client, &bystander.server, &hello);
    bool in_time = okv_clock_ns() - begun < seconds * SECOND_NS;
    if (in_time)
        assert_int_equal(client.table.resumed, 1);
    hostile_leave(&client);
    bystander_expect_stat(&bystander, "sessions", 1);
    pace_sleep_ms(seconds * 1000 + 10);
    hello = counting_hello_after(&hello, client.table.session_id);
    hostile_join_as(&client, &bystander.server, &hello);
    assert_int_equal(client.table.resumed, 0);
    hostile_leave(&client);
    assert_int_equal(bystander_stop(&bystander), 0);
    return in_time;
}

static void reply_cache_is_remembered_for_as_long_as_was_said(void **state)
{
    (void)state;
    attempt_in_time(is_remembered_for, 1);
}

/* A client that asks again and again. The server may have seen it idle for `longest_ns` at most. */
struct busy {
    struct hostile client;
    uint64_t asked_ns, longest_ns;
};

static void busy_join(struct busy *busy, const struct bystander *bystander)
{
    *busy = (struct busy){.asked_ns = okv_clock_ns()};
    hostile_join(&busy->client, &bystander->server);
}

static void busy_was_seen(struct busy *busy, uint64_t asked_ns)
{
    uint64_t idle_ns = okv_clock_ns() - busy->asked_ns;

    busy->asked_ns = asked_ns;
    if (idle_ns > busy->longest_ns)
        busy->longest_ns = idle_ns;
}

/* Whether it is served. Fails the test when it is not, though it never was idle for so long. */
static bool busy_asks(struct busy *busy, unsigned idle_seconds)
{
    uint64_t asked_ns = okv_clock_ns();
    bool served = hostile_ping(&busy->client);

    busy_was_seen(busy, asked_ns);
    if (!served && busy->longest_ns < idle_seconds * SECOND_NS)
        fail_msg("a client that was never idle for %u s was disconnected", idle_seconds);
    return served;
}

static bool idle_goes_and_busy_stays(unsigned seconds)
{
    char text[16];
    const char *const arguments[] = {"--memory",       "16M", "--idle-s", text,
                                     "--keepalive-ms", "600", NULL};
    uint64_t end = pace_guard_end();
    struct bystander bystander;
    struct hostile idle;
    struct busy busy;

    snprintf(text, sizeof text, "%u", seconds);
    bystander_start(&bystander, arguments);
    hostile_join(&idle, &bystander.server);
    busy_join(&busy, &bystander);
    bool served = true;
    while (served && bystander_stat(&bystander, "closed_idle") == 0) {
        assert_true(okv_clock_ns() < end);
        pace_sleep_ms(50);
        served = busy_asks(&busy, seconds);
    }
    hostile_expect_closed(&idle, "an idle client");
    served = served && busy_asks(&busy, seconds);
    hostile_leave(&idle);
    hostile_leave(&busy.client);
    assert_int_equal(bystander_stop(&bystander), 0);
    return served;
}

static void idle_client_is_disconnected(void **state)
{
    (void)state;
    attempt_in_time(idle_goes_and_busy_stays, 1);
}

/* The bystander idles as well, and is disconnected once in that time at most. */
static void expect_closed_idle(struct bystander *bystander, uint64_t begun_ns, unsigned seconds)
{
    uint64_t closed = bystander_stat(bystander, "closed_idle");

    assert_in_range(closed, 1, 1 + (okv_clock_ns() - begun_ns) / (seconds * SECOND_NS));
}

static bool idle_and_replaced_go(unsigned seconds)
{
    char text[16];
    const char *const arguments[] = {"--memory", "16M",       "--idle-s", text, "--keepalive-ms",
                                     "600000",   "--workers", "2",        NULL};
    struct okv_wire_hello hello;
    struct hostile first, second;
    struct bystander bystander;

    snprintf(text, sizeof text, "%u", seconds);
    uint64_t begun = okv_clock_ns();
    bystander_start(&bystander, arguments);
    hostile_hello(&hello);
    hostile_join_as(&first, &bystander.server, &hello);
    hello = counting_hello_after(&hello, first.table.session_id);
    hostile_join_as(&second, &bystander.server, &hello);
    hostile_expect_closed(&first, "a client that is back");
    bool in_time = okv_clock_ns() - begun < seconds * SECOND_NS;
    hostile_expect_closed(&second, "an idle client");
    if (in_time) { /* else the first may have been idle */
        assert_int_equal(bystander_stat(&bystander, "closed_replaced"), 1);
        expect_closed_idle(&bystander, begun, seconds);
    }
    hostile_leave(&first);
    hostile_leave(&second);
    assert_int_equal(bystander_stop(&bystander), 0);
    return in_time;
}

/* However seldom its keepalive ticks come. */
static void idle_and_replaced_clients_go_soon(void **state)
{
    (void)state;
    attempt_in_time(idle_and_replaced_go, 1);
}

static bool all_ask(struct busy *clients, int count, unsigned idle_seconds)
{
    for (int i = 0; i < count; i++)
        if (!busy_asks(&clients[i], idle_seconds))
            return false;
    return true;
}

/* Connects them, and keeps those busy that are connected. */
static bool all_join(struct busy *clients, int count, const struct bystander *bystander,
                     unsigned idle_seconds)
{
    for (int i = 0; i < count; i++) {
        busy_join(&clients[i], bystander);
        if (i % 8 == 7 && !all_ask(clients, i + 1, idle_seconds))
            return false;
    }
    return all_ask(clients, count, idle_seconds);
}

/* Asks while the server stands still, for longer than it lets anybody idle. */
static bool all_are_kept_waiting(struct busy *clients, int count, struct bystander *bystander,
                                 unsigned idle_seconds)
{
    const struct okv_request_message ping = {.opcode = OKV_OP_PING};
    bool in_time = true;

    server_signal(&bystander->server, SIGSTOP);
    for (int i = 0; i < count; i++) {
        busy_was_seen(&clients[i], clients[i].asked_ns);
        in_time = in_time && clients[i].longest_ns < idle_seconds * SECOND_NS;
        hostile_request(&clients[i].client, &ping);
    }
    pace_sleep_ms(idle_seconds * 1000 + 1500);
    server_signal(&bystander->server, SIGCONT);
    for (int i = 0; i < count && in_time; i++)
        hostile_expect_reply(&clients[i].client, 0, OKV_OK);
    return in_time;
}

static bool kept_waiting_is_not_idle(unsigned seconds)
{
    enum { CLIENTS = 60 };
    char text[16];
    const char *const arguments[] = {"--memory", "16M",       "--idle-s", text, "--workers",
                                     "1",        "--credits", "4",        NULL};
    struct busy clients[CLIENTS] = {{.asked_ns = 0}};
    struct bystander bystander;

    snprintf(text, sizeof text, "%u", seconds);
    bystander_start(&bystander, arguments);
    bool in_time = all_join(clients, CLIENTS, &bystander, seconds) &&
                   all_are_kept_waiting(clients, CLIENTS, &bystander, seconds);
    for (int i = 0; i < CLIENTS; i++)
        hostile_leave(&clients[i].client);
    assert_int_equal(bystander_stop(&bystander), 0);
    return in_time;
}

/* What they asked waits in the endpoint, more than one poll of it brings. */
static void nobody_is_idle_whom_the_server_kept_waiting(void **state)
{
    (void)state;
    attempt_in_time(kept_waiting_is_not_idle, 4);
}

/* ---- limits ---- */

/* Its own earlier connection has the last place. */
static void client_that_comes_back_to_a_full_server(void **state)
{
    static const char *const arguments[] = {
        "--memory", "16M", "--max-clients", "2", "--max-clients-per-address", "2", NULL};
    enum { ROUNDS = 20 };
    struct okv_wire_hello hello, other;
    struct hostile client[ROUNDS], refused;
    struct bystander bystander;

    (void)state;
    bystander_start(&bystander, arguments);
    counting_reset(&bystander);
    hostile_hello(&hello);
    for (uint64_t i = 0; i < ROUNDS; i++) {
        hostile_join_as(&client[i], &bystander.server, &hello);
        assert_int_equal(client[i].table.resumed, i > 0);
        hello = counting_hello_after(&hello, client[i].table.session_id);
        assert_int_equal(counting_incr(&client[i], 0, i + 1, 1), 101 + i);
        hostile_hello(&other);
        assert_int_equal(hostile_connect(&refused, &bystander.server, &other, sizeof other),
                         OKV_EREFUSED);
        if (i > 0)
            hostile_expect_closed(&client[i - 1], "replaced");
    }
    for (int i = 0; i < ROUNDS; i++)
        hostile_leave(&client[i]);
    bystander_expect_stat(&bystander, "sessions", 1);
    assert_int_equal(bystander_stat(&bystander, "closed_replaced"), ROUNDS - 1);
    hostile_join(&client[0], &bystander.server);
    hostile_leave(&client[0]);
    assert_int_equal(bystander_stop(&bystander), 0);
}

static int try_open(const char *uri, okv **out, const char *why_not)
{
    char why[320] = "";
    int rc = patient_open(uri, NULL, out, why, sizeof why);

    if (rc)
        assert_non_null(strstr(why, why_not));
    return rc;
}

static void open_when_free(const char *uri, okv **out, const char *why_not)
{
    for (uint64_t end = pace_guard_end(); okv_clock_ns() < end; pace_sleep_ms(10))
        if (try_open(uri, out, why_not) == OKV_OK)
            return;
    fail_msg("a place that was given up is not free again");
}

static void all_listeners_share_the_places(void **state)
{
    char directory[] = "/tmp/okv-places-XXXXXX", second[64];
    const char *const arguments[] = {
        "--memory", "16M",      "--max-clients", "3", "--max-clients-per-address",
        "0",        "--listen", second,          NULL};
    struct bystander bystander;
    okv *a, *b, *c;

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(second, sizeof second, "local://%s/s", directory);
    bystander_start(&bystander, arguments);
    assert_int_equal(try_open(bystander.server.uri, &a, ""), OKV_OK);
    assert_int_equal(try_open(second, &b, ""), OKV_OK);
    assert_int_equal(try_open(second, &c, "raise its --max-clients"), OKV_EREFUSED);
    assert_int_equal(try_open(bystander.server.uri, &c, "raise its --max-clients"), OKV_EREFUSED);
    assert_int_equal(bystander_stat(&bystander, "rejected_busy"), 2);
    okv_close(&a);
    open_when_free(second, &c, "raise its --max-clients");
    okv_close(&c);
    okv_close(&b);
    assert_int_equal(bystander_stop(&bystander), 0);
    assert_int_equal(rmdir(directory), 0);
}

static void address_has_its_own_limit(void **state)
{
    static const char *const arguments[] = {"--memory", "16M", "--max-clients-per-address", "2",
                                            NULL};
    struct bystander bystander;
    okv *a, *b;

    (void)state;
    bystander_start(&bystander, arguments);
    assert_int_equal(try_open(bystander.server.uri, &a, ""), OKV_OK);
    assert_int_equal(try_open(bystander.server.uri, &b, "raise its --max-clients-per-address"),
                     OKV_EREFUSED);
    assert_int_equal(bystander_stat(&bystander, "rejected_address"), 1);
    okv_close(&a);
    open_when_free(bystander.server.uri, &b, "--max-clients-per-address");
    okv_close(&b);
    assert_int_equal(bystander_stop(&bystander), 0);
}

/* ---- workers ---- */

/* Several clients each; what one brought, all see, and the figures are those of all. */
static void clients_are_spread_over_workers(void **state)
{
    enum { CLIENTS = 9, ROUNDS = 50 };
    static const char *const arguments[] = {"--memory", "16M", "--workers", "3", NULL};
    struct bystander bystander;
    struct hostile clients[CLIENTS];

    (void)state;
    bystander_start(&bystander, arguments);
    assert_int_equal(bystander_stat(&bystander, "workers"), 3);
    counting_reset(&bystander);
    for (int i = 0; i < CLIENTS; i++)
        hostile_join(&clients[i], &bystander.server);
    bystander_expect_stat(&bystander, "sessions", CLIENTS + 1);
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        for (int i = 0; i < CLIENTS; i++)
            counting_send(&clients[i], (uint16_t)(round % HOSTILE_CREDITS), round, 1);
        for (int i = 0; i < CLIENTS; i++)
            assert_in_range(counting_take(&clients[i], (uint16_t)(round % HOSTILE_CREDITS), round),
                            100 + (round - 1) * CLIENTS + 1, 100 + round * CLIENTS);
    }
    assert_int_equal(counting_value(&bystander), 100 + CLIENTS * ROUNDS);
    for (int i = 0; i < CLIENTS; i++)
        hostile_leave(&clients[i]);
    bystander_expect_stat(&bystander, "sessions", 1);
    bystander_expect_stat(&bystander, "requests_waiting", 0);
    assert_int_equal(bystander_stop(&bystander), 0);
}

/* The earlier connection is with another worker than the later one. */
static void client_that_comes_back_to_another_worker(void **state)
{
    static const char *const arguments[] = {"--memory", "16M", "--workers", "4", NULL};
    struct bystander bystander;
    struct okv_wire_hello hello;
    struct hostile client[4];

    (void)state;
    bystander_start(&bystander, arguments);
    counting_reset(&bystander);
    hostile_hello(&hello);
    for (int i = 0; i < 4; i++) {
        hostile_join_as(&client[i], &bystander.server, &hello);
        assert_int_equal(client[i].table.resumed, i > 0);
        hello = counting_hello_after(&hello, client[i].table.session_id);
        assert_int_equal(counting_incr(&client[i], 0, 1, 1), 101);
    }
    for (int i = 0; i < 3; i++)
        hostile_expect_closed(&client[i], "replaced");
    assert_int_equal(counting_value(&bystander), 101);
    for (int i = 0; i < 4; i++)
        hostile_leave(&client[i]);
    assert_int_equal(bystander_stop(&bystander), 0);
}

TEST_PROGRAM(bystander_setup, bystander_teardown)

int main(void)
{
    /* With servers of their own, which need the address. */
    const struct CMUnitTest apart[] = {
        cmocka_unit_test(reply_cache_is_remembered_for_as_long_as_was_said),
        cmocka_unit_test(idle_client_is_disconnected),
        cmocka_unit_test(idle_and_replaced_clients_go_soon),
        cmocka_unit_test(nobody_is_idle_whom_the_server_kept_waiting),
        cmocka_unit_test(client_that_comes_back_to_a_full_server),
        cmocka_unit_test(all_listeners_share_the_places),
        cmocka_unit_test(address_has_its_own_limit),
        cmocka_unit_test(clients_are_spread_over_workers),
        cmocka_unit_test(client_that_comes_back_to_another_worker),
    };

    int failed = test_run();
    return failed + test_run_group("connections with options", apart, NULL, NULL);
}
