/*
 * A copy with files that ends anywhere, and is started again: it has what it acknowledged, has
 * applied only what is surely published, and the rest can be cut off.
 */
#include "tests/support/test.h"

#include <limits.h>
#include <sched.h>

#include "server/wal/append.h"
#include "server/wal/copies/state.h"
#include "server/wal/snapshot/schedule.h"
#include "server/wal/state.h"
#include "shared/base/error.h"
#include "tests/support/random.h"
#include "tests/support/wal_pair.h"

#define KEYS 6u
#define ENDS 700u /* of frames of the primary, at most */
#define STEPS 250u

/* The first one leads, in memory; the second one is the copy. */
struct trial {
    struct wal_pair *pair;
    uint64_t random;
    uint32_t number;
    unsigned count;
    struct {
        uint64_t position, epoch;
        uint32_t numbers[KEYS];
    } ends[ENDS]; /* of the primary's frames: what a store has there */
};

static struct wal_copy *primary_of(struct trial *trial)
{
    return &trial->pair->of[0];
}

static struct wal_copy *copy_of(struct trial *trial)
{
    return &trial->pair->of[1];
}

static void note_end(struct trial *trial)
{
    unsigned i = trial->count++;

    assert_true(i < ENDS);
    trial->ends[i].position = wal_copy_state(primary_of(trial)).sealed;
    trial->ends[i].epoch = trial->pair->epoch;
    for (unsigned key = 0; key < KEYS; key++)
        trial->ends[i].numbers[key] = wal_copy_number(primary_of(trial), key);
}

static void lead(struct trial *trial)
{
    struct wal_copy *primary = primary_of(trial);

    okv_wal_copies_follow(primary->machine.wal);
    wal_copy_await_open(primary, false);
    assert_int_equal(okv_wal_copies_lead(primary->machine.wal, ++trial->pair->epoch, 0), 0);
    okv_wal_copies_publish(primary->machine.wal, wal_copy_state(primary).sealed);
    wal_copy_await_open(primary, true);
    note_end(trial);
}

static struct trial *trial_begin(uint64_t sync_within_ns, uint64_t keep, uint64_t space)
{
    struct trial *trial = calloc(1, sizeof *trial);

    trial->pair = calloc(1, sizeof *trial->pair);
    wal_copy_init(primary_of(trial), true);
    wal_copy_init(copy_of(trial), false);
    copy_of(trial)->machine.sync_within_ns = sync_within_ns;
    copy_of(trial)->machine.keep = keep;
    crash_disk_set_space(&copy_of(trial)->disk, space);
    wal_copy_start(primary_of(trial));
    wal_copy_start(copy_of(trial));
    note_end(trial);
    trial->ends[0].position = WAL_PAIR_BEGIN;
    lead(trial);
    return trial;
}

static void trial_end(struct trial *trial)
{
    wal_pair_end(trial->pair);
    free(trial);
}

static void commit(struct trial *trial)
{
    struct wal_copy *primary = primary_of(trial);
    unsigned key = (unsigned)random_below(&trial->random, KEYS);
    uint64_t batch = wal_copy_begin_batch(primary, key, ++trial->number);

    while (!wal_copy_has_ended(primary, batch)) {
        okv_wal_copies_publish(primary->machine.wal, wal_copy_state(primary).sealed);
        sched_yield();
    }
    assert_int_equal(wal_copy_await_batch(primary, batch), 0);
    note_end(trial);
}

static unsigned end_at(const struct trial *trial, uint64_t position)
{
    unsigned i = trial->count;

    while (i-- > 0)
        if (trial->ends[i].position == position)
            return i;
    fail_msg("no frame ends at %llu", (unsigned long long)position);
    return 0;
}

/* As JOIN has it: up to where the primary's log surely is the same. */
static void join(struct trial *trial)
{
    struct okv_wal_copies_state state = wal_copy_state(copy_of(trial));
    uint64_t cut = state.sealed;

    for (unsigned i = 0; i < trial->count; i++)
        if (trial->ends[i].epoch <= state.epoch && trial->ends[i].position <= state.sealed)
            cut = trial->ends[i].position;
    assert_true(cut >= state.applied);
    if (cut < state.sealed)
        okv_wal_copies_cut(copy_of(trial)->machine.wal, cut);
}

/* A batch that the copy has and nobody publishes, since an epoch begins without it. */
static void lose_batch(struct trial *trial)
{
    struct wal_copy *primary = primary_of(trial);
    uint64_t cut = wal_copy_state(primary).sealed;
    uint64_t batch = wal_copy_begin_batch(primary, 0, ++trial->number);

    while (wal_copy_state(primary).sealed == cut)
        sched_yield();
    wal_pair_ship(trial->pair, 0);
    if (random_below(&trial->random, 2))
        wal_copy_await_durable(copy_of(trial));
    okv_wal_copies_follow(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    okv_wal_copies_cut(primary->machine.wal, cut);
}

/* Some frames, all of which are published but perhaps the last. */
static void ship(struct trial *trial)
{
    struct okv_wal *from = primary_of(trial)->machine.wal, *to = copy_of(trial)->machine.wal;
    unsigned first = end_at(trial, wal_copy_state(copy_of(trial)).sealed);
    unsigned last = first + (unsigned)random_below(&trial->random, trial->count - first);
    static uint8_t bytes[1 << 20];
    size_t used;

    if (last > first) {
        assert_int_equal(okv_wal_copies_read(from, trial->ends[first].position,
                                             trial->ends[last].position, bytes, sizeof bytes,
                                             &used),
                         0);
        assert_int_equal(okv_wal_copies_append(to, bytes, used), 0);
    }
    if (random_below(&trial->random, 2))
        okv_wal_copies_publish(to, trial->ends[last].position);
}

static void expect_store(struct trial *trial)
{
    unsigned i = end_at(trial, wal_copy_state(copy_of(trial)).applied);

    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(wal_copy_number(copy_of(trial), key), trial->ends[i].numbers[key]);
}

/* Ends it in one of three ways. */
static void restart(struct trial *trial)
{
    struct wal_copy *copy = copy_of(trial);
    uint64_t way = random_below(&trial->random, 3);
    struct okv_wal_copies_state before = wal_copy_state(copy);

    if (way == 2 || random_below(&trial->random, 2)) {
        crash_disk_stop(&copy->disk); /* in the middle of something */
        before = wal_copy_state(copy);
    }
    if (way == 0)
        wal_machine_stop(&copy->machine);
    else
        wal_machine_kill(&copy->machine);
    crash_disk_go_on(&copy->disk);
    if (way == 2)
        crash_disk_crash(&copy->disk);
    wal_copy_start(copy);
    if (copy->machine.sync_within_ns == 0)
        assert_true(wal_copy_state(copy).sealed >= before.durable);
    expect_store(trial);
    join(trial);
}

static void take_step(struct trial *trial)
{
    switch (random_below(&trial->random, 10)) {
    case 0:
        restart(trial);
        break;
    case 1:
        okv_wal_snapshot_request(copy_of(trial)->machine.wal);
        break;
    case 2:
        wal_pair_ship(trial->pair, 0);
        lose_batch(trial);
        if (random_below(&trial->random, 3) == 0)
            restart(trial);
        lead(trial);
        join(trial);
        break;
    case 3:
        wal_copy_await_durable(copy_of(trial));
        break;
    case 4:
    case 5:
    case 6:
        commit(trial);
        break;
    default:
        ship(trial);
    }
}

static void run(uint64_t sync_within_ns, uint64_t keep, uint64_t seed)
{
    struct trial *trial = trial_begin(sync_within_ns, keep, UINT64_MAX);

    trial->random = seed;
    for (unsigned step = 0; step < STEPS; step++)
        take_step(trial);
    wal_pair_ship(trial->pair, 0);
    wal_pair_publish(trial->pair, 0);
    wal_copy_await_applied(copy_of(trial));
    wal_pair_expect_equal(trial->pair);
    wal_copy_await_durable(copy_of(trial));
    trial->random = 1; /* a kill */
    restart(trial);
    wal_pair_ship(trial->pair, 0);
    wal_pair_publish(trial->pair, 0);
    wal_pair_expect_equal(trial->pair);
    trial_end(trial);
}

TEST(a_copy_that_ends_anywhere)
{
    uint64_t random = random_seed();

    for (unsigned i = 0; i < 20; i++)
        run(i % 4 == 3 ? OKV_WAL_NEVER : 0, i % 2 ? 1 << 20 : 0, random_next(&random));
}

/* ---- a cut ---- */

static void await_applying(struct wal_copy *copy)
{
    struct okv_wal *wal = copy->machine.wal;
    bool is_applying = false;

    while (!is_applying) {
        pthread_mutex_lock(&wal->lock);
        struct okv_wal_tail_frame *frame =
            okv_wal_tail_find(&wal->copies->tail, wal->copies->applied);
        is_applying = frame && atomic_load(&frame->references) > 1;
        pthread_mutex_unlock(&wal->lock);
        sched_yield();
    }
}

/* While the log's thread applies frames a cut comes, and what takes the place of the frames that it
 * removed, published. */
TEST(a_cut_is_carried_out_before_what_follows_it_is_applied)
{
    struct trial *trial = trial_begin(0, 1 << 20, UINT64_MAX);
    struct wal_copy *copy = copy_of(trial);

    commit(trial);
    commit(trial);
    wal_pair_ship(trial->pair, 0);
    lose_batch(trial);
    wal_copy_await_durable(copy);
    okv_snapshot_lock(&copy->machine.wal->snapshot);
    okv_wal_copies_publish(copy->machine.wal, trial->ends[trial->count - 1].position);
    await_applying(copy);
    lead(trial);
    join(trial);
    wal_pair_ship(trial->pair, 0);
    wal_pair_publish(trial->pair, 0);
    okv_snapshot_unlock(&copy->machine.wal->snapshot);
    wal_copy_await_applied(copy);
    wal_copy_await_durable(copy);
    trial->random = 1; /* a kill */
    restart(trial);
    trial_end(trial);
}

static struct {
    atomic_uint begun, allowed;
} syncs;

static void hold_sync(void *user)
{
    (void)user;
    unsigned number = atomic_fetch_add(&syncs.begun, 1);

    while (number >= atomic_load(&syncs.allowed))
        sched_yield();
}

static bool is_written(struct wal_copy *copy)
{
    struct okv_wal *wal = copy->machine.wal;

    pthread_mutex_lock(&wal->lock);
    bool is_all = wal->copies->written == wal->copies->tail.end;
    pthread_mutex_unlock(&wal->lock);
    return is_all;
}

/* A sync that has begun when the cut comes is of what the cut leaves, too. */
TEST(what_a_cut_leaves_is_durable)
{
    struct trial *trial = trial_begin(0, 1 << 20, UINT64_MAX);
    struct wal_copy *copy = copy_of(trial);
    unsigned count = 1;

    commit(trial);
    atomic_store(&syncs.begun, 0);
    atomic_store(&syncs.allowed, 0);
    copy->disk.before_sync = hold_sync;
    commit(trial);
    wal_pair_ship(trial->pair, 0);
    while (atomic_load(&syncs.begun) < count)
        sched_yield();
    if (!is_written(copy)) {
        atomic_store(&syncs.allowed, count++);
        while (atomic_load(&syncs.begun) < count)
            sched_yield();
    }
    okv_wal_copies_cut(copy->machine.wal, trial->ends[trial->count - 2].position);
    atomic_store(&syncs.allowed, UINT_MAX);
    wal_copy_await_durable(copy);
    trial_end(trial);
}

/* ---- what a start applies ---- */

TEST(the_last_batch_waits_for_its_primary)
{
    struct trial *trial = trial_begin(0, 1 << 20, UINT64_MAX);
    struct okv_wal_epochs epochs;

    for (unsigned i = 0; i < 3; i++)
        commit(trial);
    lead(trial);
    commit(trial);
    commit(trial);
    uint64_t last = trial->ends[trial->count - 2].position;
    wal_pair_ship(trial->pair, 0);
    wal_copy_await_durable(copy_of(trial));
    wal_machine_kill(&copy_of(trial)->machine);
    wal_copy_start(copy_of(trial));
    struct okv_wal_copies_state log = wal_copy_state(copy_of(trial));
    assert_int_equal(log.applied, last);
    assert_int_equal(log.sealed, trial->ends[trial->count - 1].position);
    assert_int_equal(log.durable, log.sealed);
    assert_int_equal(log.begin, WAL_PAIR_BEGIN);
    expect_store(trial);
    okv_wal_copies_get_epochs(copy_of(trial)->machine.wal, &epochs);
    assert_int_equal(epochs.count, 2);
    assert_int_equal(epochs.of[1].epoch, 2);
    assert_int_equal(epochs.of[0].begin, WAL_PAIR_BEGIN);
    okv_wal_copies_publish(copy_of(trial)->machine.wal, log.sealed);
    wal_copy_await_applied(copy_of(trial));
    expect_store(trial);
    trial_end(trial);
}

/* ---- a snapshot of the primary ---- */

static void load(struct trial *trial, const char *key, uint64_t end)
{
    struct okv_wal *wal = copy_of(trial)->machine.wal;
    const struct okv_wal_record record = {.kind = OKV_WAL_PUT,
                                          .key = key,
                                          .key_length = (uint32_t)strlen(key),
                                          .value = "loaded",
                                          .value_length = 6,
                                          .version = 77};
    uint64_t size = okv_wal_record_size(record.key_length, record.value_length);
    uint8_t *bytes = malloc(size);

    okv_wal_record_encode(&record, bytes);
    okv_wal_copies_load(wal);
    assert_int_equal(okv_wal_copies_add_piece(wal, bytes, size, end, 9), 0);
}

static void await_loaded(struct trial *trial)
{
    while (wal_copy_state(copy_of(trial)).is_loading)
        sched_yield();
}

static bool has(struct trial *trial, const char *key)
{
    uint8_t value[16];
    uint64_t version;
    uint32_t length;
    int rc = okv_store_get(&copy_of(trial)->machine.store, NULL, key, strlen(key), value,
                           sizeof value, &length, &version);

    return rc == 0 && version == 77;
}

TEST(a_snapshot_that_was_loaded_is_there_after_a_start)
{
    struct trial *trial = trial_begin(0, 1 << 20, UINT64_MAX);
    struct wal_copy *copy = copy_of(trial);

    commit(trial);
    commit(trial);
    wal_pair_ship(trial->pair, 0);
    wal_pair_publish(trial->pair, 0);
    load(trial, "first", 1 << 20);
    load(trial, "second", 1 << 21);
    await_loaded(trial);
    assert_int_equal(wal_copy_state(copy).sealed, 1 << 21);
    wal_machine_kill(&copy->machine);
    crash_disk_crash(&copy->disk);
    wal_copy_start(copy);
    assert_int_equal(wal_copy_state(copy).sealed, 1 << 21);
    assert_int_equal(wal_copy_state(copy).epoch, 9);
    assert_true(has(trial, "second"));
    assert_false(has(trial, "first"));
    for (unsigned key = 0; key < KEYS; key++)
        assert_int_equal(wal_copy_number(copy, key), 0);
    trial_end(trial);
}

/* ---- a full disk ---- */

TEST(a_copy_waits_for_space)
{
    struct trial *trial = trial_begin(0, 1 << 20, 1 << 20); /* for a segment, and for no batch */
    struct wal_copy *copy = copy_of(trial);

    assert_true(wal_copy_state(copy).is_disk_full);
    commit(trial);
    wal_pair_ship(trial->pair, 0);
    wal_pair_publish(trial->pair, 0);
    wal_copy_await_applied(copy); /* what is published is, wherever it is */
    assert_int_equal(wal_copy_state(copy).durable, WAL_PAIR_BEGIN);
    assert_false(wal_copy_state(copy).is_failed);
    crash_disk_set_space(&copy->disk, UINT64_MAX);
    wal_copy_await_durable(copy);
    while (wal_copy_state(copy).is_disk_full)
        sched_yield();
    wal_pair_expect_equal(trial->pair);
    trial_end(trial);
}

/* What it acknowledged from memory is not in the files. */
TEST(a_stop_on_a_full_disk_is_not_clean)
{
    struct trial *trial = trial_begin(OKV_WAL_NEVER, 1 << 20, 1 << 20);
    struct wal_copy *copy = copy_of(trial);

    assert_true(wal_copy_state(copy).is_disk_full);
    commit(trial);
    wal_pair_ship(trial->pair, 0);
    wal_machine_stop(&copy->machine);
    crash_disk_set_space(&copy->disk, UINT64_MAX);
    wal_copy_start(copy);
    assert_true(copy->machine.found.is_unclean);
    wal_machine_stop(&copy->machine);
    wal_copy_start(copy);
    assert_false(copy->machine.found.is_unclean);
    trial_end(trial);
}

/* Nobody else could publish its batch. */
TEST(a_lone_primary_ends_its_batch_when_its_log_fails)
{
    struct wal_copy *copy = calloc(1, sizeof *copy);

    wal_copy_init(copy, false);
    wal_copy_start(copy);
    assert_int_equal(okv_wal_copies_lead(copy->machine.wal, 1, 0), 0);
    okv_wal_copies_publish(copy->machine.wal, wal_copy_state(copy).sealed);
    wal_copy_await_open(copy, true);
    crash_disk_stop(&copy->disk);
    uint64_t batch = wal_copy_begin_batch(copy, 1, 1);
    assert_int_equal(wal_copy_await_batch(copy, batch), OKV_EUNKNOWN);
    assert_true(wal_copy_state(copy).is_failed);
    wal_machine_kill(&copy->machine);
    wal_copy_fini(copy);
    free(copy);
}
