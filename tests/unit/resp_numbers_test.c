/*
 * Numbers of replies as clients keep them: JavaScript has doubles, PHP and Go have signed integers.
 * All are below 2^53, so that none of these changes them.
 */
#include <ctype.h>
#include <errno.h>

#include "tests/support/test.h"

#include "tests/support/resp_fixture.h"

#define KEYS_MAX 20000u
#define EXACT_MAX (UINT64_C(1) << 53)

static const struct okv_store_params params = {
    .length = 16u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = 100000};

static struct resp_fixture fixture;
static struct okv_resp_client *client;

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    client = resp_fixture_client(&fixture);
    client->id = 1;
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_end(client);
    resp_fixture_close(&fixture);
    return 0;
}

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

/* ---- SCAN ---- */

#define CURSOR_TEXT 32

/* What a client sends for the cursor that it was sent. */
typedef void keep_function(char cursor[CURSOR_TEXT]);

static void as_text(char cursor[CURSOR_TEXT])
{
    (void)cursor;
}

/* node-redis 4 */
static void as_double(char cursor[CURSOR_TEXT])
{
    double number = strtod(cursor, NULL);

    snprintf(cursor, CURSOR_TEXT, "%.0f", number);
}

/* phpredis, and redigo, which fails where the number does not fit. */
static void as_signed(char cursor[CURSOR_TEXT])
{
    errno = 0;
    long long number = strtoll(cursor, NULL, 10);
    assert_int_equal(errno, 0);
    snprintf(cursor, CURSOR_TEXT, "%lld", number);
}

/* Reads the keys of a reply, which are numbers. Returns how many there are. */
static unsigned read_keys(const char *reply, char cursor[CURSOR_TEXT], uint8_t met[KEYS_MAX])
{
    unsigned count, key;
    int used = 0;

    assert_int_equal(sscanf(reply, "*2\r\n$%*u\r\n%31[0-9]\r\n*%u%n", cursor, &count, &used), 2);
    for (unsigned i = 0; i < count; i++) {
        reply += used;
        assert_int_equal(sscanf(reply, "\r\n$%*u\r\n%u%n", &key, &used), 1);
        assert_true(key < KEYS_MAX);
        met[key]++;
    }
    return count;
}

/* A loop as clients have it meets each of the keys once, and ends. */
static void expect_scan(keep_function *keep, unsigned keys, unsigned count)
{
    static uint8_t met[KEYS_MAX];
    char cursor[CURSOR_TEXT] = "0", line[64];
    unsigned calls = 0, listed = 0;

    memset(met, 0, sizeof met);
    do {
        snprintf(line, sizeof line, "scan %s count %u", cursor, count);
        listed += read_keys(resp_fixture_call(client, line), cursor, met);
        assert_true(strtoull(cursor, NULL, 10) < EXACT_MAX);
        keep(cursor);
        assert_true(++calls <= 2 * KEYS_MAX);
    } while (strcmp(cursor, "0") != 0);
    assert_int_equal(listed, keys);
    for (unsigned i = 0; i < keys; i++)
        assert_int_equal(met[i], 1);
}

FIXTURE_TEST(loops_of_scan_end_however_clients_keep_cursors)
{
    static keep_function *const keeps[] = {as_text, as_double, as_signed};
    static const unsigned sizes[] = {0, 1, 2, 30, 500, 1000, KEYS_MAX}, counts[] = {1, 10, 1000};
    unsigned keys = 0;
    char key[24];

    for (size_t size = 0; size < sizeof sizes / sizeof *sizes; size++) {
        for (; keys < sizes[size]; keys++) {
            snprintf(key, sizeof key, "%u", keys);
            server_core_put(&fixture.core, key, 'v', 1, 0);
        }
        okv_store_work_take(&fixture.core.works[0]);
        for (unsigned i = 0; i < 3; i++)
            for (unsigned k = 0; k < 3; k++)
                expect_scan(keeps[i], keys, counts[k]);
    }
}

/* ---- all others ---- */

/* Numbers that stand alone, not in words. */
static void expect_exact(const char *text)
{
    for (const char *at = text; *at; at++) {
        char *behind = NULL;
        if (!isdigit((unsigned char)*at) || (at > text && isalnum((unsigned char)at[-1])))
            continue;
        errno = 0;
        unsigned long long number = strtoull(at, &behind, 10);
        if ((errno || number > EXACT_MAX) && !isalnum((unsigned char)*behind))
            fail_msg("%.40s", at);
        at = behind - 1;
    }
}

/* 32 of its digits may all be decimal. */
static void forget_run_id(char *text)
{
    char *at = strstr(text, "run_id:");

    for (; at && *at && *at != '\r'; at++)
        *at = ' ';
}

/* An item that expires as late as one can, and clients with long names. */
FIXTURE_TEST(numbers_of_replies_are_exact_as_doubles)
{
    static const char *const lines[] = {
        "pexpireat k 9223372036854775807",
        "pexpiretime k",
        "expiretime k",
        "pttl k",
        "ttl k",
        "strlen k",
        "dbsize",
        "memory usage k",
        "object refcount k",
        "client id",
        "client info",
        "client list",
        "hello 3",
        "hello 2",
        "time",
        "role",
        "config get *",
        "slowlog len",
        "lastsave",
        "wait 0 0",
        "bitcount k",
        "bitpos k 0",
        "command count",
        "command",
        "info everything",
    };

    assert_string_equal(resp_fixture_call(client, "set k v"), "+OK\r\n");
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        char *reply = strdup(resp_fixture_call(client, lines[i]));
        assert_non_null(reply);
        assert_true(reply[0] != '-' && strlen(reply) > 2);
        forget_run_id(reply);
        expect_exact(reply);
        free(reply);
    }
}

int main(void)
{
    return test_run();
}
