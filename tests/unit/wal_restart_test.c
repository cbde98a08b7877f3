/* What a durable store holds after a restart, with as much memory as before. */
#include <errno.h>
#include <sched.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/store/expire.h"
#include "server/store/flush.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "shared/format/bucket.h"
#include "tests/support/sanitized.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(8) << 20)
#define SMALL_REGION (UINT64_C(4) << 20) /* of which a hole is a large part */
#define LONGEST (1 << 16)

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
};

static struct trial *trial_begin(uint64_t length, bool wipes)
{
    struct trial *trial = calloc(1, sizeof *trial);

    crash_disk_init(&trial->disk, 7);
    wal_machine_init(&trial->machine, &trial->disk, length);
    trial->machine.wipes = wipes;
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    wal_machine_stop(&trial->machine);
    crash_disk_fini(&trial->disk);
    free(trial);
}

/* Without a snapshot. */
static void restart(struct trial *trial)
{
    wal_machine_kill(&trial->machine);
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

/* A put in the batch that is open. */
static int put(struct trial *trial, uint32_t key, uint32_t length, uint64_t ttl_ms)
{
    static uint8_t value[LONGEST];
    struct wal_machine *machine = &trial->machine;
    const struct okv_store_write write = {.key = &key,
                                          .key_length = sizeof key,
                                          .value = value,
                                          .value_length = length,
                                          .ttl_ms = ttl_ms};
    struct okv_store_outcome outcome;

    memset(value, (int)(key & 0xff) | 1, length);
    return okv_store_put(&machine->store, &machine->work, &write, &outcome);
}

/* A put in a batch of its own; again after each end of a batch that may have made room. */
static int put_durably(struct trial *trial, uint32_t key, uint32_t length, uint64_t ttl_ms)
{
    int rc = OKV_EAGAIN;

    while (rc == OKV_EAGAIN) {
        wal_machine_enter(&trial->machine);
        rc = put(trial, key, length, ttl_ms);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
    return rc;
}

static bool is_there(struct trial *trial, uint32_t key)
{
    uint8_t value[LONGEST];
    uint32_t length;
    uint64_t version;
    int rc = okv_store_get(&trial->machine.store, NULL, &key, sizeof key, value, sizeof value,
                           &length, &version);

    assert_true(rc == 0 || rc == OKV_ENOTFOUND);
    return rc == 0;
}

/* The log has several times as many bytes as the region, and few of their items live on. */
TEST(expired_items_take_no_room)
{
    enum { TURNS = 40, KEYS = 8, TTL = 50, LENGTH = 1 << 16 };
    struct trial *trial = trial_begin(REGION, false);
    struct okv_store *store = &trial->machine.store;
    uint64_t clock = 1000;

    for (uint32_t turn = 0; turn < TURNS; turn++, clock += 2 * TTL) {
        okv_store_set_clock(store, clock, false);
        wal_machine_enter(&trial->machine);
        okv_store_sweep(store, &trial->machine.work, atomic_load(&store->bucket_count));
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
        for (uint32_t key = 0; key < KEYS; key++)
            assert_int_equal(put_durably(trial, turn * KEYS + key, LENGTH, TTL), 0);
    }
    restart(trial);
    assert_int_equal(atomic_load(&store->clock_ms), clock - 2 * TTL);
    for (uint32_t key = 0; key < KEYS; key++) {
        assert_false(is_there(trial, key));
        assert_true(is_there(trial, (TURNS - 1) * KEYS + key));
    }
    trial_end(trial);
}

/* The store's clock is set by ticks. An expiry would become later at each start if frames had the
 * wall clock of the moment when they are written. */
TEST(frames_have_the_wall_clock_of_the_tick)
{
    enum { LAG = 5000 };
    struct trial *trial = trial_begin(REGION, false);
    struct okv_store *store = &trial->machine.store;

    okv_store_set_clock(store, 1000, false);
    store->clock_origin_ms = okv_clock_boot_ms() - 1000 - LAG;
    assert_true(okv_store_clock_wall_ms(store) <= okv_clock_wall_ms() - LAG);
    trial_end(trial);
}

/* Nobody wipes freed memory in the background of a start. */
TEST(replaced_items_take_no_room)
{
    enum { PUTS = 400, KEYS = 4 };
    struct trial *trial = trial_begin(REGION, true);

    for (uint32_t i = 0; i < PUTS; i++) {
        while (okv_heap_wipe(&trial->machine.store.heap, UINT64_MAX) > 0)
            continue;
        assert_int_equal(put_durably(trial, i % KEYS, LONGEST - i, 0), 0);
    }
    restart(trial);
    for (uint32_t key = 0; key < KEYS; key++)
        assert_true(is_there(trial, key));
    trial_end(trial);
}

/* Items of all sizes, replaced and deleted until nothing fits any more. */
static uint32_t fill(struct trial *trial, uint64_t *random)
{
    uint32_t key = 0, refused = 0;

    while (refused < 20) {
        uint64_t chosen = okv_random_next(random);
        uint32_t old = (uint32_t)(chosen >> 40) % (key + 1);
        uint32_t length = 1 + (uint32_t)(chosen % (UINT64_C(1) << (4 + chosen % 11)));
        int rc = put_durably(trial, chosen & 0x100000 ? old : key++, length, 0);
        refused += rc == OKV_EFULL;
        assert_true(rc == 0 || rc == OKV_EFULL);
    }
    return key;
}

TEST(a_full_region_restarts)
{
    unsigned rounds = getenv("OKV_LONG") ? 100 : OKV_SANITIZED ? 4 : 15;
    uint64_t random = 5;

    for (unsigned round = 0; round < rounds; round++) {
        struct trial *trial = trial_begin(SMALL_REGION, false);
        uint32_t keys = fill(trial, &random);
        bool *before = calloc(keys, sizeof *before);
        for (uint32_t key = 0; key < keys; key++)
            before[key] = is_there(trial, key);
        for (unsigned starts = 0; starts < 2; starts++) {
            restart(trial); /* from the log, then from a snapshot */
            for (uint32_t key = 0; key < keys; key++)
                assert_int_equal(is_there(trial, key), before[key]);
            assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
        }
        free(before);
        trial_end(trial);
    }
}

static void expect_zeros_behind_entries(const struct okv_store *store)
{
    const struct okv_table *table = &store->table;

    for (uint64_t number = 0; number < atomic_load(&store->bucket_count); number++) {
        const uint8_t *image = table->base + okv_table_bucket_offset(table, number);
        for (uint32_t at = (uint32_t)sizeof(struct okv_wire_bucket) + okv_bucket_used(image);
             at < table->bucket_size; at++)
            assert_int_equal(image[at], 0);
    }
}

/* Readers see whole buckets. */
TEST(nothing_else_is_published)
{
    enum { PUTS = 4000, KEYS = 500 };
    struct trial *trial = trial_begin(REGION, false);
    uint64_t random = 3;

    for (unsigned i = 0; i < PUTS; i++) {
        uint64_t chosen = okv_random_next(&random);
        wal_machine_enter(&trial->machine);
        assert_int_equal(put(trial, (uint32_t)chosen % KEYS, 1 + (chosen >> 40) % 60, 0), 0);
        if (i % 20 == 0)
            assert_int_equal(wal_machine_leave(&trial->machine), 0);
        else
            okv_wal_end_change(trial->machine.wal);
    }
    wal_machine_enter(&trial->machine);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    expect_zeros_behind_entries(&trial->machine.store);
    trial_end(trial);
}

/* The log goes on in the segment that it has. */
TEST(a_segment_that_cannot_be_begun)
{
    struct trial *trial = trial_begin(REGION, false);

    assert_int_equal(put_durably(trial, 1, 10, 0), 0);
    trial->disk.log_fails_in = 1;
    okv_wal_snapshot_request(trial->machine.wal);
    while (atomic_load(&trial->machine.wal->snapshot.failed) == 0)
        sched_yield();
    assert_int_equal(put_durably(trial, 2, 10, 0), 0);
    assert_int_equal(put_durably(trial, 3, 10, 0), 0);
    assert_int_equal(atomic_load(&trial->machine.wal->failure), 0);
    assert_int_equal(crash_disk_count(&trial->disk, "log."), 1);
    restart(trial);
    for (uint32_t key = 1; key <= 3; key++)
        assert_true(is_there(trial, key));
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    trial_end(trial);
}

static uint64_t first_position(struct trial *trial)
{
    struct okv_wal_header header;

    assert_int_equal(okv_wal_header_decode(
                         crash_disk_bytes(&trial->disk, "log.0000000000000001", NULL), &header),
                     0);
    return header.position;
}

/* A value whose bytes look like a frame is one only at its position. */
TEST(a_log_begins_where_nobody_knows)
{
    struct trial *first = trial_begin(REGION, false), *second = trial_begin(REGION, false);

    assert_int_not_equal(first_position(first), first_position(second));
    assert_int_equal(first_position(first) % OKV_WAL_ALIGNMENT, 0);
    trial_end(first);
    trial_end(second);
}

TEST(a_directory_that_others_may_change)
{
    struct okv_directory directory;
    char path[] = "/tmp/okv-shared-XXXXXX", inside[64], aside[96];

    assert_non_null(mkdtemp(path));
    snprintf(inside, sizeof inside, "%s/default", path);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(okv_directory_make(path, NULL), OKV_EPERM);
    assert_int_equal(chmod(path, 0755), 0);
    assert_int_equal(okv_directory_make(path, NULL), 0);
    assert_int_equal(okv_directory_open(&directory, inside, NULL), 0);
    okv_directory_close(&directory);
    snprintf(aside, sizeof aside, "%s/link", path);
    assert_int_equal(symlink("default", aside), 0);
    assert_int_equal(okv_directory_open(&directory, aside, NULL), OKV_EIO);
    unlink(aside);
    snprintf(aside, sizeof aside, "%s/lock", inside);
    unlink(aside);
    rmdir(inside);
    rmdir(path);
}

/* A log that has no memory for the removals of the bucket after so many. */
struct short_log {
    struct okv_store_log log; /* of the store */
    unsigned left;
};

static int add_or_fail(void *user, const struct okv_store_record *records, size_t count)
{
    struct short_log *log = user;

    if (log->left == 0)
        return OKV_ENOMEM;
    log->left--;
    return log->log.add(log->log.user, records, count);
}

static int check(void *user)
{
    struct short_log *log = user;

    return log->log.check(log->log.user);
}

static bool is_throttled(void *user)
{
    struct short_log *log = user;

    return log->log.is_throttled(log->log.user);
}

static void wake(void *user)
{
    struct short_log *log = user;

    log->log.wake(log->log.user);
}

/* Bucket by bucket: what is gone is gone after a start, and nothing else. */
static void flush_in_part(struct trial *trial, unsigned buckets)
{
    enum { ITEMS = 40 };
    struct okv_store *store = &trial->machine.store;
    struct okv_store_log *log = &store->table.pending->log;
    struct short_log refusing = {.log = *log, .left = buckets};
    bool was_there[ITEMS];
    uint64_t next = 0, splits = 0;
    unsigned count = 0;

    for (uint32_t key = 0; key < ITEMS; key++)
        assert_int_equal(put_durably(trial, key, 16, 0), 0);
    wal_machine_enter(&trial->machine);
    *log = (struct okv_store_log){.check = check,
                                  .add = add_or_fail,
                                  .is_throttled = is_throttled,
                                  .wake = wake,
                                  .user = &refusing};
    assert_int_equal(okv_store_flush(store, &trial->machine.work, &next, &splits), OKV_ENOMEM);
    *log = refusing.log;
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    for (uint32_t key = 0; key < ITEMS; key++)
        count += was_there[key] = is_there(trial, key);
    assert_in_range(count, 1, ITEMS - buckets);
    restart(trial);
    for (uint32_t key = 0; key < ITEMS; key++)
        assert_int_equal(is_there(trial, key), was_there[key]);
}

TEST(a_flush_that_the_log_refuses)
{
    struct trial *trial = trial_begin(REGION, false);

    for (unsigned buckets = 1; buckets < 12; buckets++)
        flush_in_part(trial, buckets);
    trial_end(trial);
}
