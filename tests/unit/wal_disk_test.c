/*
 * A durable store whose disk is full, or slow. A full disk is not a broken one: writes are refused
 * before anything is written, and are taken when there is space again.
 */
#include <errno.h>
#include <sched.h>
#include <semaphore.h>
#include <stdio.h>

#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "tests/support/wal_machine.h"

#define MIB (UINT64_C(1) << 20)
#define REGION (8 * MIB)
#define LENGTH (1u << 16)
/* For a segment's first reservation, and nothing else but a header. */
#define LITTLE (16 * MIB + OKV_WAL_HEADER_SIZE)
#define PLENTY (1024 * MIB)
#define KEYS 8u

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
    uint32_t last[KEYS]; /* the number of the value that each key has; 0: none */
    uint32_t next;
    atomic_uint events[OKV_WAL_SNAPSHOT_FAILED + 1];
    char why[64]; /* of the last one */
    sem_t is_syncing, may_end;
};

static void count_event(void *user, enum okv_wal_event event, const char *why)
{
    struct trial *trial = user;

    snprintf(trial->why, sizeof trial->why, "%s", why);
    atomic_fetch_add(&trial->events[event], 1);
}

static void start(struct trial *trial)
{
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

static struct trial *trial_begin(uint64_t space)
{
    struct trial *trial = calloc(1, sizeof *trial);

    crash_disk_init(&trial->disk, 3);
    trial->disk.space = space;
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.report = count_event;
    trial->machine.report_user = trial;
    start(trial);
    return trial;
}

static void trial_end(struct trial *trial)
{
    assert_false(trial->disk.log_had_no_space);
    wal_machine_stop(&trial->machine);
    crash_disk_fini(&trial->disk);
    free(trial);
}

/* As a kill and a start do. */
static void restart(struct trial *trial)
{
    wal_machine_kill(&trial->machine);
    start(trial);
}

static int write_one(struct trial *trial, uint32_t key, uint32_t number)
{
    static uint8_t value[LENGTH];
    struct wal_machine *machine = &trial->machine;
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = LENGTH};
    struct okv_store_outcome outcome;

    memcpy(value, &number, sizeof number);
    return number ? okv_store_put(&machine->store, &machine->work, &write, &outcome)
                  : okv_store_delete(&machine->store, &machine->work, &write, &outcome);
}

/* In a batch of its own. `number` 0: a delete. */
static int change(struct trial *trial, uint32_t key, uint32_t number)
{
    int rc = OKV_EAGAIN;

    while (rc == OKV_EAGAIN) {
        wal_machine_enter(&trial->machine);
        rc = write_one(trial, key, number);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
    if (rc == 0)
        trial->last[key] = number;
    return rc;
}

static int put_next(struct trial *trial)
{
    uint32_t number = ++trial->next;

    return change(trial, number % KEYS, number);
}

static uint32_t get(struct trial *trial, uint32_t key)
{
    static uint8_t value[LENGTH];
    uint32_t length, number;
    uint64_t version;
    int rc = okv_store_get(&trial->machine.store, NULL, &key, sizeof key, value, sizeof value,
                           &length, &version);

    if (rc == OKV_ENOTFOUND)
        return 0;
    assert_int_equal(rc, 0);
    memcpy(&number, value, sizeof number);
    return number;
}

static void expect_all(struct trial *trial)
{
    for (uint32_t key = 0; key < KEYS; key++)
        assert_int_equal(get(trial, key), trial->last[key]);
}

static void fill_disk(struct trial *trial)
{
    int rc;

    while ((rc = put_next(trial)) == 0)
        continue;
    assert_int_equal(rc, OKV_EDISKFULL);
}

static void await_room(struct trial *trial)
{
    int rc;

    while ((rc = put_next(trial)) == OKV_EDISKFULL)
        sched_yield();
    assert_int_equal(rc, 0);
}

TEST(a_full_disk_refuses_writes_until_it_has_space)
{
    struct trial *trial = trial_begin(LITTLE);

    fill_disk(trial);
    assert_int_equal(change(trial, 1, 0), OKV_EDISKFULL);
    assert_int_equal(put_next(trial), OKV_EDISKFULL);
    expect_all(trial);
    assert_int_equal(trial->events[OKV_WAL_DISK_FULL], 1);
    assert_int_equal(trial->events[OKV_WAL_DISK_HAS_ROOM], 0);
    crash_disk_set_space(&trial->disk, PLENTY);
    await_room(trial);
    assert_int_equal(change(trial, 1, 0), 0);
    assert_int_equal(trial->events[OKV_WAL_DISK_FULL], 1);
    assert_int_equal(trial->events[OKV_WAL_DISK_HAS_ROOM], 1);
    assert_int_equal(trial->events[OKV_WAL_FAILED], 0);
    restart(trial);
    expect_all(trial);
    trial_end(trial);
}

/* Nobody writes meanwhile. */
TEST(space_is_found_without_a_write)
{
    struct trial *trial = trial_begin(LITTLE);

    fill_disk(trial);
    crash_disk_set_space(&trial->disk, PLENTY);
    while (trial->events[OKV_WAL_DISK_HAS_ROOM] == 0)
        sched_yield();
    assert_int_equal(put_next(trial), 0);
    trial_end(trial);
}

TEST(a_start_on_a_full_disk)
{
    struct trial *trial = trial_begin(PLENTY);

    for (unsigned i = 0; i < KEYS; i++)
        assert_int_equal(put_next(trial), 0);
    crash_disk_set_space(&trial->disk, 0);
    restart(trial); /* with what the segment before had reserved and did not need */
    expect_all(trial);
    assert_int_equal(trial->events[OKV_WAL_DISK_FULL], 1);
    assert_int_equal(put_next(trial), OKV_EDISKFULL);
    crash_disk_set_space(&trial->disk, PLENTY);
    await_room(trial);
    restart(trial);
    expect_all(trial);
    trial_end(trial);
}

/* What it needs beside the segment that is written is not there. */
TEST(a_full_disk_has_no_snapshot)
{
    struct trial *trial = trial_begin(LITTLE);

    assert_int_equal(put_next(trial), 0);
    assert_int_equal(wal_machine_snapshot(&trial->machine), OKV_EDISKFULL);
    while (trial->events[OKV_WAL_SNAPSHOT_FAILED] == 0)
        sched_yield();
    assert_string_equal(trial->why, okv_error_text(OKV_EDISKFULL));
    assert_int_equal(crash_disk_count(&trial->disk, "log."), 1);
    assert_int_equal(put_next(trial), 0);
    assert_int_equal(trial->events[OKV_WAL_DISK_FULL], 0);
    crash_disk_set_space(&trial->disk, PLENTY);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    restart(trial);
    expect_all(trial);
    trial_end(trial);
}

/* Each has more reserved than it has bytes. */
TEST(old_segments_keep_no_space)
{
    struct trial *trial = trial_begin(6 * LITTLE);

    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(put_next(trial), 0);
        restart(trial);
    }
    assert_int_equal(crash_disk_count(&trial->disk, "log."), 41);
    trial->disk.snapshot_faults = 100; /* so that they stay */
    for (unsigned i = 0; i < 40; i++) {
        assert_int_equal(put_next(trial), 0);
        assert_int_not_equal(wal_machine_snapshot(&trial->machine), 0);
    }
    assert_int_equal(crash_disk_count(&trial->disk, "log."), 81);
    trial->disk.snapshot_faults = 0;
    assert_int_equal(put_next(trial), 0);
    expect_all(trial);
    assert_int_equal(trial->events[OKV_WAL_DISK_FULL], 0);
    trial_end(trial);
}

/* ---- the spare ---- */

static uint64_t segment_size(struct trial *trial)
{
    char name[OKV_WAL_NAME_SIZE];
    uint64_t size;

    okv_wal_name(OKV_WAL_SEGMENT, trial->machine.wal->segment.number, name);
    assert_non_null(crash_disk_bytes(&trial->disk, name, &size));
    return size;
}

/* In what was reserved for writes. */
TEST(a_full_disk_has_room_for_a_clean_end)
{
    struct trial *trial = trial_begin(PLENTY);

    wal_machine_kill(&trial->machine);
    trial->machine.sync_within_ns = OKV_WAL_NEVER;
    start(trial);
    crash_disk_set_space(&trial->disk, 0);
    wal_machine_stop(&trial->machine);
    crash_disk_set_space(&trial->disk, PLENTY);
    start(trial);
    assert_false(trial->machine.found.is_unclean);
    trial_end(trial);
}

/* Nothing of what the spare has is taken for the log's. */
TEST(the_next_segment_is_written_over_the_spare)
{
    struct trial *trial = trial_begin(PLENTY);

    for (unsigned i = 0; i < 4; i++)
        assert_int_equal(put_next(trial), 0);
    assert_int_equal(segment_size(trial) % 4096, 0); /* whole pages */
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_RECYCLED), 1);
    assert_int_equal(segment_size(trial), OKV_WAL_HEADER_SIZE);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    assert_true(segment_size(trial) > 4 * LENGTH);
    assert_int_equal(put_next(trial), 0);
    restart(trial);
    assert_false(trial->machine.found.is_cut);
    assert_int_equal(trial->machine.found.frames, 1);
    expect_all(trial);
    trial_end(trial);
}

/* Zeros up to the end of the file, that are too few for a frame. */
TEST(padding_is_no_frame_that_was_begun)
{
    struct trial *trial = trial_begin(PLENTY);
    struct okv_files *files = &trial->disk.files;
    const struct okv_wal *wal = trial->machine.wal;
    char name[OKV_WAL_NAME_SIZE];
    uint64_t size;

    assert_int_equal(put_next(trial), 0);
    okv_wal_name(OKV_WAL_SEGMENT, wal->segment.number, name);
    uint64_t end = okv_wal_frame_offset(&wal->segment, wal->position) + 24;
    wal_machine_kill(&trial->machine);
    assert_int_equal(files->ops->trim(files, name, end, NULL), 0);
    crash_disk_bytes(&trial->disk, name, &size);
    assert_int_equal(size, end);
    start(trial);
    assert_false(trial->machine.found.is_cut);
    expect_all(trial);
    trial_end(trial);
}

static struct trial *trial_begin_with_spare(void)
{
    struct trial *trial = trial_begin(PLENTY);

    assert_int_equal(put_next(trial), 0);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_RECYCLED), 1);
    return trial;
}

/* Segments of the server before may have numbers that come again. */
TEST(a_start_has_no_spare)
{
    struct trial *trial = trial_begin_with_spare();

    restart(trial);
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_RECYCLED), 0);
    assert_int_equal(segment_size(trial), OKV_WAL_HEADER_SIZE);
    trial_end(trial);
}

/* It has what writes need. */
TEST(a_full_disk_has_no_spare)
{
    struct trial *trial = trial_begin_with_spare();

    crash_disk_set_space(&trial->disk, 0);
    fill_disk(trial);
    assert_int_equal(crash_disk_count(&trial->disk, OKV_WAL_RECYCLED), 0);
    crash_disk_set_space(&trial->disk, PLENTY);
    await_room(trial);
    trial_end(trial);
}

/* ---- long values ---- */

/* An append copies from what it pins, and its client may leave while the file is written. */
TEST(a_dropped_value_pins_nothing)
{
    struct trial *trial = trial_begin(PLENTY);
    struct wal_machine *machine = &trial->machine;
    struct okv_blobs *values = &machine->wal->blobs;
    struct okv_store_long_value value = {.extent = 0}, source = {.extent = 0};
    bool is_picked = false;

    assert_int_equal(
        okv_store_long_reserve(&machine->store, &machine->work, &value, 1, 2 * LENGTH, false), 0);
    assert_int_equal(
        okv_store_long_reserve(&machine->store, &machine->work, &source, 1, LENGTH, false), 0);
    assert_true(okv_heap_pin(&machine->store.heap, source.extent, &value.source));
    pthread_mutex_lock(&trial->disk.lock); /* no write ends */
    struct okv_blob *stored =
        okv_blob_write(values, machine->region + okv_store_long_offset(&value), 2 * LENGTH);
    while (!is_picked) {
        pthread_mutex_lock(&values->lock);
        is_picked = TAILQ_EMPTY(&values->jobs);
        pthread_mutex_unlock(&values->lock);
    }
    okv_blob_release(values, stored, &value);
    assert_int_equal(value.extent, 0);
    assert_int_equal(atomic_load(&machine->store.heap.pin_count), 0);
    assert_true(LIST_EMPTY(&machine->store.heap.pins));
    pthread_mutex_unlock(&trial->disk.lock);
    okv_store_long_release(&machine->store, &source);
    trial_end(trial);
}

/* ---- failures ---- */

TEST(a_failure_is_reported_once)
{
    struct trial *trial = trial_begin(PLENTY);

    trial->disk.log_fails_in = 1;
    wal_machine_enter(&trial->machine);
    assert_int_equal(write_one(trial, 1, 1), 0);
    assert_int_equal(wal_machine_leave(&trial->machine), OKV_EUNKNOWN);
    assert_int_equal(trial->events[OKV_WAL_FAILED], 1);
    assert_string_equal(trial->why, strerror(EIO));
    assert_int_equal(change(trial, 1, 1), OKV_EREADONLY);
    assert_int_equal(trial->events[OKV_WAL_FAILED], 1);
    trial_end(trial);
}

/* ---- a slow disk ---- */

static void wait_to_be_let_on(void *user)
{
    struct trial *trial = user;

    sem_post(&trial->is_syncing);
    sem_wait(&trial->may_end);
}

TEST(while_a_sync_lasts_gets_go_on_and_writes_wait)
{
    struct trial *trial = trial_begin(PLENTY);
    struct okv_wal *wal = trial->machine.wal;
    int status;

    sem_init(&trial->is_syncing, 0, 0);
    sem_init(&trial->may_end, 0, 0);
    assert_int_equal(change(trial, 1, 1), 0);
    trial->disk.user = trial;
    trial->disk.before_sync = wait_to_be_let_on;
    wal_machine_enter(&trial->machine);
    assert_int_equal(write_one(trial, 1, 2), 0);
    uint64_t batch = okv_wal_request_commit(wal);
    okv_wal_end_change(wal);
    sem_wait(&trial->is_syncing);
    uint64_t capacity = wal->staged.capacity;
    for (unsigned i = 0; i < 1000; i++) {
        assert_false(okv_wal_begin_change(wal));
        assert_false(okv_wal_is_committed(wal, batch, &status));
        assert_int_equal(get(trial, 1), 1);
    }
    assert_int_equal(wal->staged.capacity, capacity);
    trial->disk.before_sync = NULL;
    sem_post(&trial->may_end);
    wal_machine_enter(&trial->machine);
    assert_true(okv_wal_is_committed(wal, batch, &status));
    assert_int_equal(status, 0);
    assert_int_equal(get(trial, 1), 2);
    okv_wal_end_change(wal);
    sem_destroy(&trial->is_syncing);
    sem_destroy(&trial->may_end);
    trial_end(trial);
}
