/* Reading the users file again: who asks for it, and how often it is done. */
#include <fcntl.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/command/admin.h"
#include "server/identity/authority.h"
#include "server/net/acceptor.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "tests/support/pace.h"
#include "tests/support/server_core.h"
#include "tests/support/users_file.h"

#define ALICE "[alice]\nkey = " KEY_A "\ndefault = read\n"
#define SECOND UINT64_C(1000000000)

static struct server_core core;
static struct users_file file;
static struct okv_acceptor acceptor;

static int setup(void **state)
{
    static const struct okv_store_params params = {.length = UINT64_C(1) << 20, .max_value = 1000};
    static const char *const databases[] = {"default"};

    (void)state;
    assert_int_equal(okv_identity_init(), 0);
    users_file_open(&file);
    users_file_write(&file, ALICE);
    server_core_open(&core, &params);
    core.server->config.users = file.users;
    assert_int_equal(okv_authority_init(core.server->authority, file.users, databases, 1, NULL), 0);
    assert_int_equal(okv_acceptor_start(&acceptor, core.server, NULL), 0);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    okv_acceptor_stop(&acceptor);
    okv_authority_fini(core.server->authority);
    server_core_close(&core);
    users_file_close(&file);
    return 0;
}

static void ask(void)
{
    char answer[8];
    uint32_t used;

    assert_int_equal(okv_admin_run(core.server, core.database, (const uint8_t *)"reload", 6, answer,
                                   sizeof answer, &used),
                     0);
    assert_int_equal(used, 0);
}

static uint64_t reloads(void)
{
    return atomic_load(&core.server->stats.users_loaded);
}

static void await_reloads(uint64_t count)
{
    uint64_t end = pace_guard_end();

    while (reloads() < count) {
        assert_true(okv_clock_ns() < end);
        usleep(1000);
    }
}

#define RELOAD_TEST(name) TEST_WITH(name, setup, teardown)

/* However often administrators ask: the first is served at once, the others when a second is over,
 * all by one reload. */
RELOAD_TEST(administrators_have_one_reload_a_second)
{
    uint64_t begun_ns = okv_clock_ns(), end = pace_guard_end();

    while (reloads() < 3) {
        ask();
        assert_true(okv_clock_ns() < end);
        usleep(1000);
    }
    assert_true(okv_clock_ns() - begun_ns >= 2 * SECOND);
}

/* Who has to wait gets what is in the file then, and not the outcome of the reload before. */
RELOAD_TEST(a_late_reload_reads_the_file_again)
{
    ask();
    await_reloads(1);
    users_file_write(&file, ALICE "[bob]\n");
    ask();
    uint64_t end = pace_guard_end();
    while (atomic_load(&core.server->stats.users_refused) == 0) {
        assert_true(okv_clock_ns() < end);
        usleep(1000);
    }
    assert_false(atomic_load(&core.server->reload_is_asked));
    assert_int_equal(reloads(), 1);
}

/* Nor does a signal wait for what administrators do, and it serves those who wait. */
RELOAD_TEST(signals_are_not_limited)
{
    uint64_t begun_ns = okv_clock_ns();

    ask();
    await_reloads(1);
    ask();
    for (uint64_t i = 2; i <= 60; i++) {
        okv_acceptor_reload(&acceptor);
        await_reloads(i);
    }
    assert_true(okv_clock_ns() - begun_ns < 30 * SECOND);
}

/* Administrators cannot fill the log, and an operator reads what his signal did. */
RELOAD_TEST(the_log_has_a_limit_for_administrators)
{
    struct okv_log *log = &core.server->log;
    char line[OKV_LOG_TEXT_MAX + 16] = "";
    int ends[2];

    assert_int_equal(pipe2(ends, O_NONBLOCK | O_CLOEXEC), 0);
    /* A second that has had its lines, and does not end. */
    *log = (struct okv_log){.fd = ends[1], .second_ns = UINT64_MAX, .lines = OKV_LOG_LINES_MAX};
    pthread_mutex_init(&log->lock, NULL);
    ask();
    await_reloads(1);
    okv_acceptor_reload(&acceptor);
    await_reloads(2);
    okv_acceptor_stop(&acceptor);
    assert_int_equal(log->left_out, 1);
    assert_true(read(ends[0], line, sizeof line - 1) > 0);
    assert_non_null(strstr(line, "users loaded from "));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1); /* one line */
    okv_log_fini(log);
    close(ends[0]);
    close(ends[1]);
    okv_log_init(log, STDERR_FILENO, OKV_LOG_TEXT);
    assert_int_equal(okv_acceptor_start(&acceptor, core.server, NULL), 0);
}
