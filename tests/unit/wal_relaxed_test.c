/*
 * A log that does not sync each change: a crash loses the last changes at most, and no version
 * comes twice.
 */
#include <sched.h>
#include <semaphore.h>

#include "tests/support/test.h"

#include "server/store/commands.h"
#include "server/wal/append.h"
#include "server/wal/frame.h"
#include "server/wal/listing.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(1) << 20)
#define KEYS 8
#define CHANGES_MAX 500
#define CHANGES 200 /* in one run */
#define SEEDS 60
#define SEEDS_LONG 4000
#define SYNC_WITHIN_NS UINT64_C(2000000)

/* The number that a key has; 0: it is not there. */
struct state {
    uint32_t numbers[KEYS];
};

struct trial {
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t random;
    struct state states[CHANGES_MAX + 1]; /* after each change */
    unsigned count;                       /* the last one; no crash takes back the first one */
    uint32_t next;
    uint64_t versions[KEYS]; /* the last that a client was told */
    sem_t is_syncing, may_end;
};

static struct trial *trial_begin(uint64_t seed, uint64_t sync_within_ns)
{
    struct trial *trial = calloc(1, sizeof *trial);

    assert_non_null(trial);
    trial->random = seed;
    crash_disk_init(&trial->disk, seed);
    wal_machine_init(&trial->machine, &trial->disk, REGION);
    trial->machine.sync_within_ns = sync_within_ns;
    sem_init(&trial->is_syncing, 0, 0);
    sem_init(&trial->may_end, 0, 0);
    return trial;
}

static void trial_end(struct trial *trial)
{
    crash_disk_fini(&trial->disk);
    sem_destroy(&trial->is_syncing);
    sem_destroy(&trial->may_end);
    free(trial);
}

static void start(struct trial *trial)
{
    if (wal_machine_start(&trial->machine))
        fail_msg("start: %s", trial->machine.diag.text);
}

static uint64_t choose(struct trial *trial, uint64_t of)
{
    return okv_random_next(&trial->random) % of;
}

/* ---- changes ---- */

static struct state read_all(struct trial *trial)
{
    struct state state;

    for (unsigned key = 0; key < KEYS; key++)
        state.numbers[key] = wal_machine_number(&trial->machine.store, key);
    return state;
}

static void note_change(struct trial *trial, unsigned key, uint32_t number)
{
    assert_true(trial->count < CHANGES_MAX);
    trial->states[trial->count + 1] = trial->states[trial->count];
    trial->states[++trial->count].numbers[key] = number;
}

static int put(struct trial *trial, unsigned key, uint32_t length)
{
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    uint32_t number = ++trial->next;
    uint8_t *value = malloc(length);
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = length};

    memset(value, (uint8_t)number, length);
    memcpy(value, &number, sizeof number);
    int rc = okv_store_put(&machine->store, &machine->work, &write, &outcome);
    free(value);
    if (rc)
        return rc;
    assert_true(outcome.version > trial->versions[key]);
    trial->versions[key] = outcome.version;
    note_change(trial, key, number);
    return 0;
}

static int erase(struct trial *trial, unsigned key)
{
    struct wal_machine *machine = &trial->machine;
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = &key, .key_length = sizeof key};
    int rc = okv_store_delete(&machine->store, &machine->work, &write, &outcome);

    if (rc == 0)
        note_change(trial, key, 0);
    return rc == OKV_ENOTFOUND ? 0 : rc;
}

/* One change, answered without a wait. */
static int change(struct trial *trial)
{
    struct wal_machine *machine = &trial->machine;
    unsigned key = (unsigned)choose(trial, KEYS);

    wal_machine_enter(machine);
    int rc =
        choose(trial, 6) ? put(trial, key, 8 + (uint32_t)choose(trial, 1000)) : erase(trial, key);
    int status = wal_machine_leave(machine);
    return rc ? rc : status;
}

/* Waits until all is durable, or the log failed. */
static void settle(struct trial *trial)
{
    struct okv_wal *wal = trial->machine.wal;

    while (okv_wal_unsynced(wal) > 0 && !atomic_load(&wal->failure))
        sched_yield();
    if (atomic_load(&wal->failure))
        return;
    trial->states[0] = trial->states[trial->count];
    trial->count = 0;
}

/* Has a frame written. */
static void have_written(struct trial *trial)
{
    struct okv_wal *wal = trial->machine.wal;
    bool is_there = true;

    okv_wal_wake(wal);
    while (is_there && !atomic_load(&wal->failure)) {
        pthread_mutex_lock(&wal->lock);
        is_there = wal->staged.used > OKV_WAL_FRAME_HEADER;
        pthread_mutex_unlock(&wal->lock);
    }
}

static void run_until_it_stops(struct trial *trial)
{
    struct okv_wal *wal = trial->machine.wal;

    for (unsigned i = 0; i < CHANGES && change(trial) == 0; i++) {
        uint64_t next = choose(trial, 12);
        if (next < 4)
            have_written(trial);
        if (next == 4 && trial->machine.sync_within_ns != OKV_WAL_NEVER)
            settle(trial);
        if (next == 5 && choose(trial, 3) == 0)
            okv_wal_snapshot_request(wal);
    }
}

/* The state is one that was, and none from before the last sync. */
static void expect_recovery(struct trial *trial)
{
    start(trial);
    struct state found = read_all(trial);
    unsigned i = 0;
    while (i <= trial->count && memcmp(&found, &trial->states[i], sizeof found) != 0)
        i++;
    if (i > trial->count)
        fail_msg("the state after the crash is none of the last %u that were", trial->count + 1);
    trial->states[0] = found;
    trial->count = 0;
}

static unsigned seeds(void)
{
    const char *is_long = getenv("OKV_LONG");

    return is_long && strcmp(is_long, "1") == 0 ? SEEDS_LONG : SEEDS;
}

/* ---- the tests ---- */

TEST(a_crash_loses_the_end_alone)
{
    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        struct trial *trial = trial_begin(seed, seed % 3 ? SYNC_WITHIN_NS : OKV_WAL_NEVER);
        for (unsigned round = 0; round < 3; round++) {
            trial->disk.calls_left = (unsigned)choose(trial, 60);
            if (wal_machine_start(&trial->machine) == 0) {
                run_until_it_stops(trial);
                wal_machine_kill(&trial->machine);
            }
            if (choose(trial, 3))
                crash_disk_crash(&trial->disk);
            else
                crash_disk_go_on(&trial->disk);
            expect_recovery(trial);
            wal_machine_kill(&trial->machine);
            /* What a start has shown stays. */
            crash_disk_crash(&trial->disk);
            expect_recovery(trial);
            wal_machine_kill(&trial->machine);
        }
        trial_end(trial);
    }
}

/* Versions say whether it was clean: they are raised only if something may be lost. */
TEST(a_clean_end_loses_nothing)
{
    struct trial *trial = trial_begin(1, OKV_WAL_NEVER);

    for (unsigned round = 0; round < 3; round++) {
        start(trial);
        assert_false(trial->machine.found.is_unclean);
        for (unsigned i = 0; i < 20; i++)
            assert_int_equal(change(trial), 0);
        wal_machine_stop(&trial->machine);
        crash_disk_crash(&trial->disk);
        trial->states[0] = trial->states[trial->count];
        trial->count = 0;
    }
    expect_recovery(trial);
    for (unsigned key = 0; key < KEYS; key++)
        assert_true(trial->versions[key] < OKV_WAL_RAISE_BY);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

/* Nor is a snapshot, though nothing follows it, the end of a log. */
TEST(a_run_without_a_change_is_not_clean)
{
    struct trial *trial = trial_begin(1, OKV_WAL_NEVER);

    start(trial);
    assert_int_equal(change(trial), 0);
    wal_machine_stop(&trial->machine);
    start(trial);
    wal_machine_kill(&trial->machine);
    start(trial);
    assert_true(trial->machine.found.is_unclean);
    uint64_t number = okv_wal_snapshot_request(trial->machine.wal);
    while (atomic_load(&trial->machine.wal->snapshot.made) < number)
        sched_yield();
    wal_machine_kill(&trial->machine);
    start(trial);
    assert_true(trial->machine.found.is_unclean);
    wal_machine_kill(&trial->machine);
    trial->machine.sync_within_ns = 0;
    start(trial);
    assert_true(trial->machine.found.is_unclean);
    wal_machine_kill(&trial->machine);
    start(trial);
    assert_false(trial->machine.found.is_unclean); /* that log synced every batch */
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

/* Every version is above all that clients were told. */
static void change_all(struct trial *trial)
{
    for (unsigned key = 0; key < KEYS; key++) {
        wal_machine_enter(&trial->machine);
        assert_int_equal(put(trial, key, 8), 0);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
}

/* Returns whether the stop came to its end. */
static bool crash_in_a_stop(uint64_t seed, unsigned calls, bool has_changes)
{
    struct trial *trial = trial_begin(seed, OKV_WAL_NEVER);

    start(trial);
    change_all(trial);
    if (!has_changes) { /* so that the stop makes no snapshot */
        wal_machine_stop(&trial->machine);
        start(trial);
    }
    struct state last = trial->states[trial->count];
    trial->disk.calls_left = calls;
    wal_machine_stop(&trial->machine);
    bool is_whole = trial->disk.calls_left > 0;
    if (seed % 2)
        crash_disk_crash(&trial->disk);
    else
        crash_disk_go_on(&trial->disk);
    expect_recovery(trial);
    if (is_whole || !trial->machine.found.is_unclean)
        assert_memory_equal(&trial->states[0], &last, sizeof last);
    assert_false(is_whole && trial->machine.found.is_unclean);
    change_all(trial);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
    return is_whole;
}

TEST(a_crash_at_any_call_of_a_stop)
{
    for (uint64_t seed = 1; seed <= 20; seed++)
        for (unsigned calls = 0; !crash_in_a_stop(seed, calls, seed % 4 < 2);)
            calls++;
}

/* Returns whether the start came to its end. */
static bool crash_in_a_start(uint64_t seed, unsigned calls)
{
    struct trial *trial = trial_begin(seed, seed % 4 < 2 ? OKV_WAL_NEVER : SYNC_WITHIN_NS);

    start(trial);
    for (unsigned i = 0; i < 4; i++) {
        change_all(trial);
        have_written(trial);
    }
    change_all(trial);
    wal_machine_kill(&trial->machine);
    if (seed % 3)
        crash_disk_crash(&trial->disk);
    trial->disk.calls_left = calls;
    trial->machine.sync_within_ns = seed % 5 ? OKV_WAL_NEVER : 0;
    int rc = wal_machine_start(&trial->machine);
    if (rc == 0)
        wal_machine_kill(&trial->machine);
    if (seed % 2)
        crash_disk_crash(&trial->disk);
    else
        crash_disk_go_on(&trial->disk);
    expect_recovery(trial);
    change_all(trial);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
    return rc == 0;
}

TEST(a_crash_at_any_call_of_a_start)
{
    for (uint64_t seed = 1; seed <= 60; seed++)
        for (unsigned calls = 0; !crash_in_a_start(seed, calls);)
            calls++;
}

/* What a start copied is durable, and nothing of it is an end that a crash cut off. */
TEST(damage_in_a_copied_tail_stops_the_start)
{
    struct trial *trial = trial_begin(1, OKV_WAL_NEVER);

    start(trial);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(change(trial), 0);
        have_written(trial);
    }
    wal_machine_kill(&trial->machine);
    start(trial);
    wal_machine_kill(&trial->machine);
    crash_disk_bytes(&trial->disk, "log.0000000000000002", NULL)[OKV_WAL_HEADER_SIZE + 60] ^= 1;
    assert_int_equal(wal_machine_start(&trial->machine), OKV_ECORRUPT);
    trial_end(trial);
}

static void hold_the_sync(void *user)
{
    struct trial *trial = user;

    sem_post(&trial->is_syncing);
    sem_wait(&trial->may_end);
}

/* From here on the first sync does not end. */
static void hold(struct trial *trial)
{
    trial->disk.user = trial;
    trial->disk.before_sync = hold_the_sync;
    assert_int_equal(change(trial), 0);
    sem_wait(&trial->is_syncing);
}

static void let_go(struct trial *trial)
{
    trial->disk.before_sync = NULL;
    sem_post(&trial->may_end);
}

TEST(no_change_is_made_when_the_disk_is_late)
{
    struct trial *trial = trial_begin(1, SYNC_WITHIN_NS);

    start(trial);
    struct okv_wal *wal = trial->machine.wal;
    hold(trial);
    while (okv_wal_begin_change(wal)) {
        okv_wal_end_change(wal);
        sched_yield();
    }
    assert_false(okv_wal_begin_change(wal));
    struct state seen = read_all(trial);
    assert_memory_equal(&seen, &trial->states[trial->count], sizeof seen);
    let_go(trial);
    assert_int_equal(change(trial), 0);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

static int put_one(struct trial *trial, uint32_t length)
{
    wal_machine_enter(&trial->machine);
    int rc = put(trial, 1, length);
    assert_int_equal(wal_machine_leave(&trial->machine), 0);
    return rc;
}

/* Of a snapshot: what was changed while the log was synced for it. */
TEST(a_segment_begins_with_what_is_not_durable)
{
    for (uint64_t seed = 1; seed <= 20; seed++) {
        struct trial *trial = trial_begin(seed, OKV_WAL_NEVER);
        start(trial);
        struct okv_wal *wal = trial->machine.wal;
        trial->disk.holds_snapshots = 1000;
        trial->disk.user = trial;
        trial->disk.before_sync = hold_the_sync;
        assert_int_equal(put_one(trial, 100), 0);
        okv_wal_snapshot_request(wal);
        sem_wait(&trial->is_syncing);
        assert_int_equal(put_one(trial, 100), 0);
        let_go(trial);
        while (!okv_snapshot_is_active(&wal->snapshot))
            sched_yield();
        assert_int_equal(okv_wal_unsynced(wal), 0);
        crash_disk_stop(&trial->disk);
        crash_disk_release(&trial->disk);
        wal_machine_kill(&trial->machine);
        crash_disk_crash(&trial->disk);
        expect_recovery(trial);
        wal_machine_kill(&trial->machine);
        trial_end(trial);
    }
}

/* A file goes with the records that refer to it, not before. */
TEST(a_long_value_before_a_snapshot_outlives_a_crash)
{
    struct trial *trial = trial_begin(1, OKV_WAL_NEVER);
    static uint8_t value[WAL_MACHINE_LONG];
    struct okv_store_outcome outcome;
    unsigned key = KEYS;
    const struct okv_store_write write = {
        .key = &key, .key_length = sizeof key, .value = value, .value_length = sizeof value};

    start(trial);
    struct okv_wal *wal = trial->machine.wal;
    trial->disk.user = trial;
    trial->disk.before_sync = hold_the_sync;
    assert_int_equal(put_one(trial, 100), 0);
    okv_wal_snapshot_request(wal);
    sem_wait(&trial->is_syncing);
    for (value[3] = 1; value[3] < 3; value[3]++) {
        wal_machine_enter(&trial->machine);
        assert_int_equal(wal_machine_put_long(&trial->machine, &write, &outcome), 0);
        assert_int_equal(wal_machine_leave(&trial->machine), 0);
    }
    let_go(trial);
    while (atomic_load(&wal->snapshot.made) == 0 ||
           crash_disk_count(&trial->disk, OKV_WAL_BLOB) != 1)
        sched_yield();
    wal_machine_kill(&trial->machine);
    start(trial);
    assert_int_equal(wal_machine_number(&trial->machine.store, key), 2u << 24);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

/* Also what may not be refused with EAGAIN: removals and replies. */
TEST(nothing_is_let_in_when_much_waits)
{
    const struct okv_wal_record client = {
        .kind = OKV_WAL_CLIENT, .key = (uint8_t[OKV_WAL_CLIENT_SIZE]){1}, .slots = 1, .version = 1};
    struct trial *trial = trial_begin(1, UINT64_C(3600000000000));
    bool knows_client = true;

    start(trial);
    struct okv_wal *wal = trial->machine.wal;
    pthread_mutex_lock(&trial->disk.lock); /* no write ends */
    for (;;) {
        uint64_t waits = okv_wal_unsynced(wal);
        assert_true(waits < 3 * OKV_WAL_BATCH_BYTES);
        if (okv_wal_begin_change(wal)) {
            okv_wal_add_reply(wal, &client, &knows_client, &client);
            okv_wal_end_change(wal);
        } else if (waits >= OKV_WAL_BATCH_BYTES) {
            break;
        }
    }
    pthread_mutex_unlock(&trial->disk.lock);
    while (!okv_wal_begin_change(wal))
        sched_yield();
    okv_wal_end_change(wal);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

TEST(what_waits_for_the_disk_is_bounded)
{
    struct trial *trial = trial_begin(1, UINT64_C(3600000000000));
    int rc;

    start(trial);
    struct okv_wal *wal = trial->machine.wal;
    pthread_mutex_lock(&trial->disk.lock); /* no write ends */
    while ((rc = put_one(trial, 1 << 16)) == 0)
        assert_true(okv_wal_unsynced(wal) < 3 * OKV_WAL_BATCH_BYTES);
    assert_int_equal(rc, OKV_EAGAIN);
    assert_true(okv_wal_unsynced(wal) > OKV_WAL_BATCH_BYTES / 2);
    pthread_mutex_unlock(&trial->disk.lock);
    while ((rc = put_one(trial, 1 << 16)) == OKV_EAGAIN)
        sched_yield();
    assert_int_equal(rc, 0);
    wal_machine_stop(&trial->machine);
    trial_end(trial);
}

TEST(a_failure_refuses_what_comes_after_it)
{
    struct trial *trial = trial_begin(1, SYNC_WITHIN_NS);
    int rc;

    start(trial);
    assert_int_equal(change(trial), 0);
    settle(trial);
    crash_disk_fail_again(&trial->disk, 3);
    while ((rc = change(trial)) == 0)
        settle(trial);
    assert_int_equal(rc, OKV_EREADONLY);
    struct state seen = read_all(trial);
    assert_memory_equal(&seen, &trial->states[trial->count], sizeof seen);
    wal_machine_kill(&trial->machine);
    crash_disk_crash(&trial->disk);
    expect_recovery(trial);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}

static uint64_t log_size(struct trial *trial)
{
    uint64_t size;

    assert_non_null(crash_disk_bytes(&trial->disk, "log.0000000000000001", &size));
    return size;
}

/* Not even what was published while the sync was under way that failed. */
TEST(nothing_is_written_after_a_failure)
{
    struct trial *trial = trial_begin(1, SYNC_WITHIN_NS);

    start(trial);
    struct okv_wal *wal = trial->machine.wal;
    pthread_rwlock_rdlock(&wal->batch_lock);
    trial->disk.user = trial;
    trial->disk.before_sync = hold_the_sync;
    assert_int_equal(put(trial, 1, 8), 0);
    pthread_rwlock_unlock(&wal->batch_lock);
    sem_wait(&trial->is_syncing);
    pthread_rwlock_rdlock(&wal->batch_lock); /* however late the disk is */
    assert_int_equal(put(trial, 2, 8), 0);
    pthread_rwlock_unlock(&wal->batch_lock);
    uint64_t size = log_size(trial);
    crash_disk_fail_again(&trial->disk, 1);
    let_go(trial);
    while (!atomic_load(&wal->failure))
        sched_yield();
    wal_machine_stop(&trial->machine);
    assert_int_equal(log_size(trial), size);
    crash_disk_crash(&trial->disk);
    expect_recovery(trial);
    wal_machine_kill(&trial->machine);
    trial_end(trial);
}
