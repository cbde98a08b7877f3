/*
 * Logs of version 1: a start, a check and a salvage read them, and a start goes on in version 2.
 *
 * The archive has three databases, as an okv-server that wrote version 1 left them. Each has the
 * same items: `old` and `number` were changed, `gone` was deleted, `kept` and `long` are long
 * values, `later` and `short` expire, `last` was put last.
 *
 *   always    synced each batch; a snapshot; killed, started, killed
 *   relaxed   the same of a log that did not sync, so that the second start raised versions
 *   clean     not synced, no snapshot, ended by a clean stop
 */
#include "tests/support/test.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "server/wal/offline/salvage.h"
#include "server/wal/recovery/scan.h"
#include "shared/base/error.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(8) << 20)
#define LONG_LENGTH 300000u
#define CLOCK_MS 5000

static char directory[] = "/tmp/okv-version-1-XXXXXX";

/* ---- its files on a disk of the test ---- */

static void load_file(struct crash_disk *disk, const char *path, const char *name)
{
    static uint8_t bytes[1 << 20];
    struct okv_files *files = &disk->files;
    struct okv_file *file;
    int fd = open(path, O_RDONLY);
    ssize_t length = read(fd, bytes, sizeof bytes);

    assert_in_range(length, 0, sizeof bytes - 1);
    close(fd);
    struct iovec vector = {bytes, (size_t)length};
    assert_int_equal(files->ops->create(files, name, &file, NULL), 0);
    if (length)
        assert_int_equal(files->ops->write(file, &vector, 1, 0, NULL), 0);
    assert_int_equal(files->ops->sync(file, NULL), 0);
    files->ops->close(file);
}

static void load(struct crash_disk *disk, const char *database)
{
    char path[512];
    struct dirent *entry;

    crash_disk_init(disk, 1);
    snprintf(path, sizeof path, "%s/%s", directory, database);
    DIR *names = opendir(path);
    assert_non_null(names);
    while ((entry = readdir(names))) {
        if (entry->d_name[0] == '.')
            continue;
        snprintf(path, sizeof path, "%s/%s/%s", directory, database, entry->d_name);
        load_file(disk, path, entry->d_name);
    }
    closedir(names);
    assert_int_equal(disk->files.ops->sync_names(&disk->files, NULL), 0);
}

/* The lowest and the highest version of its files. */
static void expect_versions(struct crash_disk *disk, uint32_t least, uint32_t most)
{
    struct okv_wal_scan scan;
    struct okv_diag diag;
    uint32_t lowest = UINT32_MAX, highest = 0;
    int rc = okv_wal_scan_begin(&scan, &disk->files, NULL, &diag);

    if (scan.listing.snapshot)
        rc = okv_wal_scan_snapshot(&scan, NULL, &diag);
    else
        rc = okv_wal_scan_segment(&scan, &diag);
    for (; rc == 0; rc = okv_wal_scan_segment(&scan, &diag)) {
        struct okv_wal_frame frame;
        lowest = scan.header.format < lowest ? scan.header.format : lowest;
        highest = scan.header.format > highest ? scan.header.format : highest;
        while (okv_wal_scan_frame(&scan, &frame, &diag) == 0)
            continue;
    }
    assert_int_equal(rc, OKV_WAL_NONE);
    okv_wal_scan_end(&scan);
    assert_int_equal(lowest, least);
    assert_int_equal(highest, most);
}

/* ---- what a start has to find ---- */

static const struct {
    const char *key, *value; /* NULL: not there; "long": long ones */
    uint32_t version;        /* without raises */
    bool expires;
} items[] = {{"old", "after", 2, false}, {"gone", NULL, 0, false}, {"number", "43", 3, false},
             {"kept", "long", 1, false}, {"later", "x", 1, true},  {"short", NULL, 0, false},
             {"long", "long", 1, false}, {"last", "two", 2, false}};
#define ITEMS (sizeof items / sizeof *items)

struct found {
    bool is_there, is_right, expires;
    uint64_t version;
};

static int visit(void *user, const struct okv_store_now *now)
{
    struct found *found = user;
    const char *value = found->is_there ? NULL : items[found->version].value;

    found->is_there = true;
    found->expires = now->expiry_ms != 0;
    found->version = now->version;
    if (strcmp(value, "long") != 0) {
        found->is_right =
            now->value_length == strlen(value) && memcmp(now->value, value, now->value_length) == 0;
        return 0;
    }
    found->is_right = now->value_length == LONG_LENGTH;
    for (uint32_t i = 0; i < now->value_length; i++)
        found->is_right &= now->value[i] == 'l';
    return 0;
}

static void expect_items(struct wal_machine *machine, uint64_t raised)
{
    struct okv_store *store = &machine->store;
    const struct okv_store_view view = {.newest = false};

    okv_store_set_clock(store, machine->found.clock_ms + CLOCK_MS, false);
    for (size_t i = 0; i < ITEMS; i++) {
        struct found found = {.version = i};
        int rc = okv_store_look(store, NULL, items[i].key, (uint32_t)strlen(items[i].key), &view,
                                visit, &found);
        assert_int_equal(rc, items[i].value ? 0 : OKV_ENOTFOUND);
        if (rc)
            continue;
        assert_true(found.is_right);
        assert_int_equal(found.version, items[i].version + raised);
        assert_int_equal(found.expires, items[i].expires);
    }
}

struct clients {
    struct okv_wal_clients wal;
    pthread_mutex_t lock;
    unsigned clients, replies, last_of_number;
};

static void save(void *user, void (*emit)(void *to, const struct okv_wal_record *record), void *to)
{
    (void)user, (void)emit, (void)to;
}

static int recover(void *user, const struct okv_wal_record *record)
{
    struct clients *clients = user;

    pthread_mutex_lock(&clients->lock);
    clients->clients += record->kind == OKV_WAL_CLIENT;
    clients->replies += record->kind == OKV_WAL_REPLY;
    if (record->kind == OKV_WAL_REPLY && record->value_length == 8)
        clients->last_of_number = *(const uint8_t *)record->value;
    pthread_mutex_unlock(&clients->lock);
    return 0;
}

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
    struct clients clients;
};

static struct trial *trial_begin(const char *database, uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    load(&trial->disk, database);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.max_value = LONG_LENGTH;
    trial->machine.sync_within_ns = sync_within_ns;
    trial->clients.wal = (struct okv_wal_clients){save, recover, &trial->clients};
    pthread_mutex_init(&trial->clients.lock, NULL);
    trial->machine.clients = &trial->clients.wal;
    return trial;
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    free(trial);
}

static void start(struct trial *trial)
{
    trial->clients.clients = trial->clients.replies = trial->clients.last_of_number = 0;
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

static void put_other(struct trial *trial)
{
    const struct okv_store_write write = {
        .key = "other", .key_length = 5, .value = "v", .value_length = 1};
    struct okv_store_outcome outcome;

    wal_machine_enter(&trial->machine);
    assert_int_equal(okv_store_put(&trial->machine.store, &trial->machine.work, &write, &outcome),
                     0);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
}

/* One of each write that the log has. Their clients had left before the snapshot. */
static void expect_replies(const struct trial *trial, unsigned replies)
{
    assert_int_equal(trial->clients.clients, replies);
    assert_int_equal(trial->clients.replies, replies);
    assert_int_equal(trial->clients.last_of_number, 43);
}

/* From version 1, from both, and from version 2 alone. */
static void start_thrice(const char *database, uint64_t sync_within_ns, unsigned replies,
                         uint64_t raised, uint64_t raise)
{
    struct trial *trial = trial_begin(database, sync_within_ns);

    expect_versions(&trial->disk, 1, 1);
    start(trial);
    expect_items(&trial->machine, raised);
    expect_replies(trial, replies);
    wal_machine_kill(&trial->machine);
    expect_versions(&trial->disk, 1, 2);
    start(trial);
    raised += raise;
    expect_items(&trial->machine, raised);
    expect_replies(trial, replies);
    put_other(trial);
    wal_machine_stop(&trial->machine); /* with a snapshot */
    expect_versions(&trial->disk, 2, 2);
    start(trial);
    assert_false(trial->machine.found.is_unclean);
    expect_items(&trial->machine, raised);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

TEST(a_log_that_was_synced)
{
    start_thrice("always", 0, 9, 0, 0);
}

TEST(a_log_that_was_not_stopped)
{
    start_thrice("relaxed", OKV_WAL_NEVER, 9, 2 * OKV_WAL_RAISE_BY, OKV_WAL_RAISE_BY);
}

TEST(a_log_that_was_stopped)
{
    start_thrice("clean", OKV_WAL_NEVER, 13, 0, OKV_WAL_RAISE_BY);
}

/* Leaves nothing after the frame that raises versions. */
static void cut_after_raise(struct crash_disk *disk)
{
    uint64_t size, at = OKV_WAL_HEADER_SIZE;
    uint8_t *bytes = crash_disk_bytes(disk, "log.0000000000000003", &size), kind = 0;
    struct okv_wal_frame frame;

    assert_non_null(bytes);
    while (kind != OKV_WAL_RAISE) {
        assert_true(okv_wal_frame_peek(bytes + at, OKV_WAL_FRAME_MAX, &frame));
        kind = bytes[at + OKV_WAL_OLD_FRAME_HEADER];
        at += frame.length;
    }
    memset(bytes + at, 0, size - at);
}

/* Version 2 has no such record that a start could carry over. */
TEST(a_log_that_ends_with_a_raise)
{
    struct trial *trial = trial_begin("relaxed", 0);

    cut_after_raise(&trial->disk);
    for (unsigned i = 0; i < 2; i++) {
        struct found found = {.version = 0};
        const struct okv_store_view view = {.newest = false};
        start(trial);
        assert_int_equal(
            okv_store_look(&trial->machine.store, NULL, "old", 3, &view, visit, &found), 0);
        assert_true(found.is_right);
        assert_int_equal(found.version, 2 + 2 * OKV_WAL_RAISE_BY);
        wal_machine_kill(&trial->machine);
    }
    trial_end(trial);
}

/* The first server that writes version 2 crashes at any call. */
TEST(a_crash_at_any_call_of_the_first_start)
{
    static const char *databases[] = {"always", "relaxed", "clean"};

    for (unsigned i = 0; i < 3; i++) {
        bool is_whole = false;
        for (unsigned calls = 0; !is_whole; calls++) {
            struct trial *trial = trial_begin(databases[i], 0);
            trial->disk.calls_left = calls;
            is_whole = wal_machine_start(&trial->machine) == 0;
            if (is_whole)
                wal_machine_kill(&trial->machine);
            if (calls % 2)
                crash_disk_crash(&trial->disk);
            else
                crash_disk_go_on(&trial->disk);
            start(trial);
            expect_items(&trial->machine, i == 1 ? 2 * OKV_WAL_RAISE_BY : 0);
            wal_machine_kill(&trial->machine);
            trial_end(trial);
        }
    }
}

/* ---- offline ---- */

static void damaged(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    (void)user, (void)from, (void)to;
    fail_msg("%s: %s", name, text);
}

static void expect_salvage(struct crash_disk *disk)
{
    static const struct okv_wal_damage_report report = {damaged, NULL};
    struct trial *saved = calloc(1, sizeof *saved);
    struct okv_wal_survey survey;
    struct okv_wal_salvaged salvaged;
    struct okv_diag diag;

    crash_disk_init(&saved->disk, 1);
    wal_machine_init(&saved->machine, &saved->disk, REGION);
    saved->machine.max_value = LONG_LENGTH;
    assert_int_equal(
        okv_wal_salvage(&disk->files, &saved->disk.files, 256, &report, &survey, &salvaged, &diag),
        0);
    assert_int_equal(survey.damages, 0);
    expect_versions(&saved->disk, 2, 2);
    start(saved);
    okv_store_set_clock(&saved->machine.store, saved->machine.found.clock_ms + CLOCK_MS, false);
    for (size_t i = 0; i < ITEMS; i++) {
        struct found found = {.version = i};
        const struct okv_store_view view = {.newest = false};
        okv_store_look(&saved->machine.store, NULL, items[i].key, (uint32_t)strlen(items[i].key),
                       &view, visit, &found);
        assert_int_equal(found.is_there, items[i].value != NULL);
        assert_true(found.is_right || !items[i].value);
        assert_true(found.version > OKV_WAL_SALVAGE_RAISE || !items[i].value);
    }
    wal_machine_kill(&saved->machine);
    trial_end(saved);
}

TEST(a_check_and_a_salvage_read_both_versions)
{
    static const char *databases[] = {"always", "relaxed", "clean"};

    for (unsigned i = 0; i < 3; i++) {
        struct trial *trial = trial_begin(databases[i], 0);
        expect_salvage(&trial->disk);
        start(trial);
        wal_machine_kill(&trial->machine);
        expect_salvage(&trial->disk);
        trial_end(trial);
    }
}

/* Its checksum is where version 1 has it. */
TEST(damage_to_version_1_stops_the_start)
{
    struct trial *trial = trial_begin("always", 0);
    uint8_t *bytes = crash_disk_bytes(&trial->disk, "log.0000000000000002", NULL);

    bytes[OKV_WAL_HEADER_SIZE + 50] ^= 1; /* in the first record, where version 2 has an epoch */
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT);
    assert_non_null(
        strstr(trial->machine.diag.text, "log.0000000000000002 is damaged at byte 4096"));
    trial_end(trial);
}

static int unpack(void **state)
{
    char command[512];

    (void)state;
    assert_non_null(mkdtemp(directory));
    snprintf(command, sizeof command, "tar -xzf '%s' -C '%s'", OKV_TEST_VERSION_1, directory);
    return system(command);
}

static int clean_up(void **state)
{
    char command[64];

    (void)state;
    snprintf(command, sizeof command, "rm -r '%s'", directory);
    return system(command);
}

TEST_PROGRAM(unpack, clean_up)
