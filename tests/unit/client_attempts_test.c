/* Attempts to connect again: how often, to where, for how long, and what ends them. */
#include <time.h>

#include "tests/support/test.h"

#include "client/handle.h"
#include "shared/base/clock.h"
#include "shared/identity/user_key.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"
#include "tests/support/users_file.h"

#define LONG_MS (2 * PACE_GUARD_MS)
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)
#define OTHER_BOOT (STUB_BOOT + 1)

/* Polls until the condition holds; it has to. */
#define POLL_UNTIL(condition)                          \
    do {                                               \
        uint64_t until = pace_guard_end();             \
        while (!(condition) && okv_clock_ns() < until) \
            assert_true(collect_once() >= 0);          \
        assert_true(condition);                        \
    } while (0)

/* ---- deadlines ---- */

#define ATTEMPT_TEST(name) TEST_WITH(name, values_setup, client_teardown)

ATTEMPT_TEST(deadlines_hold_without_a_connection)
{
    handle = stub_open_lasting(4, 4, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    stub.refusals = 1000000;
    stub_hang_up();
    get_submit(1);
    put_submit(2);
    assert_int_equal(okv_submit_ping(handle, 3), OKV_OK);
    uint64_t begun = okv_clock_ns();
    while (okv_pending(handle) > 0) {
        assert_int_equal(okv_wait(handle, LONG_MS), OKV_OK);
        collect_once();
        assert_true(okv_clock_ns() - begun < PACE_GUARD_NS); /* or nothing woke it */
    }
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    for (unsigned tag = 1; tag < 4; tag++)
        assert_int_equal(results[tag].status, OKV_ETIMEDOUT);
    assert_non_null(strstr(okv_why(handle), "not connected"));
    assert_int_equal(get(), OKV_ETIMEDOUT);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_ETIMEDOUT);
    assert_int_equal(okv_scan(handle, NULL, NULL), OKV_EINVAL);
    stub.refusals = 0;
    stub.answer = NULL;
    assert_int_equal(okv_wait(handle, (int)pace_ms(1000)),
                     OKV_ETIMEDOUT); /* nothing to do but connect */
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_string_equal(okv_why(handle), "");
    assert_int_equal(stub.sent, 1); /* what was given up is not sent */
}

/* Each lasts half of the pause at least: 20, 40, 80 ms and so on to 500. */
ATTEMPT_TEST(attempts_become_rarer)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.refusals = 6;
    uint64_t begun = okv_clock_ns();
    stub_hang_up();
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_true(okv_clock_ns() - begun >= UINT64_C(1000000) * (10 + 20 + 40 + 80 + 160 + 250));
    assert_int_equal(stub.connects, 8);
}

/* The pause grows to 500 ms, and not to the 10 s of who is denied. */
ATTEMPT_TEST(a_proof_without_room_is_tried_again_soon)
{
    struct link_identity *identity;

    handle = stub_open_lasting(4, 4, LONG_MS);
    identity = &handle->link.identity;
    strcpy(identity->user, "alice");
    assert_int_equal(okv_identity_init(), 0);
    assert_int_equal(okv_user_key_create(&identity->key), 0);
    stub.stale = 1000;
    stub_hang_up();
    POLL_UNTIL(stub.connects == 2 && handle->link.state == LINK_BACKOFF);
    handle->link.attempts = 100;
    POLL_UNTIL(stub.connects == 3 && handle->link.state == LINK_BACKOFF);
    assert_true(handle->link.deadline_ns <= okv_clock_ns() + UINT64_C(500000000));
    assert_non_null(strstr(okv_why(handle), "no room"));
}

/* ---- a user that may not go on ---- */

/* The handle is alice's, and the server has proven that it knows her key. */
static void become_alice(const struct users_file *file)
{
    struct link_identity *identity = &handle->link.identity;

    strcpy(identity->user, "alice");
    assert_int_equal(okv_identity_init(), 0);
    identity->key_file = strdup(users_file_key(file, "alice", KEY_A));
    assert_int_equal(okv_user_key_read(identity->key_file, &identity->key, NULL), 0);
    identity->is_answered = true;
}

ATTEMPT_TEST(a_user_whose_access_has_ended_is_told_at_once)
{
    struct users_file file;

    users_file_open(&file);
    handle = stub_open_lasting(4, 4, LONG_MS);
    become_alice(&file);
    stub.answer = no_answer;
    put_submit(0);
    stub_goodbye_because(OKV_EDENIED);
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    assert_int_equal(get(), OKV_EDENIED);
    assert_int_equal(okv_poll(handle, results, 1), OKV_EDENIED);
    assert_non_null(strstr(okv_why(handle), "ended the access of user alice"));
    assert_int_equal(stub.connects, 1);
    users_file_close(&file);
}

/* The key file has the new key when the old one goes. Here the server does not prove that it knows
 * it, and so the handle goes on trying. */
ATTEMPT_TEST(a_user_with_another_key_tries_it)
{
    struct users_file file;
    uint64_t guard = pace_guard_end();

    users_file_open(&file);
    handle = stub_open_lasting(4, 4, SHORT_MS);
    become_alice(&file);
    users_file_key(&file, "alice", KEY_B);
    stub_goodbye_because(OKV_EDENIED);
    while (get() == OKV_ENOTFOUND || stub.connects < 3)
        assert_true(okv_clock_ns() < guard);
    assert_int_equal(get(), OKV_EDENIED);
    assert_int_equal(okv_put(handle, "key", 3, "v", 1, NULL), OKV_EDENIED);
    assert_non_null(strstr(okv_why(handle), "does not know the key of user alice"));
    assert_int_equal(stub.sent, 0);
    users_file_close(&file);
}

/* Without a proof the message is anybody's. */
ATTEMPT_TEST(a_denial_without_a_proof_ends_the_connection_alone)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub_goodbye_because(OKV_EDENIED);
    POLL_UNTIL(stub.connects == 2);
    assert_int_equal(get(), OKV_ENOTFOUND);
}

static int visit(void *user, const struct okv_item *item)
{
    (void)user, (void)item;
    return 0;
}

/* All calls that a deadline ends, as long as it is the last answer to an attempt. */
ATTEMPT_TEST(calls_that_time_out_after_a_denial_say_so)
{
    const struct okv_command two[] = {{.kind = OKV_GET, .key = "key", .key_length = 3},
                                      {.kind = OKV_HEAD, .key = "key", .key_length = 3}};
    struct okv_result many[2];
    uint64_t guard = pace_guard_end(), latency;

    handle = stub_open_lasting(1, 1, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    stub.connect_result = OKV_EDENIED;
    stub_hang_up();
    collect();
    assert_int_equal(results[0].status, OKV_EUNKNOWN); /* it was sent */
    assert_int_equal(get(), OKV_EDENIED);
    assert_int_equal(okv_put(handle, "key", 3, "v", 1, NULL), OKV_EDENIED);
    assert_int_equal(okv_ping(handle), OKV_EDENIED);
    assert_int_equal(okv_scan(handle, visit, NULL), OKV_EDENIED);
    assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 1, 1, &latency, NULL), OKV_EDENIED);
    assert_int_equal(okv_call_many(handle, two, many, 2), OKV_OK);
    assert_int_equal(many[0].status, OKV_EDENIED);
    assert_int_equal(many[1].status, OKV_EDENIED);
    get_submit(1);
    collect();
    assert_int_equal(results[1].status, OKV_EDENIED);
    stub.connect_result = OKV_EREFUSED;
    while (get() == OKV_EDENIED)
        assert_true(okv_clock_ns() < guard);
    assert_int_equal(get(), OKV_ETIMEDOUT);
    stub.connect_result = 0;
    while (get() != OKV_ENOTFOUND)
        assert_true(okv_clock_ns() < guard);
    assert_string_equal(okv_why(handle), "");
}

ATTEMPT_TEST(lasting_failures_end_the_handle)
{
    static const int codes[] = {OKV_EPROTO, OKV_EVERSION, OKV_EUNSUPPORTED};

    for (unsigned i = 0; i < sizeof codes / sizeof *codes; i++) {
        client_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub.answer = no_answer;
        put_submit(0);
        stub_hang_up();
        stub.connect_result = codes[i];
        get_submit(1);
        while (okv_pending(handle) > 0)
            assert_true(collect_once() >= 0);
        assert_int_equal(results[0].status, OKV_EUNKNOWN);
        assert_int_equal(results[1].status, codes[i]);
        assert_int_equal(get(), codes[i]);
        assert_true(strlen(okv_why(handle)) > 0);
        assert_int_equal(okv_arm(handle), codes[i]);
        assert_int_equal(stub.connects, 2);
        stub_close(&handle);
    }
}

ATTEMPT_TEST(passing_failures_do_not_end_the_handle)
{
    static const int codes[] = {OKV_EREFUSED,  OKV_ESHUTDOWN, OKV_ETIMEDOUT, OKV_EDISCONNECTED,
                                OKV_ENODEVICE, OKV_EADDRESS,  OKV_EIO,       OKV_ENOMEM,
                                OKV_EPERM,     OKV_EINVAL};

    for (unsigned i = 0; i < 2 * sizeof codes / sizeof *codes; i++) {
        int *result = i % 2 ? &stub.connect_result : &stub.start_result;
        client_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub_hang_up();
        *result = codes[i / 2];
        get_submit(0);
        POLL_UNTIL(stub.connects == 3);
        assert_true(strlen(okv_why(handle)) > 0);
        *result = 0;
        collect();
        assert_int_equal(results[0].status, OKV_ENOTFOUND);
        stub_close(&handle);
    }
}

static unsigned hang_up_at;

static void hang_up(unsigned n)
{
    if (n == hang_up_at)
        stub_hang_up();
}

/* The first READs of a connection may be its last. */
ATTEMPT_TEST(verification_that_fails)
{
    for (hang_up_at = 1; hang_up_at <= 2; hang_up_at++) {
        client_setup(state);
        handle = stub_open_lasting(4, 4, LONG_MS);
        stub_hang_up();
        stub.before_read = hang_up;
        assert_int_equal(get(), OKV_ENOTFOUND);
        assert_int_equal(stub.connects, 3);
        stub_close(&handle);
    }
    client_setup(state);
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub_hang_up();
    stub.block.hash_seed++; /* not the table that the welcome speaks of */
    assert_int_equal(get(), OKV_EPROTO);
}

ATTEMPT_TEST(connecting_takes_steps)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.steps = 50;
    stub_hang_up();
    get_submit(0);
    assert_int_equal(collect_once(), 0); /* and comes back */
    assert_int_equal(stub.connecting, 1);
    collect();
    assert_int_equal(results[0].status, OKV_ENOTFOUND);
    assert_int_equal(stub.connects, 2);
}

static void lose_it(void)
{
    stub_hang_up();
    assert_int_equal(get(), OKV_ENOTFOUND);
}

ATTEMPT_TEST(address_is_used_and_the_name_asked_seldom)
{
    static const struct {
        const char *peer, *address;
    } peers[] = {
        {"10.9.9.1:7471", "10.9.9.1"},
        {"[fd00::1]:7471", "fd00::1"},
        {"[fe80::1]:7471", "server.example"}, /* lacks its scope */
        {"?", "server.example"},
    };

    static const struct okv_options patient = {.timeout_ms = LONG_MS};

    for (size_t i = 0; i < sizeof peers / sizeof *peers; i++) {
        values_setup(state);
        stub.peer = peers[i].peer;
        assert_int_equal(okv_open("rdma://server.example", &patient, &handle, NULL, 0), OKV_OK);
        assert_string_equal(stub.host, "server.example");
        lose_it();
        assert_string_equal(stub.host, peers[i].address);
        lose_it();
        assert_string_equal(stub.host, peers[i].address);

        /* as long as it leads nowhere */
        stub.refusals = 1000;
        stub_hang_up();
        get_submit(0);
        unsigned before = stub.connects;
        POLL_UNTIL(stub.connects >= before + 2);
        assert_string_equal(stub.host, peers[i].address);
        handle->link.resolve_from_ns = okv_clock_ns();
        before = stub.connects;
        POLL_UNTIL(stub.connects == before + 1);
        assert_string_equal(stub.host, "server.example");
        POLL_UNTIL(stub.connects == before + 2);
        assert_string_equal(stub.host, peers[i].address);

        /* where the name leads to is where the next attempt goes */
        stub.peer = "10.9.9.2:7471";
        stub.refusals = 0;
        collect();
        lose_it();
        assert_string_equal(stub.host, "10.9.9.2");
        stub_close(&handle);
    }
}
