/* A log whose files keep nothing: its batches end as those of any other, and a start is empty. */
#include "tests/support/test.h"

#include "server/wal/append.h"
#include "server/wal/null_files.h"
#include "shared/base/error.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(8) << 20)
#define BATCHES 400u
#define VALUE 8000u /* more than 16 MiB of log in all batches of BATCH */
#define BATCH 8u

struct trial {
    struct crash_disk disk; /* which nothing reaches */
    struct wal_machine machine;
};

static struct trial *trial_begin(uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    crash_disk_init(&trial->disk, 1);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.files = okv_null_files();
    trial->machine.sync_within_ns = sync_within_ns;
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    wal_machine_stop(&trial->machine);
    assert_null(trial->disk.all);
    crash_disk_fini(&trial->disk);
    free(trial);
}

static void put(struct trial *trial, unsigned key, uint32_t number)
{
    static uint8_t value[VALUE];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};

    memset(value, (uint8_t)number, sizeof value);
    memcpy(value, &number, sizeof number);
    assert_int_equal(okv_store_put(&trial->machine.store, &trial->machine.work, &write, &outcome),
                     0);
}

TEST(a_batch_is_seen_when_it_has_ended)
{
    struct trial *trial = trial_begin(0);
    struct wal_machine *machine = &trial->machine;

    for (uint32_t number = 1; number <= BATCHES; number++) {
        wal_machine_enter(machine);
        for (unsigned key = 0; key < BATCH; key++)
            put(trial, key, number);
        assert_int_equal(wal_machine_number(&machine->store, 0), number - 1);
        assert_int_equal(wal_machine_leave(machine), 0);
        for (unsigned key = 0; key < BATCH; key++)
            assert_int_equal(wal_machine_number(&machine->store, key), number);
    }
    assert_int_equal(okv_wal_unsynced(machine->wal), 0);
    trial_end(trial);
}

static void start_again(uint64_t sync_within_ns)
{
    struct trial *trial = trial_begin(sync_within_ns);

    wal_machine_enter(&trial->machine);
    put(trial, 1, 1);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    assert_int_equal(wal_machine_snapshot(&trial->machine), 0);
    wal_machine_stop(&trial->machine);
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    assert_int_equal(wal_machine_number(&trial->machine.store, 1), 0);
    assert_int_equal(trial->machine.found.segments, 0);
    trial_end(trial);
}

TEST(a_start_finds_nothing)
{
    start_again(0);
    start_again(OKV_WAL_NEVER);
}
