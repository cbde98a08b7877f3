/* Gets over devices of the process, for `valgrind --tool=callgrind --toggle-collect=okv_get` and
 * for `strace -c`: the instructions and system calls of a get, without those of a driver. usage:
 * nic_gets GETS */
#include "tests/support/test.h"

#include <okv.h>

#include "shared/base/clock.h"
#include "tests/support/nic/nic.h"
#include "tests/support/pace.h"
#include "tests/support/patient_open.h"
#include "tests/support/server_thread.h"

#define URI "rdma://192.0.2.1"
#define KEYS 1000u

static okv *connect_to_server(void)
{
    uint64_t end_ns = pace_guard_end();
    okv *handle = NULL;

    while (patient_open(URI, NULL, &handle, NULL, 0) && okv_clock_ns() < end_ns)
        continue;
    return handle;
}

static bool get_all(okv *handle, unsigned long gets)
{
    char value[32];
    size_t length;
    bool is_right = true;

    for (unsigned long i = 0; i < gets && is_right; i++) {
        uint32_t key = (uint32_t)(i % KEYS);
        is_right = okv_get(handle, &key, sizeof key, value, sizeof value, &length, NULL) == 0;
    }
    return is_right;
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"--listen", URI, "--memory", "8M", "--open", NULL};
    unsigned long gets = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
    struct server_thread server;
    char value[32] = "";

    if (gets == 0) {
        fprintf(stderr, "usage: nic_gets GETS\n");
        return 2;
    }
    server_thread_start(&server, options);
    okv *handle = connect_to_server();
    bool is_right = handle != NULL;
    for (uint32_t key = 0; key < KEYS && is_right; key++)
        is_right = okv_put(handle, &key, sizeof key, value, sizeof value, NULL) == 0;
    is_right = is_right && get_all(handle, gets);
    okv_close(&handle);
    server_thread_stop(&server);
    printf("%lu gets, %llu READs posted%s\n", gets,
           (unsigned long long)nic_posted(IBV_WR_RDMA_READ), is_right ? "" : ", and one failed");
    return is_right ? 0 : 1;
}
