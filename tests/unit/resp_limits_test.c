/*
 * What RESP clients cannot take from each other: memory of those that read slowly or not at all,
 * a worker while a command runs alone on another one, connections of other users.
 */
#include <jemalloc/jemalloc.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/resp/net/serve.h"
#include "server/resp/net/transfer.h"
#include "server/resp/resp.h"
#include "server/resp/run/login.h"
#include "server/resp/run/shared.h"
#include "server/resp/run/transaction.h"
#include "server/store/store.h"
#include "shared/base/error.h"
#include "tests/support/resp_talk.h"
#include "tests/support/sanitized.h"

#define LONG (2u << 20)    /* bytes of a value: more than a client may leave unread */
#define MEDIUM (40u << 10) /* of one that is copied to the replies */
#define UNREAD 20u         /* of them that nobody reads */
#define LONG_ECHO 400000u
#define ROUNDS 500u
#define WATCHES 100u
#define TINY 1000u

static const struct okv_store_params params = {
    .length = 32u << 20, .bucket_size = 256, .extra_reads = 1, .max_value = LONG};

static void passes(unsigned count)
{
    while (count-- > 0)
        resp_fixture_poll(&fixture);
}

static struct okv_resp_client *only_client(void)
{
    return TAILQ_FIRST(&fixture.worker.resp->all);
}

/* ---- buffers ---- */

#define FIXTURE_TEST(name) TEST_WITH(name, begin, end)

FIXTURE_TEST(a_buffer_that_failed_takes_nothing)
{
    struct okv_resp_buffer buffer = {.used = 0};

    okv_resp_buffer_add(&buffer, "ab", 2);
    assert_null(okv_resp_buffer_room(&buffer, OKV_RESP_BUFFER_MAX - 1));
    okv_resp_buffer_add(&buffer, "c", 1);
    assert_int_equal(buffer.used, 2);
    assert_true(buffer.has_failed);
    okv_resp_buffer_fini(&buffer);
}

/* Replies that have not left, so that the client has a buffer of its own. */
static int connect_with_replies(void)
{
    int fd = resp_fixture_connect(&fixture);

    server_core_put(&fixture.core, "v", 'v', MEDIUM, 0);
    for (unsigned i = 0; i < UNREAD; i++)
        say(fd, "get v\r\n");
    passes(50);
    assert_true(okv_resp_has_replies(only_client()));
    return fd;
}

/* A reply that does not fit ends the connection: the next one would take its place. */
FIXTURE_TEST(nothing_follows_a_reply_that_failed)
{
    int fd = connect_with_replies();

    only_client()->out.has_failed = true;
    say(fd, "PING\r\nPING\r\n");
    passes(10);
    assert_int_equal(only_client()->state, OKV_RESP_DRAINING);
    assert_int_equal(atomic_load(&fixture.core.server->stats.resp_commands), UNREAD + 1);
    leave(fd);
}

FIXTURE_TEST(who_reads_nothing_gets_no_more_than_its_room)
{
    int fd = connect_with_replies();
    const uint64_t room = OKV_RESP_UNSENT_MAX / MEDIUM + UNREAD; /* and what the socket takes */

    for (unsigned i = 0; i < 2 * room; i++) {
        say(fd, "get v\r\n");
        passes(1);
    }
    assert_true(atomic_load(&fixture.core.server->stats.resp_commands) < room);
    leave(fd);
}

/* There is always a reply that has not left. */
FIXTURE_TEST(replies_that_left_take_no_memory)
{
    static uint8_t bytes[MEDIUM + sizeof "$40960\r\n\r\n" - 1];
    int fd = connect_with_replies();

    for (unsigned i = 0; i < ROUNDS; i++) {
        say(fd, "get v\r\n");
        hear_bytes(fd, bytes, sizeof bytes);
        assert_true(okv_resp_has_replies(only_client()));
    }
    assert_true(only_client()->out.capacity < ROUNDS * MEDIUM / 4);
    leave(fd);
}

/* ---- all clients together have as much as they may ---- */

static void run_short_of_memory(void)
{
    atomic_fetch_add(&fixture.core.server->resp_shared->memory, OKV_RESP_MEMORY_MAX);
}

static void end_shortage(void)
{
    atomic_fetch_sub(&fixture.core.server->resp_shared->memory, OKV_RESP_MEMORY_MAX);
}

FIXTURE_TEST(a_long_request_waits_for_memory)
{
    static uint8_t bytes[LONG_ECHO];
    int fd = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    char head[64];

    run_short_of_memory();
    snprintf(head, sizeof head, "*2\r\n$4\r\nECHO\r\n$%u\r\n", LONG_ECHO);
    say(fd, head);
    for (unsigned i = 0; i < 100; i++) {
        ssize_t n = send(fd, bytes, LONG_ECHO / 100, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(n < 0 || n == LONG_ECHO / 100);
        passes(2);
    }
    assert_true(only_client()->in.used < 3 * OKV_RESP_PROGRESS_MIN);
    say(other, "*2\r\n$4\r\nECHO\r\n$2\r\nhi\r\n");
    hear(other, "$2\r\nhi\r\n");
    end_shortage();
    size_t before = only_client()->in.used;
    okv_resp_scan(fixture.worker.resp, 0, true);
    passes(10);
    assert_true(only_client()->in.used > before);
    leave(fd);
    leave(other);
}

/* Of a transaction, whose replies cannot wait for each other. */
FIXTURE_TEST(long_replies_end_for_want_of_memory)
{
    int fd = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);

    server_core_put(&fixture.core, "v", 'v', MEDIUM, 0);
    run_short_of_memory();
    say(fd, "MULTI\r\n"
            "MGET v v v v v v v v v v v v v v v v v v v v v v v v v v v v v v v v\r\n"
            "EXEC\r\n");
    hear(fd, "+OK\r\n+QUEUED\r\n");
    passes(10);
    assert_int_equal(only_client()->state, OKV_RESP_DRAINING);
    assert_true(only_client()->out.capacity <= OKV_RESP_SHORT_MAX);
    say(other, "PING\r\n");
    hear(other, "+PONG\r\n");
    end_shortage();
    leave(fd);
    leave(other);
}

/* Nobody would have it then. */
FIXTURE_TEST(a_value_is_not_removed_without_memory_for_the_reply)
{
    static const char *const lines[] = {"getdel v\r\nexec\r\n", "set v w get\r\nexec\r\n",
                                        "getset v w\r\nexec\r\n", "getex v exat 1\r\nexec\r\n"};
    uint64_t version = server_core_put(&fixture.core, "v", 'v', 2 * OKV_RESP_SHORT_MAX, 0);

    run_short_of_memory();
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        int fd = resp_fixture_connect(&fixture);
        say(fd, "multi\r\n");
        say(fd, lines[i]);
        hear(fd, "+OK\r\n+QUEUED\r\n*1\r\n");
        hear_end(fd);
    }
    end_shortage();
    server_core_expect(&fixture.core, "v", 'v', 2 * OKV_RESP_SHORT_MAX, version);
}

/* It holds much and does nothing. Others wait for it. */
FIXTURE_TEST(who_holds_memory_that_is_short_ends)
{
    int fd = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);
    struct okv_resp *resp = fixture.worker.resp;
    char *value = calloc(1, MEDIUM + 1), head[64];

    memset(value, 'v', MEDIUM);
    say(fd, "MULTI\r\n");
    hear(fd, "+OK\r\n");
    for (unsigned i = 0; i < 1 + OKV_RESP_SHORT_MAX / MEDIUM; i++) {
        say(fd, "ECHO ");
        say(fd, value);
        say(fd, "\r\n");
        hear(fd, "+QUEUED\r\n");
    }
    run_short_of_memory();
    snprintf(head, sizeof head, "*2\r\n$4\r\nECHO\r\n$%u\r\n", LONG_ECHO);
    say(other, head);
    say(other, value);
    passes(10);
    struct okv_resp_client *client;
    TAILQ_FOREACH(client, &resp->all, in_all) client->progress_ns = 1;
    okv_resp_scan(resp, 2 + OKV_RESP_STALLED_MS * UINT64_C(1000000), true);
    assert_int_equal(atomic_load(&resp->clients), 1);
    assert_int_equal(only_client()->id, 2);
    end_shortage();
    free(value);
    leave(other);
    close(fd);
}

FIXTURE_TEST(a_transaction_stays_small_for_want_of_memory)
{
    int fd = resp_fixture_connect(&fixture);
    char *value = calloc(1, MEDIUM + 1);

    assert_non_null(value);
    memset(value, 'v', MEDIUM - 256); /* with its command in no more than MEDIUM */
    run_short_of_memory();
    say(fd, "MULTI\r\n");
    hear(fd, "+OK\r\n");
    for (unsigned i = 0; i < OKV_RESP_SHORT_MAX / MEDIUM; i++) {
        say(fd, "SET k ");
        say(fd, value);
        say(fd, "\r\n");
        hear(fd, "+QUEUED\r\n");
    }
    say(fd, "SET k ");
    say(fd, value);
    say(fd, "\r\n");
    hear(fd, "-OOM a transaction may have 128 MiB, as far as there is memory\r\n");
    say(fd, "EXEC\r\n");
    hear(fd, "-EXECABORT Transaction discarded because of previous errors.\r\n");
    end_shortage();
    free(value);
    leave(fd);
}

/* What this thread has of the allocator. */
static size_t taken(void)
{
    uint64_t allocated = 0, freed = 0;
    size_t size = sizeof allocated;

    assert_int_equal(mallctl("thread.allocated", &allocated, &size, NULL, 0), 0);
    assert_int_equal(mallctl("thread.deallocated", &freed, &size, NULL, 0), 0);
    return (size_t)(allocated - freed);
}

/* Many small commands take several times as much as their bytes. */
FIXTURE_TEST(a_transaction_counts_what_it_takes)
{
    char line[16];

    if (OKV_SANITIZED)
        skip(); /* its allocator is another */
    struct okv_resp_client *client = resp_fixture_client(&fixture);
    assert_non_null(resp_fixture_call(client, "watch k"));
    size_t before = taken(), counted = okv_resp_transaction_bytes(client);
    for (unsigned i = 0; i < WATCHES; i++) {
        snprintf(line, sizeof line, "watch k%u", i);
        assert_string_equal(resp_fixture_call(client, line), "+OK\r\n");
    }
    assert_string_equal(resp_fixture_call(client, "multi"), "+OK\r\n");
    for (unsigned i = 0; i < TINY; i++)
        assert_string_equal(resp_fixture_call(client, "ping"), "+QUEUED\r\n");
    size_t counts = okv_resp_transaction_bytes(client) - counted;
    assert_true(counts >= TINY * sizeof(struct okv_resp_queued));
    /* The allocator rounds up by a quarter at most. */
    assert_true(taken() - before <= counts + counts / 4);
    resp_fixture_end(client);
}

/* ---- transfers ---- */

/* Part of it is read, all of it is kept. */
FIXTURE_TEST(a_range_counts_with_its_value)
{
    int fd = resp_fixture_connect(&fixture);
    char reply[16];

    server_core_put(&fixture.core, "v", 'v', LONG, 0);
    say(fd, "getrange v 100 1000099\r\n");
    passes(10);
    assert_int_equal(atomic_load(&fixture.core.database->reserved), LONG);
    snprintf(reply, sizeof reply, "$%u\r\n", 1000000);
    hear(fd, reply);
    leave(fd);
    assert_int_equal(atomic_load(&fixture.core.database->reserved), 0);
}

/* Takes bytes until there is room for some more of them. Returns how many left then. */
static size_t take_some(int fd)
{
    const struct okv_resp_download *download = &only_client()->download;
    uint32_t before = download->sent;
    uint8_t bytes[4096];

    while (download->sent == before) {
        assert_int_equal(recv(fd, bytes, sizeof bytes, MSG_DONTWAIT), sizeof bytes);
        assert_true(okv_resp_send(only_client()));
    }
    return download->sent - before;
}

FIXTURE_TEST(a_trickle_is_no_progress)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_resp *resp = fixture.worker.resp;
    size_t left = 0;

    server_core_put(&fixture.core, "v", 'v', LONG, 0);
    say(fd, "get v\r\n");
    passes(10);
    only_client()->progress_bytes = 0;
    while (left < OKV_RESP_PROGRESS_MIN) {
        only_client()->progress_ns = 1;
        left += take_some(fd);
        assert_int_equal(only_client()->progress_ns == 1, left < OKV_RESP_PROGRESS_MIN);
    }
    only_client()->progress_ns = 1;
    okv_resp_scan(resp, 1 + OKV_RESP_STALLED_MS * UINT64_C(1000000), true);
    assert_int_equal(atomic_load(&resp->clients), 1);
    okv_resp_scan(resp, 2 + OKV_RESP_STALLED_MS * UINT64_C(1000000), true);
    assert_int_equal(atomic_load(&resp->clients), 0);
    close(fd);
}

/* With values of LONG bytes, as many as there is room for: "v0" and so on. */
static void fill(const char *value)
{
    struct okv_store_outcome outcome;
    char key[24];
    int rc = 0;

    for (unsigned i = 0; rc == 0; i++) {
        const struct okv_store_write write = {
            .key = key,
            .key_length = (uint32_t)snprintf(key, sizeof key, "v%u", i),
            .value = value,
            .value_length = LONG,
        };
        rc = okv_store_put(&fixture.core.database->store, &fixture.core.works[0], &write, &outcome);
    }
    assert_int_equal(rc, OKV_EFULL);
}

/* "v0" is deleted, and somebody reads it: its memory comes back when that one is done. EXEC of a
 * long value waits for it. */
static void begin_exec(int slow, int fd)
{
    char *value = calloc(1, LONG), head[24];

    fill(value);
    say(slow, "get v0\r\n");
    passes(10);
    say(fd, "del v0\r\n");
    hear(fd, ":1\r\n");
    say(fd, "watch x\r\nmulti\r\nunwatch\r\n");
    hear(fd, "+OK\r\n+OK\r\n+QUEUED\r\n");
    snprintf(head, sizeof head, "$%u\r\n", LONG - 1);
    say(fd, "*3\r\n$3\r\nset\r\n$4\r\nlast\r\n");
    say(fd, head);
    for (size_t sent = 0; sent < LONG - 1; passes(1)) {
        ssize_t n = send(fd, value + sent, LONG - 1 - sent, MSG_NOSIGNAL);
        sent += n > 0 ? (size_t)n : 0;
    }
    say(fd, "\r\n");
    hear(fd, "+QUEUED\r\n");
    say(fd, "exec\r\n");
    hear_nothing(fd);
    free(value);
}

static void end_exec(int slow, int fd, const char *reply)
{
    static uint8_t bytes[LONG + sizeof "$2097152\r\n\r\n" - 1];

    hear_bytes(slow, bytes, sizeof bytes);
    hear(fd, reply);
    leave(slow);
    leave(fd);
}

FIXTURE_TEST(a_transaction_waits_for_memory)
{
    int slow = resp_fixture_connect(&fixture), fd = resp_fixture_connect(&fixture);

    begin_exec(slow, fd);
    end_exec(slow, fd, "*2\r\n+OK\r\n+OK\r\n");
}

/* Nothing of it has happened before it begins again. */
FIXTURE_TEST(a_transaction_that_waits_keeps_its_watches)
{
    int slow = resp_fixture_connect(&fixture), fd = resp_fixture_connect(&fixture);

    begin_exec(slow, fd);
    server_core_put(&fixture.core, "x", 'x', 1, 0);
    end_exec(slow, fd, "*-1\r\n");
}

/* ---- other workers, other users ---- */

FIXTURE_TEST(a_worker_does_not_wait_for_another_one)
{
    int fd = resp_fixture_connect(&fixture);
    pthread_rwlock_t *running = &fixture.core.server->exclusive->lock;

    resp_fixture_poll(&fixture);
    pthread_rwlock_wrlock(running);
    say(fd, "PING\r\n");
    resp_fixture_poll(&fixture);
    assert_true(resp_fixture_poll(&fixture));
    pthread_rwlock_unlock(running);
    hear(fd, "+PONG\r\n");
    leave(fd);
}

static void *ask_three_times(void *user)
{
    struct okv_exclusive *exclusive = fixture.core.server->exclusive;
    uint64_t *ticket = user;

    assert_false(okv_exclusive_share(exclusive, ticket));
    atomic_fetch_add(&exclusive->ended, 15);
    assert_false(okv_exclusive_share(exclusive, ticket));
    atomic_fetch_add(&exclusive->ended, 1);
    assert_true(okv_exclusive_share(exclusive, ticket)); /* when it is over */
    okv_exclusive_unshare(exclusive);
    return NULL;
}

/* As commands of other workers do that run alone, one after the other. */
FIXTURE_TEST(who_asks_again_and_again_gets_in)
{
    struct okv_exclusive *exclusive = fixture.core.server->exclusive;
    uint64_t ticket = 0;
    pthread_t thread;

    pthread_rwlock_wrlock(&exclusive->lock);
    assert_int_equal(pthread_create(&thread, NULL, ask_three_times, &ticket), 0);
    for (unsigned i = 0; i < 60000 && atomic_load(&exclusive->ended) < 16; i++)
        poll(NULL, 0, 1);
    poll(NULL, 0, 20);
    pthread_rwlock_unlock(&exclusive->lock);
    pthread_join(thread, NULL);
    assert_int_equal(ticket, 0);
}

/* It is an error, for which no other worker has to stop. */
FIXTURE_TEST(exec_without_multi_does_not_run_alone)
{
    int fd = resp_fixture_connect(&fixture);
    struct okv_exclusive *exclusive = fixture.core.server->exclusive;

    say(fd, "exec\r\nmulti\r\nexec\r\n");
    hear(fd, "-ERR EXEC without MULTI\r\n+OK\r\n*0\r\n");
    assert_int_equal(atomic_load(&exclusive->ended), 1);
    leave(fd);
}

/* An admin of one database has no say in another one. */
FIXTURE_TEST(clients_of_other_databases_are_spared)
{
    int one = resp_fixture_connect(&fixture), other = resp_fixture_connect(&fixture);

    say(one, "select 1\r\n");
    hear(one, "+OK\r\n");
    struct okv_resp_client *client = only_client();
    snprintf(client->common.user, sizeof client->common.user, "one");
    say(other, "client kill id 1\r\n");
    hear(other, ":1\r\n");
    hear_end(one);
    one = resp_fixture_connect(&fixture);
    say(one, "select 1\r\n");
    hear(one, "+OK\r\n");
    client = TAILQ_LAST(&fixture.worker.resp->all, okv_resp_client_list);
    snprintf(client->common.user, sizeof client->common.user, "one");
    only_client()->rights[1] = OKV_RIGHT_READ | OKV_RIGHT_WRITE;
    say(other, "client kill id 3\r\nclient list id 3\r\n");
    hear(other, ":0\r\n$0\r\n\r\n");
    leave(one);
    leave(other);
}

FIXTURE_TEST(who_does_not_say_who_it_is_has_a_while)
{
    struct okv_server *server = fixture.core.server;
    struct okv_resp *resp = fixture.worker.resp;
    int fd = resp_fixture_connect(&fixture);

    server->config.hello_ms = 5;
    say(fd, "PING\r\n");
    hear(fd, "+PONG\r\n");
    uint64_t last_ns = only_client()->unauthenticated_ns + 5000000;
    okv_resp_scan(resp, last_ns + 1, true); /* the server serves everybody */
    only_client()->is_authenticated = false;
    okv_resp_login_begin(only_client()); /* as RESET does, which anybody may give */
    only_client()->is_authenticated = false;
    okv_resp_scan(resp, last_ns, true);
    assert_int_equal(atomic_load(&resp->clients), 1);
    okv_resp_scan(resp, last_ns + 1, true);
    assert_int_equal(atomic_load(&resp->clients), 0);
    assert_int_equal(atomic_load(&server->stats.closed_half_open), 1);
    close(fd);
}

/* A page of the web can have a browser send this to any port. */
FIXTURE_TEST(a_browser_is_not_served)
{
    static const char *const lines[] = {"POST / HTTP/1.1\r\nset k v\r\n", "host: a\r\nset k v\r\n"};

    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        int fd = resp_fixture_connect(&fixture);
        say(fd, lines[i]);
        hear_end(fd);
    }
    server_core_expect(&fixture.core, "k", 0, 0, 0);
}

/* Somebody else has the descriptor of a client that ends, and keeps it. */
FIXTURE_TEST(no_events_come_of_who_has_ended)
{
    int fd = resp_fixture_connect(&fixture);
    struct epoll_event event;

    passes(1);
    int copy = dup(only_client()->stream.fd);
    assert_true(copy >= 0);
    okv_resp_client_close(only_client());
    close(fd);
    assert_int_equal(epoll_wait(fixture.worker.resp->epoll_fd, &event, 1, 0), 0);
    close(copy);
}
