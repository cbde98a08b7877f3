/* What a client and the server's log are told when a device does not accept. */
#include "tests/support/test.h"

#include <errno.h>
#include <fcntl.h>
#include <okv.h>
#include <unistd.h>

#include "shared/base/clock.h"
#include "tests/support/nic/nic.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_thread.h"

#define URI "rdma://192.0.2.1"

static char log_path[] = "/tmp/okv-device-refusals-XXXXXX";
static int log_fd, usual_stderr;

static int begin(void **state)
{
    static struct server_thread server;
    const char *const options[] = {"--listen", URI, "--memory", "4M", "--open", NULL};

    nic_reset();
    log_fd = mkstemp(log_path);
    assert_true(log_fd >= 0);
    usual_stderr = dup(STDERR_FILENO);
    dup2(log_fd, STDERR_FILENO);
    server_thread_start(&server, options);
    *state = &server;
    return 0;
}

static int end(void **state)
{
    server_thread_stop(*state);
    char text[8192];
    dup2(usual_stderr, STDERR_FILENO);
    close(usual_stderr);
    ssize_t length = pread(log_fd, text, sizeof text, 0);
    fwrite(text, 1, length > 0 ? (size_t)length : 0, stderr);
    close(log_fd);
    unlink(log_path);
    strcpy(log_path + strlen(log_path) - 6, "XXXXXX");
    assert_int_equal(nic_open_objects(), 0);
    return 0;
}

/* Opens until it ends in another way than that nobody listens yet. */
static int open_at(const char *uri, okv **out, char *why, size_t size)
{
    uint64_t end_ns = pace_guard_end();
    int rc;

    do {
        assert_true(okv_clock_ns() < end_ns);
        rc = patient_open(uri, NULL, out, why, size);
    } while (rc == OKV_EREFUSED && strstr(why, "no server listens"));
    return rc;
}

/* The log has such words. */
static bool is_logged(const char *words)
{
    char text[8192] = "";

    assert_true(pread(log_fd, text, sizeof text - 1, 0) > 0);
    return strstr(text, words) != NULL;
}

TEST_WITH(a_larger_mtu_is_named_at_both_ends, begin, end)
{
    char why[512] = "";
    okv *handle = NULL;

    nic_add("nic1", "192.0.2.2");
    nic_traits_of("nic1")->active_mtu = IBV_MTU_4096;
    assert_int_equal(open_at(URI "?source=192.0.2.2", &handle, why, sizeof why), OKV_EADDRESS);
    assert_non_null(strstr(why, "the same MTU (4096 bytes here, 1024 there)"));
    assert_true(is_logged("its path carries packets of 4096 bytes, this port 1024"));
}

TEST_WITH(a_failed_step_is_named_with_its_reason, begin, end)
{
    char why[512] = "";
    okv *handle = NULL;

    assert_int_equal(open_at(URI, &handle, why, sizeof why), 0);
    okv_close(&handle);
    nic_refuse(NIC_ACCEPT, EPERM, 1);
    assert_int_equal(open_at(URI, &handle, why, sizeof why), OKV_EREFUSED);
    assert_true(is_logged("(answering: Operation not permitted)"));
}
