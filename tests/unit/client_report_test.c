/* Reports to the server: what is in them, when they go out, and that they are in nobody's way. */
#include "tests/support/test.h"

#include "client/engine/timed_gets.h"
#include "shared/base/clock.h"
#include "shared/format/report.h"
#include "tests/support/stub_client.h"

#define OTHER_BOOT (STUB_BOOT + 1)
#define DEPTH 4u

static okv *open_with(uint32_t credits, uint32_t report_ms)
{
    const struct okv_options options = {
        .depth = DEPTH, .credits = credits, .hints = OKV_HINTS_NONE, .report_ms = report_ms};

    stub.welcome.features = report_ms == OKV_REPORT_NONE ? 0 : OKV_FEATURE_REPORTS;
    handle = stub_open_with(&options);
    return handle;
}

/* The next call that looks at the clock reports. */
static void make_due(void)
{
    handle->reporting.due_ns = handle->reporting.next_ns = 0;
}

/* `report` is in the message that was sent as number n. */
static void read_report(unsigned n, struct okv_report *report)
{
    const struct okv_request_message *message = &stub.requests[n].message;

    assert_int_equal(okv_report_decode(message->value, message->value_length, report), 0);
}

static void expect_report(unsigned n, uint64_t gets, uint64_t misses)
{
    struct okv_report report;

    assert_int_equal(stub.sent, n + 1);
    assert_int_equal(stub.requests[n].message.opcode, OKV_OP_REPORT);
    read_report(n, &report);
    assert_int_equal(report.gets, gets);
    assert_int_equal(report.misses, misses);
    assert_int_equal(report.hits, 0);
    assert_int_equal(report.reads, gets);
    assert_int_equal(report.read_bytes, gets * STUB_BUCKET_SIZE);
}

/* Gets that end on the fast path, until one of them was timed. */
static unsigned gets_until_timed(void)
{
    unsigned count = 0;
    bool timed;

    do {
        timed = get_is_timed(handle);
        assert_int_equal(get(), OKV_ENOTFOUND);
        count++;
    } while (!timed);
    return count;
}

static uint64_t sum_of_cells(const uint32_t cells[OKV_REPORT_CELLS])
{
    uint64_t sum = 0;

    for (unsigned i = 0; i < OKV_REPORT_CELLS; i++)
        sum += cells[i];
    return sum;
}

#define FIXTURE_TEST(name) TEST_WITH(name, client_setup, client_teardown)

/* A handle whose gets need no request reports, too. */
FIXTURE_TEST(gets_are_reported)
{
    open_with(4, 0);
    assert_int_equal(stub.hello.features,
                     OKV_FEATURE_REPORTS | OKV_FEATURE_HEAT | OKV_FEATURE_LEASE);
    make_due();
    unsigned count = gets_until_timed();
    uint64_t begun = handle->operations_begun;
    expect_report(0, count, count);
    assert_int_equal(get(), OKV_ENOTFOUND);
    make_due();
    count = 1 + gets_until_timed();
    assert_int_equal(count, TIMED_GETS_ONE_IN);
    expect_report(1, count, count);
    assert_int_equal(handle->request_slots.count, 3);
    assert_in_range(handle->operations_begun, begun, begun + 2);
}

FIXTURE_TEST(what_was_told_is_not_told_again)
{
    open_with(4, 0);
    assert_int_equal(get(), OKV_ENOTFOUND);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK); /* asks for nothing that a report has */
    assert_int_equal(stub.requests[0].message.opcode, OKV_OP_REPORT);
    assert_int_equal(stub.sent, 2);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.sent, 3);
}

/* A silent server keeps one credit, and a client that has no other tells it nothing. */
FIXTURE_TEST(a_credit_is_left_to_others)
{
    open_with(1, 0);
    assert_int_equal(get(), OKV_ENOTFOUND);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(stub.sent, 1);
    stub_close(&handle);

    stub_reset();
    open_with(2, 0);
    stub.answer = no_answer;
    make_due();
    unsigned count = gets_until_timed();
    expect_report(0, count, count);
    make_due();
    gets_until_timed();
    assert_int_equal(stub.sent, 1);
    stub.answer = NULL;
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(okv_ping(handle), OKV_OK);
}

/* While a report has no reply gets take the fast path, and requests go out. */
FIXTURE_TEST(an_unanswered_report_is_in_nobodys_way)
{
    open_with(4, 0);
    stub.answer = no_answer;
    make_due();
    gets_until_timed();
    uint64_t begun = handle->operations_begun;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(handle->operations_begun, begun);
    stub.answer = NULL;
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
}

FIXTURE_TEST(a_goodbye_has_the_last_report)
{
    struct okv_report report;

    open_with(1, 0);
    assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(okv_put(handle, "key", 3, "value", 5, NULL), OKV_OK);
    stub_close(&handle);
    assert_int_equal(stub.goodbyes, 1);
    assert_int_equal(stub.requests[1].message.opcode, OKV_OP_GOODBYE);
    read_report(1, &report);
    assert_int_equal(report.gets, 1);

    stub_reset();
    open_with(1, 0);
    stub_close(&handle);
    assert_int_equal(stub.requests[0].message.opcode, OKV_OP_GOODBYE);
    assert_int_equal(stub.requests[0].message.value_length, 0);
}

FIXTURE_TEST(nothing_is_told_without_the_feature)
{
    for (unsigned i = 0; i < 2; i++) {
        stub_reset();
        open_with(4, i ? OKV_REPORT_NONE : 0);
        assert_int_equal(stub.hello.features,
                         i ? OKV_FEATURE_LEASE
                           : OKV_FEATURE_REPORTS | OKV_FEATURE_HEAT | OKV_FEATURE_LEASE);
        stub_close(&handle);
        stub.welcome.features = 0;
        handle = stub_open_with(&(struct okv_options){.depth = DEPTH,
                                                      .credits = 4,
                                                      .hints = OKV_HINTS_NONE,
                                                      .report_ms = i ? OKV_REPORT_NONE : 0});
        assert_true(handle->reporting.due_ns == UINT64_MAX);
        for (unsigned n = 0; n < 2 * TIMED_GETS_ONE_IN; n++)
            assert_int_equal(get(), OKV_ENOTFOUND);
        assert_int_equal(sum_of_cells(handle->reporting.cells), i ? 0 : 2);
        stub_close(&handle);
        assert_int_equal(stub.requests[0].message.opcode, OKV_OP_GOODBYE);
        assert_int_equal(stub.requests[0].message.value_length, 0);
    }
}

FIXTURE_TEST(a_feature_that_was_not_offered)
{
    const struct okv_options options = {.credits = 4, .report_ms = OKV_REPORT_NONE};
    okv *none;

    open_with(4, 0);
    stub_close(&handle);
    stub.welcome.features = OKV_FEATURE_REPORTS;
    assert_int_equal(okv_open(STUB_URI, &options, &none, NULL, 0), OKV_EPROTO);
}

/* The increments go on at the same server. What was counted at another one is not the next one's.
 */
FIXTURE_TEST(a_new_connection_counts_nothing_twice)
{
    open_with(4, 0);
    assert_int_equal(get(), OKV_ENOTFOUND);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(get(), OKV_ENOTFOUND);
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_OK);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK);
    struct okv_report report;
    read_report(3, &report);
    assert_int_equal(report.gets, 1);
    assert_int_equal(report.reconnects, 1);

    assert_int_equal(get(), OKV_ENOTFOUND);
    stub_restart(OTHER_BOOT);
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_OK);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_OK);
    read_report(6, &report);
    assert_int_equal(report.gets, 0);
    assert_int_equal(report.reconnects, 1);
}

/* The connection ends under a report: its credit is there on the next. */
FIXTURE_TEST(a_report_that_is_lost_holds_no_credit)
{
    open_with(2, 0);
    stub.answer = no_answer;
    make_due();
    gets_until_timed();
    assert_int_equal(handle->request_slots.count, 1);
    stub.answer = NULL;
    stub_hang_up();
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(handle->request_slots.count, 2);
}

static bool another_sequence(const struct stub_request *request, struct stub_reply *reply)
{
    if (request->message.opcode == OKV_OP_REPORT)
        reply->message.sequence++;
    return true;
}

FIXTURE_TEST(a_second_reply_is_ignored)
{
    open_with(4, 0);
    make_due();
    gets_until_timed();
    assert_int_equal(okv_ping(handle), OKV_OK);
    struct stub_reply again = stub_reply_to(0);
    assert_int_equal(again.message.opcode, OKV_OP_REPORT);
    stub_say(&again);
    assert_int_equal(okv_ping(handle), OKV_OK);
    assert_int_equal(handle->request_slots.count, 4);
}

FIXTURE_TEST(a_wrong_reply_ends_the_handle)
{
    open_with(4, 0);
    stub.answer = another_sequence;
    assert_int_equal(get(), OKV_ENOTFOUND);
    make_due();
    assert_int_equal(okv_ping(handle), OKV_EPROTO);
}

/* One of 64, on both paths; a batch is timed as none. */
FIXTURE_TEST(some_gets_are_timed)
{
    struct okv_command commands[DEPTH];
    struct okv_result answers[DEPTH];

    open_with(4, 0);
    for (unsigned i = 0; i < 3 * TIMED_GETS_ONE_IN; i++)
        assert_int_equal(get(), OKV_ENOTFOUND);
    assert_int_equal(sum_of_cells(handle->reporting.cells), 3);
    assert_true(handle->reporting.get_ns > 0);
    for (unsigned i = 0; i < TIMED_GETS_ONE_IN; i++) {
        get_submit(0);
        collect();
        seen[0] = 0;
    }
    assert_int_equal(sum_of_cells(handle->reporting.cells), 4);
    for (unsigned i = 0; i < DEPTH; i++)
        commands[i] = (struct okv_command){.kind = OKV_GET,
                                           .key = "key",
                                           .key_length = 3,
                                           .buffer = buffer[i],
                                           .buffer_size = sizeof buffer[i]};
    for (unsigned i = 0; i < TIMED_GETS_ONE_IN / DEPTH; i++)
        assert_int_equal(okv_call_many(handle, commands, answers, DEPTH), OKV_OK);
    assert_int_equal(sum_of_cells(handle->reporting.cells), 4);
}

/* The handle last looked at the clock when it was opened. A get that its image decides only off the
 * fast path is timed from its own begin all the same. */
FIXTURE_TEST(a_get_that_leaves_the_fast_path_is_timed_from_its_begin)
{
    char key[16], value[8];
    size_t got;

    stub_key(key, 3, STUB_DEPTH, 0);
    struct okv_entry entry = stub_inline(key, "value");
    entry.expiry_ms = UINT64_C(1) << 45;
    stub_bucket(3, STUB_DEPTH, &entry, 1);
    open_with(4, 0);
    while (sum_of_cells(handle->reporting.cells) == 0) {
        handle->begun_ns = 0;
        assert_int_equal(okv_get(handle, key, strlen(key), value, sizeof value, &got, NULL),
                         OKV_OK);
    }
    assert_true(handle->reporting.get_ns < okv_clock_ns() / 2);
}
