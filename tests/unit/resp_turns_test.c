/*
 * No step of a RESP client is longer than it may be, and nothing runs alone for longer: every
 * command of the table, with the worst arguments that it takes, on a full database, by itself and
 * in a transaction. What was done is counted by the server, so no clock matters. Each command has
 * one reply, in however many steps.
 */
#include <errno.h>
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/command/exclusive.h"
#include "server/resp/commands/commands.h"
#include "server/resp/resp.h"
#include "server/resp/run/command.h"
#include "server/resp/run/transaction.h"
#include "server/store/store.h"
#include "tests/support/resp_count.h"
#include "tests/support/resp_fixture.h"
#include "tests/support/resp_request.h"
#include "tests/support/resp_worst.h"

#define FILLERS 30000u
#define ALONE_MS 10u

static const struct okv_store_params params = {
    .length = 32u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

static struct resp_fixture fixture;

/* ---- a client ---- */

#define END "+RESET\r\n$3\r\nend\r\n"
#define END_REPLIES 3u /* with that of CLIENT REPLY ON, which may be an error */

/* Sends the requests and reads all replies, while the worker makes passes, until END or the
 * connection ends. Returns the last bytes of them, and counts those before END. */
static const char *exchange(const struct bytes *requests, unsigned *replies)
{
    static char last[1u << 16];
    struct resp_count count = {.replies = 0};
    size_t sent = 0, used = 0;
    int fd = resp_fixture_connect(&fixture);
    ssize_t n = -1;

    while (n != 0 && (used < strlen(END) || strcmp(last + used - strlen(END), END) != 0)) {
        if (sent < requests->used &&
            (n = send(fd, requests->bytes + sent, requests->used - sent, MSG_NOSIGNAL)) > 0)
            sent += (size_t)n;
        resp_fixture_poll(&fixture);
        if (used > sizeof last / 2) {
            memmove(last, last + used - 1024, 1024);
            used = 1024;
        }
        n = recv(fd, last + used, sizeof last - used - 1, 0);
        assert_true(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
        resp_count_add(&count, last + used, n > 0 ? (size_t)n : 0);
        used += n > 0 ? (size_t)n : 0;
        last[used] = '\0';
    }
    assert_int_equal(count.missing, 0);
    *replies = count.replies - (n == 0 ? 0 : END_REPLIES);
    if (n == 0)
        close(fd);
    else
        resp_fixture_leave(&fixture, fd);
    return last;
}

/* How many replies lines get: each has one, whether it runs, is queued or refused. After MULTI no
 * CLIENT REPLY is taken. */
static unsigned replies_to(const char *const lines[])
{
    bool is_queued = strcmp(lines[0], "MULTI") == 0;
    unsigned count = 0;

    for (unsigned i = 0; lines[i]; i++) {
        if (strcmp(lines[i], "CLIENT REPLY OFF") == 0)
            break;
        if (strcmp(lines[i], "CLIENT REPLY SKIP") == 0 && !is_queued)
            continue; /* what follows is another one, or ON */
        count++;
        if (strcmp(lines[i], "QUIT") == 0)
            break; /* the connection ends */
    }
    return count;
}

/* Gives lines, the last of which is NULL, and fails the test if a step was too long, or a line had
 * no reply or more than one. */
static const char *give(const char *const lines[])
{
    struct okv_stats *stats = &fixture.core.server->stats;
    struct bytes requests = {.used = 0};
    unsigned replies;

    for (unsigned i = 0; lines[i]; i++)
        add_request(&requests, lines[i]);
    add_request(&requests, "CLIENT REPLY ON");
    add_request(&requests, "RESET");
    add_request(&requests, "ECHO end");
    fixture.resp.turn.longest = fixture.resp.turn.alone = 0;
    atomic_store(&stats->longest_step, 0);
    atomic_store(&stats->longest_alone, 0);
    const char *reply = exchange(&requests, &replies);
    free(requests.bytes);
    if (replies != replies_to(lines))
        fail_msg("%s, %s: %u replies instead of %u", lines[0], lines[1] ? lines[1] : "", replies,
                 replies_to(lines));
    if (atomic_load(&stats->longest_step) > OKV_TURN_STEP_MAX)
        fail_msg("%s, %s: a step of %" PRIuFAST64, lines[0], lines[1] ? lines[1] : "",
                 atomic_load(&stats->longest_step));
    if (atomic_load(&stats->longest_alone) >
        fixture.core.server->config.alone_ms * UINT64_C(1000) * OKV_TURN_ITEM)
        fail_msg("%s: alone for %" PRIuFAST64, lines[1], atomic_load(&stats->longest_alone));
    return reply;
}

/* What commands took away is there again; others fill the database. */
static void fill(void)
{
    struct okv_store *store = &fixture.core.database->store;
    struct okv_store_outcome outcome;
    char name[16];

    if (atomic_load(&store->totals.items) < KEYS) {
        for (unsigned i = 0; i < KEYS; i++)
            server_core_put(&fixture.core, key_of(i), 'v', 100, 0);
        for (unsigned i = 0; i < FILLERS; i++) {
            snprintf(name, sizeof name, "%u", i);
            server_core_put(&fixture.core, name, 'v', 100, 0);
        }
    }
    const struct okv_store_write other = {.key = "other", .key_length = 5};
    okv_store_delete(store, fixture.core.works, &other, &outcome);
    server_core_put(&fixture.core, "long", 'v', LONG, 0);
    server_core_put(&fixture.core, "short", 'v', 10, 0);
    server_core_put(&fixture.core, "decimals", '9', 308, 0);
}

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    fixture.core.server->config.alone_ms = ALONE_MS;
    fill();
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_close(&fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

/* ---- every command ---- */

static unsigned worst_of(const char *name)
{
    for (unsigned i = 0; i < sizeof worst / sizeof *worst; i++)
        if (strcmp(worst[i].name, name) == 0)
            return i;
    fail_msg("%s: its worst arguments are missing here", name);
    return 0;
}

/* `in_transaction`: after MULTI, with EXEC at the end. */
static void give_worst(unsigned i, bool in_transaction)
{
    for (unsigned k = 0; k < sizeof worst->lines / sizeof *worst->lines && worst[i].lines[k]; k++) {
        const char *alone[] = {worst[i].lines[k], worst[i].lines[k], worst[i].lines[k], NULL};
        const char *queued[] = {"MULTI", worst[i].lines[k], worst[i].lines[k], "EXEC", NULL};
        fill();
        give(in_transaction ? queued : alone);
    }
}

FIXTURE_TEST(no_command_takes_longer_than_a_step)
{
    for (unsigned i = 0; i < okv_resp_commands.count; i++)
        give_worst(worst_of(okv_resp_commands.commands[i].name), false);
}

FIXTURE_TEST(no_transaction_runs_alone_for_longer_than_it_may)
{
    for (unsigned i = 0; i < okv_resp_commands.count; i++)
        give_worst(worst_of(okv_resp_commands.commands[i].name), true);
}

/* A command that costs more than its price shows it when it runs often. */
FIXTURE_TEST(no_command_is_too_cheap_for_a_transaction)
{
    enum { TIMES = 1000 };
    const char *queued[TIMES + 3] = {"MULTI"};

    queued[TIMES + 1] = "EXEC";
    for (unsigned i = 0; i < sizeof worst / sizeof *worst; i++)
        for (unsigned k = 0; k < sizeof worst->lines / sizeof *worst->lines; k++) {
            const char *line = worst[i].lines[k];
            if (!line || strchr(line, '%'))
                continue;
            for (unsigned n = 1; n <= TIMES; n++)
                queued[n] = line;
            fill();
            give(queued);
        }
}

/* EXEC refuses most of what is too long. What it runs has as many replies as it says. */
FIXTURE_TEST(each_command_of_a_transaction_has_its_reply)
{
    fixture.core.server->config.alone_ms = 100 * ALONE_MS;
    for (unsigned i = 0; i < okv_resp_commands.count; i++)
        give_worst(worst_of(okv_resp_commands.commands[i].name), true);
}

/* Nobody copies a reply that is dropped. */
FIXTURE_TEST(no_command_without_a_reply_takes_longer_than_a_step)
{
    static const char *const lines[] = {"CLIENT REPLY OFF", "GET long", "MGET long long",
                                        "SET long x GET", NULL};

    give(lines);
}

/* ---- between two steps ---- */

static struct okv_resp_client *first(void)
{
    return TAILQ_FIRST(&fixture.resp.all);
}

/* Sends as much of a request as is read until it has come so far. Returns what it left. */
static size_t give_until(int fd, const char *line, bool (*has_come)(void))
{
    struct bytes request = {.used = 0};
    size_t sent = 0;

    add_request(&request, line);
    while (!has_come()) {
        ssize_t n = send(fd, request.bytes + sent, request.used - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        resp_fixture_poll(&fixture);
    }
    free(request.bytes);
    return request.used - sent;
}

static bool keys_go(void)
{
    return atomic_load(&fixture.core.database->store.totals.items) < KEYS + FILLERS;
}

/* A client whose DEL of all keys has begun. */
static int begin_del(void)
{
    int fd = resp_fixture_connect(&fixture);

    assert_int_equal(give_until(fd, "DEL " KEYS_ALL, keys_go), 0);
    return fd;
}

static void expect_end(uint64_t left)
{
    assert_int_equal(atomic_load(&fixture.resp.clients), 0);
    for (unsigned i = 0; i < 100; i++)
        resp_fixture_poll(&fixture);
    assert_int_equal(atomic_load(&fixture.core.database->store.totals.items), left);
    assert_true(left > FILLERS);
}

FIXTURE_TEST(a_killed_client_ends_between_two_steps)
{
    int fd = begin_del();
    uint64_t left = atomic_load(&fixture.core.database->store.totals.items);

    okv_resp_terminate(TAILQ_FIRST(&fixture.resp.all));
    resp_fixture_poll(&fixture);
    expect_end(left);
    close(fd);
}

FIXTURE_TEST(a_client_that_hangs_up_ends_between_two_steps)
{
    int fd = begin_del();

    close(fd);
    for (unsigned i = 0; i < 2; i++)
        resp_fixture_poll(&fixture);
    expect_end(atomic_load(&fixture.core.database->store.totals.items));
}

FIXTURE_TEST(a_server_that_stops_waits_for_no_command)
{
    int fd = begin_del();
    uint64_t left = atomic_load(&fixture.core.database->store.totals.items);

    okv_resp_end_all(&fixture.resp);
    expect_end(left);
    close(fd);
}

/* However many clients of one database have work, those of others wait for one turn. */
FIXTURE_TEST(a_pass_does_the_work_of_one_turn)
{
    enum { BUSY = 20, PINGS = 1000 };
    int fds[BUSY], other = resp_fixture_connect(&fixture);
    struct bytes pings = {.used = 0};
    struct okv_stats *stats = &fixture.core.server->stats;

    for (unsigned i = 0; i < PINGS; i++)
        bytes_add(&pings, "PING\r\n", 6);
    for (unsigned i = 0; i < BUSY; i++) {
        fds[i] = resp_fixture_connect(&fixture);
        assert_int_equal(send(fds[i], pings.bytes, pings.used, MSG_NOSIGNAL), pings.used);
    }
    resp_fixture_say(other, "SELECT 1\r\n");
    resp_fixture_hear(&fixture, other, "+OK\r\n");
    for (unsigned i = 0; i < BUSY / 2; i++) {
        uint64_t before = atomic_load(&stats->resp_commands);
        resp_fixture_poll(&fixture);
        assert_in_range(atomic_load(&stats->resp_commands) - before, 1,
                        2 * OKV_TURN_WORK / OKV_TURN_ITEM);
    }
    resp_fixture_say(other, "PING\r\n");
    for (unsigned i = 0; i < 3; i++)
        resp_fixture_poll(&fixture);
    char pong[8];
    assert_int_equal(recv(other, pong, sizeof pong, 0), 7);
    for (unsigned i = 0; i < BUSY; i++)
        close(fds[i]);
    close(other);
    free(pings.bytes);
}

/* Others are served between two steps. */
FIXTURE_TEST(a_neighbour_is_served_between_two_steps)
{
    int busy = begin_del(), other = resp_fixture_connect(&fixture);
    struct okv_store *store = &fixture.core.database->store;

    resp_fixture_say(other, "PING\r\n");
    for (unsigned i = 0; i < 2; i++)
        resp_fixture_poll(&fixture);
    assert_true(atomic_load(&store->totals.items) > FILLERS + KEYS / 2);
    resp_fixture_hear(&fixture, other, "+PONG\r\n");
    resp_fixture_hear(&fixture, busy, ":3000\r\n");
    resp_fixture_leave(&fixture, busy);
    resp_fixture_leave(&fixture, other);
}

static bool is_copied(void)
{
    return first()->transaction->copy.is_under_way;
}

FIXTURE_TEST(a_command_that_is_refused_is_queued_no_further)
{
    int fd = resp_fixture_connect(&fixture);

    resp_fixture_say(fd, "MULTI\r\n");
    resp_fixture_hear(&fixture, fd, "+OK\r\n");
    give_until(fd, "SET short " VALUE, is_copied);
    first()->rights[0] = OKV_RIGHT_READ;
    resp_fixture_hear(&fixture, fd,
                      "-NOPERM this user has no permissions to run the 'set' command in database "
                      "default: it lacks the right write\r\n");
    assert_false(is_copied());
    resp_fixture_leave(&fixture, fd);
}

static bool is_at_value(void)
{
    return first() && first()->parser.count == 3 && first()->parser.has_bulk;
}

/* What comes before a value that is stored as it arrives is moved in each step. */
FIXTURE_TEST(no_value_is_stored_behind_long_arguments)
{
    int fd = resp_fixture_connect(&fixture);

    give_until(fd, "SETEX short 100 " VALUE, is_at_value);
    assert_non_null(first()->upload);
    resp_fixture_leave(&fixture, fd);
    fd = resp_fixture_connect(&fixture);
    give_until(fd, "SETEX short " VALUE " " VALUE, is_at_value);
    assert_null(first()->upload);
    resp_fixture_leave(&fixture, fd);
}

/* A request that is kept until all of it is there fills pages that the kernel clears first. */
FIXTURE_TEST(new_memory_costs_its_pages)
{
    struct bytes request = {.used = 0};
    int fd = resp_fixture_connect(&fixture);
    uint64_t work = 0, filled = 0;
    size_t sent = 0;

    add_request(&request, "ECHO " VALUE);
    while (filled < 4 * OKV_RESP_MAPPED_MIN) {
        ssize_t n = send(fd, request.bytes + sent, request.used - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
        resp_fixture_poll(&fixture);
        work += fixture.resp.turn.spent;
        filled = first() ? first()->in.used : 0;
    }
    assert_true(work >= filled + filled / OKV_TURN_PAGE * OKV_TURN_FILLED_PAGE);
    free(request.bytes);
    resp_fixture_leave(&fixture, fd);
}

/* ---- what runs alone ---- */

FIXTURE_TEST(what_would_run_alone_for_too_long_changes_nothing)
{
    static const char *const lines[] = {"MSET short x other " VALUE, "GET short", NULL};
    static const char *const queue[] = {"MULTI", "SET short x", "MGET long long long",
                                        "EXEC",  "GET short",   NULL};

    fixture.core.server->config.alone_ms = 1;
    uint64_t ended = atomic_load(&fixture.core.server->exclusive->ended);
    assert_non_null(strstr(give(lines), "$10\r\nvvvvvvvvvv\r\n+OK\r\n" END));
    assert_int_equal(atomic_load(&fixture.core.server->exclusive->ended), ended); /* nor began */
    assert_non_null(strstr(give(queue), "-ERR this would run alone for longer"));
    assert_non_null(strstr(give(queue), "$10\r\nvvvvvvvvvv\r\n+OK\r\n" END));
}

/* Each value that a transaction makes counts for the commands after it. */
FIXTURE_TEST(a_transaction_pays_for_values_that_it_makes)
{
    static const char *const grows[] = {"MULTI", "SETRANGE short 600000 x", "GET short", "EXEC",
                                        NULL};
    static const char *const shrinks[] = {"MULTI", "SET long x", "GET short", "EXEC", NULL};

    fixture.core.server->config.alone_ms = 1;
    assert_non_null(strstr(give(grows), "-ERR this would run alone for longer"));
    assert_non_null(strstr(give(shrinks), "*2\r\n+OK\r\n$10\r\nvvvvvvvvvv\r\n+OK\r\n" END));
}

TEST(others_have_four_times_as_long)
{
    const uint64_t now = 1000000000, took = 3000000;
    struct okv_exclusive exclusive;
    uint64_t ticket = 0;

    okv_exclusive_init(&exclusive);
    assert_true(okv_exclusive_share(&exclusive, &ticket));
    assert_true(okv_exclusive_may_begin(&exclusive, now));
    assert_true(okv_exclusive_begin(&exclusive, now));
    okv_exclusive_end(&exclusive, now, took);
    assert_false(okv_exclusive_begin(&exclusive, now)); /* as if it had waited meanwhile */
    assert_false(okv_exclusive_may_begin(&exclusive, now));
    assert_false(
        okv_exclusive_may_begin(&exclusive, now + 4 * (took - OKV_EXCLUSIVE_BURST_NS) - 1));
    assert_true(okv_exclusive_may_begin(&exclusive, now + 4 * (took - OKV_EXCLUSIVE_BURST_NS)));
    okv_exclusive_unshare(&exclusive);
    okv_exclusive_fini(&exclusive);
}
