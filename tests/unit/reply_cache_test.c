/* Reply caches: replies to resent writes, holders, and lifetime. */
#include "tests/support/test.h"
#include <pthread.h>
#include <sched.h>

#include "server/database/reply_cache.h"
#include "shared/base/error.h"

#define LIMIT 8u
#define REMEMBER_MS 1000u

struct fixture {
    struct okv_reply_caches reply_caches;
    uint64_t now_ms;
    uint64_t session_id;
};

static int setup(void **state)
{
    static struct fixture fixture;

    fixture = (struct fixture){.now_ms = 5};
    *state = &fixture;
    return okv_reply_caches_init(&fixture.reply_caches, LIMIT, REMEMBER_MS, 42);
}

static int teardown(void **state)
{
    struct fixture *fixture = *state;

    okv_reply_caches_fini(&fixture->reply_caches);
    return 0;
}

static const struct okv_reply_cache_owner *owner_of(uint8_t client)
{
    static struct okv_reply_cache_owner owner;

    memset(owner.client_id, client, sizeof owner.client_id);
    return &owner;
}

struct holder {
    struct okv_reply_cache_grant grant;
    uint64_t session_id;
};

static int try_acquire(struct fixture *fixture, uint8_t client, uint32_t resume, struct holder *out)
{
    const struct okv_reply_cache_claim claim = {
        .owner = *owner_of(client),
        .session_id = ++fixture->session_id,
        .resume = resume,
        .credits = 4,
        .place = (uint32_t)fixture->session_id + 10,
        .worker = (unsigned)fixture->session_id + 20,
    };

    out->session_id = claim.session_id;
    return okv_reply_cache_acquire(&fixture->reply_caches, &claim, fixture->now_ms, &out->grant);
}

static struct holder acquire(struct fixture *fixture, uint8_t client, uint32_t resume)
{
    struct holder holder;

    assert_int_equal(try_acquire(fixture, client, resume, &holder), 0);
    assert_non_null(holder.grant.reply_cache);
    return holder;
}

static bool release(struct fixture *fixture, const struct holder *holder, bool forget)
{
    return okv_reply_cache_release(&fixture->reply_caches, holder->grant.reply_cache,
                                   holder->session_id, fixture->now_ms, forget);
}

static enum okv_reply_cache_verdict begin(const struct holder *holder, uint16_t request_slot,
                                          uint64_t sequence)
{
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    return okv_reply_cache_begin(holder->grant.reply_cache, request_slot, sequence, &reply, value);
}

static void done(const struct holder *holder, uint16_t request_slot, uint64_t sequence,
                 uint64_t version)
{
    const struct okv_reply_message reply = {
        .opcode = OKV_OP_PUT, .slot = request_slot, .sequence = sequence, .version = version};

    okv_reply_cache_done(holder->grant.reply_cache, &reply);
}

static void apply(const struct holder *holder, uint16_t request_slot, uint64_t sequence)
{
    assert_int_equal(begin(holder, request_slot, sequence), OKV_REPLY_CACHE_APPLY);
    done(holder, request_slot, sequence, sequence);
}

#define REPLY_CACHE_TEST(name) TEST_WITH(name, setup, teardown)

REPLY_CACHE_TEST(duplicates_get_the_stored_answer)
{
    struct holder holder = acquire(*state, 1, 0);
    static const uint8_t result[OKV_WRITE_REPLY_MAX] = "0123456789abcde";
    const struct okv_reply_message stored = {
        .opcode = OKV_OP_FLUSH,
        .slot = 3,
        .sequence = 7,
        .version = 99,
        .status = OKV_ECONFLICT,
        .value = result,
        .value_length = sizeof result,
    };

    assert_int_equal(okv_reply_cache_request_slots(holder.grant.reply_cache), 4);
    assert_int_equal(begin(&holder, 3, 7), OKV_REPLY_CACHE_APPLY);
    okv_reply_cache_done(holder.grant.reply_cache, &stored);
    for (int i = 0; i < 3; i++) {
        struct okv_reply_message reply;
        uint8_t value[OKV_WRITE_REPLY_MAX] = {0};
        assert_int_equal(okv_reply_cache_begin(holder.grant.reply_cache, 3, 7, &reply, value),
                         OKV_REPLY_CACHE_ANSWER);
        assert_int_equal(reply.opcode, OKV_OP_FLUSH);
        assert_int_equal(reply.slot, 3);
        assert_int_equal(reply.sequence, 7);
        assert_int_equal(reply.version, 99);
        assert_int_equal(reply.status, OKV_ECONFLICT);
        assert_int_equal(reply.value_length, sizeof result);
        assert_ptr_equal(reply.value, value);
        assert_memory_equal(value, result, sizeof result);
    }
    release(*state, &holder, false);
}

REPLY_CACHE_TEST(late_writes_are_stale_and_slots_independent)
{
    struct holder holder = acquire(*state, 1, 0);

    apply(&holder, 0, 10);
    apply(&holder, 0, 12);
    assert_int_equal(begin(&holder, 0, 10), OKV_REPLY_CACHE_STALE);
    assert_int_equal(begin(&holder, 0, 11), OKV_REPLY_CACHE_STALE);
    assert_int_equal(begin(&holder, 0, 12), OKV_REPLY_CACHE_ANSWER);
    apply(&holder, 1, 11);
    assert_int_equal(begin(&holder, 0, 13), OKV_REPLY_CACHE_APPLY);
    done(&holder, 0, 13, 1);
    release(*state, &holder, false);
}

REPLY_CACHE_TEST(a_write_that_is_being_applied_is_waited_for)
{
    struct holder holder = acquire(*state, 1, 0);

    apply(&holder, 2, 5);
    assert_int_equal(begin(&holder, 2, 8), OKV_REPLY_CACHE_APPLY);
    assert_int_equal(begin(&holder, 2, 8), OKV_REPLY_CACHE_WAIT);
    assert_int_equal(begin(&holder, 2, 9), OKV_REPLY_CACHE_WAIT);
    assert_int_equal(begin(&holder, 2, 7), OKV_REPLY_CACHE_STALE);
    okv_reply_cache_undone(holder.grant.reply_cache, 2);
    assert_int_equal(begin(&holder, 2, 5), OKV_REPLY_CACHE_ANSWER);
    assert_int_equal(begin(&holder, 2, 8), OKV_REPLY_CACHE_APPLY);
    done(&holder, 2, 8, 3);
    assert_int_equal(begin(&holder, 2, 8), OKV_REPLY_CACHE_ANSWER);
    release(*state, &holder, false);
}

REPLY_CACHE_TEST(a_client_that_comes_back_finds_its_replies)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0);

    assert_false(first.grant.resumed);
    assert_false(first.grant.replaced);
    apply(&first, 1, 4);
    release(fixture, &first, false);
    fixture->now_ms += REMEMBER_MS - 1;
    struct holder other = acquire(fixture, 2, 0);
    assert_false(other.grant.resumed);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_true(second.grant.resumed);
    assert_false(second.grant.replaced);
    assert_int_equal(begin(&second, 1, 4), OKV_REPLY_CACHE_ANSWER);
    assert_int_equal(begin(&second, 1, 3), OKV_REPLY_CACHE_STALE);
    release(fixture, &second, false);
    release(fixture, &other, false);
}

REPLY_CACHE_TEST(an_earlier_session_is_replaced)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0);

    assert_int_equal(begin(&first, 0, 6), OKV_REPLY_CACHE_APPLY);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_ptr_equal(second.grant.reply_cache, first.grant.reply_cache);
    assert_true(second.grant.resumed);
    assert_true(second.grant.replaced);
    assert_true(okv_reply_cache_is_replaced(first.grant.reply_cache, first.session_id));
    assert_false(okv_reply_cache_is_replaced(second.grant.reply_cache, second.session_id));
    /* The old session's rendezvous read continues. The resent write waits for its end. */
    assert_int_equal(begin(&second, 0, 6), OKV_REPLY_CACHE_WAIT);
    done(&first, 0, 6, 1);
    assert_int_equal(begin(&second, 0, 6), OKV_REPLY_CACHE_ANSWER);
    /* The old session is not the holder any more. */
    release(fixture, &first, true);
    fixture->now_ms += 2 * REMEMBER_MS;
    okv_reply_caches_expire(&fixture->reply_caches, fixture->now_ms);
    assert_int_equal(begin(&second, 0, 6), OKV_REPLY_CACHE_ANSWER);
    release(fixture, &second, false);
}

/* One write, then no session for as long as a reply cache is kept. */
static struct holder write_once_and_idle(struct fixture *fixture)
{
    struct holder holder = acquire(fixture, 1, 0);

    apply(&holder, 0, 1);
    release(fixture, &holder, false);
    fixture->now_ms += REMEMBER_MS;
    return holder;
}

REPLY_CACHE_TEST(a_reply_cache_is_kept_for_a_while)
{
    struct fixture *fixture = *state;
    struct holder first = write_once_and_idle(fixture);

    struct holder second = acquire(fixture, 1, first.session_id);
    assert_false(second.grant.resumed);
    assert_int_equal(fixture->reply_caches.count, 1);
    release(fixture, &second, true);
    assert_int_equal(fixture->reply_caches.count, 0);
    struct holder third = acquire(fixture, 1, second.session_id);
    assert_false(third.grant.resumed);
    release(fixture, &third, false);
    assert_int_equal(fixture->reply_caches.idle_count, 1);
}

/* The reply cache was made for a session whose welcome got lost, so it does not know the client's
 * earlier writes. */
REPLY_CACHE_TEST(a_reply_cache_that_missed_a_session_is_not_resumed)
{
    struct fixture *fixture = *state;
    struct holder first = write_once_and_idle(fixture);

    struct holder lost = acquire(fixture, 1, first.session_id);
    assert_false(lost.grant.resumed);
    release(fixture, &lost, false);
    struct holder again = acquire(fixture, 1, first.session_id);
    assert_false(again.grant.resumed);
    release(fixture, &again, false);
    struct holder known = acquire(fixture, 1, again.session_id);
    assert_true(known.grant.resumed);
    release(fixture, &known, false);
    struct holder fresh = acquire(fixture, 1, 0);
    assert_false(fresh.grant.resumed);
    release(fixture, &fresh, false);
}

/* Sessions of this boot have lower ids than the new one. */
REPLY_CACHE_TEST(a_session_of_another_boot_is_not_resumed)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0);

    release(fixture, &first, false);
    struct holder second = acquire(fixture, 1, first.session_id + 1);
    assert_int_equal(second.session_id, first.session_id + 1);
    assert_false(second.grant.resumed);
    release(fixture, &second, false);
    struct holder third = acquire(fixture, 1, UINT32_MAX);
    assert_false(third.grant.resumed);
    release(fixture, &third, false);
}

/* A hello has the low half of a session id. */
REPLY_CACHE_TEST(a_session_before_the_low_half_began_anew_is_known)
{
    struct fixture *fixture = *state;

    fixture->session_id = UINT64_C(0x2fffffffd);
    struct holder first = acquire(fixture, 1, 0); /* 0x2fffffffe */
    release(fixture, &first, false);
    struct holder second = acquire(fixture, 1, UINT32_C(0xfffffffe));
    assert_true(second.grant.resumed);
    release(fixture, &second, false);
    struct holder third = acquire(fixture, 1, UINT32_C(0xffffffff));
    assert_true(third.grant.resumed);
    assert_int_equal(third.session_id, UINT64_C(0x300000000));
    release(fixture, &third, false);
    struct holder fourth = acquire(fixture, 1, UINT32_C(0xfffffffe));
    assert_true(fourth.grant.resumed);
    release(fixture, &fourth, false);
    struct holder fifth = acquire(fixture, 1, UINT32_C(0xfffffffd)); /* before all of them */
    assert_false(fifth.grant.resumed);
    release(fixture, &fifth, false);
}

/* Another thread released it after the clock was read. */
REPLY_CACHE_TEST(a_reply_cache_idle_since_the_future_is_kept)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0);

    fixture->now_ms++;
    release(fixture, &first, false);
    fixture->now_ms--;
    okv_reply_caches_expire(&fixture->reply_caches, fixture->now_ms);
    assert_int_equal(okv_reply_caches_count(&fixture->reply_caches), 1);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_true(second.grant.resumed);
    fixture->now_ms = UINT64_MAX - 1;
    release(fixture, &second, false);
    fixture->now_ms = UINT64_MAX;
    okv_reply_caches_expire(&fixture->reply_caches, fixture->now_ms);
    assert_int_equal(okv_reply_caches_count(&fixture->reply_caches), 1);
}

/* ---- rollback ---- */

static bool rollback(struct fixture *fixture, const struct holder *holder)
{
    return okv_reply_cache_rollback(&fixture->reply_caches, &holder->grant, holder->session_id,
                                    fixture->now_ms);
}

REPLY_CACHE_TEST(rollback_drops_a_new_reply_cache)
{
    struct fixture *fixture = *state;
    struct holder holder = acquire(fixture, 1, 0);
    uint32_t place;

    assert_true(rollback(fixture, &holder));
    assert_int_equal(okv_reply_caches_count(&fixture->reply_caches), 0);
    assert_false(okv_reply_cache_find_holder(&fixture->reply_caches, owner_of(1), &place));
}

REPLY_CACHE_TEST(rollback_keeps_an_idle_reply_cache)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0);

    apply(&first, 0, 1);
    release(fixture, &first, false);
    struct holder failed = acquire(fixture, 1, first.session_id);
    assert_true(rollback(fixture, &failed));
    assert_int_equal(fixture->reply_caches.idle_count, 1);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_true(second.grant.resumed);
    assert_false(second.grant.replaced);
    assert_int_equal(begin(&second, 0, 1), OKV_REPLY_CACHE_ANSWER);
    release(fixture, &second, false);
}

REPLY_CACHE_TEST(rollback_restores_the_replaced_session)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0), failed = acquire(fixture, 1, first.session_id);
    uint32_t place = 0;

    assert_int_equal(failed.grant.replaced_session, first.session_id);
    assert_int_equal(failed.grant.replaced_place, first.session_id + 10);
    assert_int_equal(failed.grant.replaced_worker, first.session_id + 20);
    assert_true(okv_reply_cache_find_holder(&fixture->reply_caches, owner_of(1), &place));
    assert_int_equal(place, failed.session_id + 10);
    assert_true(rollback(fixture, &failed));
    assert_false(okv_reply_cache_is_replaced(first.grant.reply_cache, first.session_id));
    assert_true(okv_reply_cache_find_holder(&fixture->reply_caches, owner_of(1), &place));
    assert_int_equal(place, first.session_id + 10);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_true(second.grant.replaced);
    assert_int_equal(second.grant.replaced_place, first.session_id + 10);
    assert_int_equal(second.grant.replaced_worker, first.session_id + 20);
    assert_false(release(fixture, &first, false));
    assert_true(release(fixture, &second, false));
}

REPLY_CACHE_TEST(rollback_reports_a_replaced_session_that_ended)
{
    struct fixture *fixture = *state;
    struct holder first = acquire(fixture, 1, 0), failed = acquire(fixture, 1, first.session_id);
    uint32_t place;

    assert_false(release(fixture, &first, true));
    assert_false(rollback(fixture, &failed));
    assert_false(okv_reply_cache_find_holder(&fixture->reply_caches, owner_of(1), &place));
    assert_int_equal(fixture->reply_caches.idle_count, 1);
    struct holder second = acquire(fixture, 1, first.session_id);
    assert_true(second.grant.resumed);
    assert_true(release(fixture, &second, true));
}

/* A replaced session may outlast the reply cache. It still finds that it is replaced. */
REPLY_CACHE_TEST(a_replaced_session_may_end_last)
{
    struct fixture *fixture = *state;

    for (int forget = 0; forget < 2; forget++) {
        struct holder first = acquire(fixture, 1, 0),
                      second = acquire(fixture, 1, first.session_id);
        assert_int_equal(okv_reply_caches_count(&fixture->reply_caches), 1);
        release(fixture, &second, forget);
        fixture->now_ms += REMEMBER_MS;
        okv_reply_caches_expire(&fixture->reply_caches, fixture->now_ms);
        assert_int_equal(okv_reply_caches_count(&fixture->reply_caches), 0);
        struct holder third = acquire(fixture, 1, second.session_id);
        assert_false(third.grant.resumed);
        assert_false(third.grant.replaced);
        assert_true(okv_reply_cache_is_replaced(first.grant.reply_cache, first.session_id));
        release(fixture, &first, false);
        assert_false(okv_reply_cache_is_replaced(third.grant.reply_cache, third.session_id));
        release(fixture, &third, true);
    }
}

REPLY_CACHE_TEST(the_longest_idle_reply_cache_is_dropped_first)
{
    struct fixture *fixture = *state;
    struct holder holders[LIMIT];
    struct holder holder;

    for (uint8_t i = 0; i < LIMIT; i++)
        holders[i] = acquire(fixture, i, 0);
    assert_int_equal(try_acquire(fixture, 100, 0, &holder), OKV_EAGAIN);
    release(fixture, &holders[5], false);
    release(fixture, &holders[2], false);
    struct holder fresh = acquire(fixture, 100, 0);
    assert_int_equal(fixture->reply_caches.count, LIMIT);
    struct holder kept = acquire(fixture, 2, holders[2].session_id);
    assert_true(kept.grant.resumed);
    release(fixture, &kept, false);
    struct holder gone = acquire(fixture, 5, holders[5].session_id);
    assert_false(gone.grant.resumed);
    release(fixture, &gone, false);
    release(fixture, &fresh, false);
    for (uint8_t i = 0; i < LIMIT; i++)
        if (i != 2 && i != 5)
            release(fixture, &holders[i], false);
}

/* Somebody who comes and goes under many names takes the memory of nobody else's writes. */
REPLY_CACHE_TEST(a_user_with_many_reply_caches_loses_its_own)
{
    struct fixture *fixture = *state;
    struct okv_reply_cache_claim claim = {.credits = 4};
    struct okv_reply_cache_grant grant;

    strcpy(claim.owner.user, "honest");
    claim.owner.client_id[0] = 1;
    claim.session_id = ++fixture->session_id;
    uint64_t honest = claim.session_id;
    assert_int_equal(
        okv_reply_cache_acquire(&fixture->reply_caches, &claim, fixture->now_ms, &grant), 0);
    okv_reply_cache_release(&fixture->reply_caches, grant.reply_cache, claim.session_id,
                            fixture->now_ms, false);
    for (uint8_t i = 0; i < 100; i++) {
        strcpy(claim.owner.user, "many");
        claim.owner.client_id[0] = i;
        claim.session_id = ++fixture->session_id;
        assert_int_equal(
            okv_reply_cache_acquire(&fixture->reply_caches, &claim, fixture->now_ms, &grant), 0);
        okv_reply_cache_release(&fixture->reply_caches, grant.reply_cache, claim.session_id,
                                fixture->now_ms, false);
    }
    strcpy(claim.owner.user, "honest");
    claim.owner.client_id[0] = 1;
    claim.resume = (uint32_t)honest;
    claim.session_id = ++fixture->session_id;
    assert_int_equal(
        okv_reply_cache_acquire(&fixture->reply_caches, &claim, fixture->now_ms, &grant), 0);
    assert_true(grant.resumed);
    okv_reply_cache_release(&fixture->reply_caches, grant.reply_cache, claim.session_id,
                            fixture->now_ms, true);
}

REPLY_CACHE_TEST(only_writes_are_remembered)
{
    assert_true(okv_opcode_is_write(OKV_OP_PUT));
    assert_true(okv_opcode_is_write(OKV_OP_DELETE));
    assert_true(okv_opcode_is_write(OKV_OP_APPEND));
    assert_true(okv_opcode_is_write(OKV_OP_TOUCH));
    assert_true(okv_opcode_is_write(OKV_OP_INCR));
    assert_true(okv_opcode_is_write(OKV_OP_INCR_TTL));
    assert_true(okv_opcode_is_write(OKV_OP_GET_TOUCH));
    assert_true(okv_opcode_is_write(OKV_OP_FLUSH));
    assert_false(okv_opcode_is_write(OKV_OP_GET));
    assert_false(okv_opcode_is_write(OKV_OP_PING));
    assert_false(okv_opcode_is_write(OKV_OP_STAT));
    assert_false(okv_opcode_is_write(OKV_OP_GOODBYE));
}

/* ---- two workers with copies of the same writes ---- */

#define WRITES 20000u

struct rival {
    pthread_t thread;
    struct okv_reply_cache *reply_cache;
    atomic_uint *applied; /* by sequence */
    unsigned mismatches;
};

static void *write_all(void *user)
{
    struct rival *rival = user;
    struct okv_reply_message reply;
    uint8_t value[OKV_WRITE_REPLY_MAX];

    for (uint64_t sequence = 1; sequence <= WRITES;) {
        switch (okv_reply_cache_begin(rival->reply_cache, 0, sequence, &reply, value)) {
        case OKV_REPLY_CACHE_APPLY:
            if (sequence % 7 == 0 && atomic_load(&rival->applied[0]) % 3 == 0) {
                atomic_fetch_add(&rival->applied[0], 1);
                okv_reply_cache_undone(rival->reply_cache, 0);
                continue;
            }
            atomic_fetch_add(&rival->applied[sequence], 1);
            reply = (struct okv_reply_message){
                .opcode = OKV_OP_PUT, .sequence = sequence, .version = sequence * 3};
            okv_reply_cache_done(rival->reply_cache, &reply);
            atomic_fetch_add(&rival->applied[0], 1);
            break;
        case OKV_REPLY_CACHE_ANSWER:
            rival->mismatches += reply.sequence != sequence || reply.version != sequence * 3;
            break;
        case OKV_REPLY_CACHE_WAIT:
            sched_yield();
            continue;
        case OKV_REPLY_CACHE_STALE:
            break;
        }
        sequence++;
    }
    return NULL;
}

REPLY_CACHE_TEST(two_sessions_apply_each_write_once)
{
    struct holder holder = acquire(*state, 1, 0);
    static atomic_uint applied[WRITES + 1];
    struct rival rivals[2];

    memset(applied, 0, sizeof applied);
    for (int i = 0; i < 2; i++) {
        rivals[i] = (struct rival){.reply_cache = holder.grant.reply_cache, .applied = applied};
        assert_int_equal(pthread_create(&rivals[i].thread, NULL, write_all, &rivals[i]), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(rivals[i].thread, NULL);
        assert_int_equal(rivals[i].mismatches, 0);
    }
    for (unsigned i = 1; i <= WRITES; i++)
        assert_int_equal(applied[i], 1);
    release(*state, &holder, false);
}
