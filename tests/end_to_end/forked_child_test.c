/*
 * Clients that fork. A child can open a handle of its own, whatever its parent did before, and
 * nothing that it does reaches its parent's handle: not what it does to its memory, and not the
 * calls that it makes, each of which is refused.
 *
 * A client that is killed while a child of its process lives: the child has the client's
 * descriptors open, and so does not let it end. Over local:// the server finds out that the client
 * is gone all the same, and its place is free for another. Over other transports it is when the
 * child ends.
 */
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/handle_calls.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

#define NAP_NS 100000000
#define LONG_VALUE ((size_t)100000) /* lies in an extent that is read without a copy */
#define ROUNDS 6

struct family {
    pid_t client;
    int word; /* "r" comes when the client has a place and the child lives; closed when both are
                 gone */
    int life; /* the child lives until this is closed */
};

/* The child of the client. Its parent was the client of the server, and it is not. */
static void live_on(int life)
{
    char byte;

    while (read(life, &byte, 1) > 0)
        ;
    _exit(0);
}

static void be_client(const struct server_process *server, int word, int life)
{
    okv *handle;

    if (patient_open(server->uri, NULL, &handle, NULL, 0) || okv_ping(handle))
        _exit(1);
    pid_t child = fork();
    if (child == 0)
        live_on(life);
    if (child < 0 || write(word, "r", 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void start_family(struct family *family, const struct server_process *server)
{
    int word[2], life[2];
    char byte = 0;

    assert_int_equal(pipe(word), 0);
    assert_int_equal(pipe(life), 0);
    family->client = fork();
    assert_true(family->client >= 0);
    if (family->client == 0) {
        close(word[0]);
        close(life[1]);
        be_client(server, word[1], life[0]);
    }
    close(word[1]);
    close(life[0]);
    family->word = word[0];
    family->life = life[1];
    assert_int_equal(read(family->word, &byte, 1), 1);
    assert_int_equal(byte, 'r');
}

static void kill_client(const struct family *family)
{
    int status;

    assert_int_equal(kill(family->client, SIGKILL), 0);
    assert_int_equal(waitpid(family->client, &status, 0), family->client);
    assert_true(WIFSIGNALED(status));
}

/* The child ends, and with it the last one that has the pipe. */
static void end_child(const struct family *family)
{
    char byte;

    close(family->life);
    assert_int_equal(read(family->word, &byte, 1), 0);
    close(family->word);
}

static int try_open(const struct server_process *server, okv **out)
{
    char why[320] = "";
    int rc = patient_open(server->uri, NULL, out, why, sizeof why);

    if (rc) {
        assert_int_equal(rc, OKV_EREFUSED);
        assert_non_null(strstr(why, "raise its --max-clients"));
    }
    return rc;
}

static void await_place(const struct server_process *server, okv **out)
{
    int rc;

    for (uint64_t end = pace_guard_end(); (rc = try_open(server, out)) && okv_clock_ns() < end;)
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    assert_int_equal(rc, OKV_OK);
}

TEST(the_place_of_a_killed_client_is_free_though_its_child_lives)
{
    static const char *const arguments[] = {
        "--memory", "16M", "--max-clients", "1", "--keepalive-ms", "300", NULL};
    struct server_process server;
    struct family family;
    okv *handle;

    server_start(&server, arguments);
    start_family(&family, &server);
    assert_int_equal(try_open(&server, &handle), OKV_EREFUSED);
    kill_client(&family);
    if (!server_is_local()) { /* the child has the connection's descriptors */
        nanosleep(&(struct timespec){1, 0}, NULL);
        assert_int_equal(try_open(&server, &handle), OKV_EREFUSED);
        end_child(&family);
        await_place(&server, &handle);
    } else {
        await_place(&server, &handle);
        end_child(&family);
    }
    assert_int_equal(server_stat(handle, "closed_lost"), 1);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* A process that lives keeps its place, however long it says nothing. */
TEST(a_client_that_lives_keeps_its_place)
{
    static const char *const arguments[] = {"--memory", "16M", "--keepalive-ms", "200", NULL};
    struct server_process server;
    struct family family;

    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    start_family(&family, &server);
    uint64_t before = server_stat(handle, "heartbeats");
    uint64_t end = pace_guard_end();
    while (server_stat(handle, "heartbeats") < before + 10) {
        assert_true(okv_clock_ns() < end);
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    }
    assert_int_equal(server_stat(handle, "sessions"), 2);
    assert_int_equal(server_stat(handle, "closed_lost"), 0);
    kill_client(&family);
    end_child(&family);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* ---- a child with a handle of its own ---- */

static int wait_for(pid_t child)
{
    int status;

    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    return status;
}

/* In a child: the step that failed, or 0. Its own children do the same. */
static int use_own_handle(const struct server_process *server, int generations)
{
    char value[8];
    size_t length;
    okv *handle;
    int status;

    if (generations == 0)
        return 0;
    if (patient_open(server->uri, NULL, &handle, NULL, 0))
        return 1;
    if (okv_put(handle, "child", 5, "value", 5, NULL))
        return 2;
    if (okv_get(handle, "child", 5, value, sizeof value, &length, NULL) || length != 5)
        return 3;
    pid_t child = fork();
    if (child == 0)
        _exit(use_own_handle(server, generations - 1));
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0)
        return 4;
    if (okv_put(handle, "child", 5, "value", 5, NULL))
        return 5;
    okv_close(&handle);
    return 0;
}

static void expect_children_with_handles(const struct server_process *server)
{
    pid_t child = fork();
    if (child == 0)
        _exit(use_own_handle(server, 2));
    assert_int_equal(wait_for(child), 0);
}

TEST(a_child_has_a_handle_of_its_own)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    struct server_process server;

    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    expect_children_with_handles(&server);
    assert_int_equal(okv_ping(handle), OKV_OK);
    okv_close(&handle);
    expect_children_with_handles(&server);
    handle = server_connect(&server, NULL);
    assert_int_equal(okv_ping(handle), OKV_OK);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* ---- a child that uses its parent's handle ---- */

/* In a child: the step that failed, or 0. */
static int use_parents_handle(const struct server_process *server, okv *handle, pid_t parent)
{
    char why[64];
    okv *own;

    snprintf(why, sizeof why, "process %d, which has forked this one", (int)parent);
    if (handle_calls_accepted(handle, why))
        return 1;
    if (patient_open(server->uri, NULL, &own, NULL, 0) || okv_ping(own))
        return 2;
    if (handle_calls_accepted(handle, why))
        return 3;
    okv_close(&handle);
    if (handle || okv_ping(own))
        return 4;
    okv_close(&own);
    return 0;
}

static void expect_refused_in_child(const struct server_process *server, okv *handle)
{
    pid_t parent = getpid(), child = fork();

    if (child == 0)
        _exit(use_parents_handle(server, handle, parent));
    assert_int_equal(wait_for(child), 0);
}

/* With a value that the server READs, one that the client READs in an extent, and one that is under
 * way when the process forks. */
TEST(a_child_is_refused_its_parents_handle_which_stays_whole)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    static char value[LONG_VALUE], back[LONG_VALUE];
    struct server_process server;
    struct okv_result result;
    struct okv_counters counters;
    size_t length;

    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    for (int round = 0; round < ROUNDS; round++) {
        memset(value, 'a' + round, sizeof value);
        assert_int_equal(okv_put(handle, "long", 4, value, sizeof value, NULL), OKV_OK);
        assert_int_equal(okv_submit_put(handle, "short", 5, value, 10, 0), OKV_OK);
        expect_refused_in_child(&server, handle);
        while (okv_pending(handle) > 0)
            if (okv_poll(handle, &result, 1) == 1)
                assert_int_equal(result.status, OKV_OK);
        assert_int_equal(okv_get(handle, "long", 4, back, sizeof back, &length, NULL), OKV_OK);
        assert_memory_equal(back, value, sizeof value);
        assert_int_equal(okv_get(handle, "short", 5, back, sizeof back, &length, NULL), OKV_OK);
        assert_int_equal(length, 10);
        assert_string_equal(okv_why(handle), "");
    }
    okv_counters(handle, &counters);
    assert_int_equal(counters.reconnects, 0);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* ---- a child that has its parent's memory ---- */

/* At each byte that comes it writes over the memory and answers; then it ends, one way or another.
 */
static void scribble(int sock, uint8_t *memory, int round)
{
    char byte;

    while (read(sock, &byte, 1) == 1 && byte == 's') {
        memset(memory, 0xee, LONG_VALUE);
        if (write(sock, &byte, 1) != 1)
            _exit(1);
    }
    if (round % 3 == 0)
        exit(0);
    if (round % 3 == 1)
        raise(SIGKILL);
    _exit(0);
}

static pid_t start_scribbler(int *sock, uint8_t *memory, int round)
{
    int pair[2];

    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    fflush(NULL); /* or the child writes it again */
    pid_t child = fork();
    if (child == 0) {
        close(pair[0]);
        scribble(pair[1], memory, round);
    }
    assert_true(child > 0);
    close(pair[1]);
    *sock = pair[0];
    return child;
}

static void tell(int sock, char what)
{
    assert_int_equal(write(sock, &what, 1), 1);
    if (what == 's')
        assert_int_equal(read(sock, &what, 1), 1);
}

/* The parent writes to the memory, the server reads it, and the device writes to it. */
static void use_memory(okv *handle, uint8_t *memory, int seed)
{
    size_t length;
    char key[8];

    for (size_t i = 0; i < LONG_VALUE; i++)
        memory[i] = (uint8_t)(i * 7 + i / 4096 + (unsigned)seed);
    assert_int_equal(okv_put(handle, "long", 4, memory, LONG_VALUE, NULL), OKV_OK);
    memset(memory, 0, LONG_VALUE);
    assert_int_equal(okv_get(handle, "long", 4, memory, LONG_VALUE, &length, NULL), OKV_OK);
    assert_int_equal(length, LONG_VALUE);
    for (size_t i = 0; i < LONG_VALUE; i++)
        if (memory[i] != (uint8_t)(i * 7 + i / 4096 + (unsigned)seed))
            fail_msg("byte %zu of the value is wrong", i);
    snprintf(key, sizeof key, "%d", seed);
    assert_int_equal(okv_put(handle, key, strlen(key), key, strlen(key), NULL), OKV_OK);
    assert_int_equal(okv_get(handle, key, strlen(key), memory, LONG_VALUE, &length, NULL), OKV_OK);
    assert_int_equal(length, strlen(key));
    assert_memory_equal(memory, key, length);
}

/* Not even images that had to be read again. */
static void expect_no_damage(const okv *handle)
{
    struct okv_counters counters;

    okv_counters(handle, &counters);
    assert_int_equal(counters.torn_buckets, 0);
    assert_int_equal(counters.torn_extents, 0);
    assert_int_equal(counters.fallbacks, 0);
    assert_int_equal(counters.reconnects, 0);
}

TEST(what_a_child_writes_and_how_it_ends_is_nothing_to_its_parent)
{
    static const char *const arguments[] = {"--memory", "16M", NULL};
    struct server_process server;
    okv_registration *registration;
    uint8_t *memory = malloc(LONG_VALUE); /* shares its pages with others' */
    int sock, seed = 0;

    assert_non_null(memory);
    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    assert_int_equal(okv_register(handle, memory, LONG_VALUE, &registration), OKV_OK);
    for (int round = 0; round < ROUNDS; round++) {
        pid_t child = start_scribbler(&sock, memory, round);
        use_memory(handle, memory, ++seed);
        tell(sock, 's');
        use_memory(handle, memory, ++seed);
        tell(sock, 'e');
        assert_int_equal(wait_for(child), round % 3 == 1 ? SIGKILL : 0);
        close(sock);
        use_memory(handle, memory, ++seed);
    }
    expect_no_damage(handle);
    pid_t child = start_scribbler(&sock, memory, 0);
    okv_close(&handle);
    handle = server_connect(&server, NULL);
    server_await_stat(handle, "closed_by_client", 1);
    tell(sock, 'e');
    assert_int_equal(wait_for(child), 0);
    close(sock);
    okv_close(&handle);
    free(memory);
    assert_int_equal(server_stop(&server), 0);
}
