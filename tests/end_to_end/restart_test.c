/* Handles that go on when their server dies under load and another takes its address. */
#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/pace.h"
#include "tests/support/server_process.h"

static const char *const small[] = {"--memory", "16M", NULL};

enum { ROUNDS = 5, UNDER_WAY = 16, KEYS = 64 };

static char directory[64];

/* All servers of a test are to listen at one place. */
static int address_setup(void **state)
{
    char uri[128];

    (void)state;
    directory[0] = '\0';
    if (getenv("OKV_TEST_LISTEN") || getenv("OKV_TEST_URI"))
        return 0;
    snprintf(directory, sizeof directory, "/tmp/okv-restart-XXXXXX");
    assert_non_null(mkdtemp(directory));
    snprintf(uri, sizeof uri, "local://%s/s", directory);
    return setenv("OKV_TEST_URI", uri, 1);
}

static int address_teardown(void **state)
{
    static const char *const names[] = {"s", "s.lock"};
    char path[128];

    (void)state;
    if (!directory[0])
        return 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    rmdir(directory);
    return unsetenv("OKV_TEST_URI");
}

static uint64_t now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000u + (uint64_t)now.tv_nsec / 1000000u;
}

/* ---- load: gets and puts of a few keys, UNDER_WAY at a time ---- */

enum { FREE, GET, PUT };

struct load {
    okv *handle;
    int kinds[UNDER_WAY];           /* of what is under way */
    bool before_restart[UNDER_WAY]; /* it was under way when the server ended */
    uint64_t gets_over_a_restart;   /* of those, gets that ended well */
    char buffers[UNDER_WAY][32];
    char keys[UNDER_WAY][16];
    uint64_t begun;
    uint64_t good;
    uint64_t unknown;
};

/* Puts are slow where each waits for a disk. So only some tags put, and gets are always under way.
 */
static void submit_next(struct load *load, uint64_t tag)
{
    bool is_get = tag % 3;
    struct okv_command command = {.tag = tag, .key = load->keys[tag]};
    uint64_t n = load->begun++;

    command.key_length =
        (size_t)snprintf(load->keys[tag], sizeof load->keys[tag], "key-%d", (int)(n % KEYS));
    command.kind = is_get ? OKV_GET : OKV_PUT;
    load->kinds[tag] = is_get ? GET : PUT;
    load->before_restart[tag] = false;
    if (command.kind == OKV_GET) {
        command.buffer = load->buffers[tag];
        command.buffer_size = sizeof load->buffers[tag];
    } else {
        command.value = command.key;
        command.value_length = command.key_length;
    }
    assert_int_equal(okv_submit(load->handle, &command, 1, NULL), OKV_OK);
}

/* A write may be unknown, a read may miss what is gone; nothing else is seen of it all. */
static void check_result(struct load *load, const struct okv_result *result)
{
    if (result->status == OKV_EUNKNOWN) {
        assert_int_equal(load->kinds[result->tag], PUT);
        load->unknown++;
        return;
    }
    load->gets_over_a_restart +=
        load->kinds[result->tag] == GET && load->before_restart[result->tag];
    if (result->status != OKV_OK && result->status != OKV_ENOTFOUND)
        fail_msg("%s: %s", okv_errname(result->status), okv_why(load->handle));
    if (result->length > 0)
        assert_memory_equal(load->buffers[result->tag], load->keys[result->tag], result->length);
    load->good++;
}

static void load_turn(struct load *load)
{
    struct okv_result results[UNDER_WAY];
    int n = okv_poll(load->handle, results, UNDER_WAY);

    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        check_result(load, &results[i]);
        submit_next(load, results[i].tag);
    }
}

static void load_run(struct load *load, uint64_t ms, uint64_t good)
{
    uint64_t from = load->good, until = now_ms() + ms, give_up = now_ms() + PACE_GUARD_MS;

    while (now_ms() < until || load->good < from + good) {
        load_turn(load);
        if (now_ms() > give_up)
            fail_msg("no progress: %s", okv_why(load->handle));
    }
}

/* The server is gone, and another comes. Since the end began no more became unknown than what was
 * under way then: nothing that was sent after it, nor what waited for the next server. */
static void load_on_the_next(struct load *load, struct server_process *server, uint64_t unknown)
{
    for (int tag = 0; tag < UNDER_WAY; tag++)
        load->before_restart[tag] = true;
    server_start(server, small);
    load_run(load, 0, 1000);
    assert_string_equal(okv_why(load->handle), "");
    assert_true(load->unknown - unknown <= UNDER_WAY);
}

static void load_begin(struct load *load, const struct server_process *server)
{
    struct okv_options options = {.depth = UNDER_WAY};

    memset(load, 0, sizeof *load);
    load->handle = server_connect(server, &options);
    for (uint64_t tag = 0; tag < UNDER_WAY; tag++)
        submit_next(load, tag);
}

#define RESTART_TEST(name) TEST_WITH(name, address_setup, address_teardown)

RESTART_TEST(killed_under_load)
{
    struct server_process server;
    struct okv_counters counters;
    struct load load;

    server_start(&server, small);
    load_begin(&load, &server);
    for (int round = 0; round < ROUNDS; round++) {
        load_run(&load, 20, 1000);
        uint64_t unknown = load.unknown;
        server_signal(&server, SIGKILL);
        load_run(&load, (uint64_t)round * 10, 0);
        load_on_the_next(&load, &server, unknown);
    }
    okv_counters(load.handle, &counters);
    print_message("%lu operations, %lu unknown, %lu connections, %lu gets over a restart\n",
                  (unsigned long)load.good, (unsigned long)load.unknown,
                  (unsigned long)counters.reconnects + 1, (unsigned long)load.gets_over_a_restart);
    assert_true(counters.reconnects >= ROUNDS);
    assert_true(load.gets_over_a_restart > 0);
    okv_close(&load.handle);
    assert_int_equal(server_stop(&server), 0);
}

/* A server that ends in order answers all that it was sent. */
RESTART_TEST(ended_under_load)
{
    struct server_process server;
    struct load load;

    server_start(&server, small);
    load_begin(&load, &server);
    for (int round = 0; round < ROUNDS; round++) {
        load_run(&load, 20, 1000);
        uint64_t unknown = load.unknown;
        kill(server.pid, SIGTERM);
        load_run(&load, 100, 0); /* what it said goodbye to leaves */
        server_stop(&server);
        load_on_the_next(&load, &server, unknown);
    }
    assert_true(load.gets_over_a_restart > 0);
    print_message("%lu operations, %lu unknown\n", (unsigned long)load.good,
                  (unsigned long)load.unknown);
    okv_close(&load.handle);
    assert_int_equal(server_stop(&server), 0);
}

/* The one descriptor that was asked for at the beginning wakes for all of it, and no deadline is
 * so near that it could do so instead. */
RESTART_TEST(event_loop_goes_on)
{
    const struct okv_options options = {.timeout_ms = 10 * PACE_GUARD_MS,
                                        .keepalive_ms = OKV_KEEPALIVE_NONE};
    struct server_process server;
    struct okv_result result;
    char buffer[16];

    server_start(&server, small);
    okv *handle = server_connect(&server, &options);
    struct pollfd fd = {.fd = okv_fd(handle), .events = POLLIN};
    server_signal(&server, SIGKILL);
    assert_int_equal(okv_submit_get(handle, "key", 3, buffer, sizeof buffer, 1), OKV_OK);
    for (int woken = 0, rc = 0; rc == 0; woken++) {
        if (woken == 5)
            server_start(&server, small);
        assert_true(woken < 10000);
        assert_int_equal(okv_arm(handle), OKV_OK);
        rc = okv_poll(handle, &result, 1);
        if (rc == 0)
            assert_int_equal(poll(&fd, 1, PACE_GUARD_MS), 1);
        assert_int_equal(okv_fd(handle), fd.fd);
    }
    assert_int_equal(result.status, OKV_ENOTFOUND);
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
}

/* Kills the server, starts it again, and returns what a handle gets that reconnects only where the
 * items are. */
static int get_after_a_kill(const char *const *arguments)
{
    const struct okv_options options = {.reconnect = OKV_RECONNECT_IF_KEPT};
    struct server_process server;
    char buffer[16];
    size_t length = 0;

    server_start(&server, arguments);
    okv *handle = server_connect(&server, &options);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    server_signal(&server, SIGKILL);
    server_start(&server, arguments);
    int rc = okv_get(handle, "key", 3, buffer, sizeof buffer, &length, NULL);
    if (rc == OKV_OK)
        assert_memory_equal(buffer, "value", length);
    else
        assert_non_null(strstr(okv_why(handle), "without the items"));
    okv_close(&handle);
    assert_int_equal(server_stop(&server), 0);
    return rc;
}

RESTART_TEST(lost_items_are_told)
{
    char data[] = "/tmp/okv-restart-data-XXXXXX", command[64];

    assert_non_null(mkdtemp(data));
    const char *const durable[] = {"--memory", "16M", "--data", data, NULL};
    assert_int_equal(get_after_a_kill(small), OKV_ELOST);
    assert_int_equal(get_after_a_kill(durable), OKV_OK);
    snprintf(command, sizeof command, "rm -rf %s", data);
    assert_int_equal(system(command), 0);
}
