/*
 * A durable server on a disk that loses its power, and on one that fails a write. Runs in the
 * guest, where it is root and the kernel has the device mapper's targets.
 *
 * Power cuts. While clients write and read, and the server is killed now and then, dm-log-writes
 * keeps a log of what the file system does to the disk. In it, marks tell when somebody learned a
 * number. From the log come the disks that a cut may leave at any moment: what was known by then is
 * there when a server starts on one.
 *
 * A failed write. All writes to the disk fail for some time (dm-flakey), but those of the file
 * system's journal, which is on another disk. So the file system goes on, and the second fdatasync
 * of a file succeeds although the disk does not have its bytes.
 *
 * OKV_LONG=1: 200 cuts of each file system instead of a few of one.
 */
#include <inttypes.h>
#include <signal.h>

#include "tests/support/test.h"

#include "tests/support/block_device.h"
#include "tests/support/durable_load.h"
#include "tests/support/random.h"
#include "tests/support/write_log.h"

#define MIB (UINT64_C(1) << 20)
#define LOG_SIZE (768 * MIB)
#define JOURNAL_SIZE (72 * MIB)

enum { CUTS = 10, ROUNDS = 4, CUTS_LONG = 200, ROUNDS_LONG = 30, WRITES = 60, SKIPPED = 77 };

struct file_system {
    const char *name;
    uint64_t size;
    const char *make;         /* on a device */
    const char *make_journal; /* NULL: nothing to do. Of another device, on which it is: */
    const char *make_beside;  /* with the journal's device, and on a device */
    const char *mount_beside; /* with the journal's device */
};

static struct file_system ext4 = {
    .name = "ext4",
    .size = 64 * MIB,
    .make = "mkfs.ext4 -q -F -b 4096",
    .make_journal = "mkfs.ext4 -q -F -b 4096 -O journal_dev",
    .make_beside = "mkfs.ext4 -q -F -b 4096 -J device=",
    .mount_beside = "mount -o journal_path=",
};

static struct file_system xfs = {
    .name = "xfs",
    .size = 300 * MIB, /* mkfs.xfs makes no smaller ones */
    .make = "mkfs.xfs -q",
    .make_beside = "mkfs.xfs -q -l logdev=",
    .mount_beside = "mount -o logdev=",
};

struct fixture {
    const struct file_system *kind;
    char directory[64]; /* of files, in the guest's memory */
    char disk[32], other[32];
    struct mapped_device device;
    struct server_process server;
    struct durable_load load;
    uint64_t cut_behind; /* entry of the log; 0: no cut is being checked */
};

static bool is_long(void)
{
    const char *value = getenv("OKV_LONG");

    return value && strcmp(value, "1") == 0;
}

static int set_up(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);

    fixture->kind = *state;
    snprintf(fixture->directory, sizeof fixture->directory, "/dev/shm/okv-disk-XXXXXX");
    assert_non_null(mkdtemp(fixture->directory));
    shell("mkdir %s/mnt", fixture->directory);
    *state = fixture;
    return 0;
}

static void unmount(const struct fixture *fixture)
{
    shell("umount %s/mnt", fixture->directory);
}

static int tear_down(void **state)
{
    struct fixture *fixture = *state;

    if (fixture->cut_behind)
        print_error("that was a cut behind entry %" PRIu64 " of the log\n", fixture->cut_behind);
    server_stop(&fixture->server);
    shell_try("umount %s/mnt 2>/dev/null", fixture->directory);
    mapped_device_remove(&fixture->device);
    loop_detach(fixture->disk);
    loop_detach(fixture->other);
    shell("rm -rf %s", fixture->directory);
    free(fixture);
    return 0;
}

static void start(struct fixture *fixture)
{
    char data[80];
    const char *const arguments[] = {"--memory", "16M", "--max-clients", "16", "--data",
                                     data,       NULL};

    snprintf(data, sizeof data, "%s/mnt/data", fixture->directory);
    server_start(&fixture->server, arguments);
}

static void kill_server(struct fixture *fixture)
{
    server_signal(&fixture->server, SIGKILL);
    server_wait(&fixture->server);
}

static void attach(const struct fixture *fixture, const char *file, uint64_t size, char device[32])
{
    char path[80];

    snprintf(path, sizeof path, "%s/%s", fixture->directory, file);
    loop_attach(path, size, device);
}

/* ---- power cuts ---- */

static void mark(void *user, unsigned name, struct durable_fact fact)
{
    struct fixture *fixture = user;
    char text[96];

    snprintf(text, sizeof text, "mark %u:%" PRIu64 ":%" PRIu64, name, fact.number, fact.version);
    mapped_device_message(&fixture->device, text);
}

static void learn_mark(void *user, const char *text)
{
    struct durable_fact fact;
    unsigned name;

    /* The kernel marks the end itself. */
    if (sscanf(text, "%u:%" SCNu64 ":%" SCNu64, &name, &fact.number, &fact.version) == 3)
        durable_facts_learn(user, name, fact);
}

/* Leaves the files disk.before and log. */
static void record(struct fixture *fixture, unsigned rounds)
{
    const char *directory = fixture->directory;
    char devices[80];

    attach(fixture, "disk", fixture->kind->size, fixture->disk);
    attach(fixture, "log", LOG_SIZE, fixture->other);
    shell("%s %s", fixture->kind->make, fixture->disk);
    shell("cp --sparse=always %s/disk %s/disk.before", directory, directory);
    snprintf(devices, sizeof devices, "%s %s", fixture->disk, fixture->other);
    mapped_device_create(&fixture->device, "okv-cut", fixture->kind->size, "log-writes", devices);
    shell("mount %s %s/mnt", fixture->device.path, directory);
    fixture->load.note = mark;
    fixture->load.user = fixture;
    for (unsigned round = 0; round < rounds; round++) {
        start(fixture);
        durable_load_check(&fixture->load, &fixture->server);
        durable_load_run(&fixture->load, &fixture->server, WRITES, round % 2);
    }
    unmount(fixture);
    mapped_device_remove(&fixture->device);
}

/* A server starts on a disk that a cut has left, and has what is known. */
static void check_cut(struct fixture *fixture, const struct durable_facts *known)
{
    shell("mount -o loop %s/disk.cut %s/mnt", fixture->directory, fixture->directory);
    start(fixture);
    durable_facts_check(known, &fixture->server, NULL);
    kill_server(fixture);
    unmount(fixture);
}

static void what_is_known_survives_power_cuts(void **state)
{
    struct fixture *fixture = *state;
    unsigned cuts = is_long() ? CUTS_LONG : CUTS;
    uint64_t random = random_seed();
    struct durable_facts known = {.of = {{0, 0}}};
    char log_path[80], image[80], cut_path[80];
    struct write_log log;

    record(fixture, is_long() ? ROUNDS_LONG : ROUNDS);
    snprintf(log_path, sizeof log_path, "%s/log", fixture->directory);
    snprintf(image, sizeof image, "%s/disk.before", fixture->directory);
    snprintf(cut_path, sizeof cut_path, "%s/disk.cut", fixture->directory);
    write_log_open(&log, log_path, image);
    print_message("%s: %" PRIu64 " entries, %u cuts\n", fixture->kind->name, log.entries, cuts);
    for (unsigned i = 0; i < cuts; i++) {
        uint64_t end = log.entries * i / cuts + random_below(&random, log.entries / cuts) + 1;
        write_log_advance(&log, end, learn_mark, &known);
        fixture->cut_behind = end;
        write_log_cut(&log, image, cut_path, &random);
        check_cut(fixture, &known);
    }
    fixture->cut_behind = 0;
    /* The log is whole: it fits its device. */
    write_log_advance(&log, log.entries, learn_mark, &known);
    assert_memory_equal(&known, &fixture->load.known, sizeof known);
    write_log_close(&log);
}

/* ---- a failed write ---- */

static void mount_beside(const struct fixture *fixture)
{
    shell("%s%s %s %s/mnt", fixture->kind->mount_beside, fixture->other, fixture->device.path,
          fixture->directory);
}

/* The disk's two targets: it works, and all writes to it fail. */
static void make_beside(struct fixture *fixture, char healthy[48], char failing[80])
{
    const struct file_system *kind = fixture->kind;

    attach(fixture, "disk", kind->size, fixture->disk);
    attach(fixture, "journal", JOURNAL_SIZE, fixture->other);
    snprintf(healthy, 48, "%s 0", fixture->disk);
    snprintf(failing, 80, "%s 0 0 3600 1 error_writes", fixture->disk);
    mapped_device_create(&fixture->device, "okv-flaky", kind->size, "linear", healthy);
    if (kind->make_journal)
        shell("%s %s", kind->make_journal, fixture->other);
    shell("%s%s %s", kind->make_beside, fixture->other, fixture->device.path);
    mount_beside(fixture);
}

static int put(okv *handle, const char *key)
{
    return okv_put(handle, key, strlen(key), "x", 1, NULL);
}

static int get(okv *handle, const char *key)
{
    char value[1];
    size_t size;

    return okv_get(handle, key, strlen(key), value, sizeof value, &size, NULL);
}

static void no_write_succeeds_after_one_failed(void **state)
{
    struct fixture *fixture = *state;
    char healthy[48], failing[80];

    make_beside(fixture, healthy, failing);
    start(fixture);
    durable_load_run(&fixture->load, &fixture->server, WRITES, false);
    start(fixture);
    durable_load_check(&fixture->load, &fixture->server);
    okv *handle = server_connect(&fixture->server, NULL);
    assert_int_equal(put(handle, "before"), OKV_OK);
    shell("sync --file-system %s/mnt", fixture->directory);
    mapped_device_change(&fixture->device, "flakey", failing);
    assert_int_equal(put(handle, "failed"), OKV_EUNKNOWN);
    assert_int_equal(put(handle, "after"), OKV_EREADONLY);
    mapped_device_change(&fixture->device, "linear", healthy);
    assert_int_equal(put(handle, "after"), OKV_EREADONLY);
    assert_int_equal(get(handle, "before"), OKV_OK);
    assert_int_equal(get(handle, "failed"), OKV_ENOTFOUND);
    okv_close(&handle);
    server_stop(&fixture->server);
    unmount(fixture);
    mount_beside(fixture);
    start(fixture);
    durable_load_check(&fixture->load, &fixture->server);
    handle = server_connect(&fixture->server, NULL);
    assert_int_equal(get(handle, "before"), OKV_OK);
    assert_int_equal(get(handle, "after"), OKV_ENOTFOUND);
    assert_int_equal(put(handle, "again"), OKV_OK);
    okv_close(&handle);
    server_stop(&fixture->server);
    unmount(fixture);
}

static bool has_what_it_needs(void)
{
    static const char *const tools[] = {"mkfs.ext4", "mkfs.xfs", "losetup"};

    if (!getenv("OKV_GUEST")) {
        fprintf(stderr, "it makes block devices: run it in the guest, with tests/guest/run\n");
        return false;
    }
    if (!shell_try("modprobe -a loop dm-log-writes dm-flakey ext4 xfs"))
        return false; /* it says why */
    for (size_t i = 0; i < sizeof tools / sizeof *tools; i++) {
        if (!shell_try("command -v %s >/dev/null", tools[i])) {
            fprintf(stderr, "%s is missing: run tests/support/packages.sh guest\n", tools[i]);
            return false;
        }
    }
    return true;
}

#define DISK_TEST(test, kind)                   \
    {                                           \
#test, test, set_up, tear_down, &(kind) \
    }

int main(void)
{
    const struct CMUnitTest on_ext4[] = {
        DISK_TEST(no_write_succeeds_after_one_failed, ext4),
        DISK_TEST(what_is_known_survives_power_cuts, ext4),
    };
    const struct CMUnitTest on_xfs[] = {
        DISK_TEST(no_write_succeeds_after_one_failed, xfs),
        DISK_TEST(what_is_known_survives_power_cuts, xfs),
    };

    if (!has_what_it_needs())
        return SKIPPED;
    int failed = test_run_group("ext4", on_ext4, NULL, NULL);
    if (is_long())
        failed += test_run_group("xfs", on_xfs, NULL, NULL);
    return failed;
}
