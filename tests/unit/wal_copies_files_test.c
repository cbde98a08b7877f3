/* The files of a log that has copies: a start finds what was there, whatever came in which order.
 */
#include "tests/support/test.h"

#include <sched.h>

#include "server/wal/append.h"
#include "shared/base/error.h"
#include "tests/support/wal_pair.h"

/* The first one leads and keeps nothing, the second one has files. */
static struct wal_pair *pair_begin(uint64_t sync_within_ns)
{
    struct wal_pair *pair = calloc(1, sizeof *pair);

    wal_copy_init(&pair->of[0], true);
    wal_copy_init(&pair->of[1], false);
    pair->of[1].machine.sync_within_ns = sync_within_ns;
    wal_copy_start(&pair->of[0]);
    wal_copy_start(&pair->of[1]);
    return pair;
}

/* A start of the second one, alone. */
static void start_again(struct wal_pair *pair)
{
    struct wal_machine *machine = &pair->of[1].machine;

    machine->copies = NULL;
    if (wal_machine_start(machine))
        fail_msg("start: %s", machine->diag.text);
}

static void expect_numbers(struct wal_pair *pair, uint32_t first, uint32_t second)
{
    assert_int_equal(wal_copy_number(&pair->of[1], 1), first);
    assert_int_equal(wal_copy_number(&pair->of[1], 2), second);
}

/* Published in the first one alone. */
static void commit_alone(struct wal_pair *pair, unsigned key, uint32_t number)
{
    struct wal_copy *primary = &pair->of[0];
    uint64_t batch = wal_copy_begin_batch(primary, key, number);

    while (!wal_copy_has_ended(primary, batch)) {
        okv_wal_copies_publish(primary->machine.wal, wal_copy_state(primary).sealed);
        sched_yield();
    }
    assert_int_equal(wal_copy_await_batch(primary, batch), 0);
}

static void lead_raised(struct wal_pair *pair, uint64_t raise)
{
    struct wal_copy *primary = &pair->of[0];

    okv_wal_copies_follow(primary->machine.wal);
    wal_copy_await_open(primary, false);
    assert_int_equal(okv_wal_copies_lead(primary->machine.wal, ++pair->epoch, raise), 0);
    okv_wal_copies_publish(primary->machine.wal, wal_copy_state(primary).sealed);
    wal_copy_await_open(primary, true);
}

static void lead_alone(struct wal_pair *pair)
{
    lead_raised(pair, 0);
}

/* What was lost had versions that are not to come again, in no copy, and not after a start. */
TEST(a_recovery_raises_versions)
{
    struct wal_pair *pair = pair_begin(0);
    struct wal_copy *primary = &pair->of[0], *copy = &pair->of[1];

    lead_alone(pair);
    commit_alone(pair, 1, 1);
    commit_alone(pair, 2, 2);
    uint64_t before = wal_copy_version(primary, 1);
    lead_raised(pair, OKV_WAL_RAISE_BY);
    assert_int_equal(wal_copy_version(primary, 1), before + OKV_WAL_RAISE_BY);
    commit_alone(pair, 2, 3);
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    wal_copy_await_durable(copy);
    assert_int_equal(wal_pair_expect_equal(pair), 2);
    assert_true(wal_copy_version(copy, 2) > OKV_WAL_RAISE_BY);
    wal_machine_kill(&copy->machine);
    start_again(pair);
    expect_numbers(pair, 1, 3);
    assert_int_equal(wal_copy_version(copy, 1), before + OKV_WAL_RAISE_BY);
    wal_pair_end(pair);
}

/* Frames of several epochs come at once, and are written before they are synced. */
static void come_at_once(uint64_t sync_within_ns)
{
    struct wal_pair *pair = pair_begin(sync_within_ns);

    for (uint32_t number = 1; number <= 4; number++) {
        lead_alone(pair);
        commit_alone(pair, 1, number);
        commit_alone(pair, 2, number + 10);
    }
    wal_pair_ship(pair, 0);
    wal_copy_await_durable(&pair->of[1]);
    expect_numbers(pair, 0, 0);
    wal_machine_kill(&pair->of[1].machine);
    start_again(pair);
    expect_numbers(pair, 4, 14);
    assert_int_equal(pair->of[1].machine.wal->epoch, 4);
    wal_pair_end(pair);
}

TEST(epochs_that_come_at_once)
{
    come_at_once(0);
    come_at_once(OKV_WAL_NEVER);
}

/* ---- a cut ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool is_shut, is_reached;
};

static void pass(void *user)
{
    struct gate *gate = user;

    pthread_mutex_lock(&gate->lock);
    gate->is_reached |= gate->is_shut;
    pthread_cond_broadcast(&gate->changed);
    while (gate->is_shut)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

static void set_gate(struct gate *gate, bool is_shut)
{
    pthread_mutex_lock(&gate->lock);
    gate->is_shut = is_shut;
    pthread_cond_broadcast(&gate->changed);
    pthread_mutex_unlock(&gate->lock);
}

static void await_gate(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    while (!gate->is_reached)
        pthread_cond_wait(&gate->changed, &gate->lock);
    pthread_mutex_unlock(&gate->lock);
}

/* The disk is still busy with what is cut off when the next epoch comes. */
static void cut_while_written(bool is_kept)
{
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false};
    struct wal_pair *pair = calloc(1, sizeof *pair);
    struct wal_copy *primary = &pair->of[0], *copy = &pair->of[1];

    wal_copy_init(primary, true);
    wal_copy_init(copy, false);
    copy->machine.keep = is_kept ? 1 << 20 : 0;
    copy->disk.before_sync = pass;
    copy->disk.user = &gate;
    wal_copy_start(primary);
    wal_copy_start(copy);

    lead_alone(pair);
    commit_alone(pair, 1, 1);
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    wal_copy_await_applied(copy);
    wal_copy_await_durable(copy);
    uint64_t cut = wal_copy_state(copy).sealed;

    set_gate(&gate, true);
    uint64_t batch = wal_copy_begin_batch(primary, 1, 2); /* which nobody publishes */
    while (wal_copy_state(primary).sealed == cut)
        sched_yield();
    wal_pair_ship(pair, 0);
    await_gate(&gate);
    okv_wal_copies_follow(primary->machine.wal);
    assert_int_equal(wal_copy_await_batch(primary, batch), OKV_EUNKNOWN);
    okv_wal_copies_cut(primary->machine.wal, cut);
    okv_wal_copies_cut(copy->machine.wal, cut);
    lead_alone(pair);
    commit_alone(pair, 2, 3);
    wal_pair_ship(pair, 0);
    set_gate(&gate, false);
    wal_copy_await_durable(copy);
    wal_machine_kill(&copy->machine);
    copy->disk.before_sync = NULL;
    start_again(pair);
    expect_numbers(pair, 1, 3);
    assert_int_equal(copy->machine.wal->epoch, 2);
    wal_pair_end(pair);
}

TEST(a_cut_of_what_is_being_written)
{
    cut_while_written(true);
    cut_while_written(false);
}

/* ---- a stop ---- */

/* A snapshot would say that the log before it is not needed. */
TEST(a_stop_keeps_what_is_not_published)
{
    struct wal_pair *pair = pair_begin(OKV_WAL_NEVER);

    lead_alone(pair);
    commit_alone(pair, 1, 1);
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    commit_alone(pair, 1, 2);
    commit_alone(pair, 2, 3);
    wal_pair_ship(pair, 0); /* acknowledged from memory */
    wal_machine_stop(&pair->of[1].machine);
    start_again(pair);
    expect_numbers(pair, 2, 3);
    wal_pair_end(pair);
}

TEST(a_stop_makes_a_snapshot_of_all)
{
    struct wal_pair *pair = pair_begin(0);

    lead_alone(pair);
    commit_alone(pair, 1, 1);
    commit_alone(pair, 2, 2);
    wal_pair_ship(pair, 0);
    wal_pair_publish(pair, 0);
    wal_machine_stop(&pair->of[1].machine);
    start_again(pair);
    expect_numbers(pair, 1, 2);
    assert_int_equal(pair->of[1].machine.found.snapshot_items, 2);
    wal_pair_end(pair);
}

TEST(a_log_of_another_shard_is_refused)
{
    struct okv_wal_identity identity, own;
    struct wal_pair *pair = pair_begin(0);
    struct wal_machine *machine = &pair->of[1].machine;

    okv_wal_get_identity(machine->wal, &own);
    assert_int_equal(own.hash_seed, 99);
    wal_machine_stop(machine);
    for (unsigned i = 0; i < 3; i++) {
        identity = own;
        identity.hash_seed += i == 1;
        identity.database_id[15] += i == 2;
        machine->identity = &identity;
        assert_int_equal(wal_machine_start(machine), i == 0 ? 0 : OKV_EEXISTS);
        if (i == 0)
            wal_machine_stop(machine);
    }
    machine->wal = NULL;
    wal_pair_end(pair);
}
