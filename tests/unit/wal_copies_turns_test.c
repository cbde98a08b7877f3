/* Two copies that take turns, while writes go on and what is not published is dropped; and ends in
 * every state. */
#include "tests/support/test.h"

#include <sched.h>

#include "server/store/status.h"
#include "server/wal/append.h"
#include "shared/base/error.h"
#include "tests/support/random.h"
#include "tests/support/wal_pair.h"

#define TURNS 100u
#define KEYS 50u
#define BATCHES 8u /* of a turn, at least */

/* ---- a thread that writes where somebody leads ---- */

struct writer {
    struct wal_pair *pair;
    pthread_t thread;
    atomic_uint leader;
    atomic_uint batches; /* that were answered */
    atomic_bool has_to_stop;
    uint64_t random;
    uint32_t number; /* of the last change; numbers rise */
    uint32_t answered[KEYS], tried[KEYS];
};

static int change(struct writer *writer, struct wal_copy *copy, unsigned key)
{
    const struct okv_store_write write = {.key = &key, .key_length = sizeof key};
    struct okv_store_outcome outcome;

    if (random_below(&writer->random, 8) > 0)
        return wal_copy_put(copy, key, writer->number, random_below(&writer->random, 3) * 1000000);
    int rc = okv_store_delete(&copy->machine.store, &copy->machine.work, &write, &outcome);
    rc = rc == OKV_ENOTFOUND ? 0 : rc;
    return rc ? rc : wal_copy_put(copy, key, writer->number, 0);
}

/* A batch of up to 4 keys. */
static void write_batch(struct writer *writer, struct wal_copy *copy)
{
    unsigned keys[4], count = 1 + (unsigned)random_below(&writer->random, 4);

    writer->number++;
    for (unsigned i = 0; i < count; i++) {
        keys[i] = (unsigned)random_below(&writer->random, KEYS);
        writer->tried[keys[i]] = writer->number;
        assert_int_equal(change(writer, copy, keys[i]), 0);
    }
    uint64_t batch = okv_wal_request_commit(copy->machine.wal);
    okv_wal_end_change(copy->machine.wal);
    if (wal_copy_await_batch(copy, batch) == 0)
        for (unsigned i = 0; i < count; i++)
            writer->answered[keys[i]] = writer->number;
    atomic_fetch_add(&writer->batches, 1);
}

static void *write_on(void *user)
{
    struct writer *writer = user;

    while (!atomic_load(&writer->has_to_stop)) {
        struct wal_copy *copy = &writer->pair->of[atomic_load(&writer->leader)];
        if (okv_wal_begin_change(copy->machine.wal))
            write_batch(writer, copy);
        else
            sched_yield();
    }
    return NULL;
}

/* ---- the cluster's thread ---- */

static void pump(struct wal_pair *pair, unsigned leader)
{
    wal_pair_ship(pair, leader);
    wal_pair_publish(pair, leader);
}

/* All that was evaluated is published. */
static void end_with_a_drain(struct wal_pair *pair, unsigned leader)
{
    struct okv_wal *wal = pair->of[leader].machine.wal;

    okv_wal_copies_drain(wal, true);
    while (!wal_copy_state(&pair->of[leader]).is_drained)
        pump(pair, leader);
    pump(pair, leader);
    okv_wal_copies_follow(wal);
    assert_int_equal(wal_copy_state(&pair->of[0]).sealed, wal_copy_state(&pair->of[1]).sealed);
}

/* What the next one lacks is cut off. */
static void end_at_once(struct wal_pair *pair, unsigned leader, bool is_shipped)
{
    struct okv_wal *wal = pair->of[leader].machine.wal;

    okv_wal_copies_follow(wal);
    if (is_shipped)
        wal_pair_ship(pair, leader);
    uint64_t end = wal_copy_state(&pair->of[!leader]).sealed;
    if (wal_copy_state(&pair->of[leader]).sealed > end)
        okv_wal_copies_cut(wal, end);
}

static void take_turn(struct writer *writer, unsigned turn, uint64_t *random)
{
    struct wal_pair *pair = writer->pair;
    unsigned leader = turn % 2, before = atomic_load(&writer->batches);

    for (unsigned i = 0; i < 2; i++)
        okv_store_set_clock(&pair->of[i].machine.store, 1 + turn, false);
    wal_pair_lead(pair, leader);
    atomic_store(&writer->leader, leader);
    while (atomic_load(&writer->batches) - before < BATCHES)
        pump(pair, leader);
    if (random_below(random, 2))
        end_with_a_drain(pair, leader);
    else
        end_at_once(pair, leader, random_below(random, 2));
}

/* An answered write is there, and one that is unknown is there or not. */
static void expect_writes(struct writer *writer, unsigned leader)
{
    for (unsigned key = 0; key < KEYS; key++) {
        uint32_t number = wal_copy_number(&writer->pair->of[leader], key);
        assert_in_range(number, writer->answered[key], writer->tried[key]);
    }
}

TEST(two_copies_take_turns)
{
    struct writer *writer = calloc(1, sizeof *writer);
    struct wal_pair *pair = wal_pair_begin();
    uint64_t random = random_seed();

    writer->pair = pair;
    writer->random = random_next(&random);
    assert_int_equal(pthread_create(&writer->thread, NULL, write_on, writer), 0);
    for (unsigned turn = 0; turn < TURNS; turn++)
        take_turn(writer, turn, &random);
    atomic_store(&writer->has_to_stop, true);
    pthread_join(writer->thread, NULL);
    wal_pair_lead(pair, 0);
    for (unsigned i = 0; i < 2; i++) {
        wal_copy_await_applied(&pair->of[i]);
        wal_copy_await_durable(&pair->of[i]);
    }
    expect_writes(writer, 0);
    assert_in_range(wal_pair_expect_equal(pair), 1, KEYS);
    assert_int_equal(okv_heap_used(&pair->of[0].machine.store.heap),
                     okv_heap_used(&pair->of[1].machine.store.heap));
    assert_false(wal_copy_state(&pair->of[0]).is_failed || wal_copy_state(&pair->of[1]).is_failed);
    wal_pair_end(pair);
    free(writer);
}

/* ---- ends ---- */

static void set_no_lease(struct wal_copy *copy)
{
    const struct okv_store_lease lease = {.table = {.valid_until_us = 1, .flags = OKV_LEASE_MEMBER},
                                          .longest_ms = 3600000};

    okv_store_set_lease(&copy->machine.store, &lease);
}

enum moment {
    BEGUN,
    LEADS,
    IS_OPEN,
    HAS_RECORDS,
    IS_SEALED,
    WAITS_FOR_A_LEASE,
    IS_REFUSED,
    IS_DRAINED,
    DRAINS,
    FOLLOWS,
    WAS_CUT,
    LEADS_AGAIN,
    MOMENTS
};

/* Changes that nobody waits for. */
static void leave_records(struct wal_copy *copy)
{
    wal_machine_enter(&copy->machine);
    assert_int_equal(wal_copy_put(copy, 1, 1, 0), 0);
    okv_wal_end_change(copy->machine.wal);
}

static void seal(struct wal_copy *copy)
{
    uint64_t before = wal_copy_state(copy).sealed;

    wal_copy_begin_batch(copy, 1, 1);
    while (wal_copy_state(copy).sealed == before)
        sched_yield();
}

static void come_to(struct wal_pair *pair, enum moment moment)
{
    struct wal_copy *copy = &pair->of[0];
    struct okv_wal *wal = copy->machine.wal;
    uint64_t end;

    if (moment == LEADS)
        assert_int_equal(okv_wal_copies_lead(wal, ++pair->epoch, 0), 0);
    else if (moment > LEADS)
        wal_pair_lead(pair, 0);
    end = wal_copy_state(copy).sealed;
    if (moment == HAS_RECORDS)
        leave_records(copy);
    if (moment == IS_SEALED || moment >= DRAINS)
        seal(copy);
    if (moment == WAITS_FOR_A_LEASE) {
        set_no_lease(copy);
        wal_machine_enter(&copy->machine);
        okv_wal_request_commit(wal);
        okv_wal_end_change(wal);
    }
    if (moment == IS_REFUSED)
        okv_wal_copies_refuse(wal, OKV_EFEWCOPIES);
    if (moment == IS_DRAINED || moment == DRAINS)
        okv_wal_copies_drain(wal, true);
    while (moment == IS_DRAINED && !wal_copy_state(copy).is_drained)
        sched_yield();
    if (moment >= FOLLOWS)
        okv_wal_copies_follow(wal);
    if (moment == WAS_CUT)
        okv_wal_copies_cut(wal, end);
    if (moment == LEADS_AGAIN)
        assert_int_equal(okv_wal_copies_lead(wal, ++pair->epoch, 0), 0);
}

/* At once, and when the log's thread has come as far as it can. */
TEST(a_log_stops_in_every_state)
{
    for (unsigned i = 0; i < 4 * MOMENTS; i++) {
        struct wal_pair *pair = calloc(1, sizeof *pair);
        for (unsigned k = 0; k < 2; k++) {
            wal_copy_init(&pair->of[k], i & 1);
            wal_copy_start(&pair->of[k]);
        }
        come_to(pair, (enum moment)(i / 4));
        if (i & 2)
            wal_copy_await_durable(&pair->of[0]);
        wal_pair_end(pair);
    }
}
