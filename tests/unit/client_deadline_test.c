/* Deadlines of the client over a stub transport: when they are seen, and what comes after them. */
#include <limits.h>
#include <poll.h>
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_client.h"

/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)
#define LONG_MS (2 * PACE_GUARD_MS)

#define CLIENT_TEST(name) TEST_WITH(name, client_setup, client_teardown)

CLIENT_TEST(unanswered_operations_expire)
{
    struct okv_counters counted;

    handle = stub_open(5, 2, SHORT_MS);
    stub.answer = no_answer;
    stub.delay = HELD;
    assert_int_equal(okv_submit_ping(handle, 0), 0);
    put_submit(1);
    put_submit(2); /* without a credit: it was not sent, so it did not happen */
    get_submit(3);
    assert_int_equal(okv_submit_delete(handle, "key", 3, 4), 0);
    collect();
    const int expected[] = {OKV_ETIMEDOUT, OKV_EUNKNOWN, OKV_ETIMEDOUT, OKV_ETIMEDOUT,
                            OKV_ETIMEDOUT};
    for (unsigned tag = 0; tag < 5; tag++)
        assert_int_equal(results[tag].status, expected[tag]);
    assert_int_equal(okv_ping(handle), OKV_ETIMEDOUT);
    assert_int_equal(get(), OKV_ETIMEDOUT);
    okv_counters(handle, &counted);
    assert_int_equal(counted.timeouts, 7);
    for (unsigned n = 0; n < 2; n++) { /* their credits go to operations that have expired */
        struct stub_reply late = stub_reply_to(n);
        stub_say(&late);
    }
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    assert_int_equal(stub.sent, 2);
    assert_int_equal(stub.reads, 2);
    assert_string_equal(okv_why(handle), "");
    stub_close(&handle);
    handle = stub_open(1, 1, SHORT_MS);
    assert_int_equal(okv_delete(handle, "key", 3), OKV_EUNKNOWN);
}

CLIENT_TEST(event_loop_sees_the_deadline)
{
    handle = stub_open(4, 4, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    unsigned pass = 0;
    for (; pass < 4 && !seen[0]; pass++) {
        struct pollfd fd = {.fd = okv_fd(handle), .events = POLLIN};
        assert_int_equal(okv_arm(handle), 0);
        if (collect_once() > 0)
            continue;
        assert_true(poll(&fd, 1, (int)SHORT_MS) >= 0);
        collect_once();
    }
    assert_int_equal(seen[0], 1);
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
}

static void sleep_past_the_deadline(void)
{
    pace_sleep_ms(SHORT_MS + 10);
}

/* It has a result to give at the deadline, also when that passes just before it sleeps. */
CLIENT_TEST(wait_ends_at_a_deadline)
{
    handle = stub_open(4, 4, SHORT_MS);
    stub.answer = no_answer;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t begun = okv_clock_ns();
        put_submit(i);
        assert_int_equal(okv_wait(handle, LONG_MS), OKV_OK);
        assert_true(okv_clock_ns() - begun < PACE_GUARD_NS); /* or nothing woke it */
        collect();
        assert_int_equal(results[i].status, OKV_EUNKNOWN);
        stub.after_arm = sleep_past_the_deadline;
    }
    stub.after_arm = NULL;
    assert_int_equal(okv_wait(handle, 1), OKV_ETIMEDOUT);
}

static void sleep_past_the_deadline_once(void)
{
    stub.after_arm = NULL;
    sleep_past_the_deadline();
}

/* The get times out in the first pass of catching up; its READ comes in what would be the second.
 */
CLIENT_TEST(get_that_times_out_while_it_catches_up_ends)
{
    char value[8];

    handle = stub_open(4, 4, SHORT_MS);
    pace_sleep_ms(10); /* so long idle that the next call catches up */
    stub.after_arm = sleep_past_the_deadline_once;
    stub.delay = 65; /* polls: the spins of the fast path, and the first pass */
    assert_int_equal(okv_get(handle, "key", 3, value, sizeof value, &length, NULL), OKV_ETIMEDOUT);
    stub.delay = 0;
    assert_int_equal(okv_get(handle, "key", 3, value, sizeof value, &length, NULL), OKV_ENOTFOUND);
}

static void fail_endpoint(void)
{
    stub.poll_result = OKV_EIO;
}

/* A call that waits does not sleep on what it learnt when no event came. */
CLIENT_TEST(waiting_call_ends_without_an_event)
{
    for (unsigned i = 0; i < 2; i++) {
        uint64_t begun = okv_clock_ns();
        handle = stub_open(4, 4, LONG_MS);
        stub.no_buffers = 5000; /* it sleeps by then */
        stub.send_result = OKV_EIO;
        if (i == 1)
            stub.after_arm = fail_endpoint;
        assert_int_equal(okv_ping(handle), i ? OKV_EIO : OKV_EDISCONNECTED);
        assert_true(okv_clock_ns() - begun < PACE_GUARD_NS); /* or nothing woke it */
        stub_close(&handle);
        stub_reset();
    }
}

CLIENT_TEST(late_answer_gives_slot_and_credit_back)
{
    handle = stub_open(1, 1, SHORT_MS);
    for (unsigned i = 0; i < 5; i++) {
        stub.answer = no_answer;
        assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_EUNKNOWN);
        assert_int_equal(okv_ping(handle), OKV_ETIMEDOUT); /* no credit */
        assert_int_equal(get(), OKV_ENOTFOUND);            /* needs none */
        assert_int_equal(stub.sent, 2 * i + 1);
        stub.answer = NULL;
        struct stub_reply late = stub_reply_to(2 * i);
        stub_say(&late);
        assert_int_equal(okv_ping(handle), OKV_OK);
        assert_int_equal(okv_pending(handle), 0);
    }
}

/* Nor is another one that has its slot by then sent twice. */
CLIENT_TEST(expired_request_is_not_sent)
{
    handle = stub_open(1, 2, SHORT_MS);
    stub.answer = no_answer;
    for (unsigned n = 0; n < 2; n++)
        assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_EUNKNOWN);
    put_submit(0); /* both credits are with answers that are owed */
    while (collect_once() == 0)
        ;
    assert_int_equal(results[0].status, OKV_ETIMEDOUT);
    put_submit(1);
    stub.answer = NULL;
    for (unsigned n = 0; n < 2; n++) {
        struct stub_reply late = stub_reply_to(n);
        stub_say(&late);
    }
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.sent, 4);
}

static int count_item(void *user, const struct okv_item *item)
{
    (void)item;
    ++*(unsigned *)user;
    return 0;
}

/* What is still owed of expired operations comes in the middle of a scan and of a bench read. */
CLIENT_TEST(scan_and_bench_read_beside_expired_operations)
{
    uint64_t latencies[20];
    unsigned items = 0;
    char keys[2][16];

    stub_key(keys[0], 1, STUB_DEPTH, 0);
    stub_key(keys[1], 1, STUB_DEPTH, 1);
    struct okv_entry entries[] = {stub_inline(keys[0], "1"),
                                  stub_reference(keys[1], "2", STUB_HEAP)};
    handle = stub_open(4, 4, SHORT_MS);
    stub_bucket(1, STUB_DEPTH, entries, 2);
    for (unsigned i = 0; i < 2; i++) {
        stub.answer = no_answer;
        stub.delay = HELD;
        assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_EUNKNOWN);
        assert_int_equal(get(), OKV_ETIMEDOUT);
        stub.delay = 0;
        assert_int_equal(okv_scan(handle, count_item, &items), OKV_OK);
        assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 20, 4, latencies, NULL), OKV_OK);
        stub_release_events(0);
        struct stub_reply late = stub_reply_to(i);
        stub_say(&late);
        memset(latencies, 0xff, sizeof latencies);
        if (i == 0)
            assert_int_equal(okv_bench_read(handle, STUB_BUCKET_SIZE, 20, 4, latencies, NULL),
                             OKV_OK);
        else
            assert_int_equal(okv_scan(handle, count_item, &items), OKV_OK);
        for (unsigned n = 0; n < 20 && i == 0; n++)
            assert_true(latencies[n] < UINT64_C(1000000000) * 3600);
        assert_int_equal(stub.reads_under_way, 0);
    }
    assert_int_equal(items, 6);
    stub.answer = NULL;
    assert_int_equal(okv_ping(handle), OKV_OK);
}

/* An expired READ still counts against the limit of the device. */
CLIENT_TEST(bench_read_has_room_beside_an_expired_read)
{
    uint64_t latencies[20];

    stub.max_reads = 4;
    handle = stub_open(4, 4, SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(get(), OKV_ETIMEDOUT);
    stub.delay = 0;
    int rc = okv_bench_read(handle, STUB_BUCKET_SIZE, 20, 4, latencies, NULL);
    assert_true(rc == OKV_OK || rc == OKV_EAGAIN);
    assert_string_equal(okv_why(handle), "");
}

/* Events that lead to no result do not keep it from looking at the clock. */
CLIENT_TEST(wait_ends_in_a_stream_of_events)
{
    handle = stub_open(4, 4, LONG_MS);
    stub.stream = UINT_MAX;
    assert_int_equal(okv_wait(handle, (int)SHORT_MS), OKV_ETIMEDOUT);
    assert_true(stub.stream > 0);
    stub.stream = 0;
}
