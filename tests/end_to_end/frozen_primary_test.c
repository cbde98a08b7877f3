/*
 * The lease of a server of its own process, which renews it while it is told to. The server's
 * memory is READ on after that, over local:// even while all of its threads stand still: no get
 * that begins after the end of the lease returns a value.
 */
#include "tests/support/test.h"

#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/handle.h"
#include "server/database/database.h"
#include "server/store/status.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_thread.h"

#define LEASE_MS 1000u
#define BEAT_MS 100
/* Gets after the lease, each of which waits for its deadline. */
#define LATE_GETS 20u
#define IMPATIENT_MS 20u

static struct {
    char directory[64];
    char uris[2][96]; /* local, tcp */
    pid_t pid;
    int control; /* a byte: whether to renew the lease, which is sent back; its end: to stop */
    okv *handle;
    char value[8];
} it;

/* ---- the server's process ---- */

static void beat(struct okv_server *server)
{
    const struct okv_store_lease lease = {
        .table = {.valid_until_us = okv_clock_lease_us() + LEASE_MS * UINT64_C(1000),
                  .epoch = 1,
                  .flags = OKV_LEASE_MEMBER},
        .longest_ms = LEASE_MS};

    okv_store_set_lease(&server->databases[0].store, &lease);
}

static void serve(int control)
{
    const char *const options[] = {"--listen", it.uris[0], "--listen", it.uris[1],
                                   "--memory", "8M",       "--open",   NULL};
    struct pollfd fd = {.fd = control, .events = POLLIN};
    struct server_thread server;
    char beats = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    server_thread_start(&server, options);
    while (!atomic_load(&server.server->housekeeper_sleeps)) /* then it has its table */
        usleep(1000);
    for (;;) {
        bool is_told = poll(&fd, 1, BEAT_MS) == 1;
        if (is_told && read(control, &beats, 1) != 1)
            break;
        if (beats)
            beat(server.server);
        if (is_told)
            assert_int_equal(write(control, &beats, 1), 1);
    }
    server_thread_stop(&server);
    _exit(0);
}

/* ---- the test's ---- */

static void set_beats(char beats)
{
    assert_int_equal(write(it.control, &beats, 1), 1);
    assert_int_equal(read(it.control, &beats, 1), 1);
}

static unsigned free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof address;
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &length), 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* Also while the server does not listen yet. */
static void open_at(const char *uri)
{
    uint64_t end_ns = pace_guard_end();
    char why[256] = "";

    while (patient_open(uri, NULL, &it.handle, why, sizeof why) != OKV_OK)
        if (okv_clock_ns() > end_ns)
            fail_msg("%s", why);
}

/* A handle from before the first lease knows of none. */
static void open_leased(const char *uri)
{
    open_at(uri);
    set_beats(1);
    okv_close(&it.handle);
    open_at(uri);
    assert_true(it.handle->lease.is_checked);
}

static int setup(void **state)
{
    int control[2];

    (void)state;
    memset(&it, 0, sizeof it);
    strcpy(it.directory, "/tmp/okv-frozen-XXXXXX");
    assert_non_null(mkdtemp(it.directory));
    snprintf(it.uris[0], sizeof it.uris[0], "local://%s/socket", it.directory);
    snprintf(it.uris[1], sizeof it.uris[1], "tcp://127.0.0.1:%u", free_port());
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, control), 0);
    it.pid = fork();
    if (it.pid == 0) {
        close(control[1]);
        serve(control[0]);
    }
    close(control[0]);
    it.control = control[1];
    return 0;
}

static int teardown(void **state)
{
    int status;

    (void)state;
    okv_close(&it.handle);
    kill(it.pid, SIGCONT);
    close(it.control);
    assert_int_equal(waitpid(it.pid, &status, 0), it.pid);
    assert_int_equal(status, 0);
    rmdir(it.directory);
    return 0;
}

static int get(void)
{
    size_t length;

    return okv_get(it.handle, "key", 3, it.value, sizeof it.value, &length, NULL);
}

static struct okv_counters counters(void)
{
    struct okv_counters counted;

    okv_counters(it.handle, &counted);
    return counted;
}

static void stop_all_threads(void)
{
    siginfo_t info;

    kill(it.pid, SIGSTOP);
    assert_int_equal(waitid(P_PID, (id_t)it.pid, &info, WSTOPPED), 0);
}

/* Gets until any lease of a server that renews it no more is over. */
static void get_until_the_end(void)
{
    uint64_t end_us = okv_clock_lease_us() + LEASE_MS * UINT64_C(1000), begun_us, values = 0;

    it.handle->timeout_ns = IMPATIENT_MS * UINT64_C(1000000);
    while ((begun_us = okv_clock_lease_us()) < end_us) {
        int rc = get();
        assert_true(rc == OKV_ETIMEDOUT ||
                    (rc == OKV_OK && begun_us < it.handle->lease.valid_until_us));
        values += rc == OKV_OK;
    }
    print_message("%llu gets until the end of the lease\n", (unsigned long long)values);
}

static void run(const char *uri, bool freezes)
{
    open_leased(uri);
    assert_int_equal(okv_put(it.handle, "key", 3, "value", 5, NULL), OKV_OK);
    while (counters().status_reads < 3)
        assert_int_equal(get(), OKV_OK);
    if (freezes)
        stop_all_threads();
    else
        set_beats(0);
    get_until_the_end();
    uint64_t reads = counters().bucket_reads;
    for (unsigned i = 0; i < LATE_GETS; i++)
        assert_int_equal(get(), OKV_ETIMEDOUT);
    if (freezes)
        assert_int_equal(counters().bucket_reads, reads + LATE_GETS); /* they were served */
    it.handle->timeout_ns = PACE_GUARD_NS;
    if (freezes)
        kill(it.pid, SIGCONT);
    else
        set_beats(1);
    assert_int_equal(get(), OKV_OK);
}

TEST_WITH(a_frozen_primary_is_not_believed, setup, teardown)
{
    run(it.uris[0], true);
}

TEST_WITH(a_primary_without_a_lease_is_not_believed_over_local, setup, teardown)
{
    run(it.uris[0], false);
}

TEST_WITH(a_primary_without_a_lease_is_not_believed_over_tcp, setup, teardown)
{
    run(it.uris[1], false);
}
