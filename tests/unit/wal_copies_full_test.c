/* Copies of a full database: what the primary had room for the copies have, and only what it evicts
 * goes there. */
#include "tests/support/test.h"

#include <sched.h>

#include "server/wal/append.h"
#include "shared/base/error.h"
#include "tests/support/random.h"
#include "tests/support/wal_pair.h"

#define KEY_MAX 24u
#define TURNOVERS 10u
#define BATCH 250u

struct trial {
    struct wal_pair *pair;
    uint64_t random;
    uint64_t puts, refused, bytes;
};

static struct trial trial_begin(enum okv_store_full full)
{
    struct trial trial = {.pair = calloc(1, sizeof *trial.pair), .random = random_seed()};

    for (unsigned i = 0; i < 2; i++) {
        wal_copy_init(&trial.pair->of[i], true);
        trial.pair->of[i].machine.full = full;
        wal_copy_start(&trial.pair->of[i]);
    }
    wal_pair_lead(trial.pair, 0);
    return trial;
}

/* Of 16 to 255 bytes; one of eight replaces an item or removes one. */
static void change(struct trial *trial, struct wal_copy *copy)
{
    static uint8_t value[256];
    struct okv_store_outcome outcome;
    char key[KEY_MAX];
    uint64_t number = trial->puts++;

    if (random_below(&trial->random, 8) == 0 && number)
        number = random_below(&trial->random, number);
    int length = snprintf(key, sizeof key, "key %llu", (unsigned long long)number);
    const struct okv_store_write write = {.key = key,
                                          .key_length = (uint32_t)length,
                                          .value = value,
                                          .value_length =
                                              16 + (uint32_t)random_below(&trial->random, 240)};
    memset(value, (int)trial->puts, sizeof value);
    int rc = random_below(&trial->random, 64)
                 ? okv_store_put(&copy->machine.store, &copy->machine.work, &write, &outcome)
                 : okv_store_delete(&copy->machine.store, &copy->machine.work, &write, &outcome);
    trial->refused += rc == OKV_EFULL;
    trial->bytes += rc ? 0 : write.value_length + (uint64_t)length;
    assert_true(rc == 0 || rc == OKV_EFULL || rc == OKV_EAGAIN || rc == OKV_ENOTFOUND);
}

static void run_batch(struct trial *trial, unsigned leader)
{
    struct wal_copy *copy = &trial->pair->of[leader];

    wal_machine_enter(&copy->machine);
    for (unsigned i = 0; i < BATCH; i++)
        change(trial, copy);
    uint64_t batch = okv_wal_request_commit(copy->machine.wal);
    okv_wal_end_change(copy->machine.wal);
    while (!wal_copy_has_ended(copy, batch)) {
        wal_pair_ship(trial->pair, leader);
        wal_pair_publish(trial->pair, leader);
        sched_yield();
    }
    assert_int_equal(wal_copy_await_batch(copy, batch), 0);
}

static uint64_t evicted(const struct wal_copy *copy)
{
    const struct okv_store_eviction *eviction = &copy->machine.store.eviction;

    return atomic_load(&eviction->evicted_new) + atomic_load(&eviction->evicted_main);
}

static void expect_equal(struct trial *trial)
{
    for (unsigned i = 0; i < 2; i++) {
        while (wal_copy_state(&trial->pair->of[i]).applied <
               wal_copy_state(&trial->pair->of[i]).sealed) {
            assert_false(wal_copy_state(&trial->pair->of[i]).has_no_room);
            sched_yield();
        }
    }
    assert_true(wal_pair_expect_equal(trial->pair) > 1000);
}

static void hand_over(struct trial *trial, unsigned from)
{
    okv_wal_copies_follow(trial->pair->of[from].machine.wal);
    wal_copy_await_open(&trial->pair->of[from], false);
    wal_pair_lead(trial->pair, !from);
}

/* The same keys after ten turnovers, and after the other copy has led. */
TEST(a_copy_of_a_cache_evicts_nothing_by_itself)
{
    struct trial trial = trial_begin(OKV_STORE_EVICT);

    while (trial.bytes < TURNOVERS * WAL_PAIR_REGION)
        run_batch(&trial, 0);
    assert_int_equal(trial.refused, 0);
    assert_true(evicted(&trial.pair->of[0]) > trial.puts / 2);
    assert_int_equal(evicted(&trial.pair->of[1]), 0);
    expect_equal(&trial);
    hand_over(&trial, 0);
    uint64_t before = evicted(&trial.pair->of[0]);
    for (unsigned i = 0; i < 100; i++)
        run_batch(&trial, 1);
    assert_int_equal(evicted(&trial.pair->of[0]), before);
    assert_true(evicted(&trial.pair->of[1]) > 0);
    expect_equal(&trial);
    wal_pair_end(trial.pair);
}

/* Where puts are refused, and items of other sizes come in place of those that go. */
TEST(a_copy_of_a_full_database_has_room)
{
    struct trial trial = trial_begin(OKV_STORE_REFUSE);

    for (unsigned turn = 0; turn < 3; turn++) {
        uint64_t refused = trial.refused + 200;
        while (trial.refused < refused)
            run_batch(&trial, 0);
        expect_equal(&trial);
    }
    wal_pair_end(trial.pair);
}

TEST(full_copies_take_turns)
{
    struct trial trial = trial_begin(OKV_STORE_REFUSE);
    unsigned leader = 0;

    for (unsigned turn = 0; turn < 4; turn++) {
        uint64_t refused = trial.refused + 200;
        while (trial.refused < refused)
            run_batch(&trial, leader);
        expect_equal(&trial);
        hand_over(&trial, leader);
        leader = !leader;
    }
    wal_pair_end(trial.pair);
}
