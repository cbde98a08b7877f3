/* A cluster that wants two copies of what is written: without the second one clients are refused
 * writes and served gets, until it is back. Left out without etcd. */
#include <signal.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/cluster_process.h"
#include "tests/support/pace.h"
#include "tests/support/resp_peer.h"

#define LEASE_MS 400
#define KEY "key", 3
enum { SERVERS = 2 };

static struct cluster_process cluster;
static char resp[SERVERS][96]; /* URIs for clients of Redis */
static struct resp_peer peer = {.fd = -1};
static okv *handle;

static int end(void **state)
{
    (void)state;
    resp_peer_close(&peer);
    okv_close(&handle);
    cluster_process_stop(&cluster);
    return 0;
}

TEST_PROGRAM(etcd_process_require, NULL)

static void start(void)
{
    static const char *const arguments[SERVERS][3] = {{"--listen", resp[0], NULL},
                                                      {"--listen", resp[1], NULL}};

    cluster.options.copies_min = SERVERS;
    cluster_process_prepare(&cluster, SERVERS, "16M", LEASE_MS);
    for (unsigned i = 0; i < SERVERS; i++) {
        snprintf(resp[i], sizeof resp[i], "resp://%s/r%u", cluster.directory, i);
        cluster.arguments[i] = arguments[i];
    }
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
}

static int put(const char *value)
{
    return okv_put(handle, KEY, value, strlen(value), NULL);
}

/* Puts until one ends with `wanted`, others with `before`. */
static void put_until(const char *value, int before, int wanted)
{
    uint64_t end_ns = pace_guard_end();
    int rc;

    while ((rc = put(value)) != wanted) {
        assert_int_equal(rc, before);
        if (okv_clock_ns() > end_ns)
            fail_msg("puts do not end with %s", okv_errname(wanted));
    }
}

static void expect_item(const char *expected)
{
    char value[8] = "";
    size_t length;

    assert_int_equal(okv_get(handle, KEY, value, sizeof value, &length, NULL), OKV_OK);
    assert_string_equal(value, expected);
}

static void expect_reply(const char *command, const char *value, char type, const char *text)
{
    const struct resp_word words[] = {RESP_TEXT(command), RESP_TEXT("key"),
                                      RESP_TEXT(value ? value : "")};
    struct resp_answer answer;

    assert_true(resp_peer_call(&peer, words, value ? 3 : 2, &answer));
    assert_int_equal(answer.type, type);
    assert_true(answer.length >= strlen(text));
    assert_memory_equal(answer.bytes, text, strlen(text));
}

TEST_WITH(writes_are_refused_until_there_are_enough, NULL, end)
{
    start();
    unsigned primary = cluster_process_leader(&cluster);
    assert_true(resp_peer_open(&peer, resp[primary] + strlen("resp://")));
    assert_int_equal(put("one"), OKV_OK);
    cluster_process_signal(&cluster, 1 - primary, SIGKILL);
    put_until("two", OKV_OK, OKV_EFEWCOPIES); /* the last one before may have waited for the copy */
    assert_int_equal(put("three"), OKV_EFEWCOPIES);
    assert_int_equal(okv_delete(handle, KEY), OKV_EFEWCOPIES);
    expect_reply("SET", "three", '-', "NOREPLICAS");
    size_t length;
    char value[8] = "";
    assert_int_equal(okv_get(handle, KEY, value, sizeof value, &length, NULL), OKV_OK);
    assert_true(strcmp(value, "one") == 0 || strcmp(value, "two") == 0);
    expect_reply("GET", NULL, '$', value);
    cluster_process_restart(&cluster, 1 - primary);
    cluster_process_await(&cluster, 1 - primary, true);
    put_until("four", OKV_EFEWCOPIES, OKV_OK);
    expect_item("four");
    expect_reply("SET", "five", '+', "OK");
    expect_item("five");
}
