/* What comes in between while gets are on their fast path, over a stub transport: READs that are
 * late or fail, messages, deadlines, the end of the connection. The general path takes over. */
#include <unistd.h>

#include "tests/support/test.h"

#include "shared/base/clock.h"
#include "tests/support/pace.h"
#include "tests/support/stub_gets.h"

/* READs that could end at once are posted. */
static void open_posting(uint32_t depth)
{
    gets_open(depth);
    stub.now_declined = true;
}

/* Runs all gets again: all have their values with a READ each, for which okv_get() took so many
 * operations. */
static void assert_all_take(unsigned operations)
{
    uint64_t taken = handle->operations_begun;

    gets_assert_all(GETS, GETS);
    assert_int_equal(handle->operations_begun - taken, gets_are_concurrent() ? GETS : operations);
}

static void assert_statuses(int status)
{
    for (unsigned n = 0; n < GETS; n++)
        gets_assert_status(n, status);
}

static void set_timeout(uint32_t ms)
{
    handle->timeout_ns = ms * UINT64_C(1000000);
}

/* ---- READs that are late ---- */

ON_ALL(slow_reads_are_awaited)
{
    open_posting(GETS);
    stub.delay = 1000; /* longer than okv_get() polls without an operation */
    assert_all_take(GETS);
    stub.delay = 10;
    assert_all_take(0);
}

/* However long all of them take together. */
ON_GET_MANY(successive_reads_are_awaited)
{
    gets_open(1);
    stub.delay = 100;
    assert_all_take(0);
}

static void hold_odd_read(unsigned n)
{
    stub.delay = n == GETS_ODD + 1 ? HELD : 0;
}

static void release_events(void)
{
    stub_release_events(0);
}

ON_SYNCHRONOUS(one_late_read_is_awaited)
{
    open_posting(GETS);
    gets_before_read = hold_odd_read;
    stub.after_arm = release_events;
    assert_all_take(1);
}

/* ---- deadlines ---- */

/* A slot is its READ's until that ends: so long okv_get() takes operations, and nobody gets the
 * result. */
ON_SINGLE(read_of_a_get_that_timed_out_keeps_its_slot)
{
    open_posting(4);
    set_timeout(SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(gets_call_one(), OKV_ETIMEDOUT);
    assert_int_equal(gets_counters().timeouts, 1);
    assert_int_equal(handle->free.count, handle->slot_count - 1);
    stub.delay = 0;
    set_timeout(TIMEOUT_MS);
    assert_int_equal(gets_call_one(), OKV_OK);
    assert_int_equal(handle->operations_begun, 2);
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    assert_all_take(0);
}

ON_BATCHES(reads_of_gets_that_timed_out_keep_their_slots)
{
    unsigned depth = gets_entry == GETS_MANY ? 4 : GETS;

    gets_open(depth);
    set_timeout(SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(gets_run(), OKV_OK);
    assert_statuses(OKV_ETIMEDOUT);
    assert_int_equal(gets_counters().timeouts, GETS);
    assert_int_equal(gets_counters().hits, 0);
    assert_int_equal(gets_counters().gets, depth);
    assert_int_equal(stub.reads, depth); /* the others timed out before they began */
    assert_int_equal(handle->free.count, handle->slot_count - depth);
    assert_int_equal(gets_on_fast_path(), 0);
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    assert_statuses(OKV_ETIMEDOUT);
    set_timeout(TIMEOUT_MS);
    assert_all_take(0);
}

/* Slots that are kept for READs do not keep okv_call_many() from ending. */
ON_GET_MANY(kept_slots_leave_room_for_others)
{
    gets_open(4);
    set_timeout(SHORT_MS);
    stub.delay = HELD;
    assert_int_equal(gets_run(), OKV_OK);
    assert_statuses(OKV_ETIMEDOUT);
    stub.delay = 0;
    set_timeout(TIMEOUT_MS);
    gets_write_commands();
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_values();
    assert_int_equal(handle->operations_begun, 4 + GETS);
    stub_release_events(0);
    assert_int_equal(collect_once(), 0);
    gets_assert_idle();
}

/* Within a call, where okv_counters() is refused. */
static void release_events_after_a_timeout(void)
{
    if (handle->counters.timeouts > 0)
        stub_release_events(0);
}

ON_GET_MANY(each_has_its_own_deadline)
{
    gets_open(GETS);
    gets_commands[GETS_ODD].timeout_ms = SHORT_MS;
    stub.delay = HELD;
    stub.after_arm = release_events_after_a_timeout;
    assert_int_equal(gets_run(), OKV_OK);
    gets_assert_others();
    gets_assert_status(GETS_ODD, OKV_ETIMEDOUT);
    assert_int_equal(gets_counters().timeouts, 1);
    assert_int_equal(gets_counters().hits, GETS - 1);
    gets_assert_idle();
}

/* ---- other events ---- */

static void say_goodbye(unsigned n)
{
    if (n == GETS_ODD)
        stub_goodbye();
}

/* Neither the message nor the READ beside it is lost: the handle leaves the connection when nothing
 * is under way on it. */
static void assert_goodbye_is_handled(unsigned whole)
{
    assert_int_equal(gets_run(), OKV_ESHUTDOWN);
    for (unsigned n = 0; n < GETS; n++)
        if (n < whole)
            gets_assert_value(n, gets_keys[n]);
        else
            gets_assert_status(n, OKV_ESHUTDOWN);
    assert_int_equal(stub.messages_held, 0);
    assert_int_equal(gets_counters().hits, whole);
    assert_int_equal(gets_call_one(), OKV_ESHUTDOWN);
}

/* With read_now there is no poll before the next get. */
ON_ALL(message_before_a_read_is_handled)
{
    gets_open(GETS);
    gets_before_read = say_goodbye;
    assert_goodbye_is_handled(gets_are_concurrent() ? GETS
                                                    : GETS_ODD + (gets_entry == GETS_AT_ONCE));
}

ON_ALL(message_after_a_read_is_handled)
{
    open_posting(GETS);
    stub.after_read = say_goodbye;
    assert_goodbye_is_handled(gets_are_concurrent() ? GETS : GETS_ODD);
}

static uint64_t odd_read_ns; /* UINT64_MAX: not yet */

static void say_goodbye_late(unsigned n)
{
    if (n != GETS_ODD)
        return;
    odd_read_ns = okv_clock_ns();
    usleep(2 * SHORT_MS * 1000);
    stub_goodbye();
}

/* Gets that time out before they begin are not READ. An attempt says nothing whose second four
 * began after the deadline. */
ON_GET_MANY(time_passes_before_a_message_too)
{
    uint64_t end = pace_guard_end(), begun;

    do {
        stub_close(&handle);
        gets_setup(state);
        gets_open(4);
        set_timeout(SHORT_MS);
        gets_before_read = say_goodbye_late;
        odd_read_ns = UINT64_MAX;
        begun = okv_clock_ns();
        assert_true(begun < end);
        gets_run();
    } while (odd_read_ns - begun >= SHORT_MS * UINT64_C(1000000));
    for (unsigned n = 0; n < 8; n++)
        gets_assert_value(n, gets_keys[n]);
    for (unsigned n = 8; n < GETS; n++)
        gets_assert_status(n, OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 8);
}

ON_ALL(unknown_event_does_no_harm)
{
    open_posting(GETS);
    stub.stream = 1;
    assert_all_take(1);
    assert_all_take(0);
}

/* ---- other operations under way ---- */

ON_SINGLE(get_beside_a_submitted_one_is_an_operation)
{
    gets_open(4);
    stub.delay = HELD;
    assert_int_equal(
        okv_submit_get(handle, gets_keys[1], strlen(gets_keys[1]), buffer[1], sizeof buffer[1], 1),
        OKV_OK);
    stub.delay = 0;
    assert_int_equal(gets_call_one(), OKV_OK);
    gets_assert_value(0, gets_keys[0]);
    assert_int_equal(handle->operations_begun, 2);
    stub_release_events(0);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_memory_equal(buffer[1], gets_keys[1], strlen(gets_keys[1]));
    assert_all_take(0);
}

ON_SINGLE(get_beside_a_request_is_an_operation)
{
    gets_open(4);
    stub.delay = HELD;
    put_submit(1);
    stub.delay = 0;
    assert_int_equal(gets_call_one(), OKV_OK);
    gets_assert_value(0, gets_keys[0]);
    assert_int_equal(handle->operations_begun, 2);
    stub_release_events(0);
    collect();
    assert_int_equal(results[1].status, OKV_OK);
    assert_all_take(0);
}

/* Writes that have timed out keep their slots, as those that were submitted do. */
ON_SINGLE(get_waits_while_writes_hold_all_slots)
{
    gets_open(4);
    set_timeout(SHORT_MS);
    stub.answer = no_answer;
    while (handle->free.count > 4)
        assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_EUNKNOWN);
    set_timeout(TIMEOUT_MS);
    for (uint64_t tag = 0; tag < 4; tag++)
        put_submit(tag);
    assert_int_equal(handle->free.count, 0);
    set_timeout(SHORT_MS);
    assert_int_equal(gets_call_one(), OKV_ETIMEDOUT);
    assert_int_equal(stub.reads, 0);
    set_timeout(TIMEOUT_MS);
    stub.answer = NULL;
    for (unsigned n = 0; n < 4; n++) { /* their credits go to those that were submitted */
        struct stub_reply late = stub_reply_to(n);
        stub_say(&late);
    }
    collect();
    assert_all_take(0);
}

/* ---- failures ---- */

static void ask_for_one_key(void)
{
    gets_write_commands();
    for (unsigned n = 0; n < GETS; n++)
        gets_commands[n].key = gets_keys[0];
}

/* Images of the same bucket lie where the next ones are READ to: they answer nothing. */
ON_ALL(failed_reads_end_the_gets)
{
    open_posting(GETS);
    ask_for_one_key();
    assert_int_equal(gets_run(), OKV_OK);
    stub.read_status = OKV_EDISCONNECTED;
    ask_for_one_key();
    assert_int_equal(gets_run(), OKV_EDISCONNECTED);
    assert_statuses(OKV_EDISCONNECTED);
    assert_int_equal(gets_counters().hits, GETS);
    if (gets_are_concurrent())
        assert_int_equal(gets_counters().gets, 2 * GETS);
    assert_int_equal(handle->active, 0);
    assert_int_equal(gets_on_fast_path(), 0);
}

ON_ALL(refused_reads_end_the_gets)
{
    open_posting(GETS);
    stub.read_result = OKV_EDISCONNECTED;
    assert_int_equal(gets_run(), OKV_EDISCONNECTED);
    assert_statuses(OKV_EDISCONNECTED);
    assert_int_equal(gets_counters().hits + gets_counters().misses, 0);
    assert_int_equal(handle->active, 0);
}

static void refuse_later_reads(unsigned n)
{
    if (n == GETS_ODD)
        stub.read_result = OKV_EDISCONNECTED;
}

/* Gets whose READs left before have their values. */
ON_GET_MANY(later_refused_reads_end_the_other_gets)
{
    gets_open(4);
    gets_before_read = refuse_later_reads;
    assert_int_equal(gets_run(), OKV_EDISCONNECTED);
    for (unsigned n = 0; n < 8; n++)
        gets_assert_value(n, gets_keys[n]);
    for (unsigned n = 8; n < GETS; n++)
        gets_assert_status(n, OKV_EDISCONNECTED);
    assert_int_equal(handle->active, 0);
}

/* Not earlier: a handle that was idle for long polls before its first READ. */
static void break_endpoint(unsigned n)
{
    (void)n;
    stub.poll_result = OKV_EIO;
}

ON_ALL(broken_endpoint_ends_the_gets)
{
    open_posting(GETS);
    gets_before_read = break_endpoint;
    assert_int_equal(gets_run(), OKV_EIO);
    assert_statuses(OKV_EIO);
    assert_int_equal(handle->active, 0);
}

/* ---- the end of the connection ---- */

static unsigned hang_up_at; /* the READ before which it ends */

static void hang_up(unsigned n)
{
    if (n == hang_up_at)
        stub_hang_up();
}

/* The first gets have their values: those of batches that were whole, and maybe some of the
 * next. */
static void assert_values_before_the_end(void)
{
    static const unsigned batches[GETS_ENTRIES] = {1, 1, 4, GETS};
    unsigned batch = batches[gets_entry];
    unsigned whole = (hang_up_at - 1) / batch * batch;

    for (unsigned n = 0; n < GETS; n++)
        if (n < whole || (n < hang_up_at && gets_results[n].status == OKV_OK))
            gets_assert_value(n, gets_keys[n]);
        else
            gets_assert_status(n, OKV_EDISCONNECTED);
}

ON_ALL(lost_connection_ends_the_gets)
{
    for (hang_up_at = 1; hang_up_at <= GETS; hang_up_at++) {
        gets_setup(state);
        gets_open(gets_entry == GETS_MANY ? 4 : GETS);
        gets_before_read = hang_up;
        gets_run();
        assert_values_before_the_end();
        assert_int_equal(handle->active, 0);
        assert_int_equal(gets_on_fast_path(), 0);
        assert_int_equal(gets_call_one(), OKV_EDISCONNECTED);
        stub_close(&handle);
    }
}

ON_SYNCHRONOUS(connection_that_has_ended_ends_the_gets)
{
    gets_open(GETS);
    assert_all_take(0);
    stub_hang_up();
    gets_write_commands();
    assert_int_equal(gets_run(), OKV_EDISCONNECTED);
    assert_statuses(OKV_EDISCONNECTED);
    assert_int_equal(gets_counters().hits, GETS);
}

static void read_again(unsigned n)
{
    (void)n;
    gets_before_read = NULL;
    stub.read_status = 0;
}

static void hang_up_once(unsigned n)
{
    if (n != hang_up_at)
        return;
    gets_before_read = read_again;
    stub.read_status = OKV_EDISCONNECTED;
    stub_hang_up();
}

ON_ALL(gets_restart_on_the_next_connection)
{
    for (hang_up_at = 1; hang_up_at < GETS; hang_up_at += 3) {
        gets_setup(state);
        gets_open_lasting(gets_entry == GETS_MANY ? 8 : GETS);
        gets_before_read = hang_up_once;
        assert_int_equal(gets_run(), OKV_OK);
        gets_assert_values();
        assert_int_equal(gets_counters().reconnects, 1);
        assert_int_equal(gets_counters().gets, GETS);
        if (!gets_are_concurrent())
            assert_int_equal(handle->operations_begun, 1);
        gets_assert_idle();
        assert_all_take(0);
        stub_close(&handle);
    }
}

ON_SUBMIT(held_reads_of_a_lost_connection_end_the_gets)
{
    gets_open(GETS);
    stub.delay = HELD;
    gets_submit();
    assert_int_equal(gets_fast_submitted, GETS);
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    gets_collect(GETS);
    assert_statuses(OKV_EDISCONNECTED);
    assert_int_equal(gets_on_fast_path(), 0);
    assert_int_equal(handle->active, 0);
}

/* Neither gets that a lost connection found under way, nor those that begin while there is none. */
ON_SUBMIT(without_a_connection_none_is_on_the_fast_path)
{
    size_t accepted = 0;

    gets_open_lasting(GETS);
    stub.delay = HELD;
    assert_int_equal(okv_submit(handle, gets_commands, 4, &accepted), OKV_OK);
    assert_int_equal(gets_on_fast_path(), 4);
    stub.steps = 3;
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    stub.delay = 0;
    while (link_is_up(handle))
        assert_int_equal(okv_poll(handle, gets_results, 1), 0);
    assert_int_equal(gets_on_fast_path(), 0);
    assert_int_equal(okv_submit(handle, gets_commands + 4, GETS - 4, &accepted), OKV_OK);
    assert_int_equal(gets_on_fast_path(), 0);
    gets_collect(GETS);
    gets_assert_values();
    gets_assert_idle();
}

static void flip_byte_for_one(unsigned n)
{
    if (n == GETS_ODD + 1 || n == GETS_ODD + 2)
        stub.region[stub_place(GETS_BUCKET) + 40] ^= 0xff;
}

/* READs that are under way when the server says goodbye end; the get whose image does not answer
 * begins again on the next connection. */
ON_SUBMIT(goodbye_lets_the_reads_end)
{
    gets_open_lasting(GETS);
    gets_before_read = flip_byte_for_one;
    stub.delay = HELD;
    stub.reads = 0;
    gets_submit();
    assert_int_equal(gets_fast_submitted, GETS);
    stub.delay = 0;
    stub_goodbye();
    assert_int_equal(okv_poll(handle, gets_results, 1), 0);
    assert_false(link_is_up(handle));
    stub_release_events(0);
    gets_collect(GETS);
    gets_assert_values();
    assert_int_equal(gets_counters().gets, GETS);
    gets_assert_idle();
}

ON_SUBMIT(slots_of_timed_out_gets_are_free_with_the_connections_end)
{
    gets_open_lasting(GETS);
    set_timeout(SHORT_MS);
    stub.delay = HELD;
    gets_submit();
    gets_collect(GETS);
    assert_int_equal(handle->free.count, handle->slot_count - GETS);
    stub_hang_up();
    stub_release_events(OKV_EDISCONNECTED);
    set_timeout(TIMEOUT_MS);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_all_take(0);
}
