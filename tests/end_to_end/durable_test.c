/*
 * A durable server that is killed under load and started again: what was answered is there, and so
 * is what a one-sided reader saw. OKV_LONG=1 kills it 200 times.
 *
 * A kill alone does not show that a value waits for the disk, since the kernel keeps what was
 * written: wal_crash_test and power_cut_test do.
 */
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/durable_load.h"
#include "tests/support/server_process.h"

enum { ROUNDS = 6, ROUNDS_LONG = 200 };

struct fixture {
    char data[64];
    struct server_process server;
};

static void start(struct fixture *fixture)
{
    const char *const arguments[] = {"--memory", "16M", "--data", fixture->data, NULL};

    server_start(&fixture->server, arguments);
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    snprintf(fixture->data, sizeof fixture->data, "/tmp/okv-durable-XXXXXX");
    assert_non_null(mkdtemp(fixture->data));
    start(fixture);
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;
    char command[128];

    server_stop(&fixture->server);
    snprintf(command, sizeof command, "rm -rf %s", fixture->data);
    assert_int_equal(system(command), 0);
    free(fixture);
    return 0;
}

static void restart(struct fixture *fixture)
{
    server_signal(&fixture->server, SIGKILL);
    server_wait(&fixture->server);
    start(fixture);
}

#define DURABLE_TEST(name) TEST_WITH(name, set_up, tear_down)

DURABLE_TEST(what_was_answered_or_seen_is_there)
{
    struct fixture *fixture = *state;
    const char *is_long = getenv("OKV_LONG");
    unsigned rounds = is_long && strcmp(is_long, "1") == 0 ? ROUNDS_LONG : ROUNDS;
    struct durable_load *load = calloc(1, sizeof *load);

    for (unsigned round = 0; round < rounds; round++) {
        durable_load_run(load, &fixture->server, 10 + round * 37 % 200, round % 2);
        start(fixture);
        durable_load_check(load, &fixture->server);
    }
    free(load);
}

/* ---- each kind of change ---- */

static void put_text(okv *handle, const char *key, const char *value)
{
    assert_int_equal(okv_put(handle, key, strlen(key), value, strlen(value), NULL), OKV_OK);
}

static void assert_text(okv *handle, const char *key, const char *value)
{
    char buffer[64];
    size_t size;

    assert_int_equal(okv_get(handle, key, strlen(key), buffer, sizeof buffer, &size, NULL), OKV_OK);
    assert_int_equal(size, strlen(value));
    assert_memory_equal(buffer, value, size);
}

static void assert_gone(okv *handle, const char *key)
{
    assert_int_equal(okv_head(handle, key, strlen(key), NULL), OKV_ENOTFOUND);
}

static void assert_expires(okv *handle, const char *key)
{
    struct okv_item_info info;

    assert_int_equal(okv_head(handle, key, strlen(key), &info), OKV_OK);
    assert_true(info.ttl_ms > 0 && info.ttl_ms != OKV_TTL_NONE);
}

DURABLE_TEST(every_kind_of_change_is_there)
{
    enum { LARGE = 3 << 20, READ = 10000 };
    struct fixture *fixture = *state;
    okv *handle = server_connect(&fixture->server, NULL);
    uint8_t *large = malloc(LARGE + 1), *back = malloc(LARGE + 1);
    size_t size;

    for (size_t i = 0; i < LARGE + 1; i++)
        large[i] = (uint8_t)(i * 7 >> 3);
    put_text(handle, "put", "first");
    put_text(handle, "put", "second");
    put_text(handle, "deleted", "x");
    assert_int_equal(okv_delete(handle, "deleted", 7), OKV_OK);
    put_text(handle, "appended", "abc");
    assert_int_equal(okv_append(handle, "appended", 8, "def", 3, NULL, NULL), OKV_OK);
    put_text(handle, "short-lived", "x");
    assert_int_equal(okv_touch(handle, "short-lived", 11, 1, NULL), OKV_OK);
    put_text(handle, "long-lived", "x");
    assert_int_equal(okv_touch(handle, "long-lived", 10, 3600000, NULL), OKV_OK);
    assert_int_equal(okv_incr_ttl(handle, "counted", 7, 5, 3600000, NULL, NULL), OKV_OK);
    assert_int_equal(okv_incr_ttl(handle, "short-counted", 13, 5, 1, NULL, NULL), OKV_OK);
    /* Of a length that a held reply does not keep itself. */
    assert_int_equal(okv_put(handle, "read", 4, large, READ, NULL), OKV_OK);
    assert_int_equal(okv_get_touch(handle, "read", 4, 3600000, back, READ, &size, NULL), OKV_OK);
    assert_int_equal(size, READ);
    assert_memory_equal(back, large, READ);
    assert_int_equal(okv_put(handle, "large", 5, large, LARGE, NULL), OKV_OK);
    assert_int_equal(okv_append(handle, "large", 5, large + LARGE, 1, NULL, NULL), OKV_OK);
    okv_close(&handle);
    restart(fixture);
    handle = server_connect(&fixture->server, NULL);
    assert_text(handle, "put", "second");
    assert_gone(handle, "deleted");
    assert_text(handle, "appended", "abcdef");
    assert_gone(handle, "short-lived");
    assert_text(handle, "long-lived", "x");
    assert_expires(handle, "long-lived");
    assert_text(handle, "counted", "5");
    assert_expires(handle, "counted");
    assert_gone(handle, "short-counted");
    assert_expires(handle, "read");
    assert_int_equal(okv_get(handle, "large", 5, back, LARGE + 1, &size, NULL), OKV_OK);
    assert_int_equal(size, LARGE + 1);
    assert_memory_equal(back, large, size);
    assert_int_equal(okv_flush(handle), OKV_OK);
    put_text(handle, "after", "x");
    okv_close(&handle);
    restart(fixture);
    handle = server_connect(&fixture->server, NULL);
    assert_gone(handle, "put");
    assert_gone(handle, "large");
    assert_text(handle, "after", "x");
    okv_close(&handle);
    free(large);
    free(back);
}

/* Versions of an item that is gone are not used again. */
DURABLE_TEST(versions_go_on)
{
    struct fixture *fixture = *state;
    okv *handle = server_connect(&fixture->server, NULL);
    uint64_t before = 0, after = 0;

    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(okv_put(handle, "k", 1, "v", 1, &before), OKV_OK);
    assert_int_equal(okv_delete(handle, "k", 1), OKV_OK);
    okv_close(&handle);
    restart(fixture);
    handle = server_connect(&fixture->server, NULL);
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, &after), OKV_OK);
    assert_true(after > before);
    okv_close(&handle);
}
