/*
 * A server of a cluster whose disk stands still for some time, beside clients. Puts wait for that
 * of the primary, until another copy leads, and not for that of a copy, which leaves the set. It
 * comes back when the disk does; nothing is lost or done twice. The disk is a file system on a loop
 * device, which fsfreeze(8) stops. Left out without etcd, without root, and where there are no loop
 * devices.
 */
#include <signal.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "tests/support/block_device.h"
#include "tests/support/cluster_load.h"
#include "tests/support/cluster_process.h"
#include "tests/support/pace.h"

#define LEASE_MS 400
#define DISK_SIZE (UINT64_C(256) << 20)
enum { SERVERS = 3, LEASES = 4, ROUNDS = 8, LOOKS = 10, VALUE = 3 << 20 };

static struct cluster_process cluster;
static struct cluster_load load;
static okv *handle;
static char disk[96], device[32]; /* where it is mounted; "": nowhere */
static bool is_frozen;

static void thaw(void)
{
    if (is_frozen && !shell_try("fsfreeze --unfreeze %s", disk))
        print_error("%s stays frozen\n", disk);
    is_frozen = false;
}

static int end(void **state)
{
    (void)state;
    thaw();
    cluster_load_stop(&load);
    okv_close(&handle);
    if (disk[0])
        umount2(disk, MNT_DETACH);
    cluster_process_stop(&cluster);
    loop_detach(device);
    disk[0] = device[0] = '\0';
    return 0;
}

static int require_disks(void **state)
{
    etcd_process_require(state);
    if (geteuid() == 0 &&
        shell_try("{ losetup --find && command -v fsfreeze mkfs.ext4; } >/dev/null 2>&1"))
        return 0;
    puts("left out: no root, loop devices, fsfreeze or mkfs.ext4");
    exit(77);
}

TEST_PROGRAM(require_disks, NULL)

#define CLUSTER_TEST(name) TEST_WITH(name, NULL, end)

static void mount_disk(unsigned server)
{
    char file[96];

    snprintf(file, sizeof file, "%s/disk", cluster.directory);
    loop_attach(file, DISK_SIZE, device);
    shell("mkfs.ext4 -q %s", device);
    snprintf(disk, sizeof disk, "%s/d%u", cluster.directory, server);
    assert_int_equal(mkdir(disk, 0700), 0);
    assert_int_equal(mount(device, disk, "ext4", 0, NULL), 0);
    shell("rmdir %s/lost+found && chmod 700 %s", disk, disk);
}

/* Server 0 leads. */
static void start(unsigned server)
{
    memset(&load, 0, sizeof load);
    cluster.options.has_files = true;
    cluster_process_prepare(&cluster, SERVERS, "64M", LEASE_MS);
    mount_disk(server);
    cluster_process_run(&cluster);
    cluster_process_create(&cluster);
    handle = cluster_process_connect(&cluster);
    cluster_process_hand_over(&cluster, 0);
    cluster_load_start(&load, cluster.uri);
    cluster_load_await(&load);
}

static void freeze(void)
{
    shell("fsfreeze --freeze %s", disk);
    is_frozen = true;
}

static void finish(void)
{
    cluster_load_await(&load);
    cluster_load_stop(&load);
    cluster_load_check(&load, handle);
}

CLUSTER_TEST(puts_do_not_wait_for_a_copy_whose_disk_stands)
{
    start(1);
    freeze();
    cluster_process_await(&cluster, 1, false);
    cluster_load_await(&load);
    thaw();
    cluster_process_await(&cluster, 1, true);
    cluster_process_hand_over(&cluster, 1);
    finish();
}

/* Its primary sends the same again and again meanwhile, and is gone when the disk answers. */
CLUSTER_TEST(a_copy_comes_back_to_another_primary)
{
    static char value[VALUE];

    start(1);
    freeze();
    cluster_process_await(&cluster, 1, false);
    for (unsigned i = 0; i < ROUNDS; i++) {
        assert_int_equal(okv_put(handle, "large", 5, value, sizeof value, NULL), OKV_OK);
        pace_sleep_ms(2 * cluster.lease_ms);
    }
    cluster_process_signal(&cluster, 0, SIGKILL);
    cluster.stands[1] = true;
    for (unsigned i = 0; i < LOOKS && !cluster_process_is_led(&cluster); i++)
        pace_sleep_ms(cluster.lease_ms); /* on a slow machine it may have led alone */
    cluster_process_restart(&cluster, 0);
    cluster_process_leader(&cluster);
    thaw();
    cluster.stands[1] = false;
    cluster_process_await(&cluster, 1, true);
    finish();
}

/* For shorter than five leases the primary is waited for, unless the machine is slow. */
CLUSTER_TEST(a_disk_that_stands_briefly_keeps_its_primary)
{
    uint64_t number;
    size_t length;

    start(0);
    freeze();
    for (unsigned i = 0; i < LEASES; i++) {
        pace_sleep_ms(cluster.lease_ms / 2);
        assert_int_equal(okv_get(handle, "number 0", 8, &number, sizeof number, &length, NULL),
                         OKV_OK);
    }
    thaw();
    finish();
}

CLUSTER_TEST(another_copy_leads_when_the_disk_of_the_primary_stands)
{
    start(0);
    freeze();
    cluster.stands[0] = true; /* it is not asked: what serves its clients may wait for the disk */
    cluster_process_leader(&cluster);
    cluster_load_await(&load);
    thaw();
    cluster.stands[0] = false;
    cluster_process_await(&cluster, 0, true);
    cluster_process_hand_over(&cluster, 0);
    finish();
}
