/* What comes in between while okv_get_many() is on its fast path: READs that are late, messages,
 * the end of the connection. All gets that are under way are operations then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "client/handle.h"
#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_many.h"

#define TIMEOUT_MS PACE_GUARD_MS
/* Passes while a test waits; what has to be done meanwhile is done in a fraction of it. */
#define SHORT_MS pace_ms(50)

static void hang_up(unsigned n)
{
    if (n == many_hang_up_at)
        stub_hang_up();
}

/* What came before has its value, the others the end. */
static void connection_that_is_lost_ends_them(void **state)
{
    for (many_hang_up_at = 1; many_hang_up_at <= MANY; many_hang_up_at++) {
        many_setup(state);
        handle = stub_open(4, 4, TIMEOUT_MS);
        stub.before_read = hang_up;
        assert_int_equal(many_get(), OKV_EDISCONNECTED);
        unsigned whole = (many_hang_up_at - 1) / 4 * 4;
        for (unsigned n = 0; n < MANY; n++)
            if (n < whole || (n < many_hang_up_at && many_answers[n].status == OKV_OK))
                many_assert_answer(n, many_keys[n]);
            else
                many_assert_status(n, OKV_EDISCONNECTED);
        assert_int_equal(handle->active, 0);
        assert_int_equal(many_get(), OKV_EDISCONNECTED);
        stub_close(&handle);
    }
}

static void read_that_fails_ends_them(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_assert_all(0, MANY); /* whose images stay where the next ones are READ to */
    stub.read_status = OKV_EDISCONNECTED;
    many_write_commands();
    assert_int_equal(many_get(), OKV_EDISCONNECTED);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_EDISCONNECTED);
    assert_int_equal(many_counters().hits, MANY);
    assert_int_equal(many_counters().gets, 2 * MANY);
}

static void gets_begin_again_on_the_next_connection(void **state)
{
    for (many_hang_up_at = 1; many_hang_up_at <= MANY; many_hang_up_at += 3) {
        many_setup(state);
        handle = stub_open_lasting(8, 4, TIMEOUT_MS);
        stub.before_read = many_hang_up_once;
        assert_int_equal(many_get(), OKV_OK);
        for (unsigned n = 0; n < MANY; n++)
            many_assert_answer(n, many_keys[n]);
        assert_int_equal(many_counters().reconnects, 1);
        assert_int_equal(many_counters().gets, MANY);
        many_assert_idle();
        many_assert_all(0, MANY);
        stub_close(&handle);
    }
}

static void reads_that_cannot_be_posted_end_them(void **state)
{
    (void)state;
    handle = stub_open(8, 4, TIMEOUT_MS);
    stub.read_result = OKV_EDISCONNECTED;
    assert_int_equal(many_get(), OKV_EDISCONNECTED);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_EDISCONNECTED);
    assert_int_equal(many_counters().hits + many_counters().misses, 0);
}

static void refuse_the_next(unsigned n)
{
    if (n == MANY_ODD)
        stub.read_result = OKV_EDISCONNECTED;
}

/* What had left before has its value. */
static void later_reads_that_cannot_be_posted_end_them(void **state)
{
    (void)state;
    handle = stub_open(4, 4, TIMEOUT_MS);
    stub.before_read = refuse_the_next;
    assert_int_equal(many_get(), OKV_EDISCONNECTED);
    for (unsigned n = 0; n < 8; n++)
        many_assert_answer(n, many_keys[n]);
    for (unsigned n = 8; n < MANY; n++)
        many_assert_status(n, OKV_EDISCONNECTED);
    assert_int_equal(handle->active, 0);
}

/* A slot is its READ's until that ends: so long the fast path is closed. */
static void reads_that_take_too_long_keep_their_slots(void **state)
{
    (void)state;
    handle = stub_open(4, 4, SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(many_counters().timeouts, MANY);
    assert_int_equal(many_counters().gets, 4);
    assert_int_equal(stub.reads, 4); /* the others' time was over when their turn came */
    assert_int_equal(handle->free.count, handle->slot_count - 4);
    stub.delay = 0;
    handle->timeout_ns = TIMEOUT_MS * UINT64_C(1000000);
    many_write_commands();
    assert_int_equal(many_get(), OKV_OK);
    assert_int_equal(handle->taken, 4 + MANY);
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    many_assert_all(0, MANY);
}

static void reads_that_take_a_while_go_on_as_operations(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.delay = 1000;
    many_assert_all(MANY, MANY);
    stub.delay = 10;
    many_assert_all(0, MANY);
}

/* However long all of them take together. */
static void reads_that_take_little_each_take_no_operation(void **state)
{
    (void)state;
    handle = stub_open(1, 4, TIMEOUT_MS);
    stub.delay = 100;
    many_assert_all(0, MANY);
}

static void hold_the_odd_one(unsigned n)
{
    stub.delay = n == MANY_ODD + 1 ? HELD : 0;
}

static void let_it_come(void)
{
    stub_release_events(0);
}

/* All that came before have ended without an operation. */
static void read_that_is_late_is_waited_for_alone(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.before_read = hold_the_odd_one;
    stub.after_arm = let_it_come;
    many_assert_all(1, MANY);
}

static uint64_t come_at_ns;

static void let_them_come_later(void)
{
    if (okv_clock_ns() >= come_at_ns)
        stub_release_events(0);
}

static void each_has_its_own_deadline(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    many_commands[MANY_ODD].timeout_ms = SHORT_MS;
    come_at_ns = okv_clock_ns() + 2 * SHORT_MS * UINT64_C(1000000);
    stub.delay = HELD;
    stub.after_arm = let_them_come_later;
    assert_int_equal(many_get(), OKV_OK);
    many_assert_others();
    many_assert_status(MANY_ODD, OKV_ETIMEDOUT);
    assert_int_equal(many_counters().timeouts, 1);
    assert_int_equal(many_counters().hits, MANY - 1);
    many_assert_idle();
}

static void say_goodbye(unsigned n)
{
    if (n == MANY_ODD)
        stub_goodbye();
}

/* What comes with the READs' ends is not lost, nor are the READs. */
static void message_beside_the_reads_is_heard(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.before_read = say_goodbye;
    assert_int_equal(many_get(), OKV_OK);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_answer(n, many_keys[n]);
    assert_int_equal(stub.messages_held, 0);
    assert_int_equal(many_get(), OKV_ESHUTDOWN);
}

static void say_goodbye_too_late(unsigned n)
{
    if (n != MANY_ODD)
        return;
    pace_sleep_ms(2 * SHORT_MS);
    stub_goodbye();
}

/* Those whose turn comes after the fast path was left are not begun when their time is over. */
static void time_passes_on_the_short_way_too(void **state)
{
    (void)state;
    handle = stub_open(4, 4, SHORT_MS);
    stub.before_read = say_goodbye_too_late;
    many_get();
    for (unsigned n = 0; n < 8; n++)
        many_assert_answer(n, many_keys[n]);
    for (unsigned n = 8; n < MANY; n++)
        many_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 8);
}

static void event_of_nothing_beside_the_reads_is_no_harm(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.stream = 1;
    many_assert_all(MANY, MANY);
    many_assert_all(0, MANY);
}

static void endpoint_that_is_broken_ends_them(void **state)
{
    (void)state;
    handle = stub_open(MANY, 4, TIMEOUT_MS);
    stub.poll_result = OKV_EIO;
    assert_int_equal(many_get(), OKV_EIO);
    for (unsigned n = 0; n < MANY; n++)
        many_assert_status(n, OKV_EIO);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, many_setup, client_teardown)
    const struct CMUnitTest tests[] = {
        TEST(connection_that_is_lost_ends_them),
        TEST(read_that_fails_ends_them),
        TEST(gets_begin_again_on_the_next_connection),
        TEST(reads_that_cannot_be_posted_end_them),
        TEST(later_reads_that_cannot_be_posted_end_them),
        TEST(reads_that_take_too_long_keep_their_slots),
        TEST(reads_that_take_a_while_go_on_as_operations),
        TEST(reads_that_take_little_each_take_no_operation),
        TEST(read_that_is_late_is_waited_for_alone),
        TEST(each_has_its_own_deadline),
        TEST(message_beside_the_reads_is_heard),
        TEST(time_passes_on_the_short_way_too),
        TEST(event_of_nothing_beside_the_reads_is_no_harm),
        TEST(endpoint_that_is_broken_ends_them),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
