/* What waits for the disk is bounded, and so is what one step adds to it. */
#include <sched.h>

#include "tests/support/test.h"

#include "server/store/flush.h"
#include "server/store/long_value.h"
#include "server/wal/writer.h"
#include "shared/base/error.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(128) << 20)
#define MIB (UINT64_C(1) << 20)
#define LONG_KEY 1000u
#define HOLD 100000u /* batches while a snapshot is made */

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
};

static struct trial *trial_begin(uint64_t region, uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    assert_non_null(trial);
    crash_disk_init(&trial->disk, 1);
    wal_machine_init(&trial->machine, &trial->disk, region);
    trial->machine.sync_within_ns = sync_within_ns;
    assert_int_equal(wal_machine_start(&trial->machine), 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    wal_machine_stop(&trial->machine);
    crash_disk_fini(&trial->disk);
    free(trial);
}

/* A key of `key_length` bytes that begins with `key`. */
static int put(struct trial *trial, unsigned key, uint32_t key_length, uint32_t value_length)
{
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    static uint8_t bytes[LONG_KEY], value[8000];
    const struct okv_store_write write = {
        .key = bytes, .key_length = key_length, .value = value, .value_length = value_length};

    memcpy(bytes, &key, sizeof key);
    wal_machine_enter(machine);
    int rc = okv_store_put(&machine->store, &machine->work, &write, &outcome);
    assert_int_equal(wal_machine_leave(machine), 0);
    return rc;
}

static void put_all(struct trial *trial, unsigned count, uint32_t key_length, uint32_t value_length)
{
    for (unsigned key = 0; key < count; key++) {
        int rc;
        while ((rc = put(trial, key, key_length, value_length)) == OKV_EAGAIN)
            sched_yield();
        assert_int_equal(rc, 0);
    }
}

/* One step of a flush. Returns whether there is more to do. */
static bool flush(struct trial *trial, uint64_t *next, uint64_t *splits)
{
    struct wal_machine *machine = &trial->machine;

    wal_machine_enter(machine);
    assert_int_equal(okv_store_flush(&machine->store, &machine->work, next, splits), 0);
    assert_int_equal(wal_machine_leave(machine), 0);
    return *next > 0;
}

/* A batch is one frame, which a start has to accept. */
TEST(a_flush_ends_its_step_when_the_batch_is_full)
{
    for (unsigned is_relaxed = 0; is_relaxed < 2; is_relaxed++) {
        struct trial *trial = trial_begin(REGION, is_relaxed ? OKV_WAL_NEVER : 0);
        struct okv_wal *wal = trial->machine.wal;
        uint64_t next = 0, splits = 0, steps = 0, position = 0;
        put_all(trial, 20000, LONG_KEY, 8);
        do {
            position = atomic_load(&wal->length);
            steps++;
            bool goes_on = flush(trial, &next, &splits);
            if (!is_relaxed)
                assert_true(atomic_load(&wal->length) - position < OKV_WAL_BATCH_BYTES + 4 * MIB);
            if (!goes_on)
                break;
        } while (true);
        assert_int_equal(atomic_load(&trial->machine.store.totals.items), 0);
        assert_true(steps > 2);
        trial_end(trial);
    }
}

static uint64_t waiting(struct okv_snapshot *snapshot)
{
    pthread_mutex_lock(&snapshot->lock);
    uint64_t bytes = snapshot->buffer.weight;
    pthread_mutex_unlock(&snapshot->lock);
    return bytes;
}

/* Beside a snapshot that makes no progress. */
TEST(a_flush_does_not_fill_memory_with_a_snapshot)
{
    struct trial *trial = trial_begin(REGION, OKV_WAL_NEVER);
    struct okv_wal *wal = trial->machine.wal;
    uint64_t next = 0, splits = 0;

    put_all(trial, 8000, 8, 8000);
    trial->disk.holds_snapshots = HOLD;
    okv_wal_snapshot_request(wal);
    while (!okv_snapshot_is_active(&wal->snapshot))
        sched_yield();
    flush(trial, &next, &splits);
    assert_true(waiting(&wal->snapshot) < 9 * MIB);
    assert_false(okv_wal_begin_change(wal)); /* until something of it was written */
    crash_disk_release(&trial->disk);
    while (flush(trial, &next, &splits))
        continue;
    assert_int_equal(okv_snapshot_await(&wal->snapshot), 0);
    assert_int_equal(waiting(&wal->snapshot), 0);
    assert_int_equal(wal->snapshot.items, 8000);
    trial_end(trial);
}

/* A change that has begun waits for the snapshot itself. */
static void *delete_behind_the_gate(void *user)
{
    struct trial *trial = user;
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    uint64_t next = 0;

    pthread_rwlock_rdlock(&machine->wal->batch_lock);
    for (; next < 8000; next++) {
        const struct okv_store_write write = {.key = &next, .key_length = sizeof next};
        int rc = okv_store_delete(&machine->store, &machine->work, &write, &outcome);
        assert_true(rc == 0 || rc == OKV_ENOTFOUND);
    }
    pthread_rwlock_unlock(&machine->wal->batch_lock);
    return NULL;
}

TEST(changes_wait_for_a_snapshot_that_is_far_behind)
{
    struct trial *trial = trial_begin(REGION, OKV_WAL_NEVER);
    struct okv_wal *wal = trial->machine.wal;
    pthread_t thread;

    put_all(trial, 8000, 8, 8000);
    trial->disk.holds_snapshots = HOLD;
    okv_wal_snapshot_request(wal);
    while (!okv_snapshot_is_active(&wal->snapshot))
        sched_yield();
    assert_int_equal(pthread_create(&thread, NULL, delete_behind_the_gate, trial), 0);
    while (waiting(&wal->snapshot) < 16 * MIB)
        sched_yield();
    for (unsigned i = 0; i < 1000; i++) {
        assert_true(waiting(&wal->snapshot) < 17 * MIB);
        sched_yield();
    }
    crash_disk_release(&trial->disk);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(okv_snapshot_await(&wal->snapshot), 0);
    trial_end(trial);
}

/* Memory that a pin keeps comes back: a put is to be tried again. */
TEST(memory_under_a_pin_is_no_reason_to_refuse)
{
    struct trial *trial = trial_begin(4 * MIB, OKV_WAL_NEVER);
    struct wal_machine *machine = &trial->machine;
    struct okv_store_long_value source = {.extent = 0};
    struct okv_store_outcome outcome;
    uint64_t key = 0;
    unsigned count = 0;
    int rc;

    while ((rc = put(trial, count, 8, 8000)) == 0 || rc == OKV_EAGAIN)
        count += rc == 0;
    assert_int_equal(rc, OKV_EFULL);
    const struct okv_store_write append = {
        .key = &key, .key_length = 8, .value = "x", .value_length = 1, .long_value = &source};
    wal_machine_enter(machine);
    assert_int_equal(okv_store_append(&machine->store, &machine->work, &append, &outcome),
                     OKV_STORE_LONG);
    assert_int_equal(okv_store_delete(&machine->store, &machine->work, &append, &outcome), 0);
    assert_int_equal(wal_machine_leave(machine), 0);
    assert_int_equal(put(trial, count, 8, 8000), OKV_EAGAIN);
    okv_store_long_release(&machine->store, &source);
    while ((rc = put(trial, count, 8, 8000)) == OKV_EAGAIN)
        sched_yield();
    assert_int_equal(rc, 0);
    assert_int_equal(put(trial, count + 1, 8, 8000), OKV_EFULL);
    trial_end(trial);
}
