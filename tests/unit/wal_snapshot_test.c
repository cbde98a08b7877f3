/* Snapshots: the state of one moment, while items, their number and their sizes change. */
#include <sched.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(8) << 20)
#define KEYS 6000
#define VALUE_MAX 8192
#define LONG_ONE 8000   /* bytes of a value that has a file of its own */
#define LONG_ONE_OF 200 /* values are longer than a page */
#define BATCH 50
#define RESTORES 10 /* and crashes, each with other losses */
#define HOLD 100    /* batches while a snapshot is made */

struct item {
    uint32_t length; /* 0: it is not there */
    uint8_t byte;    /* that the value repeats */
    uint64_t version;
};

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t random;
    struct item items[KEYS];
};

static uint32_t choose_length(struct trial *trial)
{
    uint64_t random = okv_random_next(&trial->random);

    return random % LONG_ONE_OF == 0 ? VALUE_MAX - (uint32_t)(random >> 40) % 1000
                                     : 8 + (uint32_t)(random >> 40) % 40;
}

static void put(struct trial *trial, uint32_t key)
{
    struct wal_machine *machine = &trial->machine;
    struct item *item = &trial->items[key];
    struct okv_store_outcome outcome;
    uint8_t value[VALUE_MAX];

    *item = (struct item){.length = choose_length(trial),
                          .byte = (uint8_t)okv_random_next(&trial->random)};
    memset(value, item->byte, item->length);
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = item->length};
    assert_int_equal(okv_store_put(&machine->store, &machine->work, &write, &outcome), 0);
    item->version = outcome.version;
}

static void delete (struct trial *trial, uint32_t key)
{
    struct wal_machine *machine = &trial->machine;
    const struct okv_store_write write = {.key = &key, .key_length = sizeof key};
    struct okv_store_outcome outcome;
    int rc = okv_store_delete(&machine->store, &machine->work, &write, &outcome);

    assert_int_equal(rc, trial->items[key].length ? 0 : OKV_ENOTFOUND);
    trial->items[key].length = 0;
}

/* Changes random keys below `keys`; deletes `percent` of them. */
static void change(struct trial *trial, unsigned batches, uint32_t keys, unsigned percent)
{
    while (batches-- > 0) {
        wal_machine_enter(&trial->machine);
        for (unsigned i = 0; i < BATCH; i++) {
            uint32_t key = (uint32_t)(okv_random_next(&trial->random) % keys);
            if (okv_random_next(&trial->random) % 100 < percent)
                delete (trial, key);
            else
                put(trial, key);
        }
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
}

static void expect_item(struct okv_store *store, uint32_t key, const struct item *item)
{
    uint8_t value[VALUE_MAX], expected[VALUE_MAX];
    uint32_t length;
    uint64_t version;
    int rc = okv_store_get(store, NULL, &key, sizeof key, value, sizeof value, &length, &version);

    assert_int_equal(rc, item->length ? 0 : OKV_ENOTFOUND);
    if (rc)
        return;
    assert_int_equal(length, item->length);
    assert_int_equal(version, item->version);
    memset(expected, item->byte, length);
    assert_memory_equal(value, expected, length);
}

static void expect_items(struct okv_store *store, const struct item *items)
{
    for (uint32_t key = 0; key < KEYS; key++)
        expect_item(store, key, &items[key]);
}

static struct trial *trial_begin_with(uint64_t seed, uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    trial->random = seed;
    crash_disk_init(&trial->disk, seed);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.sync_within_ns = sync_within_ns;
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    return trial;
}

static struct trial *trial_begin(uint64_t seed)
{
    return trial_begin_with(seed, 0);
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    free(trial);
}

static void restart(struct trial *trial)
{
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

/* Has a snapshot begin, and be made while the log is synced HOLD times. */
static void begin_slowly(struct trial *trial)
{
    trial->disk.holds_snapshots = HOLD;
    okv_wal_snapshot_request(trial->machine.wal);
    while (!okv_snapshot_is_active(&trial->machine.wal->snapshot))
        sched_yield();
}

static uint64_t newest_snapshot(struct trial *trial)
{
    struct okv_wal_listing listing;

    assert_int_equal(okv_wal_list(&trial->disk.files, &listing, NULL), 0);
    return listing.snapshot;
}

/* A start from the snapshot alone: what the log has since is cut off. */
static void expect_snapshot(struct trial *trial, const struct item *items)
{
    uint64_t size;
    char name[OKV_WAL_NAME_SIZE];

    wal_machine_kill(&trial->machine);
    okv_wal_name(OKV_WAL_SEGMENT, newest_snapshot(trial), name);
    uint8_t *bytes = crash_disk_bytes(&trial->disk, name, &size);
    assert_non_null(bytes);
    assert_true(size > OKV_WAL_HEADER_SIZE || trial->machine.sync_within_ns);
    memset(bytes + OKV_WAL_HEADER_SIZE, 0, size - OKV_WAL_HEADER_SIZE);
    restart(trial);
    assert_int_equal(trial->machine.found.records, 0);
    expect_items(&trial->machine.store, items);
    wal_machine_stop(&trial->machine);
}

/* Makes a snapshot of `before` random items while others are changed like this. */
static void expect_moment(uint64_t sync_within_ns, uint32_t before, uint32_t keys, unsigned percent)
{
    struct trial *trial = trial_begin_with(before, sync_within_ns);
    struct item *items = malloc(sizeof trial->items);

    change(trial, 200, before, 10);
    uint64_t buckets = atomic_load(&trial->machine.store.bucket_count);
    begin_slowly(trial);
    memcpy(items, trial->items, sizeof trial->items);
    for (uint32_t key = 0; sync_within_ns && key < KEYS; key++)
        items[key].version += OKV_WAL_RAISE_BY; /* by a start that finds no end */
    change(trial, HOLD + 20, keys, percent);
    assert_int_not_equal(atomic_load(&trial->machine.store.bucket_count), buckets);
    crash_disk_release(&trial->disk); /* its thread may have come late, and wait for more syncs */
    assert_int_equal(okv_snapshot_await(&trial->machine.wal->snapshot), 0);
    expect_snapshot(trial, items);
    free(items);
    trial_end(trial);
}

TEST(it_is_of_one_moment_while_the_table_grows)
{
    expect_moment(0, 1500, KEYS, 0);
    expect_moment(OKV_WAL_NEVER, 1500, KEYS, 0);
}

TEST(it_is_of_one_moment_while_the_table_shrinks)
{
    expect_moment(0, 4000, 4000, 95);
    expect_moment(OKV_WAL_NEVER, 4000, 4000, 95);
}

/* Three ways to start find the same: from the log, from snapshot and log, from a clean stop. */
TEST(a_start_finds_what_was_there)
{
    struct trial *trial = trial_begin(3);

    change(trial, 100, KEYS, 20);
    wal_machine_kill(&trial->machine);
    restart(trial);
    assert_int_equal(trial->machine.found.snapshot, 0);
    expect_items(&trial->machine.store, trial->items);
    change(trial, 20, KEYS, 20);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    change(trial, 20, KEYS, 20);
    wal_machine_kill(&trial->machine);
    restart(trial);
    assert_int_not_equal(trial->machine.found.snapshot, 0);
    assert_in_range(trial->machine.found.records, 1, 20 * BATCH);
    expect_items(&trial->machine.store, trial->items);
    change(trial, 20, KEYS, 20);
    wal_machine_stop(&trial->machine);
    restart(trial);
    assert_int_equal(trial->machine.found.records, 0);
    expect_items(&trial->machine.store, trial->items);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* What a snapshot replaces goes, and the log it needs stays. */
TEST(it_replaces_the_log)
{
    struct trial *trial = trial_begin(4);

    for (unsigned i = 0; i < 3; i++) {
        change(trial, 10, KEYS, 0);
        assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    }
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_SNAPSHOT), 1);
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_SEGMENT), 2); /* with the spare */
    crash_disk_crash(&trial->disk);                                       /* nothing is under way */
    wal_machine_stop(&trial->machine);
    restart(trial);
    expect_items(&trial->machine.store, trial->items);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

static void put_long(struct trial *trial, uint32_t key)
{
    struct wal_machine *machine = &trial->machine;
    struct item *item = &trial->items[key];
    struct okv_store_outcome outcome;
    uint8_t value[LONG_ONE];

    *item = (struct item){.length = sizeof value, .byte = (uint8_t)okv_random_next(&trial->random)};
    memset(value, item->byte, sizeof value);
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};
    wal_machine_enter(machine);
    assert_int_equal(wal_machine_put_long(machine, &write, &outcome), 0);
    assert_int_equal(wal_machine_leave(machine), 0);
    item->version = outcome.version;
}

static void await_values(struct trial *trial, unsigned count)
{
    while (crash_disk_count(&trial->disk, OKV_WAL_BLOB) != count)
        sched_yield();
}

/* But for those that were put after its moment, or are in no snapshot yet. */
TEST(it_replaces_long_values)
{
    struct trial *trial = trial_begin(10);

    for (uint32_t key = 0; key < 3; key++)
        put_long(trial, key);
    await_values(trial, 3);
    begin_slowly(trial);
    put_long(trial, 3);
    put_long(trial, 0);
    await_values(trial, 5);
    crash_disk_release(&trial->disk);
    assert_int_equal(okv_snapshot_await(&trial->machine.wal->snapshot), 0);
    wal_machine_kill(&trial->machine);
    crash_disk_crash(&trial->disk);
    restart(trial);
    await_values(trial, 2);
    expect_items(&trial->machine.store, trial->items);
    for (uint32_t key = 4; key < 10; key++) /* files of other numbers */
        put_long(trial, key);
    put_long(trial, 4);
    await_values(trial, 9);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    await_values(trial, 8); /* those of its items stay for the next one */
    wal_machine_stop(&trial->machine);
    restart(trial); /* what no record refers to goes */
    await_values(trial, 0);
    expect_items(&trial->machine.store, trial->items);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* A long value is written from where it is, also when its item has another one by then. */
TEST(it_has_long_values_of_its_moment)
{
    for (unsigned is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        struct trial *trial = trial_begin_with(10, is_relaxed ? OKV_WAL_NEVER : 0);
        struct item items[KEYS];
        uint64_t used = okv_heap_used(&trial->machine.store.heap);
        put_long(trial, 1);
        memcpy(items, trial->items, sizeof items);
        items[1].version += is_relaxed ? OKV_WAL_RAISE_BY : 0;
        begin_slowly(trial);
        for (uint32_t key = 0; key < 4; key++)
            put_long(trial, key);
        crash_disk_release(&trial->disk);
        assert_int_equal(okv_snapshot_await(&trial->machine.wal->snapshot), 0);
        wal_machine_enter(&trial->machine);
        for (uint32_t key = 0; key < 4; key++)
            delete (trial, key);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
        assert_int_equal(okv_heap_used(&trial->machine.store.heap), used); /* no pin is left */
        expect_snapshot(trial, items);
        trial_end(trial);
    }
}

/* However many values it has: changes wait for the disk as often. */
TEST(it_is_written_in_long_pieces)
{
    struct trial *trial = trial_begin(12);
    const unsigned values = 60, piece = 64 << 10;

    for (uint32_t key = 0; key < values; key++)
        put_long(trial, key);
    unsigned before = trial->disk.write_outs;
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    assert_int_equal(trial->disk.write_outs - before, values * LONG_ONE / piece);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Adds to the log what makes it longer than the data. */
static void put_until_one_failed(struct trial *trial)
{
    static uint8_t value[60000];
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = "key", .key_length = 3, .value = value, .value_length = sizeof value};

    while (atomic_load(&machine->wal->snapshot.failed) == 0) {
        wal_machine_enter(machine);
        assert_int_equal(wal_machine_put_long(machine, &write, &outcome), 0);
        assert_int_equal(wal_machine_leave(machine), 0);
    }
}

/* When it has grown as much again, by long values as well. */
TEST(a_log_that_grew_is_tried_once)
{
    struct trial *trial = trial_begin(11);

    trial->disk.snapshot_faults = 100;
    put_until_one_failed(trial);
    okv_snapshot_await(&trial->machine.wal->snapshot);
    change(trial, 20, 100, 0);
    okv_snapshot_await(&trial->machine.wal->snapshot);
    assert_int_equal(atomic_load(&trial->machine.wal->snapshot.failed), 1);
    trial->disk.snapshot_faults = 0;
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

static int end_of(struct trial *trial, uint64_t number, uint64_t *newest)
{
    int rc;

    while ((rc = okv_wal_snapshot_state(trial->machine.wal, number, newest)) == OKV_EAGAIN)
        sched_yield();
    return rc;
}

/* A wish waits for the end of the one that is being made, and for no write. */
TEST(a_wish_is_granted_after_the_one_before)
{
    struct trial *trial = trial_begin(8);
    struct okv_wal *wal = trial->machine.wal;
    uint64_t newest;

    change(trial, 10, 100, 0);
    begin_slowly(trial);
    uint64_t first = wal->scheduled;
    uint64_t second = okv_wal_snapshot_request(wal);
    assert_int_equal(second, first + 1);
    change(trial, 2, 100, 0);
    assert_int_equal(okv_wal_snapshot_state(wal, second, &newest), OKV_EAGAIN);
    assert_int_equal(okv_wal_snapshot_state(wal, first, &newest), OKV_EAGAIN);
    crash_disk_release(&trial->disk);
    assert_int_equal(end_of(trial, second, &newest), 0);
    assert_int_equal(newest, second);
    assert_int_equal(okv_wal_snapshot_state(wal, first, &newest), 0);
    assert_int_equal(newest, second);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Whoever asks for it is told, also after another start. */
TEST(a_failure_has_an_end)
{
    struct trial *trial = trial_begin(9);
    struct okv_wal *wal = trial->machine.wal;
    uint64_t newest;

    change(trial, 10, 100, 0);
    trial->disk.snapshot_faults = 100;
    uint64_t failed = okv_wal_snapshot_request(wal);
    assert_int_equal(end_of(trial, failed, &newest), OKV_ENOTFOUND);
    trial->disk.snapshot_faults = 0;
    wal_machine_kill(&trial->machine);
    restart(trial);
    wal = trial->machine.wal;
    assert_int_equal(okv_wal_snapshot_state(wal, failed, &newest), OKV_ENOTFOUND);
    uint64_t made = okv_wal_snapshot_request(wal);
    assert_int_equal(end_of(trial, made, &newest), 0);
    wal_machine_kill(&trial->machine);
    restart(trial);
    wal = trial->machine.wal;
    assert_int_equal(okv_wal_snapshot_state(wal, made, &newest), 0);
    assert_int_equal(newest, made);
    trial->disk.log_fails_in = 1;
    wal_machine_enter(&trial->machine);
    put(trial, 1);
    assert_int_equal(wal_machine_leave(&trial->machine), OKV_EUNKNOWN);
    assert_int_equal(end_of(trial, okv_wal_snapshot_request(wal), &newest), OKV_ENOTFOUND);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* The log alone would be longer than the data. */
TEST(a_long_log_has_one_made)
{
    struct trial *trial = trial_begin(5);

    while (atomic_load(&trial->machine.wal->snapshot.completed) == 0)
        change(trial, 100, 2000, 0);
    assert_in_range(crash_disk_count(&trial->disk, OKV_WAL_SEGMENT), 1, 3);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Also of keys that are gone: their buckets keep them. */
TEST(versions_go_on_rising)
{
    struct trial *trial = trial_begin(6);
    uint64_t before[100];

    change(trial, 20, 100, 0);
    for (uint32_t key = 0; key < 100; key++) {
        before[key] = trial->items[key].version;
        wal_machine_enter(&trial->machine);
        delete (trial, key);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
    wal_machine_stop(&trial->machine);
    restart(trial);
    assert_int_equal(trial->machine.found.snapshot_items, 0);
    wal_machine_enter(&trial->machine);
    for (uint32_t key = 0; key < 100; key++) {
        put(trial, key);
        assert_true(trial->items[key].version > before[key]);
    }
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

/* Copies the newest snapshot out of the disk. */
static void back_up(struct trial *trial, const char *path)
{
    char name[OKV_WAL_NAME_SIZE];
    uint64_t size;

    okv_wal_name(OKV_WAL_SNAPSHOT, newest_snapshot(trial), name);
    uint8_t *bytes = crash_disk_bytes(&trial->disk, name, &size);
    assert_non_null(bytes);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    assert_int_equal(fclose(file), 0);
}

/* Restores on a machine that stops after so many calls. True: it began to serve. */
static bool restore(struct trial *trial, const char *path, unsigned calls)
{
    trial->disk.calls_left = calls;
    trial->machine.restore = path;
    bool serves = wal_machine_start(&trial->machine) == 0;
    trial->machine.restore = NULL;
    if (serves)
        wal_machine_kill(&trial->machine);
    return serves;
}

/* Whatever is lost when the machine stops: a start finds all of it or nothing, or says that it is
 * not whole; and all of it when a server has served it. */
TEST(a_restore_is_whole_or_none)
{
    struct trial *trial = trial_begin(10);
    char path[] = "/tmp/okv-restore.XXXXXX";
    int fd = mkstemp(path);
    unsigned served = 0;

    assert_true(fd >= 0);
    close(fd);
    change(trial, 40, KEYS, 10);
    wal_machine_stop(&trial->machine);
    back_up(trial, path);
    for (unsigned calls = 1; served < RESTORES; calls++) {
        struct trial *other = calloc(1, sizeof *other);
        crash_disk_init(&other->disk, calls);
        wal_machine_init(&other->machine, &other->disk, REGION);
        bool serves = restore(other, path, calls);
        served += serves;
        crash_disk_crash(&other->disk);
        int rc = wal_machine_start(&other->machine);
        if (serves || rc == 0) {
            assert_int_equal(rc, 0);
            bool is_whole = atomic_load(&other->machine.store.totals.items) > 0;
            assert_true(is_whole || !serves);
            if (is_whole)
                expect_items(&other->machine.store, trial->items);
            wal_machine_stop(&other->machine);
        } else {
            assert_int_equal(rc, OKV_ECORRUPT);
            assert_non_null(strstr(other->machine.diag.text, "is missing"));
        }
        trial_end(other);
    }
    unlink(path);
    trial_end(trial);
}

/* A bit that changed, an end that is missing: nothing is guessed. */
TEST(damage_stops_the_start)
{
    struct trial *trial = trial_begin(7);
    char name[OKV_WAL_NAME_SIZE];
    uint64_t size;

    change(trial, 40, KEYS, 0);
    wal_machine_stop(&trial->machine);
    okv_wal_name(OKV_WAL_SNAPSHOT, newest_snapshot(trial), name);
    uint8_t *bytes = crash_disk_bytes(&trial->disk, name, &size);
    for (unsigned i = 0; i < 50; i++) {
        uint64_t at = i < 8 ? i : okv_random_next(&trial->random) % size;
        if (at >= sizeof(struct okv_wal_wire_header) && at < OKV_WAL_HEADER_SIZE)
            continue; /* padding */
        bytes[at] ^= 4;
        assert_in_set(
            wal_machine_start(&trial->machine),
            ((const unsigned long[]){(unsigned long)OKV_ECORRUPT, (unsigned long)OKV_EVERSION}), 2);
        bytes[at] ^= 4;
    }
    memset(bytes + size - 80, 0, 80); /* the last frame */
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT);
    assert_non_null(strstr(trial->machine.diag.text, "damaged"));
    trial_end(trial);
}
