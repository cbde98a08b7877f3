/* A handle with two servers, each alone: when one ends, the handle goes on at the other. */
#include <signal.h>
#include <stdlib.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "shared/base/uri.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

#define PORT 7481 /* of the first server, where there are ports */
#define SHORT_MS pace_ms(100)
enum { SERVERS = 2, MANY = 16 };

static struct server_process servers[SERVERS];
static char uri[4096]; /* of both */
static okv *handle;

/* Over a network each server listens at another port of the test's address, beside its socket. */
static void start(unsigned i)
{
    const char *listen = getenv("OKV_TEST_LISTEN");
    char text[128];
    const char *const arguments[] = {"--memory", "16M", listen ? "--listen" : NULL, text, NULL};
    okv *direct;
    const struct server_process before = servers[i];

    snprintf(text, sizeof text, "%s:%u", listen ? listen : "", PORT + i);
    if (before.uri[0])
        server_start_after(&servers[i], &before, arguments);
    else
        server_start_local(&servers[i], arguments);
    if (before.uri[0]) /* the socket is in the same one */
        memcpy(servers[i].directory, before.directory, sizeof before.directory);
    direct = server_connect(&servers[i], NULL);
    assert_int_equal(okv_put(direct, "name", 4, &"ab"[i], 1, NULL), OKV_OK);
    okv_close(&direct);
}

static void write_uri(void)
{
    const char *text = getenv("OKV_TEST_URI");
    struct okv_uri one;

    if (!text) {
        snprintf(uri, sizeof uri, "okv://%s,%s/both", servers[0].uri + strlen("local://"),
                 servers[1].uri + strlen("local://"));
        return;
    }
    const char *options = strchr(text, '?');
    assert_int_equal(okv_uri_parse(text, &one, NULL), 0);
    snprintf(uri, sizeof uri, "okv://%s:%u,%s:%u/both?transport=%.*s%s%s", one.host, PORT, one.host,
             PORT + 1, (int)strcspn(text, ":"), text, options ? "&" : "",
             options ? options + 1 : "");
}

static int setup(void **state)
{
    (void)state;
    handle = NULL;
    memset(servers, 0, sizeof servers);
    for (unsigned i = 0; i < SERVERS; i++)
        start(i);
    write_uri();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    okv_close(&handle);
    for (unsigned i = 0; i < SERVERS; i++)
        if (servers[i].pid)
            server_stop(&servers[i]);
    return 0;
}

#define SERVERS_TEST(name) TEST_WITH(name, setup, teardown)

static void open_both(void)
{
    char why[320];

    if (patient_open(uri, NULL, &handle, why, sizeof why))
        fail_msg("%s: %s", uri, why);
}

/* The number of the server that answers. */
static unsigned who(void)
{
    char name = 0;
    size_t length;
    int rc = okv_get(handle, "name", 4, &name, 1, &length, NULL);

    if (rc)
        fail_msg("%s: %s", okv_errname(rc), okv_why(handle));
    assert_in_range(name, 'a', 'b');
    return (unsigned)name - 'a';
}

SERVERS_TEST(it_goes_on_at_the_other)
{
    struct okv_info info;

    open_both();
    unsigned first = who();
    server_signal(&servers[first], SIGKILL);
    assert_int_equal(who(), 1 - first);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    assert_string_equal(okv_why(handle), "");
    okv_info(handle, &info);
    assert_memory_equal(info.uri, server_scheme(), strlen(server_scheme()));
    start(first);
    assert_int_equal(server_stop(&servers[1 - first]), 0);
    servers[1 - first].pid = 0;
    assert_int_equal(who(), first);
}

static struct okv_command command_of(unsigned i, char value[8])
{
    if (i % 2)
        return (struct okv_command){
            .kind = OKV_GET, .key = "name", .key_length = 4, .buffer = value, .buffer_size = 8};
    return (struct okv_command){
        .kind = OKV_PUT, .key = "key", .key_length = 3, .value = "value", .value_length = 5};
}

static void collect(unsigned count)
{
    struct okv_result results[MANY];
    uint64_t until = pace_guard_end();
    unsigned ended = 0;

    while (okv_pending(handle) > 0 && okv_clock_ns() < until) {
        int n = okv_poll(handle, results, MANY);
        assert_true(n >= 0);
        for (int i = 0; i < n; i++, ended++)
            assert_true(results[i].status == OKV_OK || results[i].status == OKV_EUNKNOWN);
    }
    assert_int_equal(ended, count);
}

/* Gets on the other server, and writes that were sent with OKV_EUNKNOWN, as that server is no copy
 * of the first. */
SERVERS_TEST(all_that_is_under_way_ends_once)
{
    struct okv_command commands[MANY];
    struct okv_result results[MANY];
    char values[MANY][8];

    open_both();
    for (unsigned i = 0; i < MANY; i++)
        commands[i] = command_of(i, values[i]);
    for (unsigned round = 0; round < 4; round++) {
        unsigned first = who();
        if (round % 2)
            server_signal(&servers[first], SIGSTOP); /* nothing is answered */
        assert_int_equal(okv_submit(handle, commands, MANY, NULL), OKV_OK);
        server_signal(&servers[first], SIGKILL);
        collect(MANY);
        assert_int_equal(who(), 1 - first);
        start(first);
        server_signal(&servers[1 - first], SIGKILL);
        assert_int_equal(okv_call_many(handle, commands, results, MANY), OKV_OK);
        for (unsigned i = 1; i < MANY; i += 2)
            assert_int_equal(results[i].status, OKV_OK);
        assert_int_equal(who(), first);
        start(1 - first);
    }
}

SERVERS_TEST(deadlines_hold_while_none_is_there)
{
    const struct okv_options options = {.connect_timeout_ms = SHORT_MS, .timeout_ms = SHORT_MS};
    char why[320] = "", name;
    size_t length;
    okv *other;

    open_both();
    okv_close(&handle);
    assert_int_equal(
        patient_open(uri, &(struct okv_options){.timeout_ms = SHORT_MS}, &handle, NULL, 0), OKV_OK);
    for (unsigned i = 0; i < SERVERS; i++)
        server_signal(&servers[i], SIGKILL);
    assert_int_equal(okv_get(handle, "name", 4, &name, 1, &length, NULL), OKV_ETIMEDOUT);
    assert_int_equal(okv_open(uri, &options, &other, why, sizeof why), OKV_EREFUSED);
    assert_non_null(strstr(why, "no primary of both answered"));
    start(1);
    int rc = OKV_ETIMEDOUT;
    for (uint64_t until = pace_guard_end(); rc == OKV_ETIMEDOUT && okv_clock_ns() < until;)
        rc = okv_get(handle, "name", 4, &name, 1, &length, NULL);
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(name, 'b');
}

/* It takes connections, and says nothing. */
SERVERS_TEST(a_server_that_stands_still_is_passed_over)
{
    server_signal(&servers[0], SIGSTOP);
    for (unsigned i = 0; i < 6; i++) {
        open_both();
        assert_int_equal(who(), 1);
        okv_close(&handle);
    }
    server_signal(&servers[0], SIGCONT);
}
