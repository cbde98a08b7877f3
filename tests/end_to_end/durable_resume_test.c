/*
 * Clients that go on over a kill of a durable server: every write gets its answer, and is applied
 * once. OKV_LONG=1 kills the server 200 times.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "tests/support/test.h"

#include <okv_admin.h>

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/server_process.h"

enum { ROUNDS = 8, ROUNDS_LONG = 200, WRITERS = 4, WRITES_OF_A_HANDLE = 300, UNDER_WAY = 4 };

struct writer {
    char uri[sizeof((struct server_process *)0)->uri];
    unsigned index;
    okv *handle;
    uint64_t version; /* of its own item */
    uint64_t incrs, appends;
    int failed; /* what a write got that is no success */
    char why[256];
    pthread_t thread;
};

static struct {
    atomic_bool has_to_stop;
} load;

static const struct okv_options patient = {.timeout_ms = 10 * PACE_GUARD_MS,
                                           .connect_timeout_ms = PACE_GUARD_MS};

static size_t name_item(const struct writer *writer, const char *kind, char name[32])
{
    return (size_t)snprintf(name, 32, "%s %u", kind, writer->index);
}

static bool note(struct writer *writer, const char *what, int rc)
{
    if (rc == OKV_OK)
        return true;
    writer->failed = rc;
    snprintf(writer->why, sizeof writer->why, "%s: %s: %s", what, okv_errname(rc),
             okv_why(writer->handle));
    return false;
}

/* Several writes at a time, so that each request slot has one when the server dies. */
static bool put_several(struct writer *writer)
{
    static const char *const keys[UNDER_WAY] = {"a", "b", "c", "d"};
    struct okv_result results[UNDER_WAY];

    for (uint64_t i = 0; i < UNDER_WAY; i++)
        if (!note(writer, "submit", okv_submit_put(writer->handle, keys[i], 1, "value", 5, i)))
            return false;
    while (okv_pending(writer->handle) > 0) {
        okv_wait(writer->handle, 1000);
        int n = okv_poll(writer->handle, results, UNDER_WAY);
        for (int i = 0; i < n; i++)
            if (!note(writer, "put", results[i].status))
                return false;
    }
    return true;
}

static bool write_once(struct writer *writer)
{
    uint64_t version;
    char name[32];

    size_t length = name_item(writer, "log", name);
    if (!note(writer, "append", okv_append(writer->handle, name, length, "x", 1, NULL, NULL)))
        return false;
    writer->appends++;
    length = name_item(writer, "item", name);
    if (!note(writer, "put", okv_put(writer->handle, name, length, "value", 5, &version)))
        return false;
    if (version <= writer->version) {
        snprintf(writer->why, sizeof writer->why, "version %lu after %lu", (unsigned long)version,
                 (unsigned long)writer->version);
        writer->failed = 1;
    }
    writer->version = version;
    if (!note(writer, "incr", okv_incr(writer->handle, "sum", 3, 1, NULL, NULL)))
        return false;
    writer->incrs++;
    return !writer->failed && put_several(writer);
}

/* Now and then another handle: its first write may be under way when the server dies. */
static void *write_all(void *user)
{
    struct writer *writer = user;

    for (unsigned i = 0; !atomic_load(&load.has_to_stop) && !writer->failed; i++) {
        if (i % WRITES_OF_A_HANDLE == 0) {
            okv_close(&writer->handle);
            if (okv_open(writer->uri, &patient, &writer->handle, writer->why, sizeof writer->why)) {
                i--; /* the server is not there */
                continue;
            }
        }
        write_once(writer);
    }
    return NULL;
}

/* Makes one, and lets the load go on for a moment. */
static void snapshot(const struct server_process *server)
{
    uint64_t end = pace_guard_end();
    okv *handle = server_connect(server, NULL);
    char answer[256], command[64];
    size_t length;

    assert_int_equal(okv_admin(handle, "snapshot", answer, sizeof answer, &length), OKV_OK);
    snprintf(command, sizeof command, "snapshot %.*s", (int)length, answer);
    do {
        assert_int_equal(okv_admin(handle, command, answer, sizeof answer, &length), OKV_OK);
        assert_true(okv_clock_ns() < end);
    } while (length == 0);
    okv_close(&handle);
    usleep(20000);
}

static void check(struct writer *writer, okv *handle)
{
    struct okv_item_info item;
    char name[32];

    if (writer->failed)
        fail_msg("writer %u: %s", writer->index, writer->why);
    size_t length = name_item(writer, "log", name);
    assert_int_equal(okv_head(handle, name, length, &item), OKV_OK);
    assert_int_equal(item.length, writer->appends);
    okv_close(&writer->handle);
}

TEST(every_write_is_answered_and_applied_once)
{
    const char *is_long = getenv("OKV_LONG");
    unsigned rounds = is_long && strcmp(is_long, "1") == 0 ? ROUNDS_LONG : ROUNDS;
    struct writer writers[WRITERS];
    struct server_process server;
    char data[] = "/tmp/okv-resume-XXXXXX", uri[64], command[64], text[32] = "";
    uint64_t sum = 0;
    size_t size;

    assert_non_null(mkdtemp(data));
    if (!getenv("OKV_TEST_URI")) { /* every server is at the same place */
        snprintf(uri, sizeof uri, "local://%s/okv.sock", data);
        assert_int_equal(setenv("OKV_TEST_URI", uri, 1), 0);
    }
    const char *const arguments[] = {"--memory", "16M", "--data", data, NULL};
    server_start(&server, arguments);
    for (unsigned i = 0; i < WRITERS; i++) {
        writers[i] = (struct writer){.index = i};
        memcpy(writers[i].uri, server.uri, sizeof server.uri);
        assert_int_equal(pthread_create(&writers[i].thread, NULL, write_all, &writers[i]), 0);
    }
    for (unsigned round = 0; round < rounds; round++) {
        usleep(20000 + round * 7919 % 60000);
        if (round % 3 == 1)
            snapshot(&server);
        server_signal(&server, SIGKILL);
        server_start(&server, arguments);
    }
    atomic_store(&load.has_to_stop, true);
    for (unsigned i = 0; i < WRITERS; i++)
        pthread_join(writers[i].thread, NULL);
    okv *handle = server_connect(&server, NULL);
    for (unsigned i = 0; i < WRITERS; i++) {
        check(&writers[i], handle);
        sum += writers[i].incrs;
    }
    assert_int_equal(okv_get(handle, "sum", 3, text, sizeof text - 1, &size, NULL), OKV_OK);
    assert_int_equal(strtoull(text, NULL, 10), sum);
    print_message("%lu increments over %u kills\n", (unsigned long)sum, rounds);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
    snprintf(command, sizeof command, "rm -rf %s", data);
    assert_int_equal(system(command), 0);
}
