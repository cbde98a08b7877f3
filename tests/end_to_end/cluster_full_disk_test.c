/*
 * A server of a cluster whose disk is full for some time: a primary leaves the lead to its copy, a
 * copy the set, and both come back; nothing that was answered is lost. The disks are small file
 * systems in memory. Left out without etcd, and where one may not mount, also not in a namespace.
 */
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/cluster_process.h"
#include "tests/support/pace.h"

#define LEASE_MS 400
#define SMALL "size=64m,mode=0700"
#define MAY_MOUNT "OKV_MAY_MOUNT"
enum { SERVERS = 2, LARGE = 250000, PART = 65536 };

static struct cluster_process cluster;
static okv *handle;
static char small[96]; /* where the small disk is mounted; "": nowhere */
static uint64_t acknowledged, unknown, refused;

static int end(void **state)
{
    (void)state;
    okv_close(&handle);
    if (small[0])
        umount2(small, MNT_DETACH);
    small[0] = '\0';
    cluster_process_stop(&cluster);
    return 0;
}

/* Runs the program again in a mount namespace of its own, which ends with it. */
static int require_mounts(void **state)
{
    char path[512];

    etcd_process_require(state);
    if (getenv(MAY_MOUNT))
        return 0;
    if (system("unshare -rm mount -t tmpfs none /mnt 2>/dev/null")) {
        puts("left out: may not mount here (unshare -rm)");
        exit(77);
    }
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    assert_true(length > 0);
    path[length] = '\0';
    setenv(MAY_MOUNT, "1", 1);
    fflush(stdout);
    execlp("unshare", "unshare", "-rm", path, (char *)NULL);
    return -1;
}

TEST_PROGRAM(require_mounts, NULL)

/* Server 0 leads. */
static void start(unsigned server_on_small_disk)
{
    cluster.options.has_files = true;
    cluster_process_prepare(&cluster, SERVERS, "16M", LEASE_MS);
    snprintf(small, sizeof small, "%s/d%u", cluster.directory, server_on_small_disk);
    assert_int_equal(mkdir(small, 0700), 0);
    assert_int_equal(mount("none", small, "tmpfs", 0, SMALL), 0);
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
    acknowledged = unknown = refused = 0;
    assert_int_equal(cluster_process_leader(&cluster), 0);
}

static void fill_disk(void)
{
    static const char part[PART];
    char path[128];

    snprintf(path, sizeof path, "%s/ballast", small);
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    for (ssize_t n = 1; n > 0;)
        n = write(fd, part, sizeof part);
    close(fd);
}

static void make_room(void)
{
    char path[128];

    snprintf(path, sizeof path, "%s/ballast", small);
    assert_int_equal(unlink(path), 0);
}

/* Of those that were refused none has happened. */
static void count_once(void)
{
    int64_t sum = 0;
    int rc = okv_incr(handle, "counter", 7, 1, &sum, NULL);

    acknowledged += rc == OKV_OK;
    unknown += rc == OKV_EUNKNOWN;
    refused += rc == OKV_EDISKFULL;
    if (rc && rc != OKV_EUNKNOWN && rc != OKV_EDISKFULL)
        fail_msg("incr: %s: %s", okv_errname(rc), okv_why(handle));
    if (rc == OKV_OK && ((uint64_t)sum < acknowledged || (uint64_t)sum > acknowledged + unknown))
        fail_msg("the sum is %lld: %llu were acknowledged, %llu are unknown", (long long)sum,
                 (unsigned long long)acknowledged, (unsigned long long)unknown);
}

/* The log has a record of it, which takes space. */
static void put_large(void)
{
    static char value[LARGE];
    int rc = okv_put(handle, "large", 5, value, sizeof value, NULL);

    if (rc && rc != OKV_EUNKNOWN && rc != OKV_EDISKFULL)
        fail_msg("put: %s: %s", okv_errname(rc), okv_why(handle));
}

static void write_some(void)
{
    count_once();
    put_large();
}

/* The server comes back, has all and leads. */
static void go_on_with(unsigned server)
{
    make_room();
    cluster_process_await(&cluster, server, true);
    cluster_process_hand_over(&cluster, server);
    uint64_t before = acknowledged;
    count_once();
    assert_int_equal(acknowledged, before + 1);
    print_message("%llu acknowledged, %llu unknown, %llu refused\n",
                  (unsigned long long)acknowledged, (unsigned long long)unknown,
                  (unsigned long long)refused);
}

TEST_WITH(a_primary_with_a_full_disk_leaves_the_lead, NULL, end)
{
    uint64_t end_ns = pace_guard_end();

    start(0);
    for (unsigned i = 0; i < 10; i++)
        write_some();
    fill_disk();
    while (cluster_process_leader(&cluster) != 1) {
        if (okv_clock_ns() > end_ns)
            fail_msg("the copy does not lead");
        write_some();
    }
    for (unsigned i = 0; i < 10; i++)
        write_some();
    go_on_with(0);
}

TEST_WITH(a_copy_with_a_full_disk_leaves_the_set, NULL, end)
{
    uint64_t end_ns = pace_guard_end();

    start(1);
    fill_disk();
    while (cluster_process_is_in_sync(&cluster, 1)) {
        if (okv_clock_ns() > end_ns)
            fail_msg("the copy is in sync");
        write_some();
    }
    cluster_process_await(&cluster, 1, false);
    for (unsigned i = 0; i < 10; i++)
        write_some();
    assert_int_equal(refused, 0);
    go_on_with(1);
}
