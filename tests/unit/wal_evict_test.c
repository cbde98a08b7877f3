/*
 * A durable cache: what is evicted is gone after a start as it was before, whatever the sync mode
 * and whenever the disk crashes. So nothing that was answered as missing comes back.
 */
#include <sched.h>

#include "tests/support/test.h"

#include "server/store/clear.h"
#include "server/store/evict.h"
#include "server/wal/append.h"
#include "shared/base/error.h"
#include "shared/base/random.h"
#include "tests/support/store_region.h"
#include "tests/support/wal_machine.h"

#define REGION (UINT64_C(2) << 20)
#define TURNOVERS (10u / STORE_TEST_SLOWNESS)
#define BATCH 200    /* puts */
#define TRIES 100000 /* of a put that waits for the log */

/* ---- a full table ---- */

struct mix {
    uint32_t least, most; /* bytes of values */
};

static const struct mix mixes[] = {{32, 32}, {100, 100}, {1024, 1024}, {4096, 4096}, {8, 2000}};

/* The value of a key is chosen by its number. */
static uint32_t make_value(const struct mix *mix, uint32_t number, uint8_t *value)
{
    uint64_t hash = number * UINT64_C(0x9e3779b97f4a7c15);
    uint32_t length = mix->least + (uint32_t)((hash >> 32) % (mix->most - mix->least + 1));

    for (uint32_t i = 0; i < length; i++)
        value[i] = (uint8_t)(hash >> (i % 8 * 8)) ^ (uint8_t)i;
    return length;
}

static int try_put(struct wal_machine *machine, const struct mix *mix, uint32_t number,
                   bool if_absent)
{
    uint8_t value[4096];
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {.key = &number,
                                          .key_length = sizeof number,
                                          .value = value,
                                          .value_length = make_value(mix, number, value),
                                          .if_absent = if_absent};

    return okv_store_put(&machine->store, &machine->work, &write, &outcome);
}

static void next_batch(struct wal_machine *machine)
{
    assert_int_equal(wal_machine_leave(machine), 0);
    sched_yield();
    wal_machine_enter(machine);
}

/* As a worker does: a put waits until there is room, and the hands move after it. */
static int put(struct wal_machine *machine, const struct mix *mix, uint32_t number)
{
    int rc = OKV_EAGAIN;

    for (unsigned i = 0; i < TRIES && rc == OKV_EAGAIN; i++) {
        rc = try_put(machine, mix, number, false);
        okv_store_evict(&machine->store, &machine->work);
        if (rc == OKV_EAGAIN)
            next_batch(machine);
    }
    return rc;
}

static bool is_there(struct wal_machine *machine, const struct mix *mix, uint32_t number)
{
    uint8_t value[4096], found[4096];
    uint32_t length;
    uint64_t version;
    int rc = okv_store_get(&machine->store, NULL, &number, sizeof number, found, sizeof found,
                           &length, &version);

    if (rc == OKV_ENOTFOUND)
        return false;
    assert_int_equal(rc, 0);
    assert_int_equal(length, make_value(mix, number, value));
    assert_memory_equal(found, value, length);
    return true;
}

static void start(struct wal_machine *machine)
{
    if (wal_machine_start(machine))
        fail_msg("start: %s", machine->diag.text);
}

/* Kills it when the log has everything. The next one has `length` bytes. */
static void restart(struct wal_machine *machine, uint64_t length)
{
    while (okv_wal_unsynced(machine->wal) > 0)
        sched_yield();
    wal_machine_kill(machine);
    machine->length = length;
    start(machine);
}

static void begin(struct wal_machine *machine, struct crash_disk *disk, uint64_t sync_within_ns)
{
    crash_disk_init(disk, 1);
    wal_machine_init(machine, disk, REGION);
    machine->full = OKV_STORE_EVICT;
    machine->sync_within_ns = sync_within_ns;
    start(machine);
}

static uint32_t fill(struct wal_machine *machine, const struct mix *mix, unsigned turnovers)
{
    uint32_t count = 0;

    wal_machine_enter(machine);
    for (uint64_t bytes = 0; bytes < REGION * turnovers; count++) {
        int rc = put(machine, mix, count);
        if (rc)
            fail_msg("%u bytes: put %u: %d", mix->most, count, rc);
        if (count % BATCH == 0)
            next_batch(machine);
        bytes += 4 + (mix->least + mix->most) / 2;
    }
    assert_int_equal(wal_machine_leave(machine), 0);
    return count;
}

/* What was evicted stays away. The heap is in other pieces than it was, so the start may have
 * evicted a few more. */
static void expect_recovered(struct wal_machine *machine, const struct mix *mix,
                             const bool *was_there, uint32_t count)
{
    const struct okv_store_eviction *eviction = &machine->store.eviction;
    uint64_t gone = 0, items = 0;

    for (uint32_t i = 0; i < count; i++) {
        bool is = is_there(machine, mix, i);
        assert_true(was_there[i] || !is);
        gone += was_there[i] && !is;
        items += is;
    }
    assert_int_equal(machine->store.totals.items, items);
    /* Also items that later records delete. */
    assert_true(eviction->evicted_new + eviction->evicted_main >= gone);
    assert_true(gone <= items / 100);
}

static void fill_and_recover(const struct mix *mix, uint64_t sync_within_ns)
{
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t there = 0;

    begin(&machine, &disk, sync_within_ns);
    uint32_t count = fill(&machine, mix, TURNOVERS);
    bool *was_there = calloc(count, sizeof *was_there);
    const struct okv_store_eviction *eviction = &machine.store.eviction;
    for (uint32_t i = 0; i < count; i++)
        there += was_there[i] = is_there(&machine, mix, i);
    print_message("%5u bytes: %u puts, %llu items, %.1f %% of the region, %llu in bucket\n",
                  mix->most, count, (unsigned long long)there,
                  100.0 * (double)machine.store.totals.user_bytes / REGION,
                  (unsigned long long)eviction->evicted_in_bucket);
    assert_int_equal(eviction->refused, 0);
    assert_int_equal(count - there, eviction->evicted_new + eviction->evicted_main);
    restart(&machine, REGION);
    expect_recovered(&machine, mix, was_there, count);
    free(was_there);
    wal_machine_stop(&machine);
    crash_disk_fini(&disk);
}

TEST(what_comes_finds_room_and_is_recovered)
{
    for (unsigned m = 0; m < sizeof mixes / sizeof *mixes; m++) {
        fill_and_recover(&mixes[m], 0);
        fill_and_recover(&mixes[m], 20000000);
    }
}

/* What is evicted in a batch counts as free, though its memory is not yet. */
TEST(a_batch_evicts_about_what_it_puts)
{
    const struct mix *mix = &mixes[2];
    struct crash_disk disk;
    struct wal_machine machine;
    unsigned puts = 0;

    begin(&machine, &disk, 0);
    uint32_t number = fill(&machine, mix, 2);
    wal_machine_enter(&machine);
    uint64_t items = machine.store.totals.items;
    while (puts < 1000 && try_put(&machine, mix, number + puts, false) == 0) {
        okv_store_evict(&machine.store, &machine.work);
        puts++;
    }
    /* It ends when the reserve is used up. */
    assert_in_range(puts, REGION / 1100 * 1 / 100, REGION / 1100 * 4 / 100);
    assert_in_range(machine.store.totals.items, items - 40, items + 40);
    assert_int_equal(put(&machine, mix, number + puts), 0); /* in the next one */
    assert_int_equal(machine.store.eviction.refused, 0);
    wal_machine_leave(&machine);
    wal_machine_stop(&machine);
    crash_disk_fini(&disk);
}

/* The log does not wait for somebody who asks. */
TEST(an_eviction_alone_is_a_batch)
{
    struct crash_disk disk;
    struct wal_machine machine;

    begin(&machine, &disk, 0);
    fill(&machine, &mixes[2], 2);
    wal_machine_enter(&machine);
    while (okv_heap_unused(&machine.store.heap) > REGION / 50) /* the reserve is used up */
        assert_true(okv_heap_alloc(&machine.store.heap, 1000) != 0);
    while (okv_store_freed_later(&machine.store.table) == 0)
        okv_store_evict(&machine.store, &machine.work);
    okv_wal_end_change(machine.wal);
    while (okv_store_freed_later(&machine.store.table) > 0)
        sched_yield();
    wal_machine_stop(&machine);
    crash_disk_fini(&disk);
}

/* Nor for a record: moves have none. */
TEST(moves_alone_are_a_batch)
{
    struct crash_disk disk;
    struct wal_machine machine;
    struct okv_store *store = &machine.store;

    begin(&machine, &disk, 0);
    uint32_t count = fill(&machine, &mixes[2], 2);
    for (uint32_t i = 0; i < 3 * count; i++)
        is_there(&machine, &mixes[2], i % count); /* those that are used are moved */
    wal_machine_enter(&machine);
    uint64_t items = store->totals.items;
    while (okv_store_clear(store, &machine.work, OKV_CLEAR_LEAST) != OKV_CLEAR_WAITS)
        continue;
    assert_int_equal(store->totals.items, items);
    assert_true(okv_store_freed_later(&store->table) > 0);
    okv_wal_end_change(machine.wal);
    while (okv_store_freed_later(&store->table) > 0)
        sched_yield();
    wal_machine_stop(&machine);
    crash_disk_fini(&disk);
}

/* A start with less memory evicts, too, and the next one with enough brings nothing back. */
static void start_with_less(uint64_t sync_within_ns)
{
    const struct mix *mix = &mixes[2];
    struct crash_disk disk;
    struct wal_machine machine;

    begin(&machine, &disk, sync_within_ns);
    uint32_t count = fill(&machine, mix, 2);
    bool *was_there = calloc(count, sizeof *was_there);
    restart(&machine, REGION * 3 / 4);
    const struct okv_store_eviction *eviction = &machine.store.eviction;
    assert_true(eviction->evicted_new + eviction->evicted_main > 250);
    for (uint32_t i = 0; i < count; i++)
        was_there[i] = is_there(&machine, mix, i);
    restart(&machine, REGION);
    for (uint32_t i = 0; i < count; i++)
        assert_int_equal(is_there(&machine, mix, i), was_there[i]);
    free(was_there);
    wal_machine_stop(&machine);
    crash_disk_fini(&disk);
}

TEST(what_a_start_evicts_stays_away)
{
    start_with_less(0);
    start_with_less(20000000); /* which raises versions */
}

/* ---- a disk that crashes ---- */

#define KEYS 1200
#define CHANGES_MAX 12
#define LENGTH_MAX 900
#define BATCHES_MAX 400
#define SEEDS (24u / STORE_TEST_SLOWNESS)

/* The number that a key has; 0: it is not there. */
struct state {
    uint32_t numbers[KEYS];
};

struct history {
    struct crash_disk disk;
    struct wal_machine machine;
    uint64_t random;
    uint32_t next;
    bool has_changed; /* a reader saw what was not answered */
    unsigned count;   /* of the states; the last one is of a batch that may have no answer */
    struct state states[BATCHES_MAX + 1]; /* after each batch */
};

static uint64_t choose(struct history *history, uint64_t of)
{
    return okv_random_next(&history->random) % of;
}

static int visit_number(void *user, const struct okv_store_now *now)
{
    memcpy(user, now->value, sizeof(uint32_t));
    return 0;
}

/* With `newest`, also what waits for the log; then it is in the batch. */
static struct state read_all(struct okv_store *store, bool newest)
{
    const struct okv_store_view view = {.newest = newest};
    struct state state = {{0}};

    for (uint32_t key = 0; key < KEYS; key++)
        okv_store_look(store, NULL, &key, sizeof key, &view, visit_number, &state.numbers[key]);
    return state;
}

/* Nothing is looked up by a client: what is evicted is chosen by the puts alone. */
static int change(struct history *history)
{
    struct wal_machine *machine = &history->machine;
    uint32_t key = (uint32_t)choose(history, KEYS), number = ++history->next;
    uint64_t kind = choose(history, 8);
    uint8_t value[LENGTH_MAX] = {0};
    struct okv_store_outcome outcome;
    const struct okv_store_write write = {
        .key = &key,
        .key_length = sizeof key,
        .value = value,
        .value_length = (uint32_t)(choose(history, 2) ? 8 + choose(history, 60)
                                                      : 8 + choose(history, LENGTH_MAX - 8)),
        .if_absent = kind < 3};

    memcpy(value, &number, sizeof number);
    int rc = kind == 7 ? okv_store_delete(&machine->store, &machine->work, &write, &outcome)
                       : okv_store_put(&machine->store, &machine->work, &write, &outcome);
    okv_store_evict(&machine->store, &machine->work);
    return rc == OKV_ENOTFOUND || rc == OKV_EEXISTS || rc == OKV_EAGAIN ? 0 : rc;
}

static int run_batch(struct history *history)
{
    struct wal_machine *machine = &history->machine;
    unsigned changes = 1 + (unsigned)choose(history, CHANGES_MAX);
    int rc = 0;

    if (history->count == BATCHES_MAX)
        return OKV_EIO;
    if (choose(history, 32) == 0)
        okv_wal_snapshot_request(machine->wal);
    wal_machine_enter(machine);
    while (changes-- > 0 && rc == 0)
        rc = change(history);
    history->states[history->count] = read_all(&machine->store, true);
    int status = wal_machine_leave(machine);
    history->count += status == 0;
    return rc ? rc : status;
}

static bool is_state(const struct state *found, const struct state *state)
{
    return memcmp(found, state, sizeof *found) == 0;
}

static void expect_nothing_new(void *user)
{
    struct history *history = user;
    struct state seen = read_all(&history->machine.store, false);

    if (!is_state(&seen, &history->states[history->count - 1]))
        history->has_changed = true;
}

/* After a start: one of the states, at least the last that was answered and synced. */
static void expect_recovery(struct history *history)
{
    unsigned last = history->count;
    bool is_relaxed = history->machine.sync_within_ns != 0;

    start(&history->machine);
    struct state found = read_all(&history->machine.store, false);
    while (last > 0 && !is_state(&found, &history->states[last]))
        last--;
    if (is_relaxed ? !is_state(&found, &history->states[last]) : last + 1 < history->count)
        fail_msg("the state after the crash is none that was");
    history->states[0] = history->states[1] = found;
    history->count = 1;
}

static void run_until_it_stops(struct history *history)
{
    history->disk.calls_left = (unsigned)choose(history, 1500);
    while (run_batch(history) == 0)
        continue;
    wal_machine_stop(&history->machine);
    if (choose(history, 2))
        crash_disk_crash(&history->disk);
    else
        crash_disk_go_on(&history->disk);
}

/* Returns how many items were evicted. */
static uint64_t run_history(struct history *history, uint64_t seed, uint64_t sync_within_ns)
{
    struct wal_machine *machine = &history->machine;
    uint64_t evicted = 0;

    memset(history, 0, sizeof *history);
    history->random = seed;
    crash_disk_init(&history->disk, seed);
    wal_machine_init(machine, &history->disk, REGION / 4);
    machine->full = OKV_STORE_EVICT;
    machine->sync_within_ns = sync_within_ns;
    expect_recovery(history);
    for (unsigned round = 0; round < 3; round++) {
        if (!sync_within_ns) {
            history->disk.before_sync = expect_nothing_new;
            history->disk.user = history;
        }
        run_until_it_stops(history);
        evicted += machine->store.eviction.evicted_new + machine->store.eviction.evicted_main;
        assert_false(history->has_changed);
        history->disk.before_sync = NULL;
        expect_recovery(history);
        wal_machine_kill(machine);
        crash_disk_crash(&history->disk); /* what a start has shown stays */
        expect_recovery(history);
    }
    wal_machine_stop(machine);
    crash_disk_fini(&history->disk);
    return evicted;
}

static void crash_often(uint64_t sync_within_ns)
{
    struct history *history = calloc(1, sizeof *history);
    uint64_t evicted = 0;

    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        evicted += run_history(history, seed, sync_within_ns);
    print_message("%llu items evicted\n", (unsigned long long)evicted);
    assert_true(evicted > 100 * SEEDS);
    free(history);
}

TEST(a_crash_at_any_call_brings_nothing_back)
{
    crash_often(0);
}

TEST(without_a_sync_of_each_batch_a_crash_leaves_a_state_that_was)
{
    crash_often(5000000);
}
