/*
 * A durable store whose disk crashes after any call: what was answered is there, whole batches at a
 * time, and no reader saw what is not there afterwards.
 *
 * The disk of the test keeps what was not synced apart. A crash loses any of it.
 */
#include "tests/support/test.h"

#include "server/store/commands.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(1) << 20)
#define KEYS 12
#define LONG_ONE WAL_MACHINE_LONG /* bytes of a value that has a file of its own */
#define BATCHES 24
#define CHANGES_MAX 6
#define SEEDS 60
#define SEEDS_LONG 4000

/* ---- histories ---- */

/* The number that a key has; 0: it is not there. */
struct state {
    uint32_t numbers[KEYS];
};

struct history {
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t random;
    struct state answered; /* after the last batch that was answered */
    struct state last;     /* after the batch that got no answer */
    uint32_t next;
    bool has_changed; /* a reader saw what was not answered */
};

static struct state read_all(struct okv_store *store)
{
    struct state state;

    for (unsigned key = 0; key < KEYS; key++)
        state.numbers[key] = wal_machine_number(store, key);
    return state;
}

static void expect_nothing_new(void *user)
{
    struct history *history = user;
    struct state seen = read_all(&history->machine.store);

    if (memcmp(&seen, &history->answered, sizeof seen) != 0)
        history->has_changed = true;
}

static int change(struct history *history)
{
    struct wal_machine *machine = &history->machine;
    unsigned key = (unsigned)(okv_random_next(&history->random) % KEYS);
    uint64_t choice = okv_random_next(&history->random) % 8;
    struct okv_store_outcome outcome;
    uint8_t value[LONG_ONE];
    struct okv_store_write write = {.key = &key, .key_length = sizeof key, .value = value};
    int rc;

    if (choice == 0) {
        rc = okv_store_delete(&machine->store, &machine->work, &write, &outcome);
        if (rc == 0)
            history->last.numbers[key] = 0;
        return rc == OKV_ENOTFOUND ? 0 : rc;
    }
    uint32_t number = ++history->next;
    write.value_length = choice < 5   ? 8
                         : choice < 7 ? 8 + (uint32_t)(okv_random_next(&history->random) % 2000)
                                      : LONG_ONE;
    memset(value, (int)(uint8_t)number, write.value_length);
    memcpy(value, &number, sizeof number);
    rc = choice < 7 ? okv_store_put(&machine->store, &machine->work, &write, &outcome)
                    : wal_machine_put_long(machine, &write, &outcome);
    if (rc == 0)
        history->last.numbers[key] = number;
    return rc;
}

/* A batch of changes, and perhaps a snapshot after it. Returns 0 if it was answered. */
static int run_batch(struct history *history)
{
    struct wal_machine *machine = &history->machine;
    unsigned changes = 1 + (unsigned)(okv_random_next(&history->random) % CHANGES_MAX);
    int rc = 0;

    history->last = history->answered;
    uint64_t choice = okv_random_next(&history->random) % 8;
    if (choice == 0)
        okv_wal_snapshot_request(machine->wal);
    if (choice == 1)
        wal_machine_let_grow(machine);
    wal_machine_enter(machine);
    while (changes-- > 0 && rc == 0)
        rc = change(history);
    int status = wal_machine_leave(machine);
    if (rc == 0 && status == 0)
        history->answered = history->last;
    return rc ? rc : status;
}

static void history_begin(struct history *history, uint64_t seed)
{
    memset(history, 0, sizeof *history);
    history->random = seed;
    crash_disk_init(&history->disk, seed);
    wal_machine_init(&history->machine, &history->disk, REGION);
}

static void history_end(struct history *history)
{
    crash_disk_fini(&history->disk);
}

/* From here on readers are to see nothing that was not answered. */
static void history_watch(struct history *history)
{
    history->disk.before_sync = expect_nothing_new;
    history->disk.user = history;
    history->disk.holds_snapshots = (unsigned)(okv_random_next(&history->random) % 4);
}

/* After a crash: the state is the one that was answered, or that of the batch under way. */
static void expect_recovery(struct history *history)
{
    if (wal_machine_start(&history->machine))
        fail_msg("start: %s", history->machine.diag.text);
    struct state found = read_all(&history->machine.store);
    bool is_answered = memcmp(&found, &history->answered, sizeof found) == 0;
    bool is_last = memcmp(&found, &history->last, sizeof found) == 0;
    if (!is_answered && !is_last)
        fail_msg("the state after the crash is none that was");
    history->answered = history->last = found;
}

static unsigned seeds(void)
{
    const char *is_long = getenv("OKV_LONG");

    return is_long && strcmp(is_long, "1") == 0 ? SEEDS_LONG : SEEDS;
}

static void run_until_it_stops(struct history *history)
{
    int rc = wal_machine_start(&history->machine);

    if (rc)
        return;
    while (run_batch(history) == 0)
        continue;
    wal_machine_stop(&history->machine);
}

/* With a snapshot, or without. */
static void end(struct history *history)
{
    if (okv_random_next(&history->random) % 2)
        wal_machine_stop(&history->machine);
    else
        wal_machine_kill(&history->machine);
}

/* Runs batches until the machine stops at a call, crashes, recovers, and does so again. */
TEST(crash_at_any_call)
{
    struct history *history = calloc(1, sizeof *history);

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        history_begin(history, seed);
        for (unsigned round = 0; round < 3; round++) {
            history_watch(history);
            history->disk.calls_left = (unsigned)(okv_random_next(&history->random) % 60);
            run_until_it_stops(history);
            assert_false(history->has_changed);
            if (okv_random_next(&history->random) % 2)
                crash_disk_crash(&history->disk);
            else
                crash_disk_go_on(&history->disk);
            expect_recovery(history);
            end(history);
            /* What a start has shown stays. */
            crash_disk_crash(&history->disk);
            expect_recovery(history);
            wal_machine_stop(&history->machine);
        }
        history_end(history);
    }
    free(history);
}

static void expect_refusal(struct wal_machine *machine)
{
    const struct okv_store_write write = {
        .key = "key", .key_length = 3, .value = "value", .value_length = 5};
    struct okv_store_outcome outcome;

    wal_machine_enter(machine);
    assert_int_equal(okv_store_put(&machine->store, &machine->work, &write, &outcome),
                     OKV_EREADONLY);
    okv_wal_end_change(machine->wal);
}

/* A call fails once: nothing that it left behind is answered, seen or brought back as a success. */
TEST(a_failure_is_final)
{
    struct history *history = calloc(1, sizeof *history);

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        history_begin(history, seed);
        assert_int_equal(wal_machine_start(&history->machine), 0);
        history_watch(history);
        int rc = 0;
        while (rc == 0) { /* again when it was the beginning of a segment: the log goes on */
            crash_disk_fail_again(&history->disk,
                                  1 + (unsigned)(okv_random_next(&history->random) % 20));
            rc = run_batch(history);
        }
        assert_int_equal(rc, OKV_EUNKNOWN);
        struct state seen = read_all(&history->machine.store);
        assert_memory_equal(&seen, &history->answered, sizeof seen);
        struct state last = history->last;
        expect_refusal(&history->machine);
        assert_false(history->has_changed);
        wal_machine_stop(&history->machine);
        history->last = last;
        crash_disk_crash(&history->disk);
        expect_recovery(history);
        wal_machine_stop(&history->machine);
        history_end(history);
    }
    free(history);
}

/* Calls for snapshots fail now and then. The log goes on. */
TEST(snapshots_may_fail)
{
    struct history *history = calloc(1, sizeof *history);

    for (uint64_t seed = 1; seed <= seeds(); seed++) {
        history_begin(history, seed);
        assert_int_equal(wal_machine_start(&history->machine), 0);
        history_watch(history);
        history->disk.snapshot_faults = 15;
        for (unsigned i = 0; i < BATCHES; i++)
            assert_int_equal(run_batch(history), 0);
        wal_machine_stop(&history->machine);
        if (seed % 2)
            crash_disk_crash(&history->disk);
        else
            crash_disk_go_on(&history->disk);
        expect_recovery(history);
        wal_machine_stop(&history->machine);
        history_end(history);
    }
    free(history);
}

/* Damage in front of a batch that is whole is no cut. */
TEST(damage_stops_the_start)
{
    struct history *history = calloc(1, sizeof *history);

    history_begin(history, 9);
    assert_int_equal(wal_machine_start(&history->machine), 0);
    for (unsigned i = 0; i < BATCHES; i++) {
        wal_machine_enter(&history->machine);
        assert_int_equal(change(history), 0);
        assert_int_equal(wal_machine_leave(&history->machine), 0);
    }
    wal_machine_kill(&history->machine);
    crash_disk_bytes(&history->disk, "log.0000000000000001", NULL)[OKV_WAL_HEADER_SIZE + 60] ^= 1;
    assert_int_equal(wal_machine_start(&history->machine), OKV_ECORRUPT);
    assert_non_null(
        strstr(history->machine.diag.text, "log.0000000000000001 is damaged at byte 4096"));
    history_end(history);
    free(history);
}
