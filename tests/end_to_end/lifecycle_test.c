/* Servers and clients that stop, die, or say goodbye. */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_process.h"

static const char *const small[] = {"--memory", "16M", NULL};

enum { KEYS = 1000, GETS = 100000, SHARED_GETS = 50000, TICK_NS = 10000000 };

static void put_keys(okv *handle)
{
    char key[16];

    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "key-%d", i);
        assert_int_equal(okv_put(handle, key, strlen(key), key, strlen(key), NULL), OKV_OK);
    }
}

/* What gets may cost a server that runs: it writes its status ten times a second, and does not spin
 * meanwhile. Its CPU time tells that less well than how often it wakes: where processors are
 * emulated, a process is charged for what others take from them. */
static void expect_no_part_of_the_server(uint64_t sleeps, uint64_t cpu_ticks, uint64_t ns)
{
    print_message("the server woke %lu times and took %lu ticks of %lu\n", (unsigned long)sleeps,
                  (unsigned long)cpu_ticks, (unsigned long)(ns / TICK_NS));
    assert_true(sleeps <= 100 + 50 * (ns / 1000000000u));
    assert_true(cpu_ticks <= 1 + ns / TICK_NS / 10);
}

/* Gets that are all answered, by at most 1.05 READs on average (the table leaves 40 of 1000 small
 * items in extents at most), without a part of the server in any. */
static void get_keys(const struct server_process *server, okv *handle, bool runs)
{
    struct okv_counters before, after;
    char key[16], value[32];
    size_t length;

    uint64_t cpu = server_cpu_ticks(server), sleeps = server_sleeps(server);
    uint64_t begun = okv_clock_ns();
    okv_counters(handle, &before);
    for (int i = 0; i < GETS; i++) {
        snprintf(key, sizeof key, "key-%d", i % KEYS);
        if (okv_get(handle, key, strlen(key), value, sizeof value, &length, NULL) != OKV_OK ||
            length != strlen(key) || memcmp(value, key, length) != 0)
            fail_msg("get %d failed", i);
    }
    okv_counters(handle, &after);
    uint64_t spent = server_cpu_ticks(server) - cpu;
    print_message("%d gets, %lu READs\n", GETS, (unsigned long)(after.reads - before.reads));
    if (runs)
        expect_no_part_of_the_server(server_sleeps(server) - sleeps, spent, okv_clock_ns() - begun);
    else
        assert_int_equal(spent, 0);
    assert_int_equal(after.hits - before.hits, GETS);
    assert_true(after.reads - before.reads >= GETS);
    assert_true(after.reads - before.reads <= GETS + GETS / 20);
    assert_int_equal(after.requests, before.requests);
}

/* Over ofi it is the provider that decides. */
static void needs_gets(struct server_process *server, okv *handle, bool one_sided)
{
    if (server_is_one_sided(handle) == one_sided)
        return;
    okv_close(&handle);
    assert_int_equal(server_stop(server), 0);
    skip();
}

/* Reads go on and cost the server nothing, even when it cannot run at all. */
TEST(stopped_server_answers_gets)
{
    struct server_process server;

    server_start(&server, small);
    okv *handle = server_connect(&server, NULL);
    needs_gets(&server, handle, true);
    put_keys(handle);
    server_signal(&server, SIGSTOP);
    get_keys(&server, handle, false);
    server_signal(&server, SIGCONT);
    assert_int_equal(okv_ping(handle), OKV_OK);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* A server that could run does not either: it sleeps while its table is read. */
TEST(gets_cost_the_server_nothing)
{
    static const char *const no_heartbeats[] = {"--memory", "16M", "--keepalive-ms", "600000",
                                                NULL};
    struct okv_options options = {.keepalive_ms = OKV_KEEPALIVE_NONE};
    struct server_process server;

    server_start(&server, no_heartbeats);
    okv *handle = server_connect(&server, &options);
    needs_gets(&server, handle, true);
    put_keys(handle);
    pace_sleep_ms(500); /* until it sleeps */
    get_keys(&server, handle, true);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* A server that serves READs stays awake for the next one, as for the next request. */
TEST(reads_keep_their_server_awake)
{
    static const char *const arguments[] = {"--memory", "16M", "--spin-us", "1000000", NULL};
    enum { READS = 200 };
    struct server_process server;
    char value[8];
    size_t length;

    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    needs_gets(&server, handle, false);
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_OK);
    uint64_t sleeps = server_stat(handle, "sleeps");
    pace_sleep_ms(1500); /* until it sleeps */
    for (int i = 0; i < READS; i++)
        assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_OK);
    sleeps = server_stat(handle, "sleeps") - sleeps;
    print_message("%d gets, the server slept %lu times\n", READS, (unsigned long)sleeps);
    assert_true(sleeps < READS / 2);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* An operation whose deadline soon passes, unless somebody answers; the others of a handle have
 * the usual time, so that a busy machine is no reason to miss it. */
static int call_for(okv *handle, uint32_t timeout_ms, uint32_t kind)
{
    struct okv_command command = {.kind = kind, .timeout_ms = timeout_ms};
    struct okv_result result;

    if (kind == OKV_PUT) {
        command.key = "k", command.key_length = 1;
        command.value = "v", command.value_length = 1;
    }
    okv_call(handle, &command, &result);
    return result.status;
}

/* A write that a stopped server does not answer has an unknown outcome. */
TEST(stopped_server_leaves_writes_unknown)
{
    struct server_process server;
    char value[8];
    size_t length;

    server_start(&server, small);
    okv *handle = server_connect(&server, NULL);
    needs_gets(&server, handle, true);
    server_signal(&server, SIGSTOP);
    assert_int_equal(call_for(handle, pace_ms(300), OKV_PUT), OKV_EUNKNOWN);
    assert_int_equal(call_for(handle, pace_ms(300), OKV_PING), OKV_ETIMEDOUT);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_ENOTFOUND);
    server_signal(&server, SIGCONT);
    /* The late answers find their operations gone and disturb nothing. */
    assert_int_equal(okv_put(handle, "k2", 2, "v2", 2, NULL), OKV_OK);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_OK);
    assert_int_equal(okv_get(handle, "k2", 2, value, sizeof value, &length, NULL), OKV_OK);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* A handle of depth 1 goes on reading while its one timed-out write is unanswered. */
TEST(unanswered_write_leaves_reads_alone)
{
    const struct okv_options options = {.depth = 1};
    const struct okv_command put = {.kind = OKV_PUT,
                                    .tag = 7,
                                    .key = "k",
                                    .key_length = 1,
                                    .value = "w",
                                    .value_length = 1,
                                    .timeout_ms = pace_ms(200)};
    struct server_process server;
    struct okv_result result;
    char value[8];
    size_t length;

    server_start(&server, small);
    okv *handle = server_connect(&server, &options);
    needs_gets(&server, handle, true);
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_OK);
    server_signal(&server, SIGSTOP);
    assert_int_equal(okv_submit(handle, &put, 1, NULL), OKV_OK);
    assert_int_equal(okv_wait(handle, 3600000), OKV_OK); /* the put's deadline ends it */
    assert_int_equal(okv_poll(handle, &result, 1), 1);
    assert_int_equal(result.status, OKV_EUNKNOWN);
    assert_int_equal(result.tag, 7);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_OK);
    assert_memory_equal(value, "v", 1);
    server_signal(&server, SIGCONT);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

static const struct okv_options fragile = {.reconnect = OKV_RECONNECT_NEVER};

static int wait_for_failure(okv *handle)
{
    struct okv_result result;
    int rc = 0;

    for (uint64_t end = pace_guard_end(); rc == 0 && okv_clock_ns() < end;) {
        okv_wait(handle, 100);
        rc = okv_poll(handle, &result, 1);
    }
    return rc;
}

TEST(goodbye)
{
    struct server_process server;
    char value[8];
    size_t length;

    server_start(&server, small);
    okv *handle = server_connect(&server, &fragile);
    assert_int_equal(kill(server.pid, SIGTERM), 0);
    assert_int_equal(wait_for_failure(handle), OKV_ESHUTDOWN);
    assert_int_equal(server_wait(&server), 0);
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_ESHUTDOWN);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_ESHUTDOWN);
    assert_non_null(strstr(okv_why(handle), "shutting down"));
    okv_close(&handle);
}

TEST(killed_server)
{
    struct server_process server;
    char value[8];
    size_t length;

    server_start(&server, small);
    okv *handle = server_connect(&server, &fragile);
    assert_int_equal(okv_put(handle, "k", 1, "v", 1, NULL), OKV_OK);
    server_signal(&server, SIGKILL);
    int rc = wait_for_failure(handle);
    assert_int_equal(rc, OKV_EDISCONNECTED);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL),
                     OKV_EDISCONNECTED);
    assert_true(strlen(okv_why(handle)) > 10);
    okv_close(&handle);
    server_stop(&server);
}

/* Writes "AAAA…" and "BBBB…" alternately until it is killed. */
static int put_for_ever(const char *uri)
{
    static char value[8192];
    okv *handle;

    if (patient_open(uri, NULL, &handle, NULL, 0))
        return 1;
    for (int i = 0;; i++) {
        memset(value, i % 2 ? 'B' : 'A', sizeof value);
        if (okv_put(handle, "victim", 6, value, sizeof value, NULL))
            return 1;
    }
}

/* A program of its own: a forked child must not use its parent's RDMA device. */
static pid_t start_victim(const struct server_process *server)
{
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0) {
        execl("/proc/self/exe", "lifecycle_test", "put-for-ever", server->uri, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void assert_not_mixed(okv *handle)
{
    static char value[8192];
    size_t length;
    int rc = okv_get(handle, "victim", 6, value, sizeof value, &length, NULL);

    if (rc == OKV_ENOTFOUND)
        return;
    assert_int_equal(rc, OKV_OK);
    assert_int_equal(length, sizeof value);
    for (size_t i = 1; i < length; i++)
        if (value[i] != value[0])
            fail_msg("a value mixed of %c and %c", value[0], value[i]);
}

TEST(killed_clients_leave_nothing)
{
    struct server_process server;

    server_start(&server, small);
    okv *handle = server_connect(&server, NULL);
    for (int round = 0; round < 10; round++) {
        uint64_t puts = server_stat(handle, "puts");
        pid_t pid = start_victim(&server);
        server_await_stat_from(handle, "puts", puts + 3);
        pace_sleep_ms((unsigned)round * 7);
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        assert_not_mixed(handle);
    }
    /* What the dead had is back. */
    server_await_stat(handle, "sessions", 1);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* One table behind several URIs: over RDMA here, over shared memory there. */
TEST(several_listeners)
{
    char directory[] = "/tmp/okv-second-XXXXXX", second[64], why[320], value[8];
    const char *const arguments[] = {"--memory", "16M", "--listen", second, NULL};
    struct server_process server;
    size_t length;
    okv *other;

    assert_non_null(mkdtemp(directory));
    snprintf(second, sizeof second, "local://%s/s", directory);
    server_start(&server, arguments);
    okv *handle = server_connect(&server, NULL);
    if (patient_open(second, NULL, &other, why, sizeof why))
        fail_msg("%s", why);
    assert_int_equal(okv_put(handle, "k", 1, "here", 4, NULL), OKV_OK);
    assert_int_equal(okv_get(other, "k", 1, value, sizeof value, &length, NULL), OKV_OK);
    assert_int_equal(length, 4);
    assert_int_equal(okv_put(other, "k", 1, "there!", 6, NULL), OKV_OK);
    assert_int_equal(okv_get(handle, "k", 1, value, sizeof value, &length, NULL), OKV_OK);
    assert_memory_equal(value, "there!", 6);
    okv_close(&other);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
    assert_int_equal(rmdir(directory), 0); /* nothing was left in it */
}

TEST(full_server_says_so)
{
    static const char *const two[] = {
        "--memory", "16M", "--max-clients", "2", "--max-clients-per-address", "0", NULL};
    struct server_process server;
    char why[320];
    okv *third;

    server_start(&server, two);
    okv *first = server_connect(&server, NULL);
    okv *second = server_connect(&server, NULL);
    assert_int_equal(patient_open(server.uri, NULL, &third, why, sizeof why), OKV_EREFUSED);
    assert_non_null(strstr(why, "--max-clients"));
    okv_close(&second);
    int rc = OKV_EREFUSED;
    for (uint64_t end = pace_guard_end(); rc == OKV_EREFUSED && okv_clock_ns() < end;) {
        pace_sleep_ms(10);
        rc = patient_open(server.uri, NULL, &third, why, sizeof why);
    }
    assert_int_equal(rc, OKV_OK);
    okv_close(&third);
    okv_close(&first);
    assert_int_equal(server_stop(&server), 0);
}

/* CPU ticks of the server in half a second. */
static uint64_t ticks_in_a_while(const struct server_process *server)
{
    uint64_t before = server_cpu_ticks(server);

    pace_sleep_ms(500);
    return server_cpu_ticks(server) - before;
}

/* One tick at most in half a second; one that spins takes all that it gets, always. Emulated
 * processors that others want charge a process for their time now and then: it is tried again. */
TEST(idle_server_sleeps)
{
    uint64_t end = pace_guard_end();
    struct server_process server;

    server_start(&server, small);
    okv *handle = server_connect(&server, NULL);
    assert_int_equal(okv_ping(handle), OKV_OK);
    pace_sleep_ms(200);
    while (ticks_in_a_while(&server) > 1)
        assert_true(okv_clock_ns() < end);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

struct sharer {
    pthread_t thread;
    okv *handle;
    int served, refused;
};

static void *share(void *user)
{
    struct sharer *sharer = user;
    char key[16], value[32];
    size_t length;

    for (int i = 0; i < SHARED_GETS; i++) {
        snprintf(key, sizeof key, "key-%d", i % KEYS);
        int rc = okv_get(sharer->handle, key, strlen(key), value, sizeof value, &length, NULL);
        sharer->refused += rc == OKV_EINVAL;
        sharer->served += rc == OKV_OK && length == strlen(key) && memcmp(value, key, length) == 0;
    }
    return NULL;
}

/* A mistake: each get has the right value, or is refused. */
TEST(threads_that_share_a_handle_get_no_wrong_value)
{
    struct server_process server;
    struct sharer sharers[2], last = {0};

    server_start(&server, small);
    okv *handle = server_connect(&server, NULL);
    put_keys(handle);
    for (size_t i = 0; i < 2; i++) {
        sharers[i] = (struct sharer){.handle = handle};
        assert_int_equal(pthread_create(&sharers[i].thread, NULL, share, &sharers[i]), 0);
    }
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(pthread_join(sharers[i].thread, NULL), 0);
        assert_int_equal(sharers[i].served + sharers[i].refused, SHARED_GETS);
    }
    last.handle = handle; /* which is whole */
    share(&last);
    assert_int_equal(last.served, SHARED_GETS);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

int main(int argc, char **argv)
{
    if (argc == 3 && strcmp(argv[1], "put-for-ever") == 0)
        return put_for_ever(argv[2]);
    return test_run();
}
