/*
 * KEYS, SCAN and RANDOMKEY walk over all keys, in steps that are no longer than a turn. Others run
 * commands in between, and keys that stay are listed once.
 */
#include <inttypes.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/core/turn.h"
#include "server/resp/net/transfer.h"
#include "server/resp/resp.h"
#include "server/resp/run/listing.h"
#include "server/resp/run/shared.h"
#include "tests/support/resp_talk.h"

#define MANY 20000u
#define LONG_KEYS 900u
#define GETS 2000u        /* in a transaction */
#define VALUE (40u << 10) /* bytes of a value that is copied to the replies */
#define UNREAD 16u        /* of them, which the socket does not take at once */

static const struct okv_store_params params = {
    .length = 48u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 1u << 20};

static struct okv_stats *stats(void)
{
    return &fixture.core.server->stats;
}

static struct okv_resp_client *client_of(unsigned number)
{
    struct okv_resp_client *client = TAILQ_FIRST(&fixture.worker.resp->all);

    while (number-- > 0)
        client = TAILQ_NEXT(client, in_all);
    return client;
}

/* What a test put is not the work of a client. */
static void forget_work(void)
{
    okv_store_work_take(&fixture.core.works[0]);
}

static void put_keys(const char *name, unsigned from, unsigned to)
{
    char key[24];

    for (unsigned i = from; i < to; i++) {
        snprintf(key, sizeof key, "%s%u", name, i);
        server_core_put(&fixture.core, key, 'v', 1, 0);
    }
    forget_work();
}

/* Keys of the most bytes, which differ at their ends. */
static void put_long_keys(void)
{
    char key[OKV_KEY_MAX + 1];

    memset(key, 'a', sizeof key);
    for (unsigned i = 0; i < LONG_KEYS; i++) {
        snprintf(key + OKV_KEY_MAX - 4, 5, "%04u", i);
        server_core_put(&fixture.core, key, 'v', 1, 0);
    }
    forget_work();
}

static bool has_come(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) == 1;
}

/* Passes of the worker until something comes. */
static unsigned passes_until(int fd)
{
    unsigned passes = 0;

    for (; !has_come(fd); passes++) {
        assert_true(passes < 20000);
        pass();
    }
    return passes;
}

static void hear_line(int fd, char *line, size_t size)
{
    size_t used = 0;

    do {
        assert_true(used + 1 < size);
        hear_bytes(fd, (uint8_t *)line + used, 1);
    } while (line[used++] != '\n');
    line[used] = '\0';
}

static unsigned hear_number(int fd, char type)
{
    char line[32];

    hear_line(fd, line, sizeof line);
    assert_int_equal(line[0], type);
    return (unsigned)strtoul(line + 1, NULL, 10);
}

/* Reads an array of keys, and counts those that have this name and a number below MANY. Returns how
 * many there are in all. */
static unsigned hear_keys(int fd, const char *name, uint8_t met[MANY])
{
    unsigned count = hear_number(fd, '*');
    char key[OKV_KEY_MAX + 3];

    for (unsigned i = 0; i < count; i++) {
        unsigned length = hear_number(fd, '$');
        hear_bytes(fd, (uint8_t *)key, length + 2);
        key[length] = '\0';
        if (strncmp(key, name, strlen(name)) == 0)
            met[strtoul(key + strlen(name), NULL, 10) % MANY]++;
    }
    return count;
}

/* Returns the next cursor. */
static uint64_t hear_cursor(int fd)
{
    char line[32];

    assert_int_equal(hear_number(fd, '*'), 2);
    hear_number(fd, '$');
    hear_line(fd, line, sizeof line);
    return strtoull(line, NULL, 10);
}

static void expect_each_once(const uint8_t met[MANY])
{
    for (unsigned i = 0; i < MANY; i++)
        assert_int_equal(met[i], 1);
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

/* ---- KEYS ---- */

/* Another client has commands of all kinds run between any two of its steps, and the table grows
 * and shrinks. */
FIXTURE_TEST(keys_holds_up_nobody_but_its_client)
{
    static uint8_t met[MANY];
    int fd = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    unsigned rounds = 0;
    char text[64];

    memset(met, 0, sizeof met);
    put_keys("stay", 0, MANY);
    say(fd, "keys *\r\nping\r\n");
    pass();
    for (; !has_come(fd); rounds++) {
        put_keys("come", 50 * rounds, 50 * (rounds + 1));
        snprintf(text, sizeof text, "mset a %u b %u\r\ndel come%u\r\n", rounds, rounds, rounds);
        say(other, text);
        hear(other, "+OK\r\n:1\r\n");
    }
    assert_in_range(rounds, 10, 10000);
    assert_in_range(hear_keys(fd, "stay", met), MANY, MANY + 50 * rounds + 2);
    expect_each_once(met);
    hear(fd, "+PONG\r\n");
    assert_in_range(atomic_load(&stats()->longest_step), OKV_TURN_WORK / 2, OKV_TURN_STEP_MAX);
    assert_int_equal(atomic_load(&stats()->resp_commands), 2 + 2 * rounds);
    leave(fd);
    leave(other);
}

/* Byte by byte one of them takes a quarter of a million comparisons for a key. */
FIXTURE_TEST(no_pattern_makes_a_long_step)
{
    static const char *const ends[] = {"b", "*b", "*b*"};
    char line[2100];
    int fd = resp_fixture_connect(&fixture);

    put_long_keys();
    for (unsigned i = 0; i < sizeof ends / sizeof *ends; i++)
        for (unsigned stars = 0; stars < 2; stars++) {
            size_t used = (size_t)snprintf(line, sizeof line, "keys *");
            for (unsigned k = 0; k < 500; k++)
                used += (size_t)snprintf(line + used, sizeof line - used, stars ? "a*" : "a");
            snprintf(line + used, sizeof line - used, "%s\r\n", ends[i]);
            say(fd, line);
            assert_true(passes_until(fd) > 5);
            hear(fd, "*0\r\n");
        }
    assert_in_range(atomic_load(&stats()->longest_step), OKV_TURN_WORK / 2, OKV_TURN_STEP_MAX);
    leave(fd);
}

/* Replies that do not leave, and then a long listing. */
static int connect_with_listing(void)
{
    int fd = resp_fixture_connect(&fixture);

    put_keys("key", 0, MANY);
    server_core_put(&fixture.core, "v", 'v', VALUE, 0);
    for (unsigned i = 0; i < UNREAD; i++)
        say(fd, "get v\r\n");
    say(fd, "keys key*\r\nping\r\nkeys none*\r\n");
    for (unsigned i = 0; i < 1000; i++)
        pass();
    const struct okv_resp_client *client = client_of(0);
    assert_true(okv_resp_has_replies(client) && !client->is_ready);
    assert_true(client->listing && client->listing->is_complete);
    assert_true(client->memory > MANY * (sizeof "$8\r\nkey10000\r" - 1));
    assert_true(atomic_load(&fixture.core.server->resp_shared->memory) >= (int64_t)client->memory);
    return fd;
}

/* It is not copied behind them. */
FIXTURE_TEST(a_long_listing_follows_earlier_replies)
{
    static uint8_t met[MANY], value[VALUE + 2];
    int fd = connect_with_listing();

    memset(met, 0, sizeof met);
    for (unsigned i = 0; i < UNREAD; i++) {
        assert_int_equal(hear_number(fd, '$'), VALUE);
        hear_bytes(fd, value, VALUE + 2);
    }
    assert_int_equal(hear_keys(fd, "key", met), MANY);
    expect_each_once(met);
    hear(fd, "+PONG\r\n*0\r\n");
    assert_false(okv_resp_has_replies(client_of(0)));
    assert_null(client_of(0)->listing);
    leave(fd);
}

/* It is complete, and waits for others to be read. */
FIXTURE_TEST(a_listing_needs_the_right_until_it_is_sent)
{
    static uint8_t value[VALUE + 2];
    int fd = connect_with_listing();

    client_of(0)->rights[0] = 0;
    for (unsigned i = 0; i < UNREAD; i++) {
        assert_int_equal(hear_number(fd, '$'), VALUE);
        hear_bytes(fd, value, VALUE + 2);
    }
    hear(fd, "-NOPERM");
    assert_null(client_of(0)->listing);
    leave(fd);
}

/* As any other reply. */
FIXTURE_TEST(a_listing_that_nobody_reads_ends)
{
    struct okv_resp *resp = fixture.worker.resp;
    int fd = connect_with_listing();

    client_of(0)->progress_ns = 1;
    okv_resp_scan(resp, 2 + OKV_RESP_STALLED_MS * UINT64_C(1000000), true);
    assert_int_equal(atomic_load(&resp->clients), 0);
    close(fd);
}

FIXTURE_TEST(a_client_that_hangs_up_ends_its_walk)
{
    struct okv_resp *resp = fixture.worker.resp;
    int fd = resp_fixture_connect(&fixture);

    put_keys("key", 0, MANY);
    say(fd, "keys *\r\n");
    pass();
    assert_non_null(client_of(0)->listing);
    leave(fd);
    assert_int_equal(atomic_load(&resp->clients), 0);
    fd = resp_fixture_connect(&fixture);
    say(fd, "keys *\r\n");
    pass();
    okv_resp_terminate(client_of(0));
    pass();
    assert_int_equal(atomic_load(&resp->clients), 0);
    close(fd);
}

FIXTURE_TEST(a_listing_that_nobody_wants_is_dropped)
{
    int fd = resp_fixture_connect(&fixture);

    put_keys("key", 0, MANY);
    say(fd, "client reply skip\r\nkeys *\r\nping\r\n");
    hear(fd, "+PONG\r\n");
    assert_null(client_of(0)->listing);
    leave(fd);
}

/* Nobody else runs a command while EXEC runs. What comes after KEYS has its work, too. */
FIXTURE_TEST(keys_within_exec_has_an_end)
{
    static uint8_t met[MANY];
    char line[1100], error[100];
    int fd = resp_fixture_connect(&fixture);
    int length = snprintf(line, sizeof line, "multi\r\nset k v\r\nkeys k*\r\nkeys *");

    put_long_keys();
    memset(line + length, 'a', 900);
    snprintf(line + length + 900, sizeof line - (size_t)length - 900,
             "b*\r\nscan 0 count 100000\r\n");
    say(fd, line);
    hear(fd, "+OK\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n+QUEUED\r\n");
    for (unsigned i = 0; i < GETS; i++) {
        say(fd, "get k\r\n");
        hear(fd, "+QUEUED\r\n");
    }
    say(fd, "exec\r\n");
    assert_int_equal(hear_number(fd, '*'), 4 + GETS);
    hear(fd, "+OK\r\n*1\r\n$1\r\nk\r\n");
    hear_line(fd, error, sizeof error);
    assert_non_null(strstr(error, "-ERR this would run alone"));
    assert_true(hear_cursor(fd) > 0); /* it ends early */
    assert_in_range(hear_keys(fd, "none", met), 1, LONG_KEYS);
    for (unsigned i = 0; i < GETS; i++)
        hear(fd, "$1\r\nv\r\n");
    assert_in_range(atomic_load(&stats()->longest_alone), 5000 * OKV_TURN_ITEM,
                    10000 * OKV_TURN_ITEM);
    leave(fd);
}

/* ---- SCAN ---- */

/* Whatever its COUNT. Cursors are exact as doubles, and as signed numbers. */
FIXTURE_TEST(scan_ends_with_its_turn)
{
    static uint8_t met[MANY];
    int fd = resp_fixture_connect(&fixture);
    uint64_t cursor = 0, last;
    unsigned count, calls = 0;
    char line[64];

    memset(met, 0, sizeof met);
    put_keys("stay", 0, MANY);
    do {
        last = cursor;
        snprintf(line, sizeof line, "scan %" PRIu64 " count 9223372036854775807\r\n", cursor);
        say(fd, line);
        cursor = hear_cursor(fd);
        assert_true(cursor < UINT64_C(1) << 53 && (cursor == 0 || cursor > last));
        count = hear_keys(fd, "stay", met);
        assert_true(count < MANY / 5 && (count > 0 || cursor == 0));
        put_keys("come", 500 * calls, 500 * (calls + 1)); /* the table grows */
        calls++;
    } while (cursor);
    assert_in_range(calls, 10, 1000);
    expect_each_once(met);
    assert_in_range(atomic_load(&stats()->longest_step), OKV_TURN_WORK / 2, OKV_TURN_STEP_MAX);
    leave(fd);
}

/* Those that have no work left in a turn go on in the next one. */
FIXTURE_TEST(scans_of_a_pipeline_share_turns)
{
    static uint8_t met[MANY];
    int fd = resp_fixture_connect(&fixture);
    uint64_t first;

    put_keys("key", 0, MANY);
    put_long_keys();
    for (unsigned i = 0; i < 100; i++)
        say(fd, "scan 0 count 1000\r\n");
    first = hear_cursor(fd);
    hear_keys(fd, "key", met);
    for (unsigned i = 1; i < 100; i++) {
        assert_true(hear_cursor(fd) > 0);
        assert_true(hear_keys(fd, "key", met) > 0);
    }
    assert_true(first > 0);
    assert_in_range(atomic_load(&stats()->longest_step), OKV_TURN_WORK / 2, OKV_TURN_STEP_MAX);
    leave(fd);
}

FIXTURE_TEST(a_cursor_is_a_position)
{
    static const char *const wrong[] = {
        "281474976710656", "9007199254740992", "18446744073709551615", "-1", "x", "''"};
    int fd = resp_fixture_connect(&fixture);
    char line[64];

    for (unsigned i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        snprintf(line, sizeof line, "scan %s\r\n", wrong[i]);
        say(fd, line);
        hear(fd, "-ERR invalid cursor\r\n");
    }
    say(fd, "scan 281474976710655\r\n");
    hear(fd, "*2\r\n$1\r\n0\r\n*0\r\n");
    leave(fd);
}

/* ---- RANDOMKEY ---- */

/* It goes around the whole table. */
FIXTURE_TEST(randomkey_passes_expired_keys_in_steps)
{
    int fd = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    char key[24];

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key%u", i);
        server_core_put(&fixture.core, key, 'v', 1, 10);
    }
    forget_work();
    resp_fixture_pass(&fixture, 20);
    say(fd, "randomkey\r\n");
    pass();
    say(other, "ping\r\n");
    hear(other, "+PONG\r\n");
    assert_false(has_come(fd));
    hear(fd, "$-1\r\n");
    server_core_put(&fixture.core, "k", 'v', 1, 0);
    say(fd, "randomkey\r\nrandomkey\r\n");
    hear(fd, "$1\r\nk\r\n$1\r\nk\r\n");
    assert_in_range(atomic_load(&stats()->longest_step), OKV_TURN_WORK / 2, OKV_TURN_STEP_MAX);
    leave(fd);
    leave(other);
}

int main(void)
{
    return test_run();
}
