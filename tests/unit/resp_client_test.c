/*
 * RESP clients on socket pairs: requests in pieces and in pipelines, turns, replies that nobody
 * reads, replies that wait for the log, and how connections end.
 */
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/resp/resp.h"
#include "server/wal/wal.h"
#include "tests/support/crash_disk.h"
#include "tests/support/resp_fixture.h"

#define LONG (2u << 20) /* bytes of a value: more than a client may leave unread */
#define MANY 3000u      /* items in so many buckets that FLUSHDB takes many steps */
#define PASSES 20000u   /* that are enough for anything that no thread does */
#define PINGS_MAX 1000u
#define PONG "+PONG\r\n"

static const struct okv_store_params params = {
    .length = 32u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

static struct resp_fixture fixture;

static int begin(void **state)
{
    (void)state;
    resp_fixture_open(&fixture, &params);
    return 0;
}

static int end(void **state)
{
    (void)state;
    resp_fixture_close(&fixture);
    return 0;
}

/* A network that takes all bytes at once, as they are read at its other end. */
static struct {
    bool is_fast;
    int fd;
    size_t bytes;
} network;

ssize_t __real_send(int fd, const void *bytes, size_t length, int flags);
__attribute__((visibility("default"))) ssize_t __wrap_send(int fd, const void *bytes, size_t length,
                                                           int flags);

static size_t read_all(int fd)
{
    static uint8_t bytes[1u << 16];
    size_t got = 0;
    ssize_t n;

    while ((n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0)
        got += (size_t)n;
    return got;
}

ssize_t __wrap_send(int fd, const void *bytes, size_t length, int flags)
{
    if (network.is_fast && fd != network.fd)
        network.bytes += read_all(network.fd);
    return __real_send(fd, bytes, length, flags);
}

static void say(int fd, const char *bytes)
{
    assert_int_equal(send(fd, bytes, strlen(bytes), MSG_NOSIGNAL), strlen(bytes));
}

static void pass(void)
{
    resp_fixture_poll(&fixture);
}

/* Receives so many bytes while the worker makes passes. */
static void hear_bytes(int fd, uint8_t *bytes, size_t length)
{
    size_t got = 0;

    for (unsigned passes = 0; got < length; passes++) {
        assert_true(passes < PASSES);
        pass();
        ssize_t n = recv(fd, bytes + got, length - got, MSG_DONTWAIT);
        assert_true(n > 0 || (n < 0 && errno == EAGAIN));
        got += n > 0 ? (size_t)n : 0;
    }
}

static void hear(int fd, const char *expected)
{
    uint8_t bytes[1024];

    assert_true(strlen(expected) <= sizeof bytes);
    hear_bytes(fd, bytes, strlen(expected));
    assert_memory_equal(bytes, expected, strlen(expected));
}

static void hear_nothing(int fd)
{
    uint8_t byte;

    for (unsigned i = 0; i < 50; i++)
        pass();
    assert_int_equal(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    assert_int_equal(errno, EAGAIN);
}

/* Closes the end of a client that is still there. */
static void leave(int fd)
{
    struct okv_resp *resp = &fixture.worker.resp;
    unsigned before = atomic_load(&resp->clients);

    close(fd);
    for (unsigned i = 0; i < 10; i++)
        pass();
    assert_int_equal(atomic_load(&resp->clients), before - 1);
}

/* The server has ended the connection. */
static void hear_end(int fd)
{
    uint8_t byte;
    ssize_t n = -1;

    for (unsigned i = 0; n < 0 && i < 50; i++) {
        pass();
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
        assert_true(n == 0 || (n < 0 && (errno == EAGAIN || errno == ECONNRESET)));
        if (n < 0 && errno == ECONNRESET)
            break;
    }
    assert_true(n == 0 || errno == ECONNRESET);
    close(fd);
}

/* ---- requests ---- */

static void a_request_may_come_in_pieces(void **state)
{
    static const char *const pieces[] = {"*", "2\r", "\n$4\r\nEC", "HO\r\n$2\r\na", "b\r", "\nPI"};
    int fd = resp_fixture_connect(&fixture);

    (void)state;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
        hear_nothing(fd);
        say(fd, pieces[i]);
    }
    hear(fd, "$2\r\nab\r\n");
    hear_nothing(fd);
    say(fd, "NG\r\n");
    hear(fd, PONG);
    leave(fd);
}

/* A long value has its bytes read at once, and goes on where it was. */
static void a_long_request_comes_as_it_comes(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    char head[64];
    uint8_t *value = malloc(LONG), *got = malloc(LONG);
    size_t sent = 0;

    (void)state;
    for (size_t i = 0; i < LONG; i++)
        value[i] = (uint8_t)(i * 31 >> 3);
    snprintf(head, sizeof head, "*3\r\n$3\r\nSET\r\n$1\r\nv\r\n$%u\r\n", LONG);
    say(fd, head);
    while (sent < LONG) {
        ssize_t n = send(fd, value + sent, LONG - sent, MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        pass();
    }
    say(fd, "\r\nget v\r\n");
    snprintf(head, sizeof head, "+OK\r\n$%u\r\n", LONG);
    hear(fd, head);
    hear_bytes(fd, got, LONG);
    assert_memory_equal(got, value, LONG);
    hear(fd, "\r\n");
    leave(fd);
    free(value);
    free(got);
}

static void say_pings(int fd, unsigned count)
{
    char pings[6 * PINGS_MAX + 1] = "";

    assert_true(count <= PINGS_MAX);
    for (unsigned i = 0; i < count; i++)
        memcpy(pings + (size_t)6 * i, "PING\r\n", 7);
    say(fd, pings);
}

static void hear_pongs(int fd, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        hear(fd, PONG);
}

static void a_client_has_its_turn_only(void **state)
{
    int many = resp_fixture_connect(&fixture), few = resp_fixture_connect(&fixture);
    struct okv_stats *stats = &fixture.core.server->stats;

    (void)state;
    say_pings(many, 1000);
    say(few, "PING\r\n");
    pass();
    assert_in_range(atomic_load(&stats->resp_commands), 2, 129);
    hear(few, PONG);
    hear_pongs(many, 1000);
    leave(many);
    leave(few);
}

/* ---- replies ---- */

static void put_long(void)
{
    server_core_put(&fixture.core, "v", 'v', LONG, 0);
}

static void hear_long(int fd)
{
    uint8_t *got = malloc(LONG);
    char head[24];

    snprintf(head, sizeof head, "$%u\r\n", LONG);
    hear(fd, head);
    hear_bytes(fd, got, LONG);
    for (size_t i = 0; i < LONG; i++)
        assert_int_equal(got[i], 'v');
    hear(fd, "\r\n");
    free(got);
}

/* All of its requests have come, and nothing but the room for replies lets it go on. */
static void long_replies_of_a_pipeline_all_leave(void **state)
{
    int fd = resp_fixture_connect(&fixture);

    (void)state;
    put_long();
    say(fd, "get v\r\nget v\r\nget v\r\nPING\r\n");
    for (unsigned i = 0; i < 3; i++)
        hear_long(fd);
    hear(fd, PONG);
    leave(fd);
}

/* Nothing tells of the room that a long reply leaves behind when it goes in one piece. */
static void replies_that_leave_at_once_make_room(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    const size_t length = LONG + sizeof "$2097152\r\n\r\n" - 1;

    (void)state;
    put_long();
    say(fd, "get v\r\nget v\r\nget v\r\nPING\r\n");
    network.is_fast = true;
    network.fd = fd;
    network.bytes = 0;
    for (unsigned i = 0; i < 100; i++)
        pass();
    network.is_fast = false;
    assert_int_equal(network.bytes + read_all(fd), 3 * length + sizeof PONG - 1);
    leave(fd);
}

static void who_reads_nothing_gets_no_more_than_its_room(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_stats *stats = &fixture.core.server->stats;

    (void)state;
    put_long();
    say(fd, "get v\r\nget v\r\nget v\r\n");
    for (unsigned i = 0; i < 100; i++)
        pass();
    assert_int_equal(atomic_load(&stats->resp_commands), 1);
    shutdown(fd, SHUT_WR); /* it has said all, and still gets the rest */
    for (unsigned i = 0; i < 3; i++)
        hear_long(fd);
    hear_end(fd);
}

/* ---- the end ---- */

/* Of a turn, and of more. */
static void who_has_said_all_gets_all_replies(void **state)
{
    static const unsigned counts[] = {0, 1, 63, 64, 65, 128, 129, 300};

    (void)state;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int fd = resp_fixture_connect(&fixture);
        say_pings(fd, counts[i]);
        shutdown(fd, SHUT_WR);
        hear_pongs(fd, counts[i]);
        hear_end(fd);
    }
    assert_int_equal(atomic_load(&fixture.worker.resp.clients), 0);
}

static void a_request_that_is_none_ends_the_connection(void **state)
{
    int fd = resp_fixture_connect(&fixture);

    (void)state;
    say(fd, "PING\r\n*1\r\nPING\r\nPING\r\n");
    hear(fd, "+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "quit\r\nPING\r\n");
    hear(fd, "+OK\r\n");
    hear_end(fd);
}

static void a_client_is_killed_by_another(void **state)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);

    (void)state;
    say(one, "client id\r\n");
    hear(one, ":1\r\n");
    say(other, "client kill id 1\r\n");
    hear(other, ":1\r\n");
    hear_end(one);
    say(other, "client kill id 1\r\n");
    hear(other, ":0\r\n");
    leave(other);
}

static void a_client_that_sends_nothing_ends(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_resp *resp = &fixture.worker.resp;
    const uint64_t second = 1000000000;

    (void)state;
    say(fd, "PING\r\n");
    hear(fd, PONG);
    okv_resp_scan(resp, UINT64_MAX / 2); /* without --idle-s */
    fixture.core.server->config.idle_s = 5;
    uint64_t active_ns = atomic_load(&TAILQ_FIRST(&resp->all)->active_ns);
    okv_resp_scan(resp, active_ns + 5 * second);
    assert_int_equal(atomic_load(&resp->clients), 1);
    okv_resp_scan(resp, active_ns + 5 * second + 1);
    assert_int_equal(atomic_load(&resp->clients), 0);
    hear_end(fd);
}

/* ---- commands that wait ---- */

/* Its words are in quotes, and it is looked at more than once. */
static void a_command_that_waits_is_run_as_it_came(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    unsigned waits = 0;
    char key[24];

    (void)state;
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key%u", i);
        server_core_put(&fixture.core, key, 'x', 30, 0);
    }
    say(fd, "\"flushdb\" \"sync\"\r\nset \"a b\" 'c d'\r\nget \"a b\"\r\ndbsize\r\n");
    while (waits < MANY && (resp_fixture_poll(&fixture) || waits == 0))
        waits++;
    assert_true(waits > 1);
    hear(fd, "+OK\r\n+OK\r\n$3\r\nc d\r\n:1\r\n");
    leave(fd);
}

/* ---- replies that wait for the log ---- */

struct durable {
    struct crash_disk disk;
    struct okv_wal wal;
    sem_t may_sync;
    atomic_bool is_held;
};

static void hold_sync(void *user)
{
    struct durable *durable = user;

    if (atomic_load(&durable->is_held))
        sem_wait(&durable->may_sync);
}

static void notify(void *user)
{
    (void)user;
}

/* The first database has a log. */
static struct durable *open_durable(void)
{
    struct durable *durable = calloc(1, sizeof *durable);
    struct okv_database *database = fixture.core.server->databases;
    const struct okv_wal_params wal_params = {.notify = notify};
    struct okv_wal_found found;

    assert_non_null(durable);
    sem_init(&durable->may_sync, 0, 0);
    crash_disk_init(&durable->disk, 1);
    assert_int_equal(okv_wal_open(&durable->wal, &durable->disk.files, NULL, NULL), 0);
    assert_int_equal(okv_wal_replay(&durable->wal, &database->store, &found, NULL), 0);
    assert_int_equal(okv_wal_start(&durable->wal, &wal_params, NULL), 0);
    durable->disk.user = durable;
    durable->disk.before_sync = hold_sync;
    database->wal = &durable->wal;
    return durable;
}

static void let_sync(struct durable *durable)
{
    atomic_store(&durable->is_held, false);
    sem_post(&durable->may_sync);
}

static void close_durable(struct durable *durable)
{
    okv_resp_end_all(&fixture.worker.resp);
    fixture.core.server->databases->wal = NULL;
    okv_wal_stop(&durable->wal);
    okv_wal_close(&durable->wal);
    crash_disk_fini(&durable->disk);
    sem_destroy(&durable->may_sync);
    free(durable);
}

/* Waits for bytes that come when the log's thread has done something. */
static void await(int fd)
{
    struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

    for (unsigned i = 0; i < 60000; i++) {
        pass();
        if (poll(&poll_fd, 1, 1) > 0)
            return;
    }
    fail();
}

static void a_change_is_answered_when_it_is_in_the_log(void **state)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    (void)state;
    atomic_store(&durable->is_held, true);
    say(one, "PING\r\nset k v\r\nget k\r\nPING\r\n");
    hear(one, PONG); /* it came before the change */
    hear_nothing(one);
    say(other, "get k\r\n");
    hear(other, "$-1\r\n"); /* it is not published */
    let_sync(durable);
    await(one);
    hear(one, "+OK\r\n$1\r\nv\r\n+PONG\r\n");
    say(other, "get k\r\n");
    hear(other, "$1\r\nv\r\n");
    close_durable(durable);
    close(one);
    close(other);
}

/* Of another database, too: replies keep their order. */
static void what_follows_a_change_waits_with_it(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    (void)state;
    atomic_store(&durable->is_held, true);
    say(fd, "multi\r\nset k v\r\nget k\r\nexec\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n+QUEUED\r\n");
    say(fd, "select 1\r\nget k\r\n");
    hear_nothing(fd);
    let_sync(durable);
    await(fd);
    hear(fd, "*2\r\n+OK\r\n$1\r\nv\r\n+OK\r\n$-1\r\n");
    close_durable(durable);
    close(fd);
}

static void a_log_that_fails_leaves_one_error(void **state)
{
    int fd = resp_fixture_connect(&fixture);
    struct durable *durable = open_durable();

    (void)state;
    atomic_store(&durable->is_held, true);
    say(fd, "PING\r\nset k v\r\nget k\r\nPING\r\n");
    hear(fd, PONG);
    hear_nothing(fd);
    crash_disk_fail_again(&durable->disk, 1);
    let_sync(durable);
    await(fd);
    hear(fd, "-UNKNOWN the log failed, and this command may have been applied\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "get k\r\nset k v\r\n");
    hear(fd, "$-1\r\n-MISCONF");
    close_durable(durable);
    close(fd);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, begin, end)
    const struct CMUnitTest tests[] = {
        TEST(a_request_may_come_in_pieces),
        TEST(a_long_request_comes_as_it_comes),
        TEST(a_client_has_its_turn_only),
        TEST(long_replies_of_a_pipeline_all_leave),
        TEST(replies_that_leave_at_once_make_room),
        TEST(who_reads_nothing_gets_no_more_than_its_room),
        TEST(who_has_said_all_gets_all_replies),
        TEST(a_request_that_is_none_ends_the_connection),
        TEST(a_client_is_killed_by_another),
        TEST(a_client_that_sends_nothing_ends),
        TEST(a_command_that_waits_is_run_as_it_came),
        TEST(a_change_is_answered_when_it_is_in_the_log),
        TEST(what_follows_a_change_waits_with_it),
        TEST(a_log_that_fails_leaves_one_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
