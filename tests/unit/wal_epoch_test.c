/* Epochs of a log: each begins with its record, and goes on after a start. */
#include "tests/support/test.h"

#include <sched.h>

#include "server/wal/append.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "server/wal/recovery/scan.h"
#include "shared/base/error.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(1) << 20)
#define BATCHES 6u

/* Batch b puts key b, whose value has a file of its own. */
struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t ends[BATCHES + 1]; /* positions after so many batches */
};

static struct trial *trial_begin(uint64_t seed, uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    crash_disk_init(&trial->disk, seed);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.sync_within_ns = sync_within_ns;
    return trial;
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    free(trial);
}

static void start(struct trial *trial)
{
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

static void put(struct trial *trial, unsigned key, uint32_t number)
{
    static uint8_t value[WAL_MACHINE_LONG];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};

    memset(value, (uint8_t)number, sizeof value);
    memcpy(value, &number, sizeof number);
    assert_int_equal(wal_machine_put_long(&trial->machine, &write, &outcome), 0);
}

/* Until its frame is written. */
static void run_batch(struct trial *trial, unsigned batch)
{
    struct okv_wal *wal = trial->machine.wal;
    uint64_t before = atomic_load(&wal->length);

    wal_machine_enter(&trial->machine);
    put(trial, batch, batch + 1);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    okv_wal_wake(wal);
    while (atomic_load(&wal->length) == before)
        sched_yield();
    trial->ends[batch + 1] = wal->snapshot_begun + atomic_load(&wal->length);
}

static void fill(struct trial *trial)
{
    trial->machine.epoch = 3;
    start(trial);
    trial->ends[0] = trial->machine.wal->position;
    for (unsigned batch = 0; batch < BATCHES; batch++)
        run_batch(trial, batch);
    wal_machine_kill(&trial->machine);
    trial->machine.epoch = 0;
}

static unsigned count_batches(struct trial *trial)
{
    unsigned count = 0;

    while (count < BATCHES && wal_machine_number(&trial->machine.store, count) == count + 1)
        count++;
    for (unsigned batch = count; batch < BATCHES; batch++)
        assert_int_equal(wal_machine_number(&trial->machine.store, batch), 0);
    return count;
}

TEST(an_epoch_goes_on_after_a_start)
{
    struct trial *trial = trial_begin(1, 0);

    start(trial);
    run_batch(trial, 0);
    assert_int_equal(trial->machine.wal->epoch, 0);
    assert_int_equal(crash_disk_count(&trial->disk, "value.0000000000000001"), 1);
    wal_machine_kill(&trial->machine);
    trial->machine.epoch = 7;
    start(trial);
    run_batch(trial, 1);
    assert_int_equal(crash_disk_count(&trial->disk, "value.0000070000000001"), 1);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    run_batch(trial, 2);
    wal_machine_kill(&trial->machine);
    for (trial->machine.epoch = 0; trial->machine.epoch < 8; trial->machine.epoch += 7) {
        start(trial); /* with no epoch of its own, or the one that there is */
        assert_int_equal(count_batches(trial), 3);
        assert_int_equal(trial->machine.wal->epoch, 7);
        assert_int_equal(trial->machine.found.frames, 1);
        wal_machine_kill(&trial->machine);
    }
    trial->machine.epoch = 8;
    start(trial);
    run_batch(trial, 3);
    assert_int_equal(crash_disk_count(&trial->disk, "value.0000080000000001"), 1);
    wal_machine_stop(&trial->machine);
    start(trial);
    assert_int_equal(count_batches(trial), 4);
    assert_int_equal(trial->machine.wal->epoch, 8);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

/* Not even in the first frame of a segment. */
TEST(an_epoch_without_its_record_is_damage)
{
    struct trial *trial = trial_begin(1, 0);
    struct okv_wal_header header;
    struct okv_wal_frame frame;

    fill(trial);
    uint8_t *bytes = crash_disk_bytes(&trial->disk, "log.0000000000000001", NULL);
    uint8_t *first = bytes + OKV_WAL_HEADER_SIZE;
    assert_int_equal(okv_wal_header_decode(bytes, &header), 0);
    assert_true(okv_wal_frame_peek(first, OKV_WAL_FRAME_MAX, &frame));
    okv_wal_record_encode(&(struct okv_wal_record){.kind = OKV_WAL_FORGOTTEN},
                          first + OKV_WAL_FRAME_HEADER);
    okv_wal_frame_seal(&frame, header.number, first);
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT);
    assert_non_null(strstr(trial->machine.diag.text, "at byte 4096: its epoch does not follow"));
    trial_end(trial);
}

static void count_damage(void *user, const char *name, uint64_t from, uint64_t to, const char *text)
{
    unsigned *count = user;

    (void)name, (void)from, (void)to, (void)text;
    ++*count;
}

/* A check reports what was lost once, though the record of an epoch was in it. */
TEST(an_epoch_whose_begin_is_lost)
{
    struct trial *trial = trial_begin(1, 0);
    unsigned count = 0;
    const struct okv_wal_damage_report report = {count_damage, &count};
    struct okv_wal_scan scan;
    struct okv_wal_frame frame;
    struct okv_diag diag;

    fill(trial);
    crash_disk_bytes(&trial->disk, "log.0000000000000001", NULL)[OKV_WAL_HEADER_SIZE] ^= 1;
    assert_int_equal(okv_wal_scan_begin(&scan, &trial->disk.files, &report, &diag), 0);
    assert_int_equal(okv_wal_scan_segment(&scan, &diag), 0);
    while (okv_wal_scan_frame(&scan, &frame, &diag) == 0)
        assert_int_equal(frame.epoch, 3);
    assert_int_equal(count, 1);
    okv_wal_scan_end(&scan);
    trial_end(trial);
}
