/* A handle in an event loop: the descriptor wakes for all there is to do, and for nothing else. */
#include <poll.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_values.h"

#define LONG_MS (4 * PACE_GUARD_MS)
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)

/* Never sleeps longer than what okv_arm() asked for. */
static void loop(void)
{
    struct pollfd fd = {.fd = okv_fd(handle), .events = POLLIN};
    uint64_t begun = okv_clock_ns();

    while (okv_pending(handle) > 0) {
        assert_int_equal(okv_arm(handle), OKV_OK);
        assert_int_equal(okv_fd(handle), fd.fd);
        if (collect_once() == 0)
            assert_int_equal(poll(&fd, 1, PACE_GUARD_MS), 1);
        assert_true(okv_clock_ns() - begun < PACE_GUARD_NS);
    }
}

#define LOOP_TEST(name) TEST_WITH(name, values_setup, client_teardown)

LOOP_TEST(event_loop_makes_progress)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.answer = no_answer;
    put_submit(0);
    get_submit(1);
    stub_hang_up();
    stub.refusals = 3;
    stub.steps = 5;
    stub.welcome.resumed = 1;
    stub.answer = NULL;
    loop();
    assert_int_equal(results[0].status, OKV_OK);
    assert_int_equal(results[1].status, OKV_ENOTFOUND);
    assert_int_equal(stub.connects, 5);
}

LOOP_TEST(event_loop_wakes_for_deadlines)
{
    handle = stub_open_lasting(4, 4, SHORT_MS);
    stub.answer = no_answer;
    put_submit(0);
    loop();
    assert_int_equal(results[0].status, OKV_EUNKNOWN);
    stub.refusals = 1000000;
    stub_hang_up();
    put_submit(1);
    loop();
    assert_int_equal(results[1].status, OKV_ETIMEDOUT);
}

static bool is_readable(int timeout_ms)
{
    struct pollfd fd = {.fd = okv_fd(handle), .events = POLLIN};

    return poll(&fd, 1, timeout_ms) == 1;
}

/* What the poll after okv_arm() begins has its own time, and its own descriptor. */
LOOP_TEST(poll_after_arm_may_change_everything)
{
    struct okv_options options = {
        .credits = 4, .timeout_ms = LONG_MS, .keepalive_ms = OKV_KEEPALIVE_NONE};

    for (unsigned refusals = 0; refusals < 2; refusals++) {
        values_setup(state);
        handle = stub_open_with(&options);
        stub.answer = no_answer;
        assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
        assert_int_equal(collect_once(), 0);
        assert_int_equal(okv_arm(handle), OKV_OK);
        stub.refusals = refusals;
        stub_hang_up();
        assert_int_equal(collect_once(), 0);
        assert_int_equal(stub.connections, 1 - refusals);
        if (refusals) {
            assert_true(is_readable(LONG_MS / 4)); /* before the deadline: the pause is over */
            stub.answer = NULL;
        } else {
            assert_int_equal(stub.sent, 2);
            struct stub_reply late = stub_reply_to(1);
            stub_say(&late);
            assert_true(is_readable(LONG_MS / 4));
        }
        collect();
        assert_int_equal(results[0].status, OKV_OK);
        values_close();
    }
}

LOOP_TEST(descriptor_is_quiet_after_its_timer)
{
    struct okv_options options = {
        .credits = 4, .timeout_ms = SHORT_MS, .keepalive_ms = OKV_KEEPALIVE_NONE};

    handle = stub_open_with(&options);
    stub.answer = no_answer;
    assert_int_equal(okv_submit_ping(handle, 0), OKV_OK);
    assert_int_equal(okv_arm(handle), OKV_OK);
    assert_true(is_readable(LONG_MS));
    while (okv_pending(handle) > 0)
        assert_true(collect_once() >= 0);
    assert_int_equal(results[0].status, OKV_ETIMEDOUT);
    assert_int_equal(collect_once(), 0);
    assert_false(is_readable(0));
}

LOOP_TEST(descriptor_that_cannot_be_watched)
{
    handle = stub_open_lasting(4, 4, LONG_MS);
    stub.unwatchable = true;
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_arm(handle), OKV_EIO);
    stub.unwatchable = false;
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_arm(handle), OKV_OK);
}
