/*
 * A local:// client that is killed while a child of its process lives: the child has the client's
 * socket open, and so does not let it end. The server finds out that the client is gone all the
 * same, and its place is free for another.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

#define NAP_NS 100000000

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

static void the_place_of_a_killed_client_is_free_though_its_child_lives(void **state)
{
    static const char *const arguments[] = {
        "--memory", "16M", "--max-clients", "1", "--keepalive-ms", "300", NULL};
    struct server_process server;
    struct family family;
    okv *handle;
    int rc;

    (void)state;
    if (server_is_rdma())
        skip();
    server_start(&server, arguments);
    start_family(&family, &server);
    assert_int_equal(try_open(&server, &handle), OKV_EREFUSED);
    kill_client(&family);
    for (uint64_t end = pace_guard_end();
         (rc = try_open(&server, &handle)) && okv_clock_ns() < end;)
        nanosleep(&(struct timespec){0, NAP_NS}, NULL);
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(server_stat(handle, "closed_lost"), 1);
    okv_close(&handle);
    end_child(&family);
    assert_int_equal(server_stop(&server), 0);
}

/* A process that lives keeps its place, however long it says nothing. */
static void a_client_that_lives_keeps_its_place(void **state)
{
    static const char *const arguments[] = {"--memory", "16M", "--keepalive-ms", "200", NULL};
    struct server_process server;
    struct family family;

    (void)state;
    if (server_is_rdma())
        skip();
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_place_of_a_killed_client_is_free_though_its_child_lives),
        cmocka_unit_test(a_client_that_lives_keeps_its_place),
    };

    return cmocka_run_group_tests_name("forked child", tests, NULL, NULL);
}
