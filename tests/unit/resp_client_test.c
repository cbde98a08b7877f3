/*
 * RESP clients on socket pairs: requests in pieces and in pipelines, turns, replies that nobody
 * reads, and how connections end.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/command/admin.h"
#include "server/resp/resp.h"
#include "server/resp/run/shared.h"
#include "shared/base/error.h"
#include "tests/support/resp_talk.h"

#define LONG (2u << 20) /* bytes of a value: more than a client may leave unread */
#define MANY 3000u      /* items in so many buckets that FLUSHDB takes many steps */
#define PINGS_MAX 1000u
#define LONG_REQUEST (8u << 20)
#define UNMAPPED_MAX (1u << 20) /* in one pass */
#define PONG "+PONG\r\n"

static const struct okv_store_params params = {
    .length = 32u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

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

/* What the server unmaps. */
static struct {
    size_t longest, all;
} unmapped;

int __real_munmap(void *bytes, size_t length);
__attribute__((visibility("default"))) int __wrap_munmap(void *bytes, size_t length);

int __wrap_munmap(void *bytes, size_t length)
{
    unmapped.longest = length > unmapped.longest ? length : unmapped.longest;
    unmapped.all += length;
    return __real_munmap(bytes, length);
}

/* ---- requests ---- */

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

FIXTURE_TEST(a_request_may_come_in_pieces)
{
    static const char *const pieces[] = {"*", "2\r", "\n$4\r\nEC", "HO\r\n$2\r\na", "b\r", "\nPI"};
    int fd = resp_fixture_connect(&fixture);

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
FIXTURE_TEST(a_long_request_comes_as_it_comes)
{
    int fd = resp_fixture_connect(&fixture);
    char head[64];
    uint8_t *value = malloc(LONG), *got = malloc(LONG);
    size_t sent = 0;

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

FIXTURE_TEST(a_client_has_its_turn_only)
{
    int many = resp_fixture_connect(&fixture), few = resp_fixture_connect(&fixture);
    struct okv_stats *stats = &fixture.core.server->stats;

    say_pings(many, 1000);
    say(few, "PING\r\n");
    pass();
    assert_in_range(atomic_load(&stats->resp_commands), 2, OKV_TURN_WORK / OKV_TURN_ITEM + 1);
    assert_in_range(atomic_load(&stats->longest_step), 1, OKV_TURN_STEP_MAX);
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
FIXTURE_TEST(long_replies_of_a_pipeline_all_leave)
{
    int fd = resp_fixture_connect(&fixture);

    put_long();
    say(fd, "get v\r\nget v\r\nget v\r\nPING\r\n");
    for (unsigned i = 0; i < 3; i++)
        hear_long(fd);
    hear(fd, PONG);
    leave(fd);
}

/* Nothing tells of the room that a long reply leaves behind when it goes in one piece. */
FIXTURE_TEST(replies_that_leave_at_once_make_room)
{
    int fd = resp_fixture_connect(&fixture);
    const size_t length = LONG + sizeof "$2097152\r\n\r\n" - 1;

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

FIXTURE_TEST(who_reads_nothing_gets_no_more_than_its_room)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_stats *stats = &fixture.core.server->stats;

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

/* ---- the memory of long requests ---- */

/* Under ThreadSanitizer a buffer that grows is copied, and the old one unmapped as a whole. */
static void skip_without_mremap(void)
{
#ifdef OKV_NO_MREMAP
    printf("skipped: buffers do not move by mremap() in this build\n");
    skip();
#endif
}

/* Sends `length` bytes of an ECHO, whose word has LONG_REQUEST. */
static void say_long(int fd, size_t length)
{
    static const char head[] = "*2\r\n$4\r\nECHO\r\n$8388608\r\n";
    char *bytes = malloc(length);
    ssize_t n;

    assert_non_null(bytes);
    memset(bytes, 'x', length);
    memcpy(bytes, head, sizeof head - 1);
    memcpy(bytes + length - 2, "\r\n", 2);
    for (size_t sent = 0; sent<length; sent += n> 0 ? (size_t)n : 0) {
        n = send(fd, bytes + sent, length - sent, MSG_NOSIGNAL);
        assert_true(n > 0 || errno == EAGAIN);
        pass();
    }
    free(bytes);
}

static void expect_unmapped_in_steps(size_t least)
{
    for (size_t i = 0; i < 100 && unmapped.all < least; i++) {
        size_t before = unmapped.all;
        pass();
        assert_true(unmapped.all - before <= UNMAPPED_MAX);
    }
    assert_in_range(unmapped.all, least, SIZE_MAX);
    assert_in_range(unmapped.longest, 1, UNMAPPED_MAX);
}

FIXTURE_TEST(memory_of_a_long_request_is_unmapped_in_steps)
{
    skip_without_mremap();
    const size_t head = sizeof "*2\r\n$4\r\nECHO\r\n$8388608\r\n" - 1;
    static uint8_t reply[LONG_REQUEST];
    int fd = resp_fixture_connect(&fixture);

    memset(&unmapped, 0, sizeof unmapped);
    say_long(fd, head + LONG_REQUEST + 2);
    hear(fd, "$8388608\r\n");
    hear_bytes(fd, reply, sizeof reply);
    hear(fd, "\r\n");
    expect_unmapped_in_steps(2 * LONG_REQUEST); /* with that of its reply */
    leave(fd);
}

FIXTURE_TEST(memory_of_who_leaves_is_unmapped_in_steps)
{
    skip_without_mremap();
    int fd = resp_fixture_connect(&fixture);

    memset(&unmapped, 0, sizeof unmapped);
    say_long(fd, LONG_REQUEST);
    leave(fd);
    expect_unmapped_in_steps(LONG_REQUEST);
}

/* ---- the end ---- */

/* Of a turn, and of more. */
FIXTURE_TEST(who_has_said_all_gets_all_replies)
{
    static const unsigned counts[] = {0, 1, 63, 64, 65, 128, 129, 300};

    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        int fd = resp_fixture_connect(&fixture);
        say_pings(fd, counts[i]);
        shutdown(fd, SHUT_WR);
        hear_pongs(fd, counts[i]);
        hear_end(fd);
    }
    assert_int_equal(atomic_load(&fixture.worker.resp->clients), 0);
}

FIXTURE_TEST(a_request_that_is_none_ends_the_connection)
{
    int fd = resp_fixture_connect(&fixture);

    say(fd, "PING\r\n*1\r\nPING\r\nPING\r\n");
    hear(fd, "+PONG\r\n-ERR Protocol error: expected '$', got 'P'\r\n");
    hear_end(fd);
    fd = resp_fixture_connect(&fixture);
    say(fd, "quit\r\nPING\r\n");
    hear(fd, "+OK\r\n");
    hear_end(fd);
}

FIXTURE_TEST(a_client_is_killed_by_another)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);

    say(one, "client id\r\n");
    hear(one, ":1\r\n");
    say(other, "client kill id 1\r\n");
    hear(other, ":1\r\n");
    hear_end(one);
    say(other, "client kill id 1\r\n");
    hear(other, ":0\r\n");
    leave(other);
}

static void expect_admin(const char *command, int status, const char *answer)
{
    struct okv_server *server = fixture.core.server;
    char text[1024];
    uint32_t used;
    int rc = okv_admin_run(server, &server->databases[0], (const uint8_t *)command,
                           (uint32_t)strlen(command), text, sizeof text - 1, &used);

    assert_int_equal(rc, status);
    text[used] = '\0';
    if (strncmp(text, answer, strlen(answer)) != 0)
        fail_msg("%s: %s", command, text);
}

/* Behind the sessions of libokv. */
FIXTURE_TEST(administrators_list_and_end_clients)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);

    say(one, "PING\r\nPING\r\n");
    hear(one, PONG PONG);
    say(other, "select 1\r\n");
    hear(other, "+OK\r\n");
    expect_admin("sessions 0", 0, "8000000000000001 - ");
    expect_admin("sessions 8000000000000001", 0, "");
    expect_admin("kill 8000000000000002", OKV_ENOTFOUND, ""); /* of the other database */
    expect_admin("kill 1", OKV_ENOTFOUND, "");
    expect_admin("kill 8000000000000001", 0, "");
    hear_end(one);
    assert_int_equal(atomic_load(&fixture.core.server->stats.closed_killed), 1);
    leave(other);
}

/* Whichever worker meets them first. */
FIXTURE_TEST(clients_are_in_the_order_of_their_ids)
{
    int fds[3];
    uint64_t last = 0;
    const struct okv_client *client;

    for (unsigned i = 0; i < 3; i++)
        fds[i] = resp_fixture_connect(&fixture);
    TAILQ_FIRST(&fixture.worker.resp->inbox)->common.id = OKV_CLIENT_RESP_ID | 7;
    pass();
    TAILQ_FOREACH(client, &fixture.core.server->clients->lists[OKV_CLIENT_RESP], in_table)
    {
        assert_true(client->id > last);
        last = client->id;
    }
    assert_int_equal(last, OKV_CLIENT_RESP_ID | 7);
    for (unsigned i = 0; i < 3; i++)
        leave(fds[i]);
}

/* More than a step looks at, without sockets. */
static struct okv_resp_client *crowd_create(unsigned count)
{
    struct okv_resp_client *clients = calloc(count, sizeof *clients);

    assert_non_null(clients);
    for (unsigned i = 0; i < count; i++) {
        clients[i].resp = fixture.worker.resp;
        clients[i].id = 1000 + i;
        clients[i].common.id = OKV_CLIENT_RESP_ID | clients[i].id;
        clients[i].common.kind = OKV_CLIENT_RESP;
        okv_client_table_add(fixture.core.server->clients, &clients[i].common, false);
    }
    return clients;
}

static void crowd_destroy(struct okv_resp_client *clients, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        okv_client_table_remove(fixture.core.server->clients, &clients[i].common);
    free(clients);
}

/* The text of the next reply, without its head; the user frees it. */
static char *hear_text(int fd)
{
    char head[16] = "";
    size_t used = 0;

    while (!strchr(head, '\n')) {
        assert_true(used < sizeof head - 1);
        hear_bytes(fd, (uint8_t *)head + used++, 1);
    }
    assert_int_equal(head[0], '$');
    size_t length = strtoul(head + 1, NULL, 10);
    char *text = calloc(1, length + 3);
    assert_non_null(text);
    hear_bytes(fd, (uint8_t *)text, length + 2);
    return text;
}

FIXTURE_TEST(all_of_many_clients_are_listed_and_ended_once)
{
    enum { CROWD = 3 * OKV_CLIENTS_PER_SCAN };
    struct okv_resp_client *crowd = crowd_create(CROWD);
    int fd = resp_fixture_connect(&fixture);

    for (unsigned turn = 0; turn < 2; turn++) {
        unsigned lines = 0;
        say(fd, "client list\r\n");
        char *text = hear_text(fd);
        for (char *line = strtok(text, "\r\n"); line; line = strtok(NULL, "\r\n"), lines++)
            assert_int_equal(strtoul(line + strlen("id="), NULL, 10), lines ? 999 + lines : 1);
        assert_int_equal(lines, 1 + CROWD);
        free(text);
    }
    say(fd, "client kill user default\r\n");
    hear(fd, ":1200\r\n");
    for (unsigned i = 0; i < CROWD; i++)
        assert_true(crowd[i].common.is_killed);
    for (unsigned i = 0; i < CROWD; i++)
        crowd[i].common.is_killed = false;
    say(fd, "client kill user default skipme no\r\n"); /* itself last */
    hear(fd, ":1201\r\n");
    for (unsigned i = 0; i < CROWD; i++)
        assert_true(crowd[i].common.is_killed);
    crowd_destroy(crowd, CROWD);
    hear_end(fd);
}

FIXTURE_TEST(a_client_that_sends_nothing_ends)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_resp *resp = fixture.worker.resp;
    const uint64_t second = 1000000000;

    say(fd, "PING\r\n");
    hear(fd, PONG);
    okv_resp_scan(resp, UINT64_MAX / 2, true); /* without --idle-s */
    fixture.core.server->config.idle_s = 5;
    uint64_t progress_ns = TAILQ_FIRST(&resp->all)->progress_ns;
    okv_resp_scan(resp, progress_ns + 5 * second, true);
    assert_int_equal(atomic_load(&resp->clients), 1);
    okv_resp_scan(resp, progress_ns + 5 * second + 1, true);
    assert_int_equal(atomic_load(&resp->clients), 0);
    hear_end(fd);
}

/* ---- commands that wait ---- */

static void put_many(void)
{
    char key[24];

    for (unsigned i = 0; i < MANY; i++) {
        snprintf(key, sizeof key, "key%u", i);
        server_core_put(&fixture.core, key, 'x', 30, 0);
    }
}

/* Its words are in quotes, and it is looked at more than once. */
FIXTURE_TEST(a_command_that_waits_is_run_as_it_came)
{
    int fd = resp_fixture_connect(&fixture);
    unsigned waits = 0;

    put_many();
    say(fd, "\"flushdb\" \"sync\"\r\nset \"a b\" 'c d'\r\nget \"a b\"\r\ndbsize\r\n");
    while (waits < MANY && (resp_fixture_poll(&fixture) || waits == 0))
        waits++;
    assert_true(waits > 1);
    hear(fd, "+OK\r\n+OK\r\n$3\r\nc d\r\n:1\r\n");
    leave(fd);
}

/* ---- commands whose client ends ---- */

static uint64_t items(void)
{
    return atomic_load(&fixture.core.database->store.totals.items);
}

/* Begins one that takes many turns. */
static int begin_long(const char *line)
{
    int fd = resp_fixture_connect(&fixture);

    put_many();
    say(fd, line);
    pass();
    pass();
    return fd;
}

static void expect_flush_is_over(uint64_t before)
{
    assert_int_equal(atomic_load(&fixture.worker.resp->clients), 0);
    assert_in_range(items(), 1, before);
    uint64_t left = items();
    for (unsigned i = 0; i < 10; i++)
        pass();
    assert_int_equal(items(), left);
}

FIXTURE_TEST(a_flush_of_all_takes_a_step_for_each_database)
{
    int fd = resp_fixture_connect(&fixture);
    const struct okv_store_totals *other = &fixture.core.server->databases[1].store.totals;

    say(fd, "set a 1\r\nselect 1\r\nset b 1\r\n");
    hear(fd, "+OK\r\n+OK\r\n+OK\r\n");
    say(fd, "flushall\r\n");
    while (items() > 0)
        pass();
    assert_int_equal(atomic_load(&other->items), 1);
    hear(fd, "+OK\r\n");
    assert_int_equal(atomic_load(&other->items), 0);
    leave(fd);
}

FIXTURE_TEST(a_flush_ends_with_its_connection)
{
    int fd = begin_long("flushall\r\n");
    uint64_t before = items();

    assert_in_range(before, 1, MANY - 1);
    close(fd);
    pass();
    expect_flush_is_over(before);
}

FIXTURE_TEST(a_flush_ends_with_its_client)
{
    int fd = begin_long("flushall\r\n");
    uint64_t before = items();

    assert_in_range(before, 1, MANY - 1);
    expect_admin("kill 8000000000000001", 0, "");
    pass();
    expect_flush_is_over(before);
    close(fd);
}

FIXTURE_TEST(a_flush_does_not_keep_a_server_from_its_end)
{
    int fd = begin_long("flushall\r\n");
    uint64_t before = items();

    okv_resp_end_all(fixture.worker.resp);
    expect_flush_is_over(before);
    close(fd);
}

/* The connection breaks while something runs alone. */
FIXTURE_TEST(a_walk_that_was_held_up_ends_with_its_connection)
{
    pthread_rwlock_t *lock = &fixture.core.server->exclusive->lock;
    int fd = begin_long("keys *\r\n");

    assert_int_equal(pthread_rwlock_wrlock(lock), 0);
    pass();
    close(fd);
    pass();
    assert_int_equal(atomic_load(&fixture.worker.resp->clients), 1);
    assert_int_equal(pthread_rwlock_unlock(lock), 0);
    pass();
    assert_int_equal(atomic_load(&fixture.worker.resp->clients), 0);
}
