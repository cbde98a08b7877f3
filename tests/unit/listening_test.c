/* Listening at an address in use: the number of attempts, and the log. The transport's address
 * becomes free after a number of attempts that the test sets. Naps take no time. */
#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/net/listening.h"
#include "shared/base/error.h"
#include "shared/transport/common/pending.h"

#define FOR_EVER UINT32_MAX

struct fixture {
    struct okv_server server;
    FILE *log;
    char text[1024];
};

static struct okv_pending pending;
static struct okv_listener listener = {.pending = &pending};
static unsigned attempts, free_after; /* attempts that find the address in use */
static int failure;                   /* result of later attempts; 0: it listens */
static uint64_t slept_ns;

int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
                 const sigset_t *mask);

/* Signals that end a server end the wait. */
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
                 const sigset_t *mask)
{
    (void)fds;
    assert_int_equal(count, 0);
    assert_false(sigismember(mask, SIGTERM));
    assert_false(sigismember(mask, SIGINT));
    assert_true(sigismember(mask, SIGHUP));
    slept_ns += (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
    return 0;
}

static int busy_listen(const struct okv_uri *uri, const struct okv_region *regions, unsigned count,
                       struct okv_listener **out, struct okv_diag *diag)
{
    (void)uri, (void)regions, (void)count;
    if (attempts++ < free_after)
        return okv_diag_set(diag, OKV_EAGAIN, "another server already listens");
    if (failure)
        return okv_diag_set(diag, failure, "something else");
    *out = &listener;
    return 0;
}

static const struct okv_transport_ops OPS = {.name = "busy", .listen = busy_listen};

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->log = tmpfile();
    assert_non_null(fixture->log);
    okv_log_init(&fixture->server.log, fileno(fixture->log), OKV_LOG_TEXT);
    attempts = free_after = 0;
    failure = 0;
    slept_ns = 0;
    pending = (struct okv_pending){.max = 1, .silence_ns = 7, .usual_silence_ns = 7};
    *state = fixture;
    return 0;
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    okv_log_fini(&fixture->server.log);
    fclose(fixture->log);
    free(fixture);
    return 0;
}

/* Listens; fixture->text gets the log. */
static int listen_at(struct fixture *fixture, const char *where, struct okv_diag *diag)
{
    struct okv_listener *out = NULL;
    struct okv_uri uri;

    assert_int_equal(okv_uri_parse(where, &uri, NULL), 0);
    sigset_t serving, before; /* as main blocks them */
    sigemptyset(&serving);
    sigaddset(&serving, SIGTERM);
    sigaddset(&serving, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &serving, &before);
    int rc = okv_server_listen(&fixture->server, &OPS, &uri, &out, diag);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    assert_true((rc == 0) == (out == &listener));
    ssize_t length = pread(fileno(fixture->log), fixture->text, sizeof fixture->text - 1, 0);
    assert_true(length >= 0);
    fixture->text[length] = '\0';
    return rc;
}

#define FIXTURE_TEST(name) TEST_WITH(name, set_up, tear_down)

FIXTURE_TEST(a_free_address_is_used_at_once)
{
    struct fixture *fixture = *state;
    struct okv_diag diag = {""};

    assert_int_equal(listen_at(fixture, "local:///run/okv.sock", &diag), 0);
    assert_int_equal(attempts, 1);
    assert_int_equal(slept_ns, 0);
    assert_string_equal(fixture->text, "");
}

FIXTURE_TEST(an_address_that_becomes_free_is_waited_for)
{
    struct fixture *fixture = *state;
    struct okv_diag diag = {""};

    free_after = 50;
    assert_int_equal(listen_at(fixture, "local:///run/okv.sock", &diag), 0);
    assert_int_equal(attempts, 51);
    assert_string_equal(fixture->text,
                        "okv-server: local:///run/okv.sock is in use: waiting up to 5 s "
                        "for a server that may be ending\n");
}

FIXTURE_TEST(an_address_that_stays_in_use_is_given_up)
{
    struct fixture *fixture = *state;
    struct okv_diag diag = {""};

    free_after = FOR_EVER;
    assert_int_equal(listen_at(fixture, "rdma://[fd00::1]", &diag), OKV_EAGAIN);
    assert_int_equal(slept_ns, 5000000000u);
    assert_string_equal(diag.text,
                        "--listen rdma://[fd00::1]:7471: another server already listens");
    assert_non_null(strstr(fixture->text, "rdma://[fd00::1]:7471 is in use"));
    assert_ptr_equal(strchr(fixture->text, '\n'), strrchr(fixture->text, '\n')); /* one line */
}

FIXTURE_TEST(another_failure_is_not_waited_for)
{
    struct fixture *fixture = *state;
    struct okv_diag diag = {""};

    failure = OKV_EADDRESS;
    assert_int_equal(listen_at(fixture, "rdma://10.0.0.1:99", &diag), OKV_EADDRESS);
    assert_int_equal(attempts, 1);
    assert_string_equal(fixture->text, "");
    attempts = 0;
    free_after = 3;
    assert_int_equal(listen_at(fixture, "rdma://10.0.0.1:99", &diag), OKV_EADDRESS);
    assert_int_equal(attempts, 4);
    assert_string_equal(diag.text, "--listen rdma://10.0.0.1:99: something else");
    assert_non_null(strstr(fixture->text, "rdma://10.0.0.1:99 is in use"));
}

FIXTURE_TEST(the_options_say_how_many_may_be_silent_for_how_long)
{
    struct fixture *fixture = *state;
    struct okv_diag diag = {""};

    fixture->server.config.max_silent = 9;
    assert_int_equal(listen_at(fixture, "local:///run/okv.sock", &diag), 0);
    assert_int_equal(pending.max, 9);
    assert_int_equal(pending.silence_ns, 7); /* the transport's own */
    fixture->server.config.hello_ms = 2000;
    assert_int_equal(listen_at(fixture, "local:///run/okv.sock", &diag), 0);
    assert_int_equal(pending.silence_ns, 2000000000u);
}
